"""The only softmax over keys: a fused kernel where one fits, the explicit path if attention is watched.

Every path computes the same: the mean of the values, weighted by the softmax of the scores over visible keys. A query
that may attend to nothing gets zeros, and gradients stay finite: masked scores become the smallest finite number before
the softmax and zero after it, because minus infinity would make gradients NaN.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from regard.attention.cache import LayerCache
from regard.attention.edge_list import Edges
from regard.attention.edges import attend_edges, repeat_kv
from regard.attention.hardware import kernels_run
from regard.attention.masks import EVERYONE, Grid, Mask, Packed, Padded, Stepping
from regard.attention.positions import Positions, Rotary
from regard.attention.scores import Score, scale_of, scaled_dot
from regard.attention.tap import Tap

Bias = Callable[[Tensor], Tensor]
SHORT = 512  # tokens of a sequence up to which our kernel, where several share a tile, is the fastest without a bias
# The order in which torch looks for a kernel for a batch on a GPU.
SAFE_BACKENDS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
BATCH_BACKENDS = [SDPBackend.CUDNN_ATTENTION, *SAFE_BACKENDS]
CUDNN_TILE = 128  # keys per tile of cuDNN


@dataclass(frozen=True)
class AttentionSpec:
    """How scores become weights: the score, its bias, dropout, and the tap at which weights are watched."""

    score: Score = scaled_dot
    bias: Bias | None = None
    dropout: float = 0.0
    tap: Tap | None = None
    slopes: Float[Tensor, "heads"] | None = None
    """Of a bias that is minus a head's slope times the distance: a kernel needs no more than them."""
    back: Float[Tensor, "heads reach"] | None = None
    """The bias by how many tokens back a key stands, where it is known beforehand for as many as are cached."""

    @property
    def explicit(self) -> bool:
        """True if the weights themselves are needed, or no kernel computes the score."""
        return scale_of(self.score, 1) is None or (self.tap is not None and self.tap.is_watched)


PLAIN = AttentionSpec()


def attend(
    query: Float[Tensor, "*q heads query depth"],
    key: Float[Tensor, "*k groups key other"],
    value: Float[Tensor, "*k groups key features"],
    *,
    mask: Mask = EVERYONE,
    way: AttentionSpec = PLAIN,
) -> Float[Tensor, "*o heads query features"]:
    """Return for each query the weighted mean of the visible values; several heads may share one group of keys."""
    if isinstance(mask.where, Packed):
        return attend_row(query, key, value, mask=mask, way=way)
    if isinstance(mask.where, Edges):
        return attend_edges(query, key, value, mask=mask, way=way)
    if way.explicit:
        return attend_explicitly(query, key, value, mask=mask, way=way)
    return attend_fused(query, key, value, mask=mask, way=way)


def attend_source(
    query: Float[Tensor, "batch heads beam depth"],
    key: Float[Tensor, "batch groups key depth"],
    value: Float[Tensor, "batch groups key features"],
    *,
    mask: Mask,
    way: AttentionSpec = PLAIN,
) -> Float[Tensor, "batch heads beam features"]:
    """Attend to the source in one decoding step: `attend`, with Regard's Triton kernel where it fits."""
    where = mask.where
    assert isinstance(where, Padded)
    if way.bias is None and _step_fits(query, value, mask=mask, way=way):
        from regard.attention.kernels.step import attend_memory

        return attend_memory(query, key, value, lengths=where.key.lengths, scale=_scale(query, way))
    return attend(query, key, value, mask=mask, way=way)


def attend_step(
    query: Float[Tensor, "batch heads beam depth"],
    key: Float[Tensor, "batch groups beam depth"],
    value: Float[Tensor, "batch groups beam features"],
    *,
    cache: LayerCache,
    mask: Mask,
    way: AttentionSpec = PLAIN,
    positions: Positions | None = None,
) -> Float[Tensor, "batch heads beam features"]:
    """Attend in one decoding step: write the newest keys and values to the cache, and let each beam attend to its past.

    Queries and keys are rotated first, according to `positions`.
    """
    where = mask.where
    assert isinstance(where, Stepping)
    fits, turning = _step_fits(query, value, mask=mask, way=way), type(positions) is Rotary
    if positions is not None and not (fits and turning):
        places = mask.once("newest", lambda: where.newest)
        query, key = positions.turn(query, places), positions.turn(key, places)
    if fits:
        from regard.attention.kernels.step import Scoring, attend_past, sight

        visibility = (
            mask.once("sight", lambda: sight(where)) if where.beams > 1 else where.slots
        )  # a single beam sees its own past
        rates = positions.rates if isinstance(positions, Rotary) and turning else None
        scoring = Scoring(_scale(query, way), _past_bias(query, where, mask=mask, way=way), rates)
        return attend_past(query, key, value, cache=cache, where=where, sight=visibility, scoring=scoring)
    keys, values = cache.extend(key, value, mask)
    return attend(query, keys, values, mask=mask, way=way)


