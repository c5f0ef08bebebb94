"""Default length of training and intervals of evaluation, from the amount of data; explicit settings stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil, log2
from typing import Any

from regard.config.merging import keep_earlier_values
from regard.training.loop import TrainingConfig
from regard.training.optim import OptimConfig
from regard.training.warmup import affordable_warmup

WARM = 0.04  # share of a long run that is warm-up


def round_between(low: int, value: int | float, high: int) -> int:
    """Round a value to the nearest whole number within bounds."""
    return round(min(max(value, low), high))


def power_of_two_below(value: int | float) -> int:
    """Return the largest power of two that is not above a number."""
    return 2 ** int(log2(max(1.0, value)))


def default_run_length(
    training: TrainingConfig, *, rows: int, steps: int, looks: int = 20, patience: int = 10
) -> dict[str, Any]:
    """Choose length, patience and intervals of evaluations and checkpoints for a run of `steps` over `rows` of data.

    If another length was set, the intervals follow from it; with a time limit the number of steps is unknown, and they
    are left out.
    """
    settings: dict[str, Any] = {"steps": steps, "patience": patience}
    planned = _planned_steps(training, rows, steps)
    if planned is not None:
        often = round_between(1, planned / looks, 500)
        settings |= {"eval_every": often, "save_every": often, "log_every": round_between(1, often / 5, 50)}
    return settings


def resolve_warmup(
    settings: Mapping[str, Any], recipe: Any, *, rows: int, begun: Mapping[str, Any] | None = None
) -> Any:
    """Return the recipe with a warm-up in proportion to the length of the run, unless one was set."""
    optim = vars(recipe).get("optim")
    if not isinstance(optim, OptimConfig) or "warmup" in (settings.get("optim") or {}):
        return recipe
    warmup = keep_earlier_values(
        {"warmup": scale_warmup(optim, recipe.training, rows=rows).warmup}, (begun or {}).get("optim")
    )
    return replace(recipe, optim=replace(optim, **warmup))


def scale_warmup(optim: OptimConfig, training: TrainingConfig, *, rows: int) -> OptimConfig:
    """Return settings with a warm-up in proportion to the run; one that is not the default was chosen and stays."""
    usual = type(optim)().warmup
    planned = _planned_steps(training, rows, training.steps)
    if optim.warmup != usual or planned is None:
        return optim
    return replace(
        optim, warmup=round_between(1, min(affordable_warmup(planned), max(usual, WARM * planned)), 10 * usual)
    )


def _planned_steps(training: TrainingConfig, rows: int, steps: int) -> int | None:
    """Return the number of steps of a run, or None if a time limit decides."""
    if training.epochs is not None:
        return max(1, ceil(training.epochs * rows / training.accumulate))
    if training.steps != TrainingConfig().steps:
        return training.steps
    return None if training.seconds is not None else steps
