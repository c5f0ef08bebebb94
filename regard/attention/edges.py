"""Attention along the edges of a graph, and keys that several heads share.

Edges are sorted by query, so that a softmax or a sum over the edges of a node reads neighbours in memory: sums have a
fixed order in every run, no step asks the device for a size, and the forward pass repeats no vector for each edge.
Numbers are at least float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from regard.attention.edge_list import Edges
from regard.attention.masks import Mask


def attend_edges(query: Tensor, key: Tensor, value: Tensor, *, mask: Mask, way: Any) -> Tensor:
    """Attend along the edges of a graph: (heads, node, depth) in and out, without a node x node matrix."""
    where, heads = mask.where, query.shape[-3]
    assert isinstance(where, Edges)
    assert mask.boolean is None, "edges are all that a graph allows"
    assert (mask.causal, mask.window) == (False, None), "nodes of a graph stand nowhere"
    assert way.bias is None, "a graph has no distances to add a bias by"
    key, value = repeat_kv(key, heads), repeat_kv(value, heads)
    scores = edge_scores(way.score, query, key, where)
    weights = _Softmax.apply(_to_float32(scores), where)
    if way.tap is not None:
        weights = way.tap(weights, mask)
    if way.dropout:
        weights = F.dropout(weights, way.dropout)
    lanes = mask.once(("lanes", heads), lambda: Lanes.of(where, heads))
    return _Sum.apply(weights, _to_float32(value), lanes).to(value.dtype)


def edge_scores(
    score: Any, query: Float[Tensor, "heads node depth"], key: Float[Tensor, "heads node other"], where: Edges
) -> Float[Tensor, "heads edge"]:
    """Return the score of each edge; where it is a sum of one number per end, only these numbers are gathered."""
    if hasattr(score, "halves"):
        query_part, key_part = score.halves(query, key)
        return score.meet(_Ends.apply(_to_float32(query_part), _to_float32(key_part), where))
    ends = query.index_select(-2, where.query).transpose(0, 1)[:, :, None]  # (edge, heads, 1, depth)
    starts = key.index_select(-2, where.key).transpose(0, 1)[:, :, None]
    return score(ends, starts)[..., 0, 0].T


def repeat_kv(vectors: Tensor, heads: int) -> Tensor:
    """Repeat the keys or values of a group for each head that shares it."""
    repeats = heads // vectors.shape[-3]
    return vectors.repeat_interleave(repeats, dim=-3) if repeats > 1 else vectors


def gather_sum(
    table: Float[Tensor, "row depth"],
    index: Int[Tensor, "pick"],
    offsets: Int[Tensor, "bounds"],
    weights: Float[Tensor, "pick"],
) -> Float[Tensor, "group depth"]:
    """Return for each group the weighted sum of its picks of the table: a sparse matrix product, row by row."""
    return F.embedding_bag(index, table, offsets, mode="sum", per_sample_weights=weights, include_last_offset=True)


@dataclass(frozen=True, eq=False)
class Lanes:
    """The edges of a graph for every head, as indices into (heads * node) rows of vectors."""

    starts: Int[Tensor, "pick"]
    """The row that each edge reads."""
    offsets: Int[Tensor, "bounds"]
    back: Int[Tensor, "pick"]
    """The edges by the rows that they read."""
    back_ends: Int[Tensor, "pick"]
    """The rows that these add to."""
    back_offsets: Int[Tensor, "bounds"]
    where: Edges

    @classmethod
    def of(cls, where: Edges, heads: int) -> Lanes:
        """Build the indices, in 32 bits where they fit."""
        edges = len(where.query)
        short = heads * max(edges, where.nodes) < 2**31
        head = torch.arange(heads, device=where.query.device)[:, None]

        def spread(numbers: Tensor, size: int) -> Tensor:
            indices = (head * size + numbers).flatten()
            return indices.int() if short else indices

        def bounds(offsets: Tensor) -> Tensor:
            return torch.cat([spread(offsets[:-1], edges), offsets.new_full((1,), heads * edges)])

        return cls(
            spread(where.key, where.nodes),
            bounds(where.offsets).to(torch.int32 if short else torch.int64),
            spread(where.back, edges),
            spread(where.query[where.back], where.nodes),
            bounds(where.back_offsets).to(torch.int32 if short else torch.int64),
            where,
        )


class _Ends(torch.autograd.Function):
    """`left[query] + right[key]` of every edge; gradients are summed node by node."""

    @staticmethod
    def forward(ctx: Any, query_part: Tensor, key_part: Tensor, where: Edges) -> Tensor:
        ctx.where = where
        return query_part.index_select(1, where.query) + key_part.index_select(1, where.key)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        where = ctx.where
        by_key = gradient.index_select(1, where.back)
        return _sum_by_node(gradient, where.offsets), _sum_by_node(by_key, where.back_offsets), None


class _Softmax(torch.autograd.Function):
    """Softmax over the edges of each query."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, where: Edges) -> Tensor:
        highest = _reduce_segments(scores, where.offsets, "max")
        shares = (scores - highest.index_select(1, where.query)).exp_()
        weights = shares.div_(_sum_by_node(shares, where.offsets).index_select(1, where.query))
        ctx.where = where
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (weights,), where = ctx.saved_tensors, ctx.where
        product = weights * gradient
        return product - weights * _sum_by_node(product, where.offsets).index_select(1, where.query), None


class _Sum(torch.autograd.Function):
    """For each node and head the weighted sum of the values at the other ends of its edges."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, value: Tensor, lanes: Lanes) -> Tensor:
        ctx.lanes = lanes
        ctx.save_for_backward(weights, value)
        return gather_sum(value.flatten(0, 1), lanes.starts, lanes.offsets, weights.flatten()).view_as(value)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (weights, value), lanes = ctx.saved_tensors, ctx.lanes
        value_gradient, weight_gradient = None, None
        if ctx.needs_input_grad[1]:
            along = weights.flatten().index_select(0, lanes.back)
            value_gradient = gather_sum(gradient.flatten(0, 1), lanes.back_ends, lanes.back_offsets, along).view_as(
                value
            )
        if ctx.needs_input_grad[0]:
            ends = _by_node(gradient).index_select(0, lanes.where.query)
            starts = _by_node(value).index_select(0, lanes.where.key)
            weight_gradient = ends.mul_(starts).unflatten(1, (len(value), -1)).sum(-1).T
        return weight_gradient, value_gradient, None


def _by_node(vectors: Float[Tensor, "heads node depth"]) -> Float[Tensor, "node features"]:
    """Put the heads of a node side by side: one long row is gathered faster than several short ones."""
    return vectors.transpose(0, 1).flatten(1)


def _sum_by_node(numbers: Float[Tensor, "heads edge"], offsets: Int[Tensor, "bounds"]) -> Float[Tensor, "heads node"]:
    """Return the sum over each node's edges."""
    return _reduce_segments(numbers, offsets, "sum")


def _reduce_segments(numbers: Tensor, offsets: Tensor, how: str) -> Tensor:
    bounds = offsets.expand(len(numbers), -1).contiguous()
    return torch.segment_reduce(numbers.contiguous(), how, offsets=bounds, axis=1, unsafe=True)


def _to_float32(numbers: Tensor) -> Tensor:
    """Convert half precision to float32."""
    return numbers.float() if numbers.dtype in (torch.bfloat16, torch.float16) else numbers
