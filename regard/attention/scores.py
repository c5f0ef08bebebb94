"""Attention scores: how well a query matches a key, one number per pair.

Queries are (..., query, depth), keys (..., key, depth), scores (..., query, key). Scores with parameters keep one set
per head, which is the third axis from the end.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

Score = Callable[[Tensor, Tensor], Tensor]


def dot(query: Float[Tensor, "*q query depth"], key: Float[Tensor, "*k key depth"]) -> Float[Tensor, "*s query key"]:
    """`q . k` (Luong et al. 2015)."""
    return query @ key.mT


def scaled_dot(
    query: Float[Tensor, "*q query depth"], key: Float[Tensor, "*k key depth"]
) -> Float[Tensor, "*s query key"]:
    """`q . k / sqrt(depth)`, so that the variance of scores does not grow with the depth (Vaswani et al. 2017)."""
    return (query / math.sqrt(query.shape[-1])) @ key.mT


def scale_of(score: Score, depth: int) -> float | None:
    """Return the factor by which a fused kernel multiplies dot products to get this score; None if there is none."""
    return 1.0 if score is dot else depth**-0.5 if score is scaled_dot else None


def cosine(query: Float[Tensor, "*q query depth"], key: Float[Tensor, "*k key depth"]) -> Float[Tensor, "*s query key"]:
    """`q . k / (|q| |k|)` (Graves et al. 2014)."""
    return F.normalize(query, dim=-1) @ F.normalize(key, dim=-1).mT


class Bilinear(nn.Module):
    """`q W k`, the "general" score of Luong et al. 2015; query and key may have different depths."""

    def __init__(self, query: int, key: int, *, heads: int = 1):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(heads, query, key) / math.sqrt(query))

    def forward(
        self, query: Float[Tensor, "*q heads query depth"], key: Float[Tensor, "*k heads key other"]
    ) -> Float[Tensor, "*s heads query key"]:
        """Return one score per pair."""
        return _by_head(query, self.weight) @ key.mT


class Additive(nn.Module):
    """`v . tanh(W q + U k)` (Bahdanau et al. 2015); W and U side by side make it the "concat" of Luong et al. 2015."""

    def __init__(self, query: int, key: int, hidden: int, *, heads: int = 1):
        super().__init__()
        self.query = nn.Parameter(torch.randn(heads, query, hidden) / math.sqrt(query))
        self.key = nn.Parameter(torch.randn(heads, key, hidden) / math.sqrt(key))
        self.vector = nn.Parameter(torch.randn(heads, hidden) / math.sqrt(hidden))

    def forward(
        self, query: Float[Tensor, "*q heads query depth"], key: Float[Tensor, "*k heads key other"]
    ) -> Float[Tensor, "*s heads query key"]:
        """Return one score per pair."""
        return self.compare(query, self.project(key))

    def project(self, key: Float[Tensor, "*k heads key other"]) -> Float[Tensor, "*p heads key hidden"]:
        """Return `U k`, which is computed once for keys that are attended to many times."""
        return _by_head(key, self.key)

    def compare(
        self, query: Float[Tensor, "*q heads query depth"], projected: Float[Tensor, "*k heads key hidden"]
    ) -> Float[Tensor, "*s heads query key"]:
        """Return the scores of projected keys."""
        hidden = torch.tanh(_by_head(query, self.query)[..., :, None, :] + projected[..., None, :, :])
        return torch.einsum("...hqkd,hd->...hqk", hidden, self.vector)


class Graph(nn.Module):
    """`LeakyReLU(a . [q ; k])` over already projected nodes (Velickovic et al. 2018)."""

    def __init__(self, depth: int, *, heads: int = 1, slope: float = 0.2):
        super().__init__()
        self.slope = slope
        self.query = nn.Parameter(torch.randn(heads, depth, 1) / math.sqrt(2 * depth))
        self.key = nn.Parameter(torch.randn(heads, depth, 1) / math.sqrt(2 * depth))

    def forward(
        self, query: Float[Tensor, "*q heads query depth"], key: Float[Tensor, "*k heads key depth"]
    ) -> Float[Tensor, "*s heads query key"]:
        """Return one score per pair."""
        return self.compare(query, self.project(key))

    def project(self, key: Float[Tensor, "*k heads key depth"]) -> Float[Tensor, "*p heads key 1"]:
        """Return the key's part of `a . [q ; k]`, computed once for a node that is attended to many times."""
        return _by_head(key, self.key)

    def compare(
        self, query: Float[Tensor, "*q heads query depth"], projected: Float[Tensor, "*k heads key 1"]
    ) -> Float[Tensor, "*s heads query key"]:
        """Return the scores of projected keys."""
        return self.meet(_by_head(query, self.query) + projected.mT)

    def halves(
        self, query: Float[Tensor, "heads query depth"], key: Float[Tensor, "heads key depth"]
    ) -> tuple[Float[Tensor, "heads query"], Float[Tensor, "heads key"]]:
        """Return one number for each query node and each key node; the score is `meet` of their sum."""
        return _by_head(query, self.query)[..., 0], self.project(key)[..., 0]

    def meet(self, total: Float[Tensor, "*pairs"]) -> Float[Tensor, "*pairs"]:
        """Return the scores of pairs from the sums of their halves."""
        return F.leaky_relu(total, self.slope)


def _by_head(
    x: Float[Tensor, "*batch heads token depth"], weight: Float[Tensor, "heads depth out"]
) -> Float[Tensor, "*batch heads token out"]:
    """Multiply each head by its own weight; a broadcast `x @ weight` would make a weight gradient for each example."""
    return torch.einsum("...htd,hde->...hte", x, weight)
