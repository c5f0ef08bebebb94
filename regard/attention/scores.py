"""How well a query fits a key: every score takes (query, key) to one number per pair.

Queries are (..., query, depth), keys (..., key, depth); the answer is (..., query, key). Scores that learn keep one set
of weights per head, found on the third axis from the end.
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
    """`q . k / sqrt(depth)`, so that the spread of scores does not grow with the depth (Vaswani et al. 2017)."""
    return (query / math.sqrt(query.shape[-1])) @ key.mT


def scale_of(score: Score, depth: int) -> float | None:
    """What a fused kernel multiplies dot products by to give this score; None if it is not made of them alone."""
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
        """One number per pair."""
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
        """One number per pair."""
        return self.compare(query, self.project(key))

    def project(self, key: Float[Tensor, "*k heads key other"]) -> Float[Tensor, "*p heads key hidden"]:
        """`U k`, which keys that are looked at many times need only once."""
        return _by_head(key, self.key)

    def compare(
        self, query: Float[Tensor, "*q heads query depth"], projected: Float[Tensor, "*k heads key hidden"]
    ) -> Float[Tensor, "*s heads query key"]:
        """The score of keys that are projected already."""
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
        """One number per pair."""
        return self.compare(query, self.project(key))

    def project(self, key: Float[Tensor, "*k heads key depth"]) -> Float[Tensor, "*p heads key 1"]:
        """The key's part of `a . [q ; k]`, which a node that is looked at many times needs only once."""
        return _by_head(key, self.key)

    def compare(
        self, query: Float[Tensor, "*q heads query depth"], projected: Float[Tensor, "*k heads key 1"]
    ) -> Float[Tensor, "*s heads query key"]:
        """The score of keys that are projected already."""
        return self.meet(_by_head(query, self.query) + projected.mT)

    def halves(
        self, query: Float[Tensor, "heads query depth"], key: Float[Tensor, "heads key depth"]
    ) -> tuple[Float[Tensor, "heads query"], Float[Tensor, "heads key"]]:
        """One number for each node that looks and for each that is looked at; the score is `meet` of their sum."""
        return _by_head(query, self.query)[..., 0], self.project(key)[..., 0]

    def meet(self, total: Float[Tensor, "*pairs"]) -> Float[Tensor, "*pairs"]:
        """The score of pairs whose halves are added up."""
        return F.leaky_relu(total, self.slope)


def _by_head(
    x: Float[Tensor, "*batch heads token depth"], weight: Float[Tensor, "heads depth out"]
) -> Float[Tensor, "*batch heads token out"]:
    """Every head's own product. Broadcast, `x @ weight` would make a gradient of the weights for each example."""
    return torch.einsum("...htd,hde->...hte", x, weight)
