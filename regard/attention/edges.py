"""Attention along the edges of a graph, and keys that several heads share."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.attention.masks import Edges, Mask


def attend_edges(query: Tensor, key: Tensor, value: Tensor, *, mask: Mask, way: Any) -> Tensor:
    """Attention along the edges of a graph: (heads, node, depth) in and out, nothing of size node x node."""
    where = mask.where
    assert isinstance(where, Edges)
    assert mask.boolean is None, "edges are all that a graph allows"
    assert (mask.causal, mask.window) == (False, None), "nodes of a graph stand nowhere"
    assert way.bias is None, "a graph has no distances to add a bias by"
    key, value = shared(key, query.shape[-3]), shared(value, query.shape[-3])
    ends = query.index_select(-2, where.query).transpose(0, 1)[:, :, None]  # (edge, heads, 1, depth)
    starts = key.index_select(-2, where.key).transpose(0, 1)[:, :, None]
    scores = way.score(ends, starts)[..., 0, 0].T  # (heads, edge)
    index = where.query.expand_as(scores)
    blank = scores.new_full((len(scores), where.nodes), torch.finfo(scores.dtype).min)
    highest = blank.scatter_reduce(1, index, scores.detach(), "amax")
    shares = (scores - highest.gather(1, index)).exp()
    total = scores.new_zeros(len(scores), where.nodes).scatter_add(1, index, shares)
    weights = shares / total.gather(1, index)
    if way.tap is not None:
        weights = way.tap(weights, mask)
    if way.dropout:
        weights = F.dropout(weights, way.dropout)
    sent = weights[..., None] * value.index_select(-2, where.key)
    nothing = sent.new_zeros(len(sent), where.nodes, sent.shape[-1])
    return nothing.index_add(1, where.query, sent)


def shared(vectors: Tensor, heads: int) -> Tensor:
    """Keys or values of a group, repeated for each head that shares it."""
    repeats = heads // vectors.shape[-3]
    return vectors.repeat_interleave(repeats, dim=-3) if repeats > 1 else vectors
