"""The span-boundary objective: each token of a masked span is predicted from the tokens beside the span (SpanBERT).

`h_0 = [x_{s-1} ; x_{e+1} ; p_{i-s+1}]`, `h_1 = norm(gelu(W_1 h_0))`, `y_i = norm(gelu(W_2 h_1))` for token i of the
span from s to e, where p is a learnt vector of the token's position in the span (Joshi et al. 2020, section 3.2).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

LONGEST_SPAN = 64
"""Positions that have a vector of their own; later ones share the last."""


class SpanBoundaries(NamedTuple):
    """The token before and the one after the span of each masked token, and its position in the span, from 0."""

    left: Int[Tensor, "hidden"]
    right: Int[Tensor, "hidden"]
    position: Int[Tensor, "hidden"]


def find_boundaries(places: Int[Tensor, "hidden"], *, masked: Tensor, tokens: int) -> SpanBoundaries:
    """Find the boundaries of the runs of masked places, which are in order, in a row of so many tokens.

    Places that are not `masked` fill the end of a row of fixed shape; what is found for them means nothing.
    """
    gap = F.pad(places[1:] - places[:-1] != 1, (1, 1), value=True)
    first = torch.where(gap[:-1] & masked, places, 0).cummax(0).values
    follows = F.pad(masked[1:], (0, 1), value=False)
    last = torch.where((gap[1:] | ~follows) & masked, places, tokens - 1).flip(0).cummin(0).values.flip(0)
    position = (places - first).clamp(0, LONGEST_SPAN - 1)
    return SpanBoundaries((first - 1).clamp(min=0), (last + 1).clamp(max=tokens - 1), position)


class SpanBoundaryHead(nn.Module):
    """Features of masked tokens, made of the features of the tokens beside their spans."""

    def __init__(self, width: int, *, eps: float):
        super().__init__()
        self.positions = nn.Embedding(LONGEST_SPAN, width)
        self.inner, self.outer = nn.Linear(3 * width, width), nn.Linear(width, width)
        self.inner_norm, self.outer_norm = nn.LayerNorm(width, eps=eps), nn.LayerNorm(width, eps=eps)

    def forward(
        self, features: Float[Tensor, "token width"], boundaries: SpanBoundaries
    ) -> Float[Tensor, "hidden width"]:
        """Features of the masked tokens, which are compared with the vectors of all tokens."""
        left, right = (features.index_select(0, places) for places in (boundaries.left, boundaries.right))
        x = torch.cat([left, right, self.positions(boundaries.position).to(left.dtype)], -1)
        x = self.inner_norm(F.gelu(self.inner(x)))
        return self.outer_norm(F.gelu(self.outer(x)))
