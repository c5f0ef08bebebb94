"""Whether a stack is made of parts that the fast path knows: what it does not know it must refuse, never leave out."""

from __future__ import annotations

import math
from typing import Any

from torch import nn

from regard.attention.multihead import MultiHead
from regard.attention.tap import Tap
from regard.models.blocks import ACTIVATIONS, DecoderBlock, Embedding, EncoderBlock, FeedForward, Residual, Stack

PARTS: dict[type[nn.Module], dict[str, type[nn.Module]]] = {
    EncoderBlock: {"attention": MultiHead, "after_attention": Residual, "mlp": FeedForward, "after_mlp": Residual},
    DecoderBlock: {
        "attention": MultiHead,
        "after_attention": Residual,
        "cross": MultiHead,
        "after_cross": Residual,
        "mlp": FeedForward,
        "after_mlp": Residual,
    },
    MultiHead: {"query": nn.Linear, "key": nn.Linear, "value": nn.Linear, "output": nn.Linear, "weights": Tap},
    Residual: {"norm": nn.LayerNorm, "dropout": nn.Dropout},
    FeedForward: {"inner": nn.Linear, "outer": nn.Linear},
    Embedding: {"dropout": nn.Dropout},
}


FUNCTIONS = ("relu", "gelu", "silu")  # that the fast path computes
EPS = nn.LayerNorm(1).eps


class Unknown(ValueError):
    """A part of a model that the fast path does not know."""


def check(stack: Stack) -> None:
    """Refuse a stack with any part that is not exactly what it seems to be."""
    blocks = stack.blocks
    if not blocks or type(blocks[0]) not in (EncoderBlock, DecoderBlock):
        raise Unknown(f"blocks of the kind {type(blocks[0]).__name__ if blocks else 'nothing'}")
    for number, block in enumerate(blocks):
        _check(f"block {number}", block, type(blocks[0]))
    _check("embedding", stack.embedding, Embedding)
    if stack.embedding_norm is not None:
        raise Unknown("a norm of embeddings")
    if stack.scale != 1.0:
        raise Unknown("features that are scaled before the matrix of the logits")
    if stack.bias is not None:
        raise Unknown("a bias of the logits")
    steps = [part for block in blocks for part in block.modules() if isinstance(part, Residual)]
    pre = steps[0].pre
    if any(step.pre != pre for step in steps):
        raise Unknown("norms before some steps and after others")
    _check("last norm", stack.norm, nn.LayerNorm if pre else nn.Identity)


def _check(name: str, part: Any, kind: type[nn.Module]) -> None:
    """One part and all that it is made of."""
    if type(part) is not kind:
        raise Unknown(f"{name}: {type(part).__name__} where {kind.__name__} is expected")
    if not isinstance(part, Tap) and (part._forward_hooks or part._forward_pre_hooks):
        raise Unknown(f"{name}: a hook")
    expected = PARTS.get(kind, {})
    found: dict[str, Any] = dict(part.named_children())
    if kind is MultiHead:
        found.pop("score", None)  # whichever it is, it is asked
    if found.keys() != expected.keys():
        raise Unknown(f"{name}: parts {', '.join(sorted(found.keys() ^ expected.keys()))}")
    for own, each in expected.items():
        _check(f"{name}.{own}", found[own], each)
    if kind is nn.LayerNorm and (part.weight is None or part.bias is None):
        raise Unknown(f"{name}: a norm without weights")
    if kind is nn.LayerNorm and part.eps != EPS:
        raise Unknown(f"{name}: a norm that adds {part.eps} to the variance, not {EPS}")
    if kind is FeedForward and part.activation not in [ACTIVATIONS[own] for own in FUNCTIONS]:
        raise Unknown(f"{name}: a function that is none of {', '.join(FUNCTIONS)}")
    if kind is FeedForward and any(found[own].bias is None for own in expected):
        raise Unknown(f"{name}: a feed-forward without biases")
    if isinstance(part, Embedding) and part.scale != math.sqrt(part.weight.shape[1]):
        raise Unknown(f"{name}: vectors that are not scaled by the root of their width")
    if kind is MultiHead and len({found[own].bias is None for own in ("query", "key", "value")}) > 1:
        raise Unknown(f"{name}: biases in some projections only")
