"""Multi-head attention: project, split into heads, attend, merge; self-attention, cross-attention and grouped keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.attend import AttentionSpec, attend
from regard.attention.cache import KeyValues, LayerCache
from regard.attention.edge_list import Edges
from regard.attention.masks import EVERYONE, Mask, Packed
from regard.attention.positions import Positions
from regard.attention.scores import Score, scaled_dot
from regard.attention.tap import Tap

Merge = Literal["concat", "add"]


@dataclass(frozen=True)
class Heads:
    """How the width is divided: query heads, groups of keys they share, depth of keys and of values; how they merge."""

    count: int
    groups: int | None = None
    depth: int | None = None
    features: int | None = None
    merge: Merge = "concat"
    """Whether the output projection reads the heads side by side (concat) or their sum (add)."""


class SummedHeads(nn.Linear):
    """An output projection of the sum of the heads: `(head_1 + ... + head_h) W`, the same W for every head."""

    def __init__(self, heads: int, features: int, width: int, *, bias: bool = True):
        super().__init__(features, width, bias=bias)
        self.heads = heads

    def forward(self, input: Float[Tensor, "*batch all_features"]) -> Float[Tensor, "*batch width"]:
        """Split the features into heads, sum the heads, and project the sum."""
        return F.linear(input.unflatten(-1, (self.heads, -1)).sum(-2), self.weight, self.bias)


class MultiHead(nn.Module):
    """`concat(head_1 .. head_h) W`, each head attending with its own projections (Vaswani et al. 2017).

    With `Heads.merge` "add" it is `(head_1 + .. + head_h) W`.

    Serves packed rows (token, width), padded batches (batch, query, width) and decoding steps (batch, beam, width).
    """

    def __init__(
        self,
        width: int,
        heads: int | Heads,
        *,
        memory_width: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        score: Score = scaled_dot,
    ):
        super().__init__()
        shape = Heads(heads) if isinstance(heads, int) else heads
        if shape.depth is None and width % shape.count:
            raise ValueError(f"{shape.count} heads do not divide a width of {width}: choose heads that do")
        self.heads = shape.count
        self.groups = shape.groups or shape.count
        if self.heads % self.groups:
            raise ValueError(f"{self.groups} groups of keys do not divide {self.heads} heads: choose a divisor")
        depth = shape.depth or width // shape.count
        features = shape.features or depth
        memory_width = memory_width or width
        self.query = nn.Linear(width, self.heads * depth, bias=bias)
        self.key = nn.Linear(memory_width, self.groups * depth, bias=bias)
        self.value = nn.Linear(memory_width, self.groups * features, bias=bias)
        self.output = (
            nn.Linear(self.heads * features, width, bias=bias)
            if shape.merge == "concat"
            else SummedHeads(self.heads, features, width, bias=bias)
        )
        self.score = score
        self.dropout = dropout
        self.weights = Tap()

    def forward(
        self,
        x: Float[Tensor, "*batch token width"],
        memory: Float[Tensor, "*memory key other"] | KeyValues | None = None,
        *,
        mask: Mask = EVERYONE,
        positions: Positions | None = None,
        cache: LayerCache | None = None,
        first: int | None = None,
    ) -> Float[Tensor, "*batch query width"]:
        """Attend from x, or from its first tokens, to the memory or to x itself; positions apply only to the latter."""
        if x.dim() == 2 and not isinstance(mask.where, Packed | Edges):
            raise ValueError("a flat row of tokens needs a packed mask that says where its sequences end")
        assert memory is None or positions is None, "keys of a memory do not stand where the queries do"
        if first is None:
            query, key, value = self._project(x, memory)
        else:
            assert memory is None, "the first tokens look at all of their own"
            assert cache is None, "the first tokens look at all of their own"
            assert positions is None or not positions.biased, "a bias counts from every token"
            query, (key, value) = self._split(self.query(x[..., :first, :]), self.heads), self.remember(x)
        if positions is not None:
            places, _ = mask.places(key.shape[-2], key.shape[-2], x.device)
            query, key = positions.turn(query, places[..., : query.shape[-2]]), positions.turn(key, places)
        if cache is not None:
            key, value = cache.extend(key, value, mask)
        way = AttentionSpec(
            score=self.score,
            bias=positions.bias if positions is not None and positions.biased else None,
            dropout=self.dropout if self.training else 0.0,
            tap=self.weights,
            slopes=getattr(positions, "slopes", None),
        )
        mixed = attend(query, key, value, mask=mask, way=way)
        return self.output(mixed.transpose(-3, -2).flatten(-2))

    def _project(self, x: Tensor, memory: Tensor | KeyValues | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return the queries of x, and the keys and values of the memory."""
        if isinstance(memory, KeyValues):
            return self._split(self.query(x), self.heads), *memory
        if memory is None and self.training:
            query, key, value = _project_together(x, self.query, self.key, self.value)
            return self._split(query, self.heads), self._split(key, self.groups), self._split(value, self.groups)
        return self._split(self.query(x), self.heads), *self.remember(x if memory is None else memory)

    def remember(self, memory: Float[Tensor, "*memory key other"]) -> KeyValues:
        """Return keys and values of the memory, to be attended to many times."""
        key, value = (
            _project_together(memory, self.key, self.value) if self.training else (self.key(memory), self.value(memory))
        )
        return KeyValues(self._split(key, self.groups), self._split(value, self.groups))

    def output_by_head(self) -> Float[Tensor, "heads features width"]:
        """Return the part of the output projection that each head is multiplied by."""
        weight = self.output.weight.T
        if isinstance(self.output, SummedHeads):
            return weight.expand(self.heads, -1, -1)
        return weight.unflatten(0, (self.heads, -1))

    @staticmethod
    def _split(vectors: Tensor, heads: int) -> Tensor:
        """Split vectors into heads: (*batch, token, heads * depth) -> (*batch, heads, token, depth)."""
        return vectors.unflatten(-1, (heads, -1)).transpose(-3, -2)


def _project_together(x: Tensor, *projections: Any) -> tuple[Tensor, ...]:
    """Apply several projections to the same vectors as one product: in training, joining the weights is cheaper.

    A projection that is more than its weight and bias, such as one inside an adapter, is applied by itself.
    """
    if any(type(projection).forward is not nn.Linear.forward for projection in projections):
        return tuple(projection(x) for projection in projections)
    weight = torch.cat([projection.weight for projection in projections])
    bias = None if projections[0].bias is None else torch.cat([projection.bias for projection in projections])
    return F.linear(x, weight, bias).split([projection.out_features for projection in projections], dim=-1)
