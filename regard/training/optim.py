"""The settings of the optimizer, optimizers built from them, and the update of the weights."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.config.ranges import Decay, Positive, Share, Whole
from regard.config.resuming import Fixed
from regard.decoding.graphs import Graph
from regard.training.muon import Muon, matrices, split_matrix_groups
from regard.training.schedules import SCHEDULES
from regard.training.tuning import TuningConfig, share, split_layer_groups

LARGEST = 1e18  # largest norm of a gradient: adam squares it, and float32 ends at 3e38


@dataclass(frozen=True, kw_only=True)
class OptimConfig:
    """The optimizer and its learning rate."""

    name: Fixed[Literal["adam", "adamw", "sgd", "muon"]] = "adam"
    """The rule: adam (decay added to the gradient), adamw (decay apart from it), sgd, muon (adamw, but matrices inside
    blocks follow orthogonal directions)."""
    learning_rate: Positive = 1e-3
    """The highest learning rate, reached at the end of the warm-up."""
    betas: tuple[Share, Share] = (0.9, 0.98)
    """Decay rates of adam's two moving averages."""
    eps: Positive = 1e-9
    """What adam adds to its denominator."""
    momentum: Share = 0.0
    """How much of the past sgd keeps."""
    weight_decay: Decay = 0.0
    """Weight decay of matrices; biases and norms have none."""
    warmup: Whole = 400
    """Steps over which the rate rises."""
    schedule: Literal["inverse_root", "constant", "linear", "cosine"] = "inverse_root"
    """Learning-rate schedule after the warm-up; linear and cosine end at zero with the last step."""


def build(
    parameters: Iterable[nn.Parameter],
    config: OptimConfig,
    model: nn.Module | None = None,
    tuning: TuningConfig | None = None,
) -> torch.optim.Optimizer:
    """Build an optimizer of these parameters; vectors (biases, norms) are in a group without decay.

    Muon needs the model to find the matrices inside blocks; `tuning` may put each block in its own group.
    """
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    assert trained, "an optimizer needs something to train"
    groups: list[dict[str, Any]] = [
        {"params": [parameter for parameter in trained if parameter.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [parameter for parameter in trained if parameter.ndim < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if model is not None and tuning is not None:
        groups = split_layer_groups(groups, model, tuning)
    fused = True if all(parameter.is_cuda for parameter in trained) else None  # None: let torch choose
    if config.name == "sgd":
        return _with_momentum(torch.optim.SGD(groups, lr=config.learning_rate, momentum=config.momentum, fused=fused))
    kind: type[torch.optim.Adam] = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "muon": Muon}[config.name]
    if config.name == "muon":
        groups = split_matrix_groups(groups, () if model is None else matrices(model))
    recordable = bool(fused)
    return kind(groups, config.learning_rate, betas=config.betas, eps=config.eps, fused=fused, capturable=recordable)


def rate_at(config: OptimConfig, step: int, steps: int) -> float:
    """Return the learning rate at a step, counted from 1, out of `steps`."""
    return config.learning_rate * SCHEDULES[config.schedule](step, warmup=config.warmup, steps=steps)


def rates(optimizer: torch.optim.Optimizer, rate: float, step: int) -> float | Tensor:
    """Return the learning rate, or that of each parameter group where blocks have their own."""
    groups = optimizer.param_groups
    return rate * torch.tensor([share(group, step) for group in groups]) if "share" in groups[0] else rate


def update(
    optimizer: torch.optim.Optimizer, total: Any, *, rate: Any, clip: float | None, veto: torch.Tensor | bool = False
) -> torch.Tensor:
    """Divide gradients by `total`, clip their norm and step; return True if vetoed or not finite, and nothing changed.

    A gradient no longer than `LARGEST` leaves weights and averages finite, so neither need be checked afterwards.
    A fused optimizer reads the flag on the device, so that nothing waits for it.
    """
    parameters = parameters_with_gradients(optimizer)
    if not parameters:
        return torch.ones((), dtype=torch.bool, device=optimizer.param_groups[0]["params"][0].device)
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    share = 1 / on_device(total, parameters[0].device)
    norm = nn.utils.get_total_norm(gradients) * share
    broken = ~(norm <= LARGEST) | veto
    scale = share if clip is None else share * (clip / (norm + 1e-6)).clamp(max=1.0)
    torch._foreach_mul_(gradients, scale)  # divided and clipped in one pass
    for number, group in enumerate(optimizer.param_groups):
        group["lr"] = rate[number] if isinstance(rate, Tensor) and rate.ndim else rate
    if optimizer.defaults["fused"]:
        optimizer.found_inf = broken.float()  # type: ignore[attr-defined]
        optimizer.step()
        torch.autograd.graph.increment_version(parameters)  # fused steps do not, and cached copies would go stale
    elif not broken:
        optimizer.step()
    return broken


def parameters_with_gradients(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    """Return the parameters that have a gradient."""
    return [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]


def on_device(number: Any, device: torch.device) -> Tensor:
    """Return a number, or several, as a tensor on the device; a plain copy would wait for all work queued there."""
    if isinstance(number, Tensor):
        return number.to(device, torch.float32, non_blocking=True)
    return torch.full((), number, dtype=torch.float32, device=device)


class Updates:
    """`update` recorded as a CUDA graph and replayed, as its many small kernels take longer to launch than to run.

    The learning rate is always a tensor on the device, so that a replay equals the recorded update to the bit.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, *, clip: float | None, device: torch.device) -> None:
        self.optimizer, self.device = optimizer, device
        self.captured = Graph(
            lambda total, rate, veto: update(optimizer, total, rate=rate, clip=clip, veto=veto), torch.device(device)
        )

    def __call__(self, total: Any, *, rate: float | Tensor, veto: torch.Tensor) -> torch.Tensor:
        """Make one update by replaying the captured graph, as `update` does."""
        answer = self.captured(on_device(total, self.device), on_device(rate, self.device), veto).clone()
        torch.autograd.graph.increment_version(parameters_with_gradients(self.optimizer))
        return answer


def _with_momentum(optimizer: torch.optim.SGD) -> torch.optim.SGD:
    """Set momentum to zero: torch's fused SGD would start from unset memory if its first step is skipped."""
    for group in optimizer.param_groups:
        if group["fused"] and group["momentum"]:
            for parameter in group["params"]:
                optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return optimizer
