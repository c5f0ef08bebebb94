"""A recurrent language model: one reading whatever its pieces, and an embedding that is a product."""

import pytest
import torch
from torch.nn import functional as F

from regard import config
from regard.decoding.beam import Beam, search
from regard.decoding.generate import generate
from regard.decoding.sampling import Sampler
from regard.decoding.stepper import State, Stepper
from regard.models.rnn_lm import RecurrentLM, RecurrentLMConfig

VARIANTS = [
    {"cell": "rnn"},
    {"cell": "gru", "tied": True},
    {"cell": "gru_before", "depth": 1},
    {"cell": "lstm"},
    {"cell": "lstm", "tied": True, "embedding": 5},
    {"cell": "lstm", "fused": False, "dropout": 0.5, "locked": True},
]


def build(**settings) -> RecurrentLM:
    return RecurrentLM(RecurrentLMConfig(vocab=11, **{"width": 8, **settings})).eval()


@pytest.mark.parametrize("settings", VARIANTS)
def test_a_state_carried_over_windows_is_one_long_reading(settings):
    model = build(**settings)
    tokens = torch.randint(11, (3, 17))
    whole, end = model(tokens)
    state, parts = None, []
    for window in tokens.split(5, 1):
        features, state = model(window, state)
        parts.append(features)
    torch.testing.assert_close(torch.cat(parts, 1), whole)
    torch.testing.assert_close(state, end)


@pytest.mark.parametrize("settings", VARIANTS)
def test_stepping_is_reading_at_once(settings):
    model = build(**settings)
    assert isinstance(model, Stepper)
    tokens = torch.randint(11, (2, 9))
    logits, state = model.start(tokens[:, :4], beams=3, limit=5)
    assert isinstance(state, State)
    for place in range(4, 9):
        torch.testing.assert_close(logits, model.logits(model(tokens[:, :place])[0][:, -1:]).expand(-1, 3, -1))
        logits, state = model.step(tokens[:, place, None].expand(-1, 3), state)


def test_states_move_with_their_beams_and_examples():
    model = build()
    _, state = model.start(torch.randint(11, (2, 3)), beams=2, limit=5)
    _, state = model.step(torch.tensor([[1, 2], [3, 4]]), state)
    assert torch.equal(state.reorder(torch.tensor([[1, 0], [0, 0]])).state[0, 0], state.state[0, 1])
    assert torch.equal(state.keep(torch.tensor([1])).join(state).state[0], state.state[1])


def test_an_embedding_is_a_matrix_times_a_one_hot_vector():
    model, tokens = build(), torch.randint(11, (2, 5))
    one_hot = F.one_hot(tokens, 11).float()
    assert torch.equal(model.embedding(tokens), one_hot @ model.embedding.weight)


def test_dropping_is_the_same_at_all_steps_only_where_it_is_locked():
    x = torch.ones(4, 6, 32)
    locked, free = (build(dropout=0.5, locked=value).train()._drop(x) for value in (True, False))
    assert (locked == locked[:, :1]).all()
    assert not (free == free[:, :1]).all()
    assert set(locked.unique().tolist()) == set(free.unique().tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm", "gru_before"])
def test_weights_between_states_are_dropped_once_for_a_window_and_in_training_only(cell):
    settings = {"vocab": 11, "width": 8, "depth": 1, "cell": cell}
    model = RecurrentLM(RecurrentLMConfig(**settings, recurrent_dropout=0.5)).double()
    tokens = torch.randint(11, (3, 7))
    torch.manual_seed(1)
    features, state = model(tokens)
    twin = RecurrentLM(RecurrentLMConfig(**settings)).double()
    twin.load_state_dict(model.state_dict())
    torch.manual_seed(1)
    with torch.no_grad():
        for name, weight in twin.named_parameters():
            if "weight_hh" in name or name.endswith("state.weight"):
                weight.copy_(F.dropout(weight, 0.5))
    for mine, expected in zip((features, state), twin(tokens), strict=True):
        assert torch.allclose(mine, expected)
    whole = sum(features.square().sum() for features in (features, state))
    gradients = torch.autograd.grad(whole, [each for name, each in model.named_parameters() if "layers" in name])
    assert all(gradient.abs().sum() > 0 for gradient in gradients)
    assert torch.equal(model.eval()(tokens)[0], model(tokens)[0])
    twin.load_state_dict(model.state_dict())
    assert torch.equal(model(tokens)[0], twin.eval()(tokens)[0])


def test_a_temperature_near_zero_and_one_beam_are_greedy():
    model, prompt = build(), torch.randint(11, (3, 4))
    [best, *_] = zip(*generate(model, [prompt], limit=12, eos=None), strict=True)
    cold = Sampler(temperature=1e-4, generator=torch.Generator().manual_seed(0))
    [drawn] = zip(*generate(model, [prompt], limit=12, eos=None, pick=cold), strict=True)
    only = Sampler(top_k=1, generator=torch.Generator().manual_seed(0))
    [single] = zip(*generate(model, [prompt], limit=12, eos=None, pick=only), strict=True)
    beam = [found[0].tokens for found in search(model, [prompt], limit=12, eos=-1, beam=Beam(beams=1))]
    assert [one.tokens for one in best] == [one.tokens for one in drawn] == [one.tokens for one in single] == beam


@pytest.mark.parametrize(
    ("settings", "said"),
    [({"width": 0}, "width must be"), ({"dropout": 1.0}, "dropout must be"), ({"depth": 0}, "depth must be")],
)
def test_impossible_sizes_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        config.build(RecurrentLMConfig, settings)
