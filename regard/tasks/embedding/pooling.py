"""Pooling of the hidden states of a text's tokens to one vector: mean, maximum, first or last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from regard.attention.masks import Row
from regard.config.ranges import Length

Pool = Literal["mean", "class", "max", "last"]


@dataclass(frozen=True, kw_only=True)
class EmbeddingConfig:
    """Settings of pooling a text to one vector."""

    pool: Pool = "mean"
    """Which vectors of its tokens count: the mean of all, the largest value of each feature, the class token's
    (the first), or the last one's."""
    normalise: bool = True
    """Whether every vector is scaled to length 1."""
    max_length: Length | None = None
    """Most tokens of a text, special ones included; of a longer one the beginning is read. Null: as many as the model
    holds."""
    lowercase: bool = False
    """Whether capitals count as small letters."""


def pool_tokens(features: Float[Tensor, "token width"], row: Row, pool: Pool) -> Float[Tensor, "sequence width"]:
    """Return one vector per sequence of a row; a row of fixed shape has vectors for its unused sequences too."""
    sequences = len(row.lengths) if row.most is None else row.most
    starts, ends = row.offsets[:sequences].long(), row.offsets[1 : sequences + 1].long()
    if pool in ("class", "last"):
        places = starts if pool == "class" else ends - 1
        return features.index_select(0, places.clamp(0, len(features) - 1))
    features = features.float()
    if pool == "max":
        lowest = features.new_full((len(row.lengths), features.shape[1]), torch.finfo(features.dtype).min)
        owners = row.segment[:, None].expand_as(features)
        return lowest.scatter_reduce(0, owners, features, "amax")[:sequences]
    sums = features.new_zeros(len(row.lengths), features.shape[1]).index_add(0, row.segment, features)
    return sums[:sequences] / (ends - starts).clamp(min=1)[:, None]


def scale_vectors(vectors: Float[Tensor, "sequence width"], normalise: bool) -> Float[Tensor, "sequence width"]:
    """Return the vectors, scaled to length 1 if `normalise`."""
    return F.normalize(vectors, dim=-1) if normalise else vectors
