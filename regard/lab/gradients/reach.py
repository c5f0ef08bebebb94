"""How far back a gradient reaches: what a layer's last output owes to each of its inputs, by distance.

Through a recurrent cell the gradient is a product of as many Jacobians as there are steps, which vanishes or explodes;
through attention every input is one step away.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.masks import causal
from regard.attention.multihead import MultiHead
from regard.lab.demonstration import Measurement
from regard.models.parts.cells import Layers

HEADS = 4
KINDS = ("rnn", "gru", "lstm")
MAX_GRADIENTS = 2**24  # numbers of gradients held at once


def reach(layer: Callable[[Tensor], Tensor], x: Float[Tensor, "batch time inputs"]) -> Float[Tensor, "distance"]:
    """Return the norm `|d output_T / d input_(T-d)|` of the Jacobian for d = 0, ..., T-1, averaged over the batch."""
    x = x.detach().requires_grad_()
    last = layer(x)[:, -1].sum(0)  # examples do not touch one another: one pass back serves all of them
    squares = x.new_zeros(x.shape[:2])
    for features in torch.eye(len(last), dtype=x.dtype).split(max(1, MAX_GRADIENTS // x.numel())):
        [slopes] = torch.autograd.grad(last, x, features, retain_graph=True, is_grads_batched=True)
        squares = squares + slopes.square().sum((0, -1))
    return squares.sqrt().mean(0).flip(0)


def compare(
    *, length: int = 64, width: int = 64, inputs: int = 16, seed: int = 0
) -> dict[str, Float[Tensor, "distance"]]:
    """Return the gradient norms by distance of untrained layers of one width with default initialisation."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        x = torch.randn(inputs, length, width, dtype=torch.float64)  # what is left after many steps is tiny
        reaches = {kind.upper(): reach(_recurrent(kind, width), x) for kind in KINDS}
        attention = MultiHead(width, HEADS).double()
        return reaches | {"self-attention": reach(lambda some: attention(some, mask=causal()), x)}


def _recurrent(kind: str, width: int) -> Callable[[Tensor], Tensor]:
    layers = Layers(kind, width, width).double()  # type: ignore[arg-type]
    return lambda x: layers(x)[0]


def measure_loss(norms: dict[str, Float[Tensor, "distance"]]) -> Measurement:
    """Compare the share of the gradient that is left at the longest distance in the RNN and in self-attention."""
    left = {name: float(values[-1] / values[min(1, len(values) - 1)]) for name, values in norms.items()}
    steps = len(norms["RNN"]) - 1
    quantity = f"gradient left after {steps:,} steps, as a share of that after 1"
    return Measurement(quantity, "RNN", left["RNN"], "self-attention", left["self-attention"])