def weigh(
    scores: Float[Tensor, "*batch query key"], mask: Bool[Tensor, "*mask _ key"] | None = None
) -> Float[Tensor, "*batch query key"]:
    """Return the softmax over visible keys; a query that may attend to nothing gets zeros."""
    if mask is None:
        return scores.softmax(-1)
    hidden = ~mask
    return scores.masked_fill(hidden, torch.finfo(scores.dtype).min).softmax(-1).masked_fill(hidden, 0.0)


def attention_weights(query: Tensor, key: Tensor, *, mask: Mask, way: AttentionSpec) -> Tensor:
    """Return the attention weights: score, bias, mask, softmax, tap."""
    scores = way.score(query, repeat_kv(key, query.shape[-3]))
    if way.bias is not None:
        scores = scores + _bias(query, key, mask=mask, bias=way.bias).to(scores.dtype)
    weights = weigh(scores, _dense(mask, query, key))
    return weights if way.tap is None else way.tap(weights, mask)


def attend_explicitly(query: Tensor, key: Tensor, value: Tensor, *, mask: Mask, way: AttentionSpec) -> Tensor:
    """Attend as written in the papers: weights, dropout, weighted sum."""
    weights = attention_weights(query, key, mask=mask, way=way)
    if way.dropout:
        weights = F.dropout(weights, way.dropout)
    return weights @ repeat_kv(value, query.shape[-3])


def attend_fused(query: Tensor, key: Tensor, value: Tensor, *, mask: Mask, way: AttentionSpec) -> Tensor:
    """Attend with scaled dot-product attention in one kernel, which never stores all weights."""
    grouped = query.shape[-3] != key.shape[-3]
    only_causal = mask.causal and mask.window is None and mask.where is None and mask.boolean is None
    options: Any = {"dropout_p": way.dropout, "scale": _scale(query, way), "enable_gqa": grouped}
    if only_causal and way.bias is None:
        with _choose_kernels(query, key):
            return F.scaled_dot_product_attention(query, key, value, is_causal=True, **options)
    visible = _dense(mask, query, key)
    if visible is None and way.bias is None:
        return _attend_unmasked(query, key, value, causal=False, way=way)
    added = _additive_mask(query, key, visible, mask=mask, bias=way.bias)
    with _choose_kernels(query, key):
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=added, **options)
    if visible is None:
        return mixed
    blind = mask.once(("blind", *_sides(query, key)), lambda: ~visible.any(-1, keepdim=True))
    return mixed.masked_fill(blind, 0.0)


def attend_row(query: Tensor, key: Tensor, value: Tensor, *, mask: Mask, way: AttentionSpec) -> Tensor:
    """Attend inside each sequence of a packed row: (heads, token, depth) in and out."""
    where = mask.where
    assert isinstance(where, Packed)
    if mask.boolean is not None:  # needs the whole matrix, token by token
        path = attend_explicitly if way.explicit else attend_fused
        return path(query, key, value, mask=mask, way=way)
    if _is_even_batch(where, mask=mask, way=way):
        return _batch(query, key, value, where=where, mask=mask, way=way)
    if _kernel_fits(query, key, value, where=where, mask=mask, way=way):
        if _prefers_tiles(query, where=where, mask=mask, way=way):
            return _rows(query, key, value, where=where, mask=mask, way=way)
        if way.bias is None:
            return _variable_length(query, key, value, where=where, mask=mask, way=way)
    cells, _, keys = where.key.grid
    spread, back, queries = where.query.grid
    if queries.longest == 0 or keys.longest == 0:
        return query.new_zeros(*query.shape[:-1], value.shape[-1])
    lines = min(len(queries.lengths), len(keys.lengths))
    padded = mask.once("grid", lambda: _grid_mask(mask, queries, keys, lines))
    mixed = attend(
        _unpack(query, spread, queries)[:lines],
        _unpack(key, cells, keys)[:lines],
        _unpack(value, cells, keys)[:lines],
        mask=padded,
        way=way,
    )
    flat = mixed.transpose(0, 1).flatten(1, 2)  # (heads, line * longest, features)
    if lines < len(queries.lengths):  # queries of the last segments have no keys
        flat = F.pad(flat, (0, 0, 0, (len(queries.lengths) - lines) * queries.longest))
    return flat.index_select(1, back)


