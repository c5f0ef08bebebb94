"""Saving and restoring the state of a training run, exact to the bit.

Batches and dropout are functions of the row, so weights, optimizers and a few numbers are all there is to save.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from regard import config
from regard.checkpoint import Checkpoint, CheckpointError, fill, weights
from regard.models.interface import traits_of

TENSORS = "training.safetensors"
NUMBERS = "training.json"
STATE = "state"
EMA = "ema"


@dataclass
class Best:
    """The best evaluation so far."""

    step: int
    metrics: dict[str, int | float | None]


@dataclass
class Progress:
    """The progress of a run."""

    step: int = 0
    seconds: float = 0.0
    evaluating: float = 0.0
    """Seconds of these spent on evaluations."""
    best: Best | None = None
    stale: int = 0
    """Number of evaluations since the best one."""
    evaluated: int = -1
    """The step of the last evaluation."""
    counts: dict[str, float] = field(default_factory=dict)
    """Totals of the task's counts, such as tokens, since the start."""
    longest_warmup: int | None = None
    """Most warm-up steps under the time limit; None until they are determined."""


def lasting(model: nn.Module) -> dict[str, Tensor]:
    """Return the weights of a model without the tensors that only its training needs (its transient tensors)."""
    return {name: tensor for name, tensor in weights(model).items() if name not in transient(model)}


def transient(model: nn.Module) -> dict[str, Tensor]:
    """Return the tensors that only training needs, such as a state carried from row to row."""
    names = traits_of(model).transient
    state = model.state_dict() if names else {}
    return {name: state[name] for name in names if name in state}


def load_lasting(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Load these lasting weights into a model, leaving its transient tensors as they are."""
    fill(model, {**transient(model), **tensors})


def files(
    model: nn.Module,
    optimizers: Mapping[str, torch.optim.Optimizer],
    progress: Progress,
    ema: Mapping[str, Tensor] | None = None,
) -> dict[str, dict[str, Any]]:
    """Return the files that a checkpoint needs for training to resume."""
    tensors: dict[str, Tensor] = {}
    numbers: dict[str, Any] = {}
    for part, optimizer in optimizers.items():
        for index, entries in optimizer.state_dict()["state"].items():
            for key, value in entries.items():
                (tensors if isinstance(value, Tensor) else numbers)[f"{part}/{index}/{key}"] = value
    tensors |= {f"{STATE}/{name}": tensor for name, tensor in transient(model).items()}
    tensors |= {f"{EMA}/{name}": tensor for name, tensor in (ema or {}).items()}
    return {
        "model.safetensors": lasting(model),
        TENSORS: tensors,
        NUMBERS: {"progress": asdict(progress), "optimizers": numbers},
    }


def restore(checkpoint: Checkpoint, model: nn.Module, optimizers: Mapping[str, torch.optim.Optimizer]) -> Progress:
    """Restore model and optimizers from a checkpoint; learning rates and other settings keep their present values."""
    tensors = checkpoint.tensors(TENSORS)
    fill(model, {**checkpoint.tensors(), **_strip_mark(tensors, STATE)})
    saved = checkpoint.json(NUMBERS)
    entries: dict[str, Any] = {**saved["optimizers"]}
    entries |= {name: tensor for name, tensor in tensors.items() if not name.startswith((f"{STATE}/", f"{EMA}/"))}
    states: dict[str, dict[int, dict[str, Any]]] = {part: {} for part in optimizers}
    for name, value in entries.items():
        part, index, key = name.split("/")
        if part not in states:
            raise CheckpointError(f"{checkpoint.directory}: trained a part {part!r} that this task does not have")
        states[part].setdefault(int(index), {})[key] = value
    for part, optimizer in optimizers.items():
        fresh = optimizer.state_dict()
        count = sum(len(group["params"]) for group in fresh["param_groups"])
        if any(index >= count for index in states[part]):
            raise CheckpointError(f"{checkpoint.directory}: {part} trained more tensors than the {count} of this task")
        optimizer.load_state_dict({**fresh, "state": states[part]})
    progress_fields = {
        name: value for name, value in saved["progress"].items() if name in Progress.__dataclass_fields__
    }
    return config.build(Progress, progress_fields, where=NUMBERS)


def read_average(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """Return the moving average of the weights in a checkpoint; empty if it has none."""
    return _strip_mark(checkpoint.tensors(TENSORS), EMA)


def _strip_mark(tensors: Mapping[str, Tensor], mark: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with this mark, by their names without it."""
    return {name.removeprefix(f"{mark}/"): tensor for name, tensor in tensors.items() if name.startswith(f"{mark}/")}


def mean(states: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the mean of several sets of weights; tensors that are not floating point are those of the last set."""
    sums: dict[str, Tensor] = {}
    last: Mapping[str, Tensor] = {}
    count = 0
    for state in states:
        count, last = count + 1, state
        for name, tensor in state.items():
            sums[name] = tensor.double() + sums.get(name, 0)
    return {
        name: (sums[name] / count).to(tensor.dtype) if tensor.is_floating_point() else tensor
        for name, tensor in last.items()
    }
