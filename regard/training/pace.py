"""How long to train and how often to look, as the amount of data suggests; what somebody named stays."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, log2
from typing import Any

from regard.training.loop import TrainingConfig
from regard.training.warmup import affordable_warmup

WARM = 0.04  # share of a long run over which the rate rises


def between(low: int, value: int | float, high: int) -> int:
    """The whole number nearest to the value within bounds."""
    return round(min(max(value, low), high))


def power(value: int | float) -> int:
    """The largest power of two that is not above a number."""
    return 2 ** int(log2(max(1.0, value)))


def pace(training: TrainingConfig, *, rows: int, steps: int, looks: int = 20, patience: int = 10) -> dict[str, Any]:
    """Length, evaluations, checkpoints and patience of a run of `steps` over data of so many rows.

    Where another length was named, what is done so and so often follows from that one; of a time nobody knows how many
    steps it is.
    """
    found: dict[str, Any] = {"steps": steps, "patience": patience}
    planned = _planned(training, rows, steps)
    if planned is not None:
        often = between(1, planned / looks, 500)
        found |= {"evaluate": often, "save": often, "log": between(1, often / 5, 50)}
    return found


def warmed(optim: Any, training: TrainingConfig, *, rows: int) -> Any:
    """Optimizer settings whose warm-up is in proportion to the run; one that is not the default was chosen."""
    usual = getattr(type(optim)(), "warmup", None) if hasattr(optim, "warmup") else None
    planned = _planned(training, rows, training.steps)
    if usual is None or optim.warmup != usual or planned is None:
        return optim
    return replace(optim, warmup=between(1, min(affordable_warmup(planned), max(usual, WARM * planned)), 10 * usual))


def _planned(training: TrainingConfig, rows: int, steps: int) -> int | None:
    """How many steps a run will have, unless the clock decides."""
    if training.epochs is not None:
        return max(1, ceil(training.epochs * rows / training.accumulate))
    if training.steps != TrainingConfig().steps:
        return training.steps
    return None if training.seconds is not None else steps