def _dense(mask: Mask, query: Tensor, key: Tensor) -> Tensor | None:
    """Return the boolean mask with an axis for the heads."""
    if mask is EVERYONE:  # it is never freed, so nothing may be stored in its memory
        return None
    visible = mask.once(("dense", *_sides(query, key)), lambda: mask.dense(*_sides(query, key)))
    return None if visible is None else visible.unsqueeze(-3)


def _sides(query: Tensor, key: Tensor) -> tuple[int, int, torch.device]:
    """Return what the matrix of a mask depends on beside the mask: sizes and device, free for a mask without layout."""
    return query.shape[-2], key.shape[-2], query.device


def _scale(query: Tensor, way: AttentionSpec) -> float:
    """Return the factor of dot products."""
    factor = scale_of(way.score, query.shape[-1])
    assert factor is not None, "no kernel knows this score"
    return factor


def _bias(query: Tensor, key: Tensor, *, mask: Mask, bias: Bias) -> Tensor:
    """Return the bias of every score, computed once for all layers; not stored on a mask that may outlive a pass."""

    def make() -> Tensor:
        return bias(mask.distance(*_sides(query, key)))

    learning = torch.is_grad_enabled()
    return make() if mask.where is None else mask.once(("bias", bias, learning, *_sides(query, key)), make)


def _table(mask: Mask, bias: Bias, distance: Tensor) -> Float[Tensor, "heads distance"]:
    """Return the bias by distance, as kernels take it, computed once for all layers."""
    name = ("table", bias, torch.is_grad_enabled(), len(distance))
    return mask.once(name, lambda: bias(distance[None])[:, 0].float().contiguous())


def _past_bias(query: Tensor, where: Stepping, *, mask: Mask, way: AttentionSpec) -> Tensor | None:
    """Return the bias of scores in a decoding step, as its kernel takes it."""
    precomputed = way.slopes if way.slopes is not None else way.back
    if way.bias is None or precomputed is not None:
        return None if way.bias is None else precomputed
    reach = where.room + where.slots.shape[2]
    return _table(mask, way.bias, -torch.arange(reach, device=query.device))


def _additive_mask(
    query: Tensor, key: Tensor, visible: Tensor | None, *, mask: Mask, bias: Bias | None
) -> Tensor | None:
    """Return what the kernel adds to scores, as floats: boolean masks give garbage to blind queries on CUDA."""
    low = torch.finfo(query.dtype).min
    if bias is not None:
        added = _bias(query, key, mask=mask, bias=bias).to(query.dtype)
        return added if visible is None else added.masked_fill(~visible, low)
    if visible is None:
        return None
    name = ("added", *_sides(query, key), query.dtype)
    return mask.once(name, lambda: torch.zeros_like(visible, dtype=query.dtype).masked_fill(~visible, low))


def _unpack(row: Tensor, cells: Tensor, grid: Grid) -> Tensor:
    """(heads, token, depth) -> (line, heads, longest, depth); padding repeats some token, which the mask hides."""
    return row.index_select(1, cells).unflatten(1, (-1, grid.longest)).transpose(0, 1)


def _grid_mask(mask: Mask, queries: Grid, keys: Grid, lines: int) -> Mask:
    """Return the mask of a row for the grid it is unpacked into."""
    query = Grid(queries.lengths[:lines], queries.longest, queries.count)
    return Mask(causal=mask.causal, window=mask.window, where=Padded(Grid(keys.lengths[:lines], keys.longest), query))


def _kernel_fits(query: Tensor, key: Tensor, value: Tensor, *, where: Packed, mask: Mask, way: AttentionSpec) -> bool:
    """True if a kernel for rows applies: half precision on CUDA, no dropout, weights not watched."""
    by_place = mask.causal or mask.window is not None
    return (
        query.is_cuda
        and query.dtype in (torch.float16, torch.bfloat16)
        and not way.explicit
        and not way.dropout
        and query.shape[-1] == key.shape[-1] == value.shape[-1]
        and query.shape[-1] % 8 == 0
        and not (
            (by_place or way.bias is not None) and where.query is not where.key
        )  # the kernel aligns places at the end, masks at the start
        and where.query.offsets.shape == where.key.offsets.shape  # each query segment has a key segment
    )


def _is_even_batch(where: Packed, *, mask: Mask, way: AttentionSpec) -> bool:
    """True if the row is a batch without padding and at most the future is hidden, so that no mask is needed."""
    plain = not way.explicit and way.bias is None and mask.window is None
    query, key = where.query, where.key
    if not (plain and query.even and key.even):
        return False
    return query is key or (not mask.causal and len(query.segment) * key.longest == len(key.segment) * query.longest)


