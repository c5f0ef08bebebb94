"""LoRA: a frozen matrix plus a trained product of two thin ones (Hu et al. 2022).

A checkpoint holds the matrices, the thin ones and their scale under separate names, so that they can be added up for
use or further training (`merge_lora`): the result is an ordinary model, always including its head.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

DOWN, UP, SCALE = "lora_down", "lora_up", "lora_scale"


class LoRALinear(nn.Linear):
    """A linear layer with frozen weights, plus `scale * up @ down`, which starts at zero."""

    lora_scale: Tensor

    def __init__(self, frozen: nn.Linear, rank: int, alpha: float) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = frozen.in_features, frozen.out_features
        self.weight, self.bias = frozen.weight, frozen.bias
        self.lora_down = nn.Parameter(frozen.weight.new_empty(rank, self.in_features))
        self.lora_up = nn.Parameter(frozen.weight.new_zeros(self.out_features, rank))
        nn.init.kaiming_uniform_(self.lora_down, a=math.sqrt(5))
        self.register_buffer(SCALE, torch.tensor(alpha / rank))
        self.before: Tensor | None = None  # the original weights, while the thin ones are merged into them

    def forward(self, input: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        """Apply the layer; at first the output is exactly that of the frozen layer."""
        output = F.linear(input, self.weight, self.bias)
        if self.before is not None:
            return output
        return output + F.linear(F.linear(input, self.lora_down), self.lora_up) * self.lora_scale

    @torch.no_grad()
    def merge(self) -> None:
        """Add the thin matrices to the weights."""
        if self.before is None:
            self.before = self.weight.detach().clone()
            self.weight += self.lora_scale * self.lora_up @ self.lora_down

    @torch.no_grad()
    def unmerge(self) -> None:
        """Restore the original weights, to the bit."""
        if self.before is not None:
            self.weight.copy_(self.before)
            self.before = None


def lora_layers(model: nn.Module) -> Iterator[LoRALinear]:
    """Return all LoRA layers of a model."""
    return (module for module in model.modules() if isinstance(module, LoRALinear))


def adapt(model: nn.Module, rank: int, alpha: float, matrices: Iterable[str]) -> int:
    """Add LoRA to the matrices of these names in every block, or to all without names; return the number of layers."""
    targets = list(block_matrices(model))
    available = {name for _, name, _ in targets}
    selected = set(matrices) or available
    if unknown := sorted(selected - available):
        raise ValueError(
            f"tuning.matrices names {unknown[0]}, which no block of this model has: choose among "
            f"{', '.join(sorted(available)) or 'none'}"
        )
    for parent, name, linear in targets:
        if name in selected:
            setattr(parent, name, LoRALinear(linear, rank, alpha))
    return sum(1 for _ in lora_layers(model))


def block_matrices(model: nn.Module) -> Iterator[tuple[nn.Module, str, nn.Linear]]:
    """Yield every matrix of a block: its parent module, its name there, and the layer itself."""
    for name, parent in model.named_modules():
        if any(part.isdigit() for part in name.split(".")):
            yield from (
                (parent, attribute, linear)
                for attribute, linear in parent.named_children()
                if type(linear) is nn.Linear
            )


def is_thin(name: str) -> bool:
    """True if the name is that of a LoRA tensor."""
    return name.rpartition(".")[2] in (DOWN, UP, SCALE)


def merge_lora(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Add the thin matrices to the weights; without any, return the weights unchanged."""
    merged = dict(tensors)
    for name in [name for name in tensors if name.rpartition(".")[2] == DOWN]:
        place = name.removesuffix(DOWN)
        down, up, scale = (merged.pop(place + suffix) for suffix in (DOWN, UP, SCALE))
        weight = merged[place + "weight"]
        merged[place + "weight"] = (weight.float() + scale.float() * up.float() @ down.float()).to(weight.dtype)
    return merged
