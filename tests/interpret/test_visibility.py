"""What an attention may look at: taken from its mask, kept with the trace, and said in few words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

import regard
from regard.attention.masks import Grid, Mask, allow, causal, neighbours, padded, window
from regard.attention.multihead import MultiHead
from regard.interpret.draw.page import Blobs
from regard.interpret.draw.view_data import make_view
from regard.interpret.items import Item, Weights
from regard.interpret.small_traces import encode_traces, read_traces, shrink_trace
from regard.interpret.trace import Trace, load
from regard.interpret.visibility import describe_visibility, restore_visibility
from regard.interpret.watch import watch

SIZE = 12
DISTANCE = torch.arange(SIZE)[None] - torch.arange(SIZE)[:, None]
BLOCK = (torch.arange(SIZE) // 4)[:, None] == torch.arange(SIZE) // 4
SEEN: dict[str, Tensor] = {
    "everything": torch.ones(SIZE, SIZE, dtype=torch.bool),
    "causal": DISTANCE <= 0,
    "window": DISTANCE.abs() <= 2,
    "causal window": (DISTANCE <= 0) & (DISTANCE >= -3),
    "prefix": (DISTANCE <= 0) | (torch.arange(SIZE) < 5),
    "blocks": BLOCK,
    "strided": (DISTANCE <= 0) & (BLOCK | (torch.arange(SIZE) % 4 == 3)),
    "padding": (torch.arange(SIZE) < 9).expand(SIZE, SIZE),
    "nothing for some": (DISTANCE <= 0) & (torch.arange(SIZE) % 3 > 0)[:, None],
}
MASKS: dict[str, Mask] = {
    "everything": Mask(),
    "causal": causal(),
    "window": window(2),
    "causal window": causal() & window(3),
    "prefix": allow(SEEN["prefix"]),
    "blocks": allow(BLOCK),
}


def as_trace(visible: Tensor | None, values: Tensor) -> Trace:
    """Return a trace of one attention of words to themselves."""
    words = [Item(f" word{number}", word=number) for number in range(values.shape[-1])]
    weights = [Weights("blocks.0.attention", "source", "source", values, visible)]
    return Trace("m", "test", {"source": words}, weights, {"text": "words", "answer": "words"})


@pytest.mark.parametrize("name", SEEN)
def test_a_description_says_exactly_what_is_visible(name: str):
    described = describe_visibility(SEEN[name])
    assert json.loads(json.dumps(described)) == described, "plain data"
    assert torch.equal(restore_visibility(described, SIZE, SIZE), SEEN[name])


def test_the_future_and_windows_are_bands_and_everything_needs_no_words():
    assert describe_visibility(SEEN["everything"]) == {}
    assert describe_visibility(SEEN["causal"]) == {"band": [None, 0]}
    assert describe_visibility(SEEN["window"]) == {"band": [-2, 2]}
    assert describe_visibility(SEEN["causal window"]) == {"band": [-3, 0]}
    assert describe_visibility(SEEN["causal"][4:]) == {"band": [None, 4]}, "the last rows of a longer matrix"
    assert describe_visibility(SEEN["blocks"]) == {"rows": [[4, 0, 4], [4, 4, 8], [4, 8, 12]]}


def test_a_description_is_small_beside_the_weights():
    size = 1024
    distance = torch.arange(size)[None] - torch.arange(size)[:, None]
    strided = (distance <= 0) & ((distance > -32) | (torch.arange(size) % 32 == 31))
    for visible in (distance <= 0, distance.abs() <= 64, strided):
        assert len(json.dumps(describe_visibility(visible))) < 0.1 * 2 * size**2, "of one head in half precision"


@pytest.mark.parametrize("name", MASKS)
def test_what_a_watched_attention_could_see_is_what_its_weights_are_not_zero_for(name: str):
    torch.manual_seed(0)
    layer = MultiHead(16, heads=2)
    with watch(layer) as record:
        layer(torch.randn(1, SIZE, 16), mask=MASKS[name])
    [key] = list(record)
    [visible] = record.visible(key)
    assert torch.equal(visible, SEEN[name])
    assert torch.equal(visible, record[key][0][0] > 0), "a softmax gives something to all that it may look at"


def test_padding_is_left_out_and_edges_are_all_that_a_node_sees():
    torch.manual_seed(0)
    layer, grid = MultiHead(16, heads=2), Grid(torch.tensor([3, 5]), 5)
    with watch(layer) as record:
        layer(torch.randn(2, 5, 16), mask=padded(grid, grid) & causal())
    [name] = list(record)
    assert [tuple(visible.shape) for visible in record.visible(name)] == [(3, 3), (5, 5)]
    assert all(torch.equal(visible, torch.ones_like(visible).tril()) for visible in record.visible(name))
    ends = torch.tensor([0, 0, 1, 2, 2]), torch.tensor([0, 1, 2, 2, 0])
    with watch(layer) as record:
        layer(torch.randn(3, 16), mask=neighbours(*ends, nodes=3))
    [visible] = record.visible(name)
    assert visible.nonzero().tolist() == sorted(
        [list(edge) for edge in zip(*(end.tolist() for end in ends), strict=True)]
    )


def test_a_search_and_a_forced_answer_say_the_same_of_what_could_be_seen():
    translator = regard.load(Path(__file__).parent.parent / "checkpoints" / "format-1")
    trace = translator.look("Le chat noir dort.")
    for attention in trace.weights:
        assert attention.visible is not None
        assert torch.equal(attention.visible, attention.values.amax(0) > 0), attention.name
    view = make_view(trace, Blobs())
    masks = {attention["name"]: attention.get("mask") for attention in view["attentions"]}
    assert masks["decoder.0.attention"] == {"band": [None, 0]}
    assert masks["decoder.0.cross"] is None


def test_a_zero_that_was_allowed_is_no_mask_and_an_old_trace_is_read_as_before():
    values = torch.eye(SIZE)[None]
    view = make_view(as_trace(SEEN["everything"], values), Blobs())
    assert "mask" not in view["attentions"][0]
    assert view["controls"]["entropy"]["blocks.0.attention"] == [
        pytest.approx(torch.tensor(float(SIZE)).log2().item(), abs=1e-4)
    ]
    scores = torch.randn(1, SIZE, SIZE).masked_fill(~SEEN["causal"], -torch.inf).softmax(-1)
    assert make_view(as_trace(None, scores), Blobs())["attentions"][0]["mask"] == {"band": [None, 0]}


@pytest.mark.parametrize("name", SEEN)
def test_masks_stay_with_a_trace_that_is_saved(name: str, tmp_path: Path):
    values = torch.rand(2, SIZE, SIZE) * SEEN[name]
    trace = as_trace(SEEN[name], values)
    trace.save(tmp_path / "trace.json")
    visible = load(tmp_path / "trace.json").find().visible
    assert visible is not None
    assert torch.equal(visible, SEEN[name])
    (tmp_path / "small").write_bytes(encode_traces([shrink_trace(trace)]))
    [small] = read_traces(tmp_path / "small")
    assert small.weights[0].visible is not None
    assert torch.equal(small.weights[0].visible, SEEN[name])


def test_a_word_is_seen_if_any_of_its_pieces_is():
    words = [0, 0, 1, 2, 2]
    items = [Item(f"p{number}", word=word) for number, word in enumerate(words)]
    visible = torch.ones(5, 5, dtype=torch.bool).tril()
    trace = Trace("m", "test", {"source": items}, [Weights("a", "source", "source", visible[None].float(), visible)])
    merged = trace.by_words().find().visible
    assert merged is not None
    assert torch.equal(merged, torch.ones(3, 3, dtype=torch.bool).tril())
