"""Attention inside the sequences of packed rows as Triton kernels, for many short sequences.

Kernels made for long sequences give each one a tile of its own, most of which is empty when a sequence has thirty
tokens. Here a tile of queries is any neighbouring tokens, whatever sequences they belong to, and the keys it looks at
are those of its first to its last sequence; the mask keeps sequences apart. Scores are in base 2, as the GPU computes.
A bias is a table (heads, distance), whose middle column is the distance 0; its gradient is a sum by distance.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

DEPTHS = (16, 32, 64, 128)
TILE = 64


@triton.jit
def _bounds(segment, offsets, start, size, TILE: tl.constexpr):
    """Where the sequences of the tile at `start` begin and end on the other side."""
    first = tl.load(segment + start)
    last = tl.load(segment + tl.minimum(start + TILE, size) - 1)
    return tl.load(offsets + first), tl.load(offsets + last + 1)


@triton.jit
def _tile(base, rows, size, stride, DEPTH: tl.constexpr):
    """The vectors of these rows, zeros beyond the end."""
    columns = tl.arange(0, DEPTH)
    return tl.load(base + rows[:, None] * stride + columns[None, :], mask=rows[:, None] < size, other=0.0)


@triton.jit
def _biased(scores, bias, head, reach, rows, columns, visible):
    """Scores in base 2, with what the table adds by distance; rows and columns are broadcast against one another."""
    if bias is not None:
        scores += tl.load(bias + head * (2 * reach - 1) + columns - rows + reach - 1, mask=visible, other=0.0)
    return scores


@triton.jit
def _by_distance(change, TILE: tl.constexpr):
    """The sums of a square along its diagonals: those 0 to TILE - 1 above the main one, and -TILE to -1 below it."""
    row, column = tl.arange(0, TILE)[:, None], tl.arange(0, TILE)[None, :]
    turned = tl.gather(change, (row + column) % TILE, 1)  # each diagonal becomes a column, of two parts
    above = row + column < TILE
    return tl.sum(tl.where(above, turned, 0.0), 0), tl.sum(tl.where(above, 0.0, turned), 0)


@triton.jit
def _forward(
    query, key, value, bias, out, lse, query_segment, key_segment, key_offsets, reach,
    queries, keys, scale, query_head, query_token, key_head, key_token, value_head, value_token, out_head, out_token,
    SHARED: tl.constexpr, CAUSAL: tl.constexpr, DEPTH: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """One tile of queries of one head: the running softmax of Milakov and Gimelshein (2018)."""
    start, head = tl.program_id(0) * TILE, tl.program_id(1)
    rows = start + tl.arange(0, TILE)
    vectors = _tile(query + head * query_head, rows, queries, query_token, DEPTH)
    own = tl.load(query_segment + rows, mask=rows < queries, other=-1)
    low, high = _bounds(query_segment, key_offsets, start, queries, TILE)
    if CAUSAL:
        high = tl.minimum(high, start + TILE)
    most = tl.full([TILE], float("-inf"), tl.float32)
    total = tl.zeros([TILE], tl.float32)
    mixed = tl.zeros([TILE, DEPTH], tl.float32)
    for at in range(low, high, TILE):
        columns = at + tl.arange(0, TILE)
        keyed = _tile(key + (head // SHARED) * key_head, columns, high, key_token, DEPTH)
        valued = _tile(value + (head // SHARED) * value_head, columns, high, value_token, DEPTH)
        theirs = tl.load(key_segment + columns, mask=columns < high, other=-2)
        visible = own[:, None] == theirs[None, :]
        if CAUSAL:
            visible = visible & (rows[:, None] >= columns[None, :])
        scores = tl.dot(vectors, tl.trans(keyed)) * scale
        scores = _biased(scores, bias, head, reach, rows[:, None], columns[None, :], visible)
        scores = tl.where(visible, scores, float("-inf"))
        higher = tl.maximum(most, tl.max(scores, 1))
        safe = tl.where(higher == float("-inf"), 0.0, higher)
        shares = tl.exp2(scores - safe[:, None])
        before = tl.exp2(most - safe)
        total = total * before + tl.sum(shares, 1)
        mixed = mixed * before[:, None] + tl.dot(shares.to(valued.dtype), valued)
        most = higher
    blind = total == 0.0
    total = tl.where(blind, 1.0, total)
    columns = tl.arange(0, DEPTH)
    place = out + head * out_head + rows[:, None] * out_token + columns[None, :]
    tl.store(place, (mixed / total[:, None]).to(out.dtype.element_ty), mask=rows[:, None] < queries)
    # Infinite where nothing was seen: every share computed from it again is then zero.
    tl.store(lse + head * queries + rows, tl.where(blind, float("inf"), most + tl.log2(total)), mask=rows < queries)


@triton.jit
def _backward_query(
    query, key, value, bias, out, lse, slope, delta, of_query, of_bias, query_segment, key_segment, key_offsets, reach,
    queries, keys, scale, query_head, query_token, key_head, key_token, value_head, value_token, out_head, out_token,
    SHARED: tl.constexpr, CAUSAL: tl.constexpr, DEPTH: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """What a tile of queries should have been, and for each query the part of its slope that all its keys share."""
    start, head = tl.program_id(0) * TILE, tl.program_id(1)
    rows = start + tl.arange(0, TILE)
    vectors = _tile(query + head * query_head, rows, queries, query_token, DEPTH)
    pull = _tile(slope + head * out_head, rows, queries, out_token, DEPTH)
    answer = _tile(out + head * out_head, rows, queries, out_token, DEPTH)
    common = tl.sum(pull.to(tl.float32) * answer.to(tl.float32), 1)
    tl.store(delta + head * queries + rows, common, mask=rows < queries)
    whole = tl.load(lse + head * queries + rows, mask=rows < queries, other=float("inf"))
    own = tl.load(query_segment + rows, mask=rows < queries, other=-1)
    low, high = _bounds(query_segment, key_offsets, start, queries, TILE)
    if CAUSAL:
        high = tl.minimum(high, start + TILE)
    found = tl.zeros([TILE, DEPTH], tl.float32)
    lane, carried = tl.arange(0, TILE), tl.zeros([TILE], tl.float32)
    if of_bias is not None:  # a row of sums for each tile and head, added up outside: every run gives the same
        of_bias += (tl.program_id(0) * tl.num_programs(1) + head) * (2 * reach - 1) + reach - 1
    for at in range(low, high, TILE):
        columns = at + tl.arange(0, TILE)
        keyed = _tile(key + (head // SHARED) * key_head, columns, high, key_token, DEPTH)
        valued = _tile(value + (head // SHARED) * value_head, columns, high, value_token, DEPTH)
        theirs = tl.load(key_segment + columns, mask=columns < high, other=-2)
        visible = own[:, None] == theirs[None, :]
        if CAUSAL:
            visible = visible & (rows[:, None] >= columns[None, :])
        scores = tl.dot(vectors, tl.trans(keyed)) * scale
        scores = _biased(scores, bias, head, reach, rows[:, None], columns[None, :], visible)
        shares = tl.where(visible, tl.exp2(scores - whole[:, None]), 0.0)
        change = shares * (tl.dot(pull, tl.trans(valued)) - common[:, None])
        found += tl.dot(change.to(keyed.dtype), keyed)
        if of_bias is not None:
            above, below = _by_distance(change, TILE)
            distance = at - start - TILE + lane
            tl.store(of_bias + distance, carried + below, mask=(distance < reach) & (distance > -reach))
            carried = above
    if of_bias is not None:
        distance = low + tl.cdiv(high - low, TILE) * TILE - start - TILE + lane
        tl.store(of_bias + distance, carried, mask=(distance < reach) & (distance > -reach))
    columns = tl.arange(0, DEPTH)
    place = of_query + head * out_head + rows[:, None] * out_token + columns[None, :]
    # Scores are in base 2: the scale holds log2(e), which the slope must not.
    tl.store(place, (found * scale * 0.6931471805599453).to(of_query.dtype.element_ty), mask=rows[:, None] < queries)


@triton.jit
def _backward_key(
    query, key, value, bias, lse, slope, delta, of_key, of_value, query_segment, key_segment, query_offsets, reach,
    queries, keys, scale, query_head, query_token, key_head, key_token, value_head, value_token, out_head, out_token,
    to_head, to_token, SHARED: tl.constexpr, CAUSAL: tl.constexpr, DEPTH: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """What a tile of keys and values should have been: the sum over the queries of all heads that share them."""
    start, group = tl.program_id(0) * TILE, tl.program_id(1)
    columns = start + tl.arange(0, TILE)
    keyed = _tile(key + group * key_head, columns, keys, key_token, DEPTH)
    valued = _tile(value + group * value_head, columns, keys, value_token, DEPTH)
    theirs = tl.load(key_segment + columns, mask=columns < keys, other=-2)
    low, high = _bounds(key_segment, query_offsets, start, keys, TILE)
    if CAUSAL:
        low = tl.maximum(low, start)
    found_key = tl.zeros([TILE, DEPTH], tl.float32)
    found_value = tl.zeros([TILE, DEPTH], tl.float32)
    for one in range(SHARED):
        head = group * SHARED + one
        for at in range(low, high, TILE):
            rows = at + tl.arange(0, TILE)
            vectors = _tile(query + head * query_head, rows, high, query_token, DEPTH)
            pull = _tile(slope + head * out_head, rows, high, out_token, DEPTH)
            whole = tl.load(lse + head * queries + rows, mask=rows < high, other=float("inf"))
            common = tl.load(delta + head * queries + rows, mask=rows < high, other=0.0)
            own = tl.load(query_segment + rows, mask=rows < high, other=-1)
            visible = theirs[:, None] == own[None, :]
            if CAUSAL:
                visible = visible & (columns[:, None] <= rows[None, :])
            scores = tl.dot(keyed, tl.trans(vectors)) * scale
            scores = _biased(scores, bias, head, reach, rows[None, :], columns[:, None], visible)
            shares = tl.where(visible, tl.exp2(scores - whole[None, :]), 0.0)
            found_value += tl.dot(shares.to(pull.dtype), pull)
            change = shares * (tl.dot(valued, tl.trans(pull)) - common[None, :])
            found_key += tl.dot(change.to(vectors.dtype), vectors)
    depths = tl.arange(0, DEPTH)
    place = group * to_head + columns[:, None] * to_token + depths[None, :]
    inside = columns[:, None] < keys
    tl.store(of_key + place, (found_key * scale * 0.6931471805599453).to(of_key.dtype.element_ty), mask=inside)
    tl.store(of_value + place, found_value.to(of_value.dtype.element_ty), mask=inside)


@torch.library.custom_op("regard::rows", mutates_args=())
def _rows(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None,
    query_segment: Tensor, key_segment: Tensor, query_offsets: Tensor, key_offsets: Tensor, causal: bool, scale: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    out = _blank(query)
    lse = query.new_empty(query.shape[:2], dtype=torch.float32)
    grid = (triton.cdiv(query.shape[1], TILE), query.shape[0])
    sizes = *_sizes(query, key, value, scale), *out.stride()[:2]
    layout = query_segment, key_segment, key_offsets, _reach(bias)
    _forward[grid](query, key, value, _in_base_2(bias), out, lse, *layout, *sizes, **_shape(query, key, causal))
    return out, lse


@_rows.register_fake
def _(query: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return _blank(query), query.new_empty(query.shape[:2], dtype=torch.float32)


@torch.library.custom_op("regard::rows_backward", mutates_args=())
def _rows_backward(
    slope: Tensor, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, out: Tensor, lse: Tensor,
    query_segment: Tensor, key_segment: Tensor, query_offsets: Tensor, key_offsets: Tensor, causal: bool, scale: float,
    learning: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    slope = slope if slope.stride() == out.stride() else _blank(out).copy_(slope)
    of_query, of_key, of_value = _blank(query), _blank(key), _blank(value)
    delta, table, reach = torch.empty_like(lse), _in_base_2(bias), _reach(bias)
    sizes, shape = (*_sizes(query, key, value, scale), *out.stride()[:2]), _shape(query, key, causal)
    grid = (triton.cdiv(query.shape[1], TILE), query.shape[0])
    sums = None if bias is None or not learning else bias.new_zeros(*grid, bias.shape[1])
    layout = query_segment, key_segment, key_offsets, reach
    vectors = query, key, value, table
    _backward_query[grid](*vectors, out, lse, slope, delta, of_query, sums, *layout, *sizes, **shape)
    grid = (triton.cdiv(key.shape[1], TILE), key.shape[0])
    layout = query_segment, key_segment, query_offsets, reach
    to = of_key.stride()[:2]
    _backward_key[grid](*vectors, lse, slope, delta, of_key, of_value, *layout, *sizes, *to, **shape)
    return of_query, of_key, of_value, lse.new_empty(0) if sums is None else sums.sum(0)


@_rows_backward.register_fake
def _(
    slope: Tensor, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, *rest: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    none = bias is None or not rest[-1]
    of_bias = query.new_empty(0, dtype=torch.float32) if none or bias is None else torch.empty_like(bias)
    return _blank(query), _blank(key), _blank(value), of_bias


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, causal, scale = inputs
    ctx.save_for_backward(*tensors[:4], *output, *tensors[4:])
    ctx.causal, ctx.scale = causal, scale


def _back(ctx: Any, slope: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    learning = ctx.needs_input_grad[3]
    *found, of_bias = _rows_backward(slope, *ctx.saved_tensors, ctx.causal, ctx.scale, learning)
    return *found, of_bias if learning else None, None, None, None, None, None, None


_rows.register_autograd(_back, setup_context=_keep)


def attend_rows(
    query: Float[Tensor, "heads query depth"],
    key: Float[Tensor, "groups key depth"],
    value: Float[Tensor, "groups key depth"],
    segments: tuple[Int[Tensor, "query"], Int[Tensor, "key"]],
    offsets: tuple[Int[Tensor, "bounds"], Int[Tensor, "bounds"]],
    *,
    causal: bool,
    scale: float | None = None,
    bias: Float[Tensor, "heads distance"] | None = None,
) -> Float[Tensor, "heads query depth"]:
    """Each query's mean of the values of its own sequence; `segments` and `offsets` are those of queries and keys.

    Causal attention and a bias need queries and keys to be the same tokens.
    """
    vectors = [each if each.stride(-1) == 1 else each.contiguous() for each in (query, key, value)]
    table = None if bias is None else bias.float().contiguous()
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    return _rows(*vectors, table, *segments, *offsets, causal, factor)[0]


def _in_base_2(bias: Tensor | None) -> Tensor | None:
    """What is added to scores whose exponential is a power of 2."""
    return None if bias is None else bias * math.log2(math.e)


def _reach(bias: Tensor | None) -> int:
    """The first distance that a table does not know."""
    return 0 if bias is None else (bias.shape[1] + 1) // 2


def _blank(like: Tensor) -> Tensor:
    """Room for (heads, token, depth), laid out token by token as the next product wants it."""
    heads, tokens, depth = like.shape
    return like.new_empty(tokens, heads, depth).transpose(0, 1)


def _sizes(query: Tensor, key: Tensor, value: Tensor, scale: float) -> tuple[int | float, ...]:
    return (
        query.shape[1],
        key.shape[1],
        scale * math.log2(math.e),
        *query.stride()[:2],
        *key.stride()[:2],
        *value.stride()[:2],
    )


def _shape(query: Tensor, key: Tensor, causal: bool) -> dict[str, Any]:
    return {"SHARED": query.shape[0] // key.shape[0], "CAUSAL": causal, "DEPTH": query.shape[2], "TILE": TILE}
