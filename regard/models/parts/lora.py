"""LoRA: a matrix stays as it is, and the product of two thin ones beside it learns (Hu et al. 2022).

A checkpoint holds the matrices, the thin ones and their scale under names of their own, so that whoever uses or goes on
from it can add them up (`merge_lora`): what is used is a model like any other, and the head is always with it.
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
    """A linear map of frozen weights, plus `scale * up @ down`, which starts at zero."""

    lora_scale: Tensor

    def __init__(self, frozen: nn.Linear, rank: int, alpha: float) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = frozen.in_features, frozen.out_features
        self.weight, self.bias = frozen.weight, frozen.bias
        self.lora_down = nn.Parameter(frozen.weight.new_empty(rank, self.in_features))
        self.lora_up = nn.Parameter(frozen.weight.new_zeros(self.out_features, rank))
        nn.init.kaiming_uniform_(self.lora_down, a=math.sqrt(5))
        self.register_buffer(SCALE, torch.tensor(alpha / rank))
        self.before: Tensor | None = None  # the weights as they were, while the thin ones are added to them

    def forward(self, input: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        """At first exactly what the frozen map gives."""
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
        """Give the weights back as they were, to the bit."""
        if self.before is not None:
            self.weight.copy_(self.before)
            self.before = None


def lora_layers(model: nn.Module) -> Iterator[LoRALinear]:
    """All that learn beside a frozen matrix."""
    return (module for module in model.modules() if isinstance(module, LoRALinear))


def adapt(model: nn.Module, rank: int, alpha: float, matrices: Iterable[str]) -> int:
    """Put thin matrices beside those of these names in every block, beside all without a name; how many there are."""
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
    """Every matrix of a block: what holds it, its name there, and itself."""
    for name, parent in model.named_modules():
        if any(part.isdigit() for part in name.split(".")):
            yield from (
                (parent, attribute, linear)
                for attribute, linear in parent.named_children()
                if type(linear) is nn.Linear
            )


def is_thin(name: str) -> bool:
    """Whether a weight is one of those beside a frozen matrix."""
    return name.rpartition(".")[2] in (DOWN, UP, SCALE)


def merge_lora(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights to which the thin matrices beside them are added; those of a model without any as they are."""
    merged = dict(tensors)
    for name in [name for name in tensors if name.rpartition(".")[2] == DOWN]:
        place = name.removesuffix(DOWN)
        down, up, scale = (merged.pop(place + suffix) for suffix in (DOWN, UP, SCALE))
        weight = merged[place + "weight"]
        merged[place + "weight"] = (weight.float() + scale.float() * up.float() @ down.float()).to(weight.dtype)
    return merged
