"""How probable a model finds the truth: cross-entropy and perplexity, as sums over the tokens that count."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

IGNORE = -100  # the label of a position that is not scored
ALIGNED = 64  # tokens of a vocabulary by which matrix units take their fastest way


def cross_entropy(
    logits: Float[Tensor, "token vocab"],
    labels: Int[Tensor, "token"],
    *,
    smoothing: float = 0.0,
    weights: Float[Tensor, "vocab"] | None = None,
) -> Float[Tensor, ""]:
    """The sum, over labels that are not ignored, of -log p(label), each times the weight of its label if there are any.

    With smoothing e, a label is the distribution (1 - e) on itself and e spread evenly over the vocabulary
    (Szegedy et al. 2016).
    """
    logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    return F.cross_entropy(logits, labels, weights, ignore_index=IGNORE, label_smoothing=smoothing, reduction="sum")


def linear_cross_entropy(
    features: Float[Tensor, "token width"],
    weight: Float[Tensor, "vocab width"],
    labels: Int[Tensor, "token"],
    *,
    smoothing: float = 0.0,
    bias: Float[Tensor, "vocab"] | None = None,
    chunk: int | None = None,
) -> Float[Tensor, ""]:
    """`cross_entropy` of the logits `features @ weight.T + bias`, held for only `chunk` tokens at a time if given.

    With chunks the gradient is computed on the way, while the logits are there: nothing of their size is kept and
    nothing is computed twice, but there is no second derivative.
    """
    if chunk is None or len(labels) <= chunk:
        return cross_entropy(F.linear(features, weight, bias), labels, smoothing=smoothing)
    if torch.is_grad_enabled():
        return _Chunked.apply(features, weight, bias, labels, smoothing, chunk)
    chunks = zip(features.split(chunk), labels.split(chunk), strict=True)
    losses = [cross_entropy(F.linear(some, weight, bias), own, smoothing=smoothing) for some, own in chunks]
    return torch.stack(losses).sum()


def rdrop(
    features: tuple[Float[Tensor, "token width"], Float[Tensor, "token width"]],
    weight: Float[Tensor, "vocab width"],
    labels: Int[Tensor, "token"],
    *,
    bias: Float[Tensor, "vocab"] | None = None,
    smoothing: float = 0.0,
    strength: float,
    chunk: int,
) -> Float[Tensor, ""]:
    """The mean of `linear_cross_entropy` over two passes with different dropout, and how much their predictions differ.

    The difference is the mean of both Kullback-Leibler divergences, times half the strength (R-Drop, Wu et al. 2021).
    """
    if len(labels) <= chunk:
        return _agreeing(*features, labels, (weight, bias), smoothing, strength)
    parts = zip(*(each.split(chunk) for each in features), labels.split(chunk), strict=True)
    losses = [
        checkpoint(_agreeing, *part, (weight, bias), smoothing, strength, use_reentrant=False, preserve_rng_state=False)
        for part in parts
    ]
    return torch.stack(losses).sum()


def _agreeing(
    first: Tensor,
    second: Tensor,
    labels: Tensor,
    output: tuple[Tensor, Tensor | None],
    smoothing: float,
    strength: float,
) -> Tensor:
    one, other = (F.linear(features, *output) for features in (first, second))
    surprised = cross_entropy(one, labels, smoothing=smoothing) + cross_entropy(other, labels, smoothing=smoothing)
    one, other = (logits.float().log_softmax(-1) for logits in (one, other))
    apart = ((one.exp() - other.exp()) * (one - other)).sum(-1)  # both divergences together
    return surprised / 2 + strength / 4 * apart.where(labels != IGNORE, 0.0).sum()


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


class _Chunked(torch.autograd.Function):
    """The loss and its gradient, a few tokens at a time."""

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float, chunk: int
    ) -> Tensor:
        """Keep the gradient instead of the logits."""
        kind = features.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else features.dtype
        inputs, matrix, added = features.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)
        if not smoothing:
            matrix, added = _filled(matrix, added)
        wide = torch.promote_types(dtype, torch.float32)
        total = features.new_zeros((), dtype=wide)
        of_weight = torch.zeros_like(matrix, dtype=wide)
        of_bias = None if bias is None else torch.zeros_like(matrix[:, 0], dtype=wide)
        of_features = []
        for some, own in zip(inputs.split(chunk), labels.split(chunk), strict=True):
            loss, slope = surprise(F.linear(some, matrix, added), own, smoothing)
            total = total + loss
            of_features.append(slope @ matrix)
            of_weight = of_weight + slope.T @ some
            of_bias = None if of_bias is None else of_bias + slope.sum(0)
        vocab = len(weight)
        kept = [torch.cat(of_features).to(features.dtype), of_weight[:vocab].to(weight.dtype)]
        ctx.save_for_backward(*kept, *([] if bias is None or of_bias is None else [of_bias[:vocab].to(bias.dtype)]))
        return total

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        """What was computed on the way, as much of it as is asked for."""
        found = [each * outer[0].to(each.dtype) for each in ctx.saved_tensors]
        return (*found, *[None] * (6 - len(found)))


def _filled(matrix: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """The same with tokens that never come, up to a number of them by which matrix units are fast."""
    missing = -len(matrix) % ALIGNED
    if not missing:
        return matrix, bias
    none = matrix.new_zeros(len(matrix)) if bias is None else bias
    return F.pad(matrix, (0, 0, 0, missing)), F.pad(none, (0, missing), value=float("-inf"))


def surprise(
    logits: Float[Tensor, "token vocab"], labels: Int[Tensor, "token"], smoothing: float
) -> tuple[Float[Tensor, ""], Float[Tensor, "token vocab"]]:
    """`cross_entropy` and its gradient by the logits, which is softmax minus truth, in the type of the logits."""
    wide = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    scored = labels != IGNORE
    truth = labels.where(scored, 0)[:, None]
    whole = wide.logsumexp(-1, keepdim=True)
    right = wide.gather(1, truth)
    if smoothing:  # else a token that never comes would make it infinite
        right = (1 - smoothing) * right + smoothing * wide.mean(-1, keepdim=True)
    loss = (whole - right)[:, 0].where(scored, 0.0).sum()
    vocabulary = torch.arange(wide.shape[1], device=wide.device)
    target = torch.where(vocabulary == truth, 1 - smoothing, 0.0) + smoothing / wide.shape[1]
    slope = ((wide - whole).exp() - target).where(scored[:, None], 0.0)
    return loss, slope.to(logits.dtype)
