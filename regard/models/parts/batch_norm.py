"""Batch normalisation with running statistics that are updated once per step (Ioffe and Szegedy 2015).

In training a row of data, the pictures that go through the model at once, is normalised by its own statistics. The
running ones, which are used in evaluation, move once per update, by the mean over all rows of the step weighted by
their pictures. So gradient accumulation and several processes make no difference to the model, and a step that is
skipped or repeated leaves no trace. The training loop calls `settle` and `forget`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

MOMENTUM = 0.1  # weight of a step in the running statistics


class RunningNorm(nn.Module):
    """`weight (x - mean) / sqrt(variance + eps) + bias` for each channel; frozen weights freeze the statistics too."""

    running_mean: Tensor
    running_var: Tensor
    seen: Tensor

    def __init__(self, features: int, *, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.ones(features))
        # Since the last update: sums of means and of variances, and the number of pictures.
        self.register_buffer("seen", torch.zeros(3, features), persistent=False)

    def forward(self, x: Float[Tensor, "batch features *place"]) -> Float[Tensor, "batch features *place"]:
        """Normalise by the row's own statistics in training, by the running ones in evaluation."""
        return self.normalise_batch(x, self.weight, self.bias)

    def normalise_batch(
        self, x: Float[Tensor, "batch features *place"], weight: Tensor | None, bias: Tensor | None
    ) -> Float[Tensor, "batch features *place"]:
        """Normalise with this scale and shift; without gradients, as when others are trained, nothing is recorded."""
        alone = x.numel() == x.shape[1]  # a single number has no variance
        if not self.training or not self.weight.requires_grad or alone:
            return F.batch_norm(x, self.running_mean, self.running_var, weight, bias, eps=self.eps)
        mean, variance = torch.zeros_like(self.running_mean), torch.zeros_like(self.running_var)
        y = F.batch_norm(x, mean, variance, weight, bias, training=True, momentum=1.0, eps=self.eps)
        if torch.is_grad_enabled():
            with torch.no_grad():
                self.seen.add_(torch.stack([mean, variance, torch.ones_like(mean)]), alpha=len(x))
        return y


class ClassNorm(RunningNorm):
    """Class-conditional batch normalisation: scale and shift belong to the example's class (Dumoulin et al. 2017)."""

    def __init__(self, features: int, classes: int, *, eps: float = 1e-5):
        super().__init__(features, eps=eps)
        self.weight = nn.Parameter(torch.ones(classes, features))
        self.bias = nn.Parameter(torch.zeros(classes, features))

    def forward(  # type: ignore[override]
        self, x: Float[Tensor, "batch features *place"], labels: Int[Tensor, "batch"]
    ) -> Float[Tensor, "batch features *place"]:
        """Normalise by the statistics of the whole row, then scale and shift by each example's class."""
        y = self.normalise_batch(x, None, None)
        weight, bias = (
            parameter[labels].unflatten(1, (-1, *[1] * (x.dim() - 2))) for parameter in (self.weight, self.bias)
        )
        return weight * y + bias


def norms(model: nn.Module) -> list[RunningNorm]:
    """Return all norms of a model with running statistics."""
    return [module for module in model.modules() if isinstance(module, RunningNorm)]


def statistics(model: nn.Module) -> dict[str, Tensor]:
    """Return the running statistics by name."""
    norms_by_name = {name: module for name, module in model.named_modules() if isinstance(module, RunningNorm)}
    kinds = ("running_mean", "running_var")
    return {
        f"{name}.{kind}".lstrip("."): getattr(module, kind) for name, module in norms_by_name.items() for kind in kinds
    }


def forget(norms: Sequence[RunningNorm]) -> None:
    """Discard the statistics gathered since the last update."""
    if norms:
        torch._foreach_zero_([norm.seen for norm in norms])


@torch.no_grad()
def settle(norms: Sequence[RunningNorm], *, veto: Tensor) -> None:
    """Update the running statistics by those gathered since the last update, unless vetoed."""
    if not norms:
        return
    running = [tensor for norm in norms for tensor in (norm.running_mean, norm.running_var)]
    sums = torch.cat([tensor for norm in norms for tensor in norm.seen[:2]])
    counts = torch.cat([norm.seen[2] for norm in norms for _ in range(2)])
    before = torch.cat(running)
    moved = torch.lerp(before, sums / counts.clamp(min=1), MOMENTUM)
    after = torch.where(veto | (counts == 0), before, moved)
    torch._foreach_copy_(running, after.split([len(tensor) for tensor in running]))
    forget(norms)
