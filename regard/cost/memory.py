"""The memory of a model on a GPU, in training and in use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import nn

from regard.attention.multihead import MultiHead
from regard.cost.sizes import count, parts
from regard.cost.trace import BYTES, Precision, Trace
from regard.models.interface import Model, TokenModel
from regard.models.parts import lora

Optimizer = Literal["adamw", "muon", "sgd", "lora"]
MAX_LOGITS = 1 << 28  # largest number of logits that a loss holds at once
STORED = {"fp32": 4, "half": 2, "int8": 1}  # bytes per weight in use


@dataclass(frozen=True)
class Memory:
    """Bytes on one GPU, by purpose, at the peak of a step: when the loss is computed."""

    weights: int
    """In single precision; frozen ones of LoRA in that of the products."""
    gradients: int
    optimizer: int
    """Moving averages: two of every weight (AdamW), one of every matrix of a block (Muon)."""
    activations: int
    """What autograd keeps for the backward pass, with half-precision copies of the weights."""
    loss: int
    """Logits of a few thousand tokens and their gradients, and the gradient of the matrix that they come from."""

    @property
    def total(self) -> int:
        """The sum of all."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.loss


@dataclass(frozen=True)
class Load:
    """The work of one GPU in a step."""

    sequences: int
    predicted: int
    """Tokens that are predicted."""
    precision: Precision = "half"
    rank: int = 8
    """Of LoRA's adapters."""


def training(model: nn.Module, traced: Trace, load: Load, how: Optimizer = "adamw") -> Memory:
    """Return the bytes that a model takes in training.

    With LoRA the activations are an upper bound: the inputs of a frozen matrix need not be kept.
    """
    every = sum(count(tensors) for tensors in parts(model).values())
    activations = load.sequences * traced.kept
    if how == "lora":
        few = adapters(model, load.rank)
        frozen = BYTES[load.precision] * every
        return Memory(frozen + 4 * few, 4 * few, 8 * few, activations, _loss(model, load, frozen=True))
    averages = {"adamw": 8 * every, "muon": 8 * every - 4 * _matrices(model), "sgd": 0}[how]
    return Memory(4 * every, 4 * every, averages, traced.copies + activations, _loss(model, load))


def adapters(model: nn.Module, rank: int) -> int:
    """Return the number of parameters of LoRA: two thin matrices beside every matrix of a block."""
    return sum(rank * (linear.in_features + linear.out_features) for _, _, linear in lora.block_matrices(model))


def use(model: nn.Module, *, context: int, source: int, precision: str) -> int:
    """Return the bytes that a model takes in use: its weights, and the KV cache of one sequence if it generates."""
    stored = STORED[precision]
    weights = sum(count(tensors) for tensors in parts(model).values())
    return stored * weights + max(stored, 2) * cache(model, context, source)


def cache(model: nn.Module, context: int, source: int = 0) -> int:
    """Return the numbers in the KV cache of a model with `context` tokens, and a source that it attends to."""
    if not isinstance(model, Model) or model.stack is None:
        return 0
    children = (child for block in model.stack.blocks for child in block.named_children())
    attentions = [(name, child) for name, child in children if isinstance(child, MultiHead)]
    return sum(
        (attention.key.out_features + attention.value.out_features) * (source if name == "cross" else context)
        for name, attention in attentions
    )


def _matrices(model: nn.Module) -> int:
    """Return the parameters that Muon updates: those of linear maps inside blocks."""
    linear = [(name, module) for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    return sum(module.weight.numel() for name, module in linear if any(part.isdigit() for part in name.split(".")))


def _loss(model: nn.Module, load: Load, *, frozen: bool = False) -> int:
    """Return the bytes of a loss over the vocabulary: logits and gradients of the tokens computed at once."""
    if not isinstance(model, TokenModel):
        return 0
    vocab, width = model.prediction.shape
    chunk_tokens, wide = min(load.predicted, max(256, MAX_LOGITS // vocab)), BYTES[load.precision]
    both = (4 + wide) * width  # a gradient in single precision, and its operand
    return 2 * wide * chunk_tokens * vocab + both * load.predicted + (0 if frozen else both * vocab)
