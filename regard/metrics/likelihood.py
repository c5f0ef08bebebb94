"""Cross-entropy and perplexity, as sums over the tokens that are scored."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

IGNORE = -100  # the label of a position that is not scored
ALIGNED = 64  # vocabulary sizes at whose multiples matrix products are fastest


def cross_entropy(
    logits: Float[Tensor, "token vocab"],
    labels: Int[Tensor, "token"],
    *,
    smoothing: float = 0.0,
    weights: Float[Tensor, "vocab"] | None = None,
) -> Float[Tensor, ""]:
    """Return the sum over labels that are not ignored of -log p(label), times the weights of the labels, if any.

    With smoothing e, a label is the distribution (1 - e) on itself and e spread evenly over the vocabulary (Szegedy et
    al. 2016).
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
    """Return `cross_entropy` of the logits `features @ weight.T + bias`, computed for `chunk` tokens at a time, if set.

    With chunks the gradient is computed in the forward pass, while the logits exist: nothing of their size is stored
    and nothing is computed twice, but there is no second derivative.
    """
    if chunk is None or len(labels) <= chunk:
        return cross_entropy(F.linear(features, weight, bias), labels, smoothing=smoothing)
    if torch.is_grad_enabled():
        return _ChunkedCrossEntropy.apply(features, weight, bias, labels, smoothing, chunk)
    chunks = zip(features.split(chunk), labels.split(chunk), strict=True)
    losses = [
        cross_entropy(F.linear(chunk_features, weight, bias), chunk_labels, smoothing=smoothing)
        for chunk_features, chunk_labels in chunks
    ]
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
    """Return the mean `linear_cross_entropy` of two passes with different dropout, plus a penalty on their difference.

    The penalty is the mean of both Kullback-Leibler divergences, times half the strength (R-Drop, Wu et al. 2021).
    """
    if len(labels) <= chunk:
        return _rdrop_loss(*features, labels, (weight, bias), smoothing, strength)
    parts = zip(*(tensor.split(chunk) for tensor in features), labels.split(chunk), strict=True)
    losses = [
        checkpoint(
            _rdrop_loss, *part, (weight, bias), smoothing, strength, use_reentrant=False, preserve_rng_state=False
        )
        for part in parts
    ]
    return torch.stack(losses).sum()


def _rdrop_loss(
    first: Tensor,
    second: Tensor,
    labels: Tensor,
    output: tuple[Tensor, Tensor | None],
    smoothing: float,
    strength: float,
) -> Tensor:
    p, q = (F.linear(features, *output) for features in (first, second))
    loss = cross_entropy(p, labels, smoothing=smoothing) + cross_entropy(q, labels, smoothing=smoothing)
    p, q = (logits.float().log_softmax(-1) for logits in (p, q))
    divergence = ((p.exp() - q.exp()) * (p - q)).sum(-1)  # both divergences together
    return loss / 2 + strength / 4 * divergence.where(labels != IGNORE, 0.0).sum()


def count(labels: Int[Tensor, "..."]) -> Int[Tensor, ""]:
    """Return the number of labels that are scored."""
    return (labels != IGNORE).sum()


def perplexity(total: float, tokens: int) -> float:
    """Return exp(total / tokens), where `total` is the summed cross-entropy of the tokens."""
    if tokens < 1:
        raise ValueError(f"perplexity of {tokens} tokens: at least one must be scored")
    try:
        return math.exp(total / tokens)
    except OverflowError:
        return math.inf


class _ChunkedCrossEntropy(torch.autograd.Function):
    """The loss and its gradient, computed a chunk of tokens at a time."""

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float, chunk: int
    ) -> Tensor:
        """Compute the loss, and save the gradient instead of the logits."""
        device_type = features.device.type
        dtype = torch.get_autocast_dtype(device_type) if torch.is_autocast_enabled(device_type) else features.dtype
        inputs, matrix, addend = features.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)
        if not smoothing:
            matrix, addend = _pad_vocabulary(matrix, addend)
        sum_dtype = torch.promote_types(dtype, torch.float32)
        total = features.new_zeros((), dtype=sum_dtype)
        weight_gradient = torch.zeros_like(matrix, dtype=sum_dtype)
        bias_gradient = None if bias is None else torch.zeros_like(matrix[:, 0], dtype=sum_dtype)
        feature_gradients = []
        for chunk_inputs, chunk_labels in zip(inputs.split(chunk), labels.split(chunk), strict=True):
            loss, logit_gradient = cross_entropy_with_gradient(
                F.linear(chunk_inputs, matrix, addend), chunk_labels, smoothing
            )
            total = total + loss
            feature_gradients.append(logit_gradient @ matrix)
            weight_gradient = weight_gradient + logit_gradient.T @ chunk_inputs
            bias_gradient = None if bias_gradient is None else bias_gradient + logit_gradient.sum(0)
        vocab = len(weight)
        gradients = [torch.cat(feature_gradients).to(features.dtype), weight_gradient[:vocab].to(weight.dtype)]
        ctx.save_for_backward(
            *gradients, *([] if bias is None or bias_gradient is None else [bias_gradient[:vocab].to(bias.dtype)])
        )
        return total

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients computed in the forward pass, scaled by the outer gradient."""
        gradients = [gradient * outer[0].to(gradient.dtype) for gradient in ctx.saved_tensors]
        return (*gradients, *[None] * (6 - len(gradients)))


def _pad_vocabulary(matrix: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Pad the vocabulary with impossible tokens to a multiple of ALIGNED, at which matrix products are fast."""
    missing = -len(matrix) % ALIGNED
    if not missing:
        return matrix, bias
    full_bias = matrix.new_zeros(len(matrix)) if bias is None else bias
    return F.pad(matrix, (0, 0, 0, missing)), F.pad(full_bias, (0, missing), value=float("-inf"))


def cross_entropy_with_gradient(
    logits: Float[Tensor, "token vocab"], labels: Int[Tensor, "token"], smoothing: float
) -> tuple[Float[Tensor, ""], Float[Tensor, "token vocab"]]:
    """Return `cross_entropy` and its gradient by the logits, softmax minus target, in the dtype of the logits."""
    wide = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
    scored = labels != IGNORE
    truth = labels.where(scored, 0)[:, None]
    log_partition = wide.logsumexp(-1, keepdim=True)
    label_logits = wide.gather(1, truth)
    if smoothing:  # otherwise padded tokens may have logits of -inf
        label_logits = (1 - smoothing) * label_logits + smoothing * wide.mean(-1, keepdim=True)
    loss = (log_partition - label_logits)[:, 0].where(scored, 0.0).sum()
    vocabulary = torch.arange(wide.shape[1], device=wide.device)
    target = torch.where(vocabulary == truth, 1 - smoothing, 0.0) + smoothing / wide.shape[1]
    gradient = ((wide - log_partition).exp() - target).where(scored[:, None], 0.0)
    return loss, gradient.to(logits.dtype)
