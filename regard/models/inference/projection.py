"""Projections in a decoding step, with the norms and sums around them in as few kernels as possible."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.hardware import kernels_run
from regard.models.parts.blocks import ACTIVATIONS

FEW = 16  # rows up to which reading the weights takes longer than multiplying with them
FINISHED = ("relu", "gelu_tanh")  # activations that a matrix product on a GPU can include


class Projection(NamedTuple):
    """Joined linear layers of one input and the activation after them; if gated, the first half is the gate."""

    weight: Float[Tensor, "wide width"]
    bias: Float[Tensor, "wide"] | None = None
    activation: str = "none"
    gated: bool = False
    scale: float = 1.0
    """Factor of the input."""

    @classmethod
    def of(cls, *maps: nn.Linear, activation: str = "none", gated: bool = False) -> Projection:
        """Join several layers into one matrix; that of a single layer is not copied."""
        biases: list[Tensor] = [linear.bias for linear in maps if linear.bias is not None]
        weight = torch.cat([linear.weight for linear in maps]) if len(maps) > 1 else maps[0].weight
        bias = torch.cat(biases) if len(biases) > 1 else next(iter(biases), None)
        return cls(weight, bias, activation, gated)

    def __call__(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch _"]:
        """Return `function(x W + b)`, computed by torch."""
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
    """The residual stream between blocks: a vector, and a change that the next norm may still have to add."""

    x: Float[Tensor, "*batch width"]
    change: Float[Tensor, "*batch width"] | None = None
    bias: Float[Tensor, "width"] | None = None


def project_normalised(
    carried: Carried, projection: Projection, norm: nn.Module | None, *, dtype: torch.dtype | None = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Return the projection of the normalised stream in the requested dtype, and the stream with and without norm."""
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
    if x.is_cuda and dtype not in (None, x.dtype):  # only the matrix of the logits needs another dtype
        scaled = normed if projection.scale == 1.0 else normed * projection.scale
        wide = torch.mm(scaled.flatten(0, -2), projection.weight.T, out_dtype=dtype).unflatten(0, x.shape[:-1])
    else:
        wide = projection(normed)
    return wide, (normed, x)


def add_projection(
    inputs: Float[Tensor, "*batch wide"], projection: Projection, x: Float[Tensor, "*batch width"]
) -> Carried:
    """Add the projection of the inputs to x, or leave the sum to the next norm."""
    if not kernels_run(x):
        return Carried(projection(inputs) + x)
    if x.numel() <= FEW * x.shape[-1]:
        from regard.models.inference.kernels import project

        return Carried(project(inputs, projection, residual=x)[0])
    return Carried(x, F.linear(inputs, projection.weight), projection.bias)
