"""Step by step: what is computed again is what the model computed, for every score and every position scheme."""

import json
from pathlib import Path

import pytest
import torch

from regard.attention.masks import EVERYONE, Grid, Row, causal, neighbours, packed, padded
from regard.attention.multihead import Heads, MultiHead
from regard.attention.positions import scheme
from regard.attention.scores import Additive, Bilinear, Graph, cosine, dot, scaled_dot
from regard.interpret.steps import Inside, inside, predictions

CLOSE = {"atol": 1e-5, "rtol": 1e-5}
WIDTH, DEPTH = 12, 4


class Alone(torch.nn.Module):
    """A model that is one attention."""

    def __init__(self, **settings):
        super().__init__()
        self.attention = MultiHead(WIDTH, Heads(3, groups=settings.pop("groups", None)), **settings)


def opened(model: Alone, *inputs, **settings) -> tuple[Inside, torch.Tensor]:
    found, answer = inside(model, lambda: model.attention(*inputs, **settings))
    return found["attention"], answer


SCORES = {
    "scaled dot": lambda: scaled_dot,
    "dot": lambda: dot,
    "cosine": lambda: cosine,
    "bilinear": lambda: Bilinear(DEPTH, DEPTH, heads=3),
    "additive": lambda: Additive(DEPTH, DEPTH, 5, heads=3),
    "graph": lambda: Graph(DEPTH, heads=3),
    "one nobody knows": lambda: lambda query, key: -(query[..., :, None, :] - key[..., None, :, :]).square().sum(-1),
}


@pytest.mark.parametrize("score", SCORES.values(), ids=SCORES.keys())
def test_every_score_gives_the_models_own_weights_and_output_again(score):
    model = Alone(score=score())
    x, memory = torch.randn(1, 4, WIDTH), torch.randn(1, 6, WIDTH)
    found, answer = opened(model, x, memory)
    assert found.difference < 1e-5
    assert torch.allclose(found.recompute_weights(), found.weights, **CLOSE)
    assert torch.allclose(found.contributions().sum(0) + model.attention.output.bias, answer[0], **CLOSE)


@pytest.mark.parametrize("name", ["rotary", "alibi", "relative"])
def test_positions_turn_queries_or_bias_scores_as_in_the_model(name):
    torch.manual_seed(1)
    model = Alone(groups=1)
    positions = scheme(name, width=WIDTH, heads=3, context=16, causal=True)
    grid = Grid(torch.tensor([5]), 5)
    x = torch.randn(1, 5, WIDTH)
    found, answer = opened(model, x, mask=padded(grid, grid) & causal(), positions=positions)
    assert (found.bias is not None) == positions.biased
    assert torch.allclose(found.recompute_weights(), found.weights, **CLOSE)
    assert torch.equal(found.visible, torch.ones(5, 5).tril().bool())
    assert torch.allclose(found.contributions().sum(0) + model.attention.output.bias, answer[0], **CLOSE)


def test_edges_of_a_graph_are_looked_along():
    model = Alone(score=Graph(DEPTH, heads=3))
    mask = neighbours(torch.tensor([0, 0, 1, 2]), torch.tensor([0, 1, 1, 0]), nodes=3)
    found, answer = opened(model, torch.randn(3, WIDTH), mask=mask)
    assert found.visible.sum() == 4
    assert torch.allclose(found.recompute_weights(), found.weights, **CLOSE)
    assert torch.allclose(found.contributions().sum(0) + model.attention.output.bias, answer, **CLOSE)


def test_a_packed_row_of_one_sentence_is_an_example_too():
    model = Alone()
    found, _ = opened(model, torch.randn(4, WIDTH), mask=packed(Row.of([4])) & causal())
    assert torch.allclose(found.recompute_weights(), found.weights, **CLOSE)


def test_queries_keys_and_values_are_those_that_hooks_see():
    model, seen = Alone(groups=1).eval(), {}  # in training the three are made together
    for name in ("query", "key", "value"):
        module = getattr(model.attention, name)
        module.register_forward_hook(lambda _, __, answer, name=name: seen.update({name: answer[0]}))
    found, _ = opened(model, torch.randn(1, 4, WIDTH))
    assert torch.allclose(found.queries.transpose(0, 1).flatten(1), seen["query"], **CLOSE)
    assert torch.allclose(found.keys[2], seen["key"], **CLOSE)
    assert torch.allclose(found.values[1], seen["value"], **CLOSE)


def test_one_step_follows_its_own_arithmetic_and_becomes_json():
    found, _ = opened(Alone(), torch.randn(1, 4, WIDTH), mask=causal())
    step = found.step(1, 2)
    assert step.formula == "q . k / sqrt(4)"
    assert torch.allclose(step.raw, step.keys @ step.query, **CLOSE)
    assert torch.allclose(step.scores, step.raw * 0.5, **CLOSE)
    assert step.visible.tolist() == [True, True, True, False]
    assert torch.allclose(step.weights[:3], step.scores[:3].softmax(-1), **CLOSE)
    assert torch.allclose(step.mixed, step.weights @ step.values, **CLOSE)
    assert step.difference < 1e-5
    back = json.loads(json.dumps(step.plain()))
    assert back["attention"] == "attention"
    assert len(back["keys"]) == 4
    assert back["bias"] is None


def test_what_cannot_be_opened_says_so():
    model = Alone()
    with pytest.raises(ValueError, match="no attention called cross; there are attention"):
        inside(model, lambda: None, names=["cross"])
    with pytest.raises(ValueError, match="did not run"):
        inside(model, lambda: None)
    with pytest.raises(ValueError, match="batch of 2"):
        opened(model, torch.randn(2, 4, WIDTH))
    twice = torch.randn(1, 4, WIDTH)
    with pytest.raises(ValueError, match="in one go"):
        inside(model, lambda: [model.attention(twice, mask=EVERYONE) for _ in range(2)])
    found, _ = opened(model, twice)
    with pytest.raises(ValueError, match="no head 3 at token 0"):
        found.step(3, 0)


def test_a_translators_winning_beam_is_recomputed_token_by_token():
    import regard

    translator = regard.load(Path(__file__).parent.parent / "checkpoints" / "format-1")
    trace = translator.look("Le chat noir dort.")
    read = [*translator.source.encode("Le chat noir dort."), translator.end]
    size = len(trace.items["target"])
    best = translator.hypotheses([read], [0], translator.decoding)[0][0]
    written = [*best.tokens, translator.end][:size]
    layouts = Grid(torch.tensor([len(read)]), len(read)), Grid(torch.tensor([size]), size)
    model = translator.model
    inputs = torch.tensor([read]), torch.tensor([[translator.begin, *written[:-1]]])
    found, logits = inside(model, lambda: model.logits(model(*inputs, layouts=layouts))[0])
    assert set(found) == {one.name for one in trace.weights}
    for name, each in found.items():
        assert torch.allclose(each.recompute_weights(), trace.find(name).values, **CLOSE)
    listed = predictions(logits, written, lambda id: translator.target.pieces([id])[0], top=3)
    assert [one.written for one in listed] == [item.text for item in trace.items["target"]]
    total = sum(torch.tensor(one.probability).log() for one in listed)
    assert float(total) == pytest.approx(trace.facts["score"], abs=1e-4)


def test_predictions_are_sorted_and_know_the_rank_of_what_was_written():
    [one] = predictions(torch.tensor([[0.0, 2.0, 1.0]]), [2], "abc".__getitem__, top=5)
    assert [text for text, _ in one.top] == ["b", "c", "a"]
    assert (one.written, one.rank) == ("c", 1)
    assert one.probability == pytest.approx(one.top[1][1])
