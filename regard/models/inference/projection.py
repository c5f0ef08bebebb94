"""Projections as a decoding step makes them, with the norms and sums around them in as few kernels as there are."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.hardware import kernels_run
from regard.models.parts.blocks import ACTIVATIONS

FEW = 16  # rows up to which reading the weights takes longer than multiplying with them
FINISHED = ("relu", "gelu_tanh")  # functions that a matrix product can end with on a GPU


class Projection(NamedTuple):
    """Linear maps of one input, joined, and the function after them; of gated ones the first half is the gate."""

    weight: Float[Tensor, "wide width"]
    bias: Float[Tensor, "wide"] | None = None
    activation: str = "none"
    gated: bool = False
    scale: float = 1.0
    """What the input is multiplied by."""

    @classmethod
    def of(cls, *maps: nn.Linear, activation: str = "none", gated: bool = False) -> Projection:
        """One matrix for several maps; that of a single one is its own."""
        biases: list[Tensor] = [linear.bias for linear in maps if linear.bias is not None]
        weight = torch.cat([linear.weight for linear in maps]) if len(maps) > 1 else maps[0].weight
        bias = torch.cat(biases) if len(biases) > 1 else next(iter(biases), None)
        return cls(weight, bias, activation, gated)

    def __call__(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch _"]:
        """`function(x W + b)` by torch."""
        x = x if self.scale == 1.0 else x * self.scale
        if x.is_cuda and self.bias is not None and self.activation in FINISHED and not self.gated:
            flat, gelu = x.flatten(0, -2), self.activation != "relu"
            return torch._addmm_activation(self.bias, flat, self.weight.T, use_gelu=gelu).unflatten(0, x.shape[:-1])
        wide, function = F.linear(x, self.weight, self.bias), ACTIVATIONS.get(self.activation)
        if not self.gated:
            return wide if function is None else function(wide)
        assert function is not None
        gate, inner = wide.chunk(2, -1)
        return function(gate) * inner


class Carried(NamedTuple):
    """What flows through the blocks: a vector, and what is still to be added to it where the next norm can do that."""

    x: Float[Tensor, "*batch width"]
    change: Float[Tensor, "*batch width"] | None = None
    bias: Float[Tensor, "width"] | None = None


def project_normalised(
    carried: Carried, projection: Projection, norm: nn.Module | None, *, dtype: torch.dtype | None = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The projection of what is carried, normalised first, in the type asked for; and both of that: normalised, not."""
    x, change, bias = carried
    if kernels_run(x) and x.numel() <= FEW * x.shape[-1]:
        from regard.models.inference.kernels import project

        assert change is None
        wide, normed = project(x, projection, norm=norm, dtype=dtype)
        return wide, (normed, x)
    if kernels_run(x) and norm is not None:
        from regard.models.inference.kernels import normalise

        normed, x = normalise(x, change, bias, norm)
    else:
        assert change is None
        normed = x if norm is None else norm(x)
    if x.is_cuda and dtype not in (None, x.dtype):  # only the matrix of the logits asks for another type
        scaled = normed if projection.scale == 1.0 else normed * projection.scale
        wide = torch.mm(scaled.flatten(0, -2), projection.weight.T, out_dtype=dtype).unflatten(0, x.shape[:-1])
    else:
        wide = projection(normed)
    return wide, (normed, x)


def add_projection(
    inputs: Float[Tensor, "*batch wide"], projection: Projection, x: Float[Tensor, "*batch width"]
) -> Carried:
    """The projection of the inputs added to x, or about to be."""
    if not kernels_run(x):
        return Carried(projection(inputs) + x)
    if x.numel() <= FEW * x.shape[-1]:
        from regard.models.inference.kernels import project

        return Carried(project(inputs, projection, residual=x)[0])
    return Carried(x, F.linear(inputs, projection.weight), projection.bias)
