"""Muon: momentum with orthogonalised updates, for the matrices inside blocks (Jordan et al. 2024).

The gradient of a matrix is dominated by a few directions; the nearest orthogonal matrix moves all of them alike. As in
Moonlight (Liu et al. 2025) it is scaled to the size of an update by Adam, so that one learning rate and one decay serve
both.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

MOMENTUM = 0.95
SIZE = 0.2  # root mean square of an update by Adam
POLYNOMIAL = (3.4445, -4.7750, 2.0315)  # of x, x^3, x^5: steep at 0, and on [0, 1] near 1 after a few rounds
ROUNDS = 5


def matrices(model: nn.Module) -> list[nn.Parameter]:
    """Return the weights of the linear layers inside numbered blocks, without those of embeddings and heads."""
    weights = [
        module.weight
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and any(part.isdigit() for part in name.split("."))
    ]
    return [weight for weight in weights if isinstance(weight, nn.Parameter)]


def orthogonalise(matrix: Float[Tensor, "*batch row column"], dtype: torch.dtype) -> Float[Tensor, "*batch row column"]:
    """Approximate the orthogonal matrix nearest to each by Newton-Schulz iteration: singular values of about 1."""
    tall = matrix.shape[-2] > matrix.shape[-1]
    x = (matrix.mT if tall else matrix).float()
    x = (x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)).to(dtype)
    first, third, fifth = POLYNOMIAL
    for _ in range(ROUNDS):
        square = x @ x.mT
        x = first * x + (third * square + fifth * square @ square) @ x
    return (x.mT if tall else x).to(matrix.dtype)


class Muon(torch.optim.AdamW):
    """AdamW, except for the groups with `orthogonal` set, which hold matrices."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Update the parameters; if `found_inf` says that gradients are not finite, change nothing, without a sync."""
        assert closure is None
        groups = self.param_groups
        self.param_groups = [group for group in groups if not group.get("orthogonal")]
        try:
            super().step()
        finally:
            self.param_groups = groups
        for group in groups:
            if group.get("orthogonal"):
                self._follow(group)

    def _follow(self, group: dict[str, Any]) -> None:
        """Update all matrices of one shape together: many small products cost more than a few large ones."""
        shapes: dict[Any, list[Tensor]] = defaultdict(list)
        for parameter in group["params"]:
            if parameter.grad is not None:
                shapes[parameter.shape].append(parameter)
        found_inf: Tensor | None = getattr(self, "found_inf", None)
        for shape, same in shapes.items():
            momenta = [self._momentum(parameter) for parameter in same]
            gradients = torch.stack([parameter.grad for parameter in same if parameter.grad is not None])
            before, rate = torch.stack(momenta), group["lr"]
            if found_inf is not None:
                gradients, rate = torch.where(found_inf > 0, 0.0, gradients), torch.where(found_inf > 0, 0.0, rate)
            after = before.lerp(gradients, 1 - MOMENTUM)
            updated = after if found_inf is None else torch.where(found_inf > 0, before, after)
            torch._foreach_copy_(momenta, list(updated.unbind()))
            dtype = torch.bfloat16 if gradients.is_cuda else gradients.dtype
            change = orthogonalise(gradients.lerp(after, MOMENTUM), dtype) * (SIZE * math.sqrt(max(shape)) * rate)
            torch._foreach_mul_(same, 1 - rate * group["weight_decay"])
            torch._foreach_sub_(same, list(change.unbind()))

    def _momentum(self, parameter: Tensor) -> Tensor:
        """Return the running mean of a matrix's gradients."""
        state = self.state[parameter]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(parameter)
            state["step"] = torch.zeros((), dtype=torch.float32)  # AdamW expects it in every state that it loads
        return state["momentum"]


def split_matrix_groups(groups: Iterable[dict[str, Any]], inside: Iterable[nn.Parameter]) -> list[dict[str, Any]]:
    """Split parameter groups so that the matrices inside blocks are apart from all other parameters."""
    inside_ids = {id(parameter) for parameter in inside}
    apart: list[dict[str, Any]] = []
    for group in groups:
        for orthogonally in (True, False):
            parameters = [parameter for parameter in group["params"] if (id(parameter) in inside_ids) is orthogonally]
            if parameters:
                apart.append({**group, "params": parameters, "orthogonal": orthogonally})
    return apart
