"""Watching: named weights, padding and slots removed, the same for rows, batches, steps and winning beams."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor, nn

from regard.attention.masks import Grid, Row, neighbours
from regard.attention.multihead import MultiHead
from regard.attention.scores import Graph
from regard.decoding.beam import Beam, search
from regard.interpret.watch import watch
from regard.models.transformer import Transformer, TransformerConfig

SOURCES, TARGETS = [4, 6, 3], [3, 5, 2]


def tokens(lengths: list[int]) -> list[Tensor]:
    return [torch.randint(4, 20, (length,)) for length in lengths]


def grid(sequences: list[Tensor]) -> tuple[Tensor, Grid]:
    padded = nn.utils.rnn.pad_sequence(sequences, batch_first=True)
    return padded, Grid(torch.tensor([len(one) for one in sequences]), padded.shape[1])


@pytest.fixture(params=["sinusoidal", "relative"])
def model(request: pytest.FixtureRequest) -> Transformer:
    settings = {"width": 16, "heads": 4, "hidden": 32, "encoder": 2, "decoder": 2, "context": 64}
    return Transformer(TransformerConfig(vocab=20, positions=request.param, **settings)).eval()


def test_every_attention_is_seen_by_name(model: Transformer):
    (source, sources), (target, targets) = grid(tokens(SOURCES)), grid(tokens(TARGETS))
    with watch(model) as seen:
        model(source, target, layouts=(sources, targets))
    parts = ("encoder", "attention"), ("decoder", "attention"), ("decoder", "cross")
    names = {f"{side}.{layer}.{part}" for side, part in parts for layer in (0, 1)}
    assert set(seen) == names
    for weights, source_length, target_length in zip(seen["decoder.1.cross"], SOURCES, TARGETS, strict=True):
        assert weights.shape == (4, target_length, source_length)
        assert torch.allclose(weights.sum(-1), torch.ones(4, target_length), atol=1e-6)


def test_only_the_attentions_named_are_seen(model: Transformer):
    (source, sources), (target, targets) = grid(tokens(SOURCES)), grid(tokens(TARGETS))
    with watch(model) as every, watch(model, only=["decoder.1.cross"]) as seen:
        model(source, target, layouts=(sources, targets))
    assert list(seen) == ["decoder.1.cross"]
    assert all(map(torch.equal, seen["decoder.1.cross"], every["decoder.1.cross"]))
    with pytest.raises(KeyError, match=r"no attention called decoder\.9"), watch(model, only=["decoder.9.cross"]):
        pass


def test_a_packed_row_shows_what_a_padded_batch_shows(model: Transformer):
    source, target = tokens(SOURCES), tokens(TARGETS)
    (grid_source, sources), (grid_target, targets) = grid(source), grid(target)
    with watch(model) as padded:
        model(grid_source, grid_target, layouts=(sources, targets))
    tail = torch.zeros(7, dtype=torch.int64)
    rows = Row.of(SOURCES, longest=6, size=20, segments=8), Row.of(TARGETS, longest=6, size=17, segments=8)
    with watch(model) as packed:
        model(torch.cat([*source, tail]), torch.cat([*target, tail]), layouts=rows)
    for name in padded:
        assert len(packed[name]) == len(SOURCES)  # the tail's segments are nobody's
        for one, other in zip(padded[name], packed[name], strict=True):
            assert one.shape == other.shape
            assert torch.allclose(one, other, atol=1e-5)


def test_heads_are_averaged_example_by_example(model: Transformer):
    (source, sources), (target, targets) = grid(tokens(SOURCES)), grid(tokens(TARGETS))
    with watch(model) as seen:
        model(source, target, layouts=(sources, targets))
    averages = seen.average_heads("decoder.0.cross")
    assert averages.shape == (len(SOURCES), max(TARGETS), max(SOURCES))
    for average, weights in zip(averages, seen["decoder.0.cross"], strict=True):
        torch.testing.assert_close(average[: weights.shape[1], : weights.shape[2]], weights.mean(0))


def test_watching_changes_nothing(model: Transformer):
    (source, sources), (target, targets) = grid(tokens(SOURCES)), grid(tokens(TARGETS))
    plain = model(source, target, layouts=(sources, targets))
    with watch(model):
        watched = model(source, target, layouts=(sources, targets))
    valid = targets.filled
    assert torch.allclose(plain[valid], watched[valid], atol=1e-5)


@pytest.mark.parametrize("beams", [1, 3])
def test_weights_of_the_winning_beam_equal_reading_the_finished_sentence_at_once(model: Transformer, beams: int):
    (source, sources) = grid(tokens(SOURCES))
    prompt = torch.ones(len(SOURCES), 1, dtype=torch.int64)
    with watch(model) as seen:
        found = search(model, (source, sources.lengths, prompt), Beam(beams=beams), limit=9, eos=2)
    best = [hypotheses[0] for hypotheses in found]
    along = seen.along(best)
    for example, hypothesis in enumerate(best):
        fed = torch.tensor([[1, *hypothesis.tokens][: len(hypothesis.path) + 1]])
        alone = source[example : example + 1, : SOURCES[example]]
        layouts = Grid(torch.tensor([alone.shape[1]]), alone.shape[1]), Grid(torch.tensor([fed.shape[1]]), fed.shape[1])
        with watch(model) as read:
            model(alone, fed, layouts=layouts)
        for name in read:
            assert along[name][example].shape == read[name][0].shape
            assert torch.allclose(along[name][example], read[name][0], atol=1e-5), name


def test_a_single_step_shows_each_beam_over_its_own_past(model: Transformer):
    (source, sources) = grid(tokens(SOURCES))
    prompt = torch.ones(len(SOURCES), 1, dtype=torch.int64)
    _, state = model.start(source, sources.lengths, prompt, beams=2, limit=5)
    first, second = torch.randint(4, 20, (2, len(SOURCES), 2))
    parents = torch.tensor([[1, 0], [1, 1], [0, 1]])
    _, state = model.step(first, state)
    state = state.reorder(parents)
    with watch(model) as seen:
        model.step(second, state)
    fed = torch.stack([prompt.expand(-1, 2), first.gather(1, parents), second], dim=2)  # (example, beam, place)
    for beam in range(2):
        layout = Grid(torch.full((len(SOURCES),), 3), 3)
        with watch(model) as read:
            model(source, fed[:, beam], layouts=(sources, layout))
        for name in ("decoder.0.attention", "decoder.1.cross"):
            for one, other in zip(seen[name], read[name], strict=True):
                assert torch.allclose(one[:, beam], other[:, -1], atol=1e-5)


def test_edges_become_a_sparse_matrix_of_nodes():
    attention = MultiHead(8, 2, score=Graph(4, heads=2))
    query, key = torch.tensor([0, 0, 1, 2]), torch.tensor([1, 2, 1, 0])
    with watch(attention) as seen:
        attention(torch.randn(4, 8), mask=neighbours(query, key, nodes=4))
    [weights] = seen[""] if "" in seen.looks else seen["weights"]
    assert weights.shape == (2, 4, 4)
    assert weights.is_sparse
    assert weights.coalesce().values().numel() == 2 * len(query)
    weights = weights.to_dense()
    assert torch.allclose(weights.sum(-1), torch.tensor([1.0, 1.0, 1.0, 0.0]).expand(2, 4))
    assert bool((weights[:, query, key] > 0).all())


def test_seeing_nothing_is_an_error(model: Transformer):
    with pytest.raises(ValueError, match="nothing was seen"), watch(model):
        pass


def test_an_error_inside_the_block_is_not_hidden(model: Transformer):
    with pytest.raises(ZeroDivisionError), watch(model):
        raise ZeroDivisionError
    assert not any(module._forward_hooks for module in model.modules())


def test_an_unknown_name_is_answered_with_those_there_are(model: Transformer):
    (source, sources), (target, targets) = grid(tokens(SOURCES)), grid(tokens(TARGETS))
    with watch(model) as seen:
        model(source, target, layouts=(sources, targets))
    with pytest.raises(KeyError, match=r"decoder\.0\.cross"):
        seen["decoder.9.cross"]


def test_a_compiled_model_is_watched_too(model: Transformer):
    (source, sources), (target, targets) = grid(tokens(SOURCES)), grid(tokens(TARGETS))
    compiled = torch.compile(model, backend="eager")
    with watch(model) as seen:
        compiled(source, target, layouts=(sources, targets))
    assert "encoder.0.attention" in seen


def test_what_other_threads_do_meanwhile_is_not_seen(model: Transformer):
    (source, sources), (target, targets) = grid(tokens(SOURCES)), grid(tokens(TARGETS))
    with watch(model) as alone:
        model(source, target, layouts=(sources, targets))

    def others() -> None:
        model(source[:1], target[:1], layouts=(Grid(sources.lengths[:1], 6), Grid(targets.lengths[:1], 5)))

    with watch(model) as seen, ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: others(), range(4)))
        model(source, target, layouts=(sources, targets))
        list(pool.map(lambda _: others(), range(4)))
    assert {name: len(looks) for name, looks in seen.looks.items()} == dict.fromkeys(alone, 1)
    for name in alone:
        for one, other in zip(seen[name], alone[name], strict=True):
            assert torch.equal(one, other)
    with pytest.raises(ValueError, match="nothing was seen"), watch(model), ThreadPoolExecutor(1) as pool:
        pool.submit(others).result()
