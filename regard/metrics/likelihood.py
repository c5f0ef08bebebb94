"""How probable a model finds the truth: cross-entropy and perplexity, as sums over the tokens that count."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

IGNORE = -100  # the label of a position that is not scored


def cross_entropy(
    logits: Float[Tensor, "token vocab"], labels: Int[Tensor, "token"], *, smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """The sum, over labels that are not ignored, of -log p(label).

    With smoothing e, a label is the distribution (1 - e) on itself and e spread evenly over the vocabulary
    (Szegedy et al. 2016).
    """
    logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    return F.cross_entropy(logits, labels, ignore_index=IGNORE, label_smoothing=smoothing, reduction="sum")


def label_smoothed(
    features: Float[Tensor, "token width"],
    weight: Float[Tensor, "vocab width"],
    labels: Int[Tensor, "token"],
    *,
    smoothing: float = 0.0,
    bias: Float[Tensor, "vocab"] | None = None,
    chunk: int | None = None,
) -> Float[Tensor, ""]:
    """`cross_entropy` of the logits `features @ weight.T + bias`, held for only `chunk` tokens at a time if given.

    Chunks trade time for memory: the backward pass computes their logits once more.
    """
    if chunk is None or len(labels) <= chunk:
        return _projected(features, weight, bias, labels, smoothing)
    total = features.new_zeros((), dtype=torch.promote_types(features.dtype, torch.float32))
    for some, own in zip(features.split(chunk), labels.split(chunk), strict=True):
        inputs = some, weight, bias, own, smoothing
        total = total + checkpoint(_projected, *inputs, use_reentrant=False, preserve_rng_state=False)
    return total


def count(labels: Int[Tensor, "..."]) -> Int[Tensor, ""]:
    """How many labels are scored."""
    return (labels != IGNORE).sum()


def perplexity(total: float, tokens: int) -> float:
    """exp(total / tokens), from the summed cross-entropy of so many tokens."""
    if tokens < 1:
        raise ValueError(f"perplexity of {tokens} tokens: at least one must be scored")
    try:
        return math.exp(total / tokens)
    except OverflowError:
        return math.inf


def _projected(features: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float) -> Tensor:
    return cross_entropy(F.linear(features, weight, bias), labels, smoothing=smoothing)
