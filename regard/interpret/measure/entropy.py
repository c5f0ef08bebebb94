"""Entropy and diagonality of attention weights."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

MARGIN = 1e-6

CONTROL = ", control"
"""Ending of the name of a table that holds the control of a measure, head by head."""


def entropy(weights: Float[Tensor, "heads query key"]) -> Float[Tensor, "heads query"]:
    """Return the entropy of each query's weights in bits: 0 for one key, log2 of the number of keys if uniform."""
    return -torch.special.xlogy(weights, weights).sum(-1) / torch.log(torch.tensor(2.0))


def diagonality(weights: Float[Tensor, "heads query key"]) -> Float[Tensor, "heads"]:
    """Return 1 if all the weight is on the diagonal, 0 if it is as far from it as uniform attention.

    The distance of a weight is that between the relative positions of its query and its key.
    """
    _, queries, keys = weights.shape
    heights = (torch.arange(queries) + 0.5) / queries, (torch.arange(keys) + 0.5) / keys
    distance = (heights[0][:, None] - heights[1]).abs()
    shares = weights / weights.sum(-1, keepdim=True).clamp(min=MARGIN)
    straight = distance.min(-1).values.mean()
    even = distance.mean() - straight
    return 1.0 - ((shares * distance).sum(-1).mean(-1) - straight) / even.clamp(min=MARGIN)