def _batch(query: Tensor, key: Tensor, value: Tensor, *, where: Packed, mask: Mask, way: AttentionSpec) -> Tensor:
    """Attend with the fused kernel for batches, over a row whose sequences all have one length."""
    sides = (query, where.query), (key, where.key), (value, where.key)
    query, key, value = (tensor.unflatten(1, (-1, row.longest)).transpose(0, 1) for tensor, row in sides)
    return _attend_unmasked(query, key, value, causal=mask.causal, way=way).transpose(0, 1).flatten(1, 2)


def _attend_unmasked(query: Tensor, key: Tensor, value: Tensor, *, causal: bool, way: AttentionSpec) -> Tensor:
    """Attend with the fused kernel for batches, where at most the future is hidden."""
    grouped, scale = query.shape[-3] != key.shape[-3], _scale(query, way)
    with _choose_kernels(query, key, BATCH_BACKENDS):
        options: Any = {"is_causal": causal, "dropout_p": way.dropout, "scale": scale, "enable_gqa": grouped}
        return F.scaled_dot_product_attention(query, key, value, **options)


def _choose_kernels(query: Tensor, key: Tensor, usual: list[SDPBackend] | None = None) -> AbstractContextManager[Any]:
    """Limit torch to the usual kernels in this order (None: its own) where their gradients are sound."""
    if not query.is_cuda:
        return nullcontext()
    learning = torch.is_grad_enabled() and (query.requires_grad or key.requires_grad)
    order = usual if not learning or cudnn_gradients_are_sound(query.shape[-2], key.shape[-2]) else SAFE_BACKENDS
    return nullcontext() if order is None else sdpa_kernel(order, set_priority=True)


def cudnn_gradients_are_sound(queries: int, keys: int) -> bool:
    """True if cuDNN's gradients are reliable for this number of queries and keys.

    Where scores are all far below zero, those of torch 2.11 to 2.13 are not finite for half a tile (it takes the keys
    that are missing from the other half for ones with a score of zero: pytorch issue 196678), nor for a single query.
    """
    return queries > 1 and queries % CUDNN_TILE != CUDNN_TILE // 2 and keys % CUDNN_TILE != CUDNN_TILE // 2


def _prefers_tiles(query: Tensor, *, where: Packed, mask: Mask, way: AttentionSpec) -> bool:
    """True if Regard's kernel is the fastest: for short sequences, which share its tiles, and for any bias."""
    short = max(where.query.longest, where.key.longest) <= SHORT or way.bias is not None
    return short and mask.window is None and query.shape[-1] in (16, 32, 64, 128) and kernels_run(query)


def _rows(query: Tensor, key: Tensor, value: Tensor, *, where: Packed, mask: Mask, way: AttentionSpec) -> Tensor:
    """Attend with Regard's kernel for rows."""
    from regard.attention.kernels.rows import attend_rows

    rows, reach = (where.query, where.key), max(where.query.longest, 1)
    bias = None if way.bias is None else way.slopes
    if way.bias is not None and bias is None:
        bias = _table(mask, way.bias, torch.arange(1 - reach, reach, device=query.device))
    return attend_rows(query, key, value, rows, causal=mask.causal, scale=_scale(query, way), bias=bias)


def _variable_length(
    query: Tensor, key: Tensor, value: Tensor, *, where: Packed, mask: Mask, way: AttentionSpec
) -> Tensor:
    """Attend with the fused kernel for packed rows."""
    from torch.nn.attention.varlen import varlen_attn

    reach = -1 if mask.window is None else mask.window
    extra: dict[str, Any] = {"enable_gqa": True} if query.shape[0] != key.shape[0] and _kernel_names_groups() else {}
    mixed: Any = varlen_attn(
        query.transpose(0, 1),
        key.transpose(0, 1),
        value.transpose(0, 1),
        where.query.offsets,
        where.key.offsets,
        where.query.longest,
        where.key.longest,
        window_size=(reach, 0 if mask.causal else reach),
        scale=_scale(query, way),
        **extra,
    )
    return mixed.transpose(0, 1)


def _step_fits(query: Tensor, value: Tensor, *, mask: Mask, way: AttentionSpec) -> bool:
    """True if the kernel for decoding steps applies: only slots and lengths decide which keys are visible."""
    plain = not (mask.causal or way.explicit or way.dropout or mask.window or mask.boolean is not None)
    same = query.shape[-1] == value.shape[-1] and query.shape[-2] <= 31  # one bit per beam
    return plain and same and kernels_run(query) and not query.requires_grad


@cache
def _kernel_names_groups() -> bool:
    """True if the kernel has a flag for grouped keys (from torch 2.12 on; before, it takes them without)."""
    from torch.nn.attention.varlen import varlen_attn

    return "enable_gqa" in inspect.signature(varlen_attn).parameters
