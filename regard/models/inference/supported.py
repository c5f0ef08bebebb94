"""A check that a stack consists of parts that the fast path knows: it must refuse unknown ones, never ignore them."""

from __future__ import annotations

from typing import Any

from torch import nn

from regard.attention.multihead import MultiHead
from regard.attention.tap import Tap
from regard.models.parts.blocks import ACTIVATIONS, DecoderBlock, Embedding, EncoderBlock, FeedForward, Residual, Stack
from regard.models.parts.dropout import Dropout

Kinds = tuple[type[nn.Module], ...]

NORMS: Kinds = (nn.LayerNorm, nn.RMSNorm)
PARTS: dict[type[nn.Module], dict[str, Kinds]] = {
    EncoderBlock: {
        "attention": (MultiHead,),
        "after_attention": (Residual,),
        "mlp": (FeedForward,),
        "after_mlp": (Residual,),
    },
    DecoderBlock: {
        "attention": (MultiHead,),
        "after_attention": (Residual,),
        "cross": (MultiHead,),
        "after_cross": (Residual,),
        "mlp": (FeedForward,),
        "after_mlp": (Residual,),
    },
    MultiHead: {**dict.fromkeys(("query", "key", "value", "output"), (nn.Linear,)), "weights": (Tap,)},
    Residual: {"norm": NORMS, "dropout": (Dropout,)},
    FeedForward: {**dict.fromkeys(("inner", "outer"), (nn.Linear,)), "dropout": (Dropout,)},
    Embedding: {"dropout": (Dropout,)},
}
GATED: dict[str, Kinds] = {**PARTS[FeedForward], "gate": (nn.Linear,)}
FUNCTIONS = ("relu", "gelu", "silu", "gelu_tanh")  # activations that the fast path computes
TOGETHER = (("query", "key", "value"), ("inner", "gate"))  # projections that are joined


class Unknown(ValueError):
    """Raised for a part of a model that the fast path does not know."""


def check(stack: Stack) -> None:
    """Refuse a stack with any part that is not exactly of a known type."""
    blocks = stack.blocks
    if not blocks or type(blocks[0]) not in (EncoderBlock, DecoderBlock):
        raise Unknown(f"blocks of the kind {type(blocks[0]).__name__ if blocks else 'nothing'}")
    for number, block in enumerate(blocks):
        _check(f"block {number}", block, (type(blocks[0]),))
    _check("embedding", stack.embedding, (Embedding,))
    if stack.embedding_norm is not None:
        _check("norm of embeddings", stack.embedding_norm, NORMS)
    if stack.bias is not None:
        raise Unknown("a bias of the logits")
    steps = [part for block in blocks for part in block.modules() if isinstance(part, Residual)]
    pre = steps[0].pre
    if any(step.pre != pre for step in steps):
        raise Unknown("norms before some steps and after others")
    _check("last norm", stack.norm, NORMS if pre else (nn.Identity,))


def _check(name: str, part: Any, kinds: Kinds) -> None:
    """Check one part and all its children."""
    kind = type(part)
    if kind not in kinds:
        expected = " or ".join(expected_kind.__name__ for expected_kind in kinds)
        raise Unknown(f"{name}: {kind.__name__} where {expected} is expected")
    if not isinstance(part, Tap) and (part._forward_hooks or part._forward_pre_hooks):
        raise Unknown(f"{name}: a hook")
    children: dict[str, Any] = dict(part.named_children())
    if kind is MultiHead:
        children.pop("score", None)  # any score, as the fast path calls it
    parts: dict[str, Kinds] = GATED if kind is FeedForward and "gate" in children else PARTS.get(kind, {})
    if children.keys() != parts.keys():
        raise Unknown(f"{name}: parts {', '.join(sorted(children.keys() ^ parts.keys()))}")
    for part_name, expected_kind in parts.items():
        _check(f"{name}.{part_name}", children[part_name], expected_kind)
    if kind in NORMS and (part.weight is None or part.eps is None):
        raise Unknown(f"{name}: a norm without {'weights' if part.weight is None else 'a number for its eps'}")
    if kind is FeedForward and part.activation not in [ACTIVATIONS[part_name] for part_name in FUNCTIONS]:
        raise Unknown(f"{name}: a function that is none of {', '.join(FUNCTIONS)}")
    for group in TOGETHER:
        if len({children[part_name].bias is None for part_name in group if part_name in children}) > 1:
            raise Unknown(f"{name}: biases in some projections only")
