"""GELU as it is compiled for half precision on a GPU is GELU, and so is its slope."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.models.activations import Approximate, Exact, logistic, normal


def test_the_normal_distribution_and_its_density() -> None:
    x = torch.linspace(-12, 12, 4001, dtype=torch.float64)
    below, density = normal(x)
    assert (below - torch.special.ndtr(x)).abs().max() < 1e-7
    truth = torch.distributions.Normal(0.0, 1.0).log_prob(x).exp()
    torch.testing.assert_close(density, truth, rtol=0, atol=1e-9)
    assert (normal(x.float())[0] - torch.special.ndtr(x)).abs().max() < 3e-7, "in single precision too"


@pytest.mark.parametrize(("ours", "theirs"), [(Exact, "none"), (Approximate, "tanh")])
def test_values_and_slopes_are_those_of_torch(ours: type[torch.autograd.Function], theirs: str) -> None:
    def slopes(function: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        x = torch.linspace(-9, 9, 2001, requires_grad=True)
        y = function(x)
        [slope] = torch.autograd.grad(y, x, torch.linspace(-2, 3, 2001))
        return y.detach(), slope

    for own, other in zip(slopes(ours.apply), slopes(lambda x: F.gelu(x, approximate=theirs)), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-6, atol=2e-6)


def test_the_type_of_what_comes_in_goes_out() -> None:
    x = torch.randn(8, dtype=torch.float16, requires_grad=True)
    y = Exact.apply(x)
    y.sum().backward()
    assert (y.dtype, x.grad is not None and x.grad.dtype) == (torch.float16, torch.float16)
    assert logistic(torch.zeros(1))[0] == 0.5
