"""Masks combine like the matrices they stand for, and layouts say where every token is."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.attention.masks import (
    EVERYONE,
    Grid,
    Mask,
    Row,
    Stepping,
    allow,
    causal,
    mask_between,
    neighbours,
    packed,
    padded,
    stepping,
    window,
)
from regard.attention.multihead import MultiHead

LENGTHS = [3, 0, 2]
LAYOUTS = {  # name: (mask, (*batch, queries, keys))
    "no layout": (EVERYONE, (5, 5)),
    "packed": (packed(Row.of(LENGTHS)), (5, 5)),
    "packed, looking at another row": (packed(Row.of([1, 2, 1]), Row.of([0, 4, 1])), (4, 5)),
    "padded": (padded(Grid(torch.tensor(LENGTHS), 4)), (3, 4, 4)),
    "stepping": (stepping(Stepping.begin(torch.tensor([2, 1]), beams=2, limit=3, room=2).advance()), (2, 2, 4)),
    "edges": (neighbours(torch.tensor([0, 1, 1]), torch.tensor([2, 0, 1]), nodes=4), (4, 4)),
}


def matrix(mask, shape):
    """Everything the mask allows, spelled out."""
    dense = mask.dense(*shape[-2:])
    return torch.ones(shape, dtype=torch.bool) if dense is None else dense.expand(shape)


@st.composite
def three_masks(draw):
    """Three random masks and a way to spell them out in one layout, which tells what `before` and `near` mean."""
    name = draw(st.sampled_from([*LAYOUTS]))
    layout, shape = LAYOUTS[name]
    masks = []
    for _ in range(3):
        mask = layout if draw(st.booleans()) else Mask()
        if name != "edges":  # nodes stand nowhere, so nothing is before or near them
            mask = mask & causal() if draw(st.booleans()) else mask
            mask = mask & window(draw(st.integers(0, 3))) if draw(st.booleans()) else mask
        if draw(st.booleans()):
            bits = draw(st.integers(0, 2 ** (shape[-2] * shape[-1]) - 1))
            spread = [bool(bits >> i & 1) for i in range(shape[-2] * shape[-1])]
            mask = mask & allow(torch.tensor(spread).view(shape[-2:]))
        masks.append(mask)
    return masks, lambda mask: matrix(mask & layout, shape)


@given(three_masks())
def test_combining_masks_is_combining_their_matrices(drawn):
    (a, b, c), spelled = drawn
    assert torch.equal(spelled(a & b), spelled(a) & spelled(b))
    assert torch.equal(spelled(a & b), spelled(b & a))
    assert torch.equal(spelled((a & b) & c), spelled(a & (b & c)))
    assert torch.equal(spelled(a & a), spelled(a))
    assert torch.equal(spelled(a & EVERYONE), spelled(a))
    assert torch.equal(spelled(EVERYONE & a), spelled(a))


@pytest.mark.parametrize("size", [None, 0, 1, 2])
@pytest.mark.parametrize("backwards", [False, True])
def test_causal_and_window_count_places_inside_each_sequence(size, backwards):
    mask = packed(Row.of(LENGTHS))
    mask = mask & causal() if backwards else mask
    mask = mask & window(size) if size is not None else mask
    tokens = [(number, place) for number, length in enumerate(LENGTHS) for place in range(length)]
    expected = [
        [mine == theirs and (not backwards or j <= i) and (size is None or abs(i - j) <= size) for theirs, j in tokens]
        for mine, i in tokens
    ]
    assert matrix(mask, (5, 5)).tolist() == expected


def test_a_padded_batch_shows_real_keys_only():
    mask = padded(Grid(torch.tensor([2, 0]), 3))
    assert mask.dense(3, 3).tolist() == [[[True, True, False]], [[False] * 3]]


def test_a_node_sees_along_its_edges_only():
    dense = neighbours(torch.tensor([0, 2]), torch.tensor([1, 0]), nodes=3).dense(3, 3)
    assert dense.nonzero().tolist() == [[0, 1], [2, 0]]


def test_a_mask_that_hides_nothing_has_no_matrix():
    assert EVERYONE.dense(3, 3) is None


def test_two_layouts_cannot_be_combined():
    for one, other in itertools.permutations([mask for mask, _ in LAYOUTS.values() if mask is not EVERYONE], 2):
        with pytest.raises(ValueError, match="cannot combine two layouts"):
            one & other


def test_a_layout_combines_with_itself_and_not_with_a_look_alike():
    mask = packed(Row.of([2]))
    assert matrix(mask & (mask & causal()), (2, 2)).tolist() == [[True, False], [True, True]]
    with pytest.raises(ValueError, match="Packed and Packed"):
        mask & packed(Row.of([2]))


def test_a_graph_refuses_places():
    with pytest.raises(ValueError, match="no positions"):
        (LAYOUTS["edges"][0] & causal()).dense(4, 4)


def test_a_flat_row_without_a_packed_mask_is_refused():
    attention, row = MultiHead(4, 2), torch.randn(5, 4)
    for mask in (EVERYONE, causal(), padded(Grid(torch.tensor([5]), 5))):
        with pytest.raises(ValueError, match="packed mask"):
            attention(row, mask=mask)
    assert attention(row, mask=packed(Row.of([2, 3]))).shape == (5, 4)


def test_a_row_looks_at_rows_and_a_batch_at_batches():
    row, grid = Row.of([2]), Grid(torch.tensor([2]), 2)
    assert mask_between(row, row).dense(2, 2).all()
    assert mask_between(grid, grid).dense(2, 2).all()
    for pair in ((row, grid), (grid, row)):
        with pytest.raises(AssertionError, match="looks at"):
            mask_between(*pair)


@given(st.lists(st.integers(0, 5), max_size=5), st.integers(1, 3), st.integers(0, 9), st.integers(0, 3))
def test_a_row_of_fixed_shape_covers_its_tail_with_bounded_segments(lengths, extra, rest, empty):
    longest = max(lengths, default=0) + extra
    tail = -(-rest // longest)
    size, segments = sum(lengths) + rest, len(lengths) + tail + empty
    row = Row.of(lengths, longest=longest, size=size, segments=segments)
    assert row.offsets.dtype == torch.int32
    assert row.offsets[0] == 0
    assert row.offsets[-1] == size == len(row.segment) == len(row.place)
    assert len(row.offsets) == segments + 1
    assert row.lengths[: len(lengths)].tolist() == lengths
    assert row.count == len(lengths)
    assert row.longest == longest >= max(row.lengths.tolist(), default=0)
    assert row.lengths[len(lengths) : len(lengths) + tail].gt(0).all()
    assert row.lengths[len(lengths) + tail :].eq(0).all()
    tokens = [(number, place) for number, length in enumerate(row.lengths.tolist()) for place in range(length)]
    assert list(zip(row.segment.tolist(), row.place.tolist(), strict=True)) == tokens


@given(st.lists(st.integers(0, 4), max_size=5))
def test_a_row_spread_over_a_grid_comes_back_whole(lengths):
    row = Row.of(lengths, longest=6)
    spread, back, grid = row.grid
    tokens = torch.arange(100, 100 + sum(lengths))
    if sum(lengths):
        cells = tokens[spread]
        assert torch.equal(cells[back], tokens)
        lines = cells.view(-1, grid.longest)
        assert torch.equal(lines[grid.filled], tokens)


@pytest.mark.parametrize(
    ("lengths", "bounds"),
    [
        ([5], {"longest": 4}),  # a sequence above the bound
        ([3, 3], {"size": 5}),  # more tokens than room
        ([3, 3], {"size": 12, "segments": 3}),  # the tail needs two segments of three
        ([], {"size": 4}),  # nothing says how to cut the tail
        ([0, 0], {"size": 4}),
    ],
)
def test_a_row_that_cannot_be_is_refused(lengths, bounds):
    with pytest.raises(AssertionError):
        Row.of(lengths, **bounds)


def test_a_row_moves_to_another_device_whole():
    row = Row.of([2, 1], size=5, segments=4).to("meta")
    assert {tensor.device.type for tensor in (row.offsets, row.segment, row.place, row.count)} == {"meta"}
    assert row.longest == 2


@pytest.mark.parametrize("explicit", [False, True])
def test_a_mask_without_a_layout_serves_sequences_of_any_length(explicit):
    """What a mask remembers for one length must not leak into another."""
    attention = MultiHead(4, 2)
    if explicit:
        attention.weights.register_forward_hook(lambda *_: None)
    shared = window(0)
    for queries, keys in ((1, 1), (4, 2), (2, 4), (4, 4)):
        x, memory = torch.randn(1, queries, 4), torch.randn(1, keys, 4)
        assert torch.equal(attention(x, memory, mask=shared), attention(x, memory, mask=window(0)))
