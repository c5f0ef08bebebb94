"""The functions inside feed-forward networks; GELU in half precision on a GPU without what takes its compiler long.

The error function and tanh of a compiler are exact to the last bit of single precision, and take longer than reading
and writing the vectors. What follows is exact to 2e-7, where half precision ends at 4e-3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

ROOT = math.sqrt(2 / math.pi)
CUBE = 0.044715
POLYNOMIAL = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)  # Abramowitz and Stegun, 7.1.26
HALVES = (torch.float16, torch.bfloat16)
Share = Callable[[Tensor], tuple[Tensor, Tensor]]


def normal(x: Tensor) -> tuple[Tensor, Tensor]:
    """How much of the normal distribution lies below x, and its density there."""
    bell = torch.exp(-0.5 * x * x)
    near = 1 / (1 + (0.3275911 / math.sqrt(2)) * x.abs())
    sum_of_powers = torch.zeros_like(x)
    for factor in POLYNOMIAL:
        sum_of_powers = (sum_of_powers + factor) * near
    beyond = 0.5 * sum_of_powers * bell  # what lies farther out on the side of x
    return torch.where(x < 0, beyond, 1 - beyond), bell * (1 / math.sqrt(2 * math.pi))


def logistic(x: Tensor) -> tuple[Tensor, Tensor]:
    """The same by the approximation with tanh, and its slope."""
    below = torch.sigmoid(2 * ROOT * (x + CUBE * x * x * x))
    return below, below * (1 - below) * (2 * ROOT) * (1 + 3 * CUBE * x * x)


class Exact(torch.autograd.Function):
    """`x` times how much of the normal distribution lies below it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """In the type of x."""
        ctx.save_for_backward(x)
        return _gated(x, normal)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Tensor:
        """From x alone."""
        return _back(*ctx.saved_tensors, slope, normal)


class Approximate(torch.autograd.Function):
    """The same by the approximation with tanh."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """In the type of x."""
        ctx.save_for_backward(x)
        return _gated(x, logistic)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Tensor:
        """From x alone."""
        return _back(*ctx.saved_tensors, slope, logistic)


def _gated(x: Tensor, below: Share) -> Tensor:
    wide = x.float()
    return (wide * below(wide)[0]).to(x.dtype)


def _back(x: Tensor, slope: Tensor, below: Share) -> Tensor:
    wide = x.float()
    share, density = below(wide)
    return (slope.float() * (share + wide * density)).to(x.dtype)


def gelu(x: Tensor) -> Tensor:
    """GELU (Hendrycks and Gimpel 2016)."""
    return Exact.apply(x) if _quick(x) else F.gelu(x)


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU by its approximation with tanh, as GPT-2 was trained with."""
    return Approximate.apply(x) if _quick(x) else F.gelu(x, approximate="tanh")


def _quick(x: Tensor) -> bool:
    """Whether the compiler is going to make one kernel of it, for numbers that need no more precision."""
    return torch.compiler.is_compiling() and x.is_cuda and x.dtype in HALVES


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": gelu,
    "silu": F.silu,
    "gelu_tanh": gelu_tanh,
}
