"""Attention inside the sequences of packed rows as one operator with its gradient; `tiles` has the Triton kernels.

Kernels made for long sequences give each one a tile of its own, most of which is empty when a sequence has thirty
tokens; here neighbouring sequences share tiles. A bias is a table (heads, distance), whose middle column is the
distance 0 and whose gradient is a sum by distance; or a slope for each head, which is subtracted times the distance.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import triton
from jaxtyping import Float
from torch import Tensor

from regard.attention.kernels import tiles
from regard.attention.masks import Row

DEPTHS = (16, 32, 64, 128)
LONG = 256  # tokens from which a sequence has tiles of its own


class Tiles(NamedTuple):
    """The tokens that a program holds, those it loads at a time, its warps and its pipeline stages."""

    resident_tokens: int
    loaded_tokens: int
    warps: int = 4
    stages: int = 3


SQUARE = Tiles(64, 64)  # where a bias table has a gradient: the diagonals of a square are summed
SHARED = {"forward": Tiles(64, 32, stages=2), "query": Tiles(64, 32), "key": Tiles(64, 32, stages=2)}  # short sequences
OWN = {"forward": Tiles(64, 32), "query": Tiles(64, 32), "key": Tiles(64, 32, stages=2)}  # long sequences


@torch.library.custom_op("regard::rows", mutates_args=())
def _rows(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None,
    query_segment: Tensor, key_segment: Tensor, query_offsets: Tensor, key_offsets: Tensor,
    causal: bool, scale: float, longest: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    out = _empty_like(query)
    lse = query.new_empty(query.shape[:2], dtype=torch.float32)
    shape = _compile_options("forward", query, key, bias, causal, longest)
    grid = (triton.cdiv(query.shape[1], shape["HELD"]), query.shape[0])
    sizes = *_sizes(query, key, value, scale), *out.stride()[:2]
    layout = query_segment, key_segment, key_offsets, _reach(bias)
    tiles.forward[grid](query, key, value, _in_base_2(bias), out, lse, *layout, *sizes, **shape)
    return out, lse


@_rows.register_fake
def _(query: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return _empty_like(query), query.new_empty(query.shape[:2], dtype=torch.float32)


@torch.library.custom_op("regard::rows_backward", mutates_args=())
def _rows_backward(
    slope: Tensor, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, out: Tensor, lse: Tensor,
    query_segment: Tensor, key_segment: Tensor, query_offsets: Tensor, key_offsets: Tensor,
    causal: bool, scale: float, longest: int, learning: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    slope = slope if slope.stride() == out.stride() else _empty_like(out).copy_(slope)
    query_gradient, key_gradient, value_gradient = _empty_like(query), _empty_like(key), _empty_like(value)
    delta, table, reach = torch.empty_like(lse), _in_base_2(bias), _reach(bias)
    sizes = *_sizes(query, key, value, scale), *out.stride()[:2]
    shape = _compile_options("query", query, key, bias, causal, longest, learning=learning)
    grid = (triton.cdiv(query.shape[1], shape["HELD"]), query.shape[0])
    sums = bias.new_zeros(*grid, bias.shape[1]) if bias is not None and learning else None
    layout = query_segment, key_segment, key_offsets, reach
    vectors = query, key, value, table
    tiles.backward_query[grid](*vectors, out, lse, slope, delta, query_gradient, sums, *layout, *sizes, **shape)
    shape = _compile_options("key", query, key, bias, causal, longest)
    grid = (triton.cdiv(key.shape[1], shape["HELD"]), key.shape[0])
    layout = query_segment, key_segment, query_offsets, reach
    to = key_gradient.stride()[:2]
    tiles.backward_key[grid](*vectors, lse, slope, delta, key_gradient, value_gradient, *layout, *sizes, *to, **shape)
    return query_gradient, key_gradient, value_gradient, lse.new_empty(0) if sums is None else sums.sum(0)


@_rows_backward.register_fake
def _(
    slope: Tensor, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, *rest: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    none = bias is None or not rest[-1]
    of_bias = query.new_empty(0, dtype=torch.float32) if none or bias is None else torch.empty_like(bias)
    return _empty_like(query), _empty_like(key), _empty_like(value), of_bias


def _save_for_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    tensors, ctx.rest = inputs[:-3], inputs[-3:]
    ctx.save_for_backward(*tensors[:4], *output, *tensors[4:])


def _backward(ctx: Any, slope: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    learning = ctx.needs_input_grad[3]
    *gradients, bias_gradient = _rows_backward(slope, *ctx.saved_tensors, *ctx.rest, learning)
    return *gradients, bias_gradient if learning else None, *[None] * 7


_rows.register_autograd(_backward, setup_context=_save_for_backward)


def attend_rows(
    query: Float[Tensor, "heads query depth"],
    key: Float[Tensor, "groups key depth"],
    value: Float[Tensor, "groups key depth"],
    rows: tuple[Row, Row],
    *,
    causal: bool,
    scale: float | None = None,
    bias: Float[Tensor, "heads distance"] | Float[Tensor, "heads"] | None = None,
) -> Float[Tensor, "heads query depth"]:
    """Return for each query the weighted mean of the values of its own sequence; `rows` are those of queries and keys.

    Causal attention and a bias need queries and keys to be the same tokens. A bias (heads) is a slope, which has no
    gradient. The longest sequence decides on the tiles and on nothing else.
    """
    assert bias is None or bias.ndim == 2 or not bias.requires_grad, "slopes do not learn"
    vectors = [tensor if tensor.stride(-1) == 1 else tensor.contiguous() for tensor in (query, key, value)]
    table = None if bias is None else bias.float().contiguous()
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    query_rows, key_rows = rows
    layout = query_rows.segment, key_rows.segment, query_rows.offsets, key_rows.offsets
    return _rows(*vectors, table, *layout, causal, factor, max(query_rows.longest, key_rows.longest))[0]


def _in_base_2(bias: Tensor | None) -> Tensor | None:
    """Return the bias multiplied by log2(e), for scores whose softmax is computed with exp2."""
    return None if bias is None else bias * math.log2(math.e)


def _reach(bias: Tensor | None) -> int:
    """Return the number of distances in one direction of a bias table (0 to reach - 1); 0 for slopes or no bias."""
    return 0 if bias is None or bias.ndim == 1 else (bias.shape[1] + 1) // 2


def _empty_like(like: Tensor) -> Tensor:
    """Return an empty (heads, token, depth) tensor, laid out token by token as the next product needs it."""
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


def _compile_options(
    kernel: str, query: Tensor, key: Tensor, bias: Tensor | None, causal: bool, longest: int, *, learning: bool = False
) -> dict[str, Any]:
    """Return the constants a kernel is compiled for."""
    chosen = SQUARE if learning else (OWN if longest >= LONG else SHARED)[kernel]
    # the accumulator has the depth of a head
    warps = 8 if chosen.resident_tokens > 64 and query.shape[2] > 64 else chosen.warps
    return {
        "SHARED": query.shape[0] // key.shape[0],
        "CAUSAL": causal,
        "LINEAR": bias is not None and bias.ndim == 1,
        "DEPTH": query.shape[2],
        "SPLIT": longest >= LONG,
        "HELD": chosen.resident_tokens,
        "TAKEN": chosen.loaded_tokens,
        "num_warps": warps,
        "num_stages": chosen.stages,
    }
