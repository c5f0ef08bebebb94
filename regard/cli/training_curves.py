"""The scores of runs over training time, which `regard compare` shows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.text_io import print_note

if TYPE_CHECKING:
    from regard.cli.tables import FittedTable
    from regard.training.history import Point

NEAR_BEST = 0.1  # share of the best score; when that is reached varies less by chance than when the best one is
PREFERRED_METRICS = ("bleu", "accuracy", "loss")  # metrics of trainings, the most telling first
LOWER_IS_BETTER = ("loss", "errors", "mae", "perplexity")  # better when smaller
METRIC_TITLES = {"bleu": "BLEU"}


@dataclass(frozen=True)
class TrainingCurves:
    """The scores of runs over training time, by one metric."""

    metric: str
    points_by_run: Mapping[str, Sequence[Point]]

    @property
    def title(self) -> str:
        """Return the metric as it is written."""
        return METRIC_TITLES.get(self.metric, self.metric)

    def best_point(self, points: Sequence[Point]) -> Point:
        """Return the best evaluation of a run."""
        return min(points, key=lambda point: point.score if self.metric in LOWER_IS_BETTER else -point.score)

    def first_near_best(self, points: Sequence[Point]) -> Point:
        """Return the first evaluation within a tenth of the best one."""
        best = self.best_point(points).score
        tolerance = NEAR_BEST * abs(best)
        return next(
            point
            for point in points
            if (point.score - best if self.metric in LOWER_IS_BETTER else best - point.score) <= tolerance
        )


def read_training_curves(
    models: Sequence[Path], names: Sequence[str], metric: str | None, *, required: bool
) -> TrainingCurves:
    """Read the scores of runs over training time; only run folders have any."""
    from regard.training import history

    folders = {}
    for path, name in zip(models, names, strict=True):
        if (path / "metrics.jsonl").is_file():
            folders[name] = path
        elif required:
            raise ValueError(f"{path}: not a run folder, so nothing is known over time: name test files by -i")
        else:
            print_note(f"{path}: not a run folder, left out over time")
    metric = metric or _common_metric(folders)
    curves = {}
    for name, path in folders.items():
        try:
            curves[name] = history.learning_curve(path, metric)
        except ValueError as error:
            if required:
                raise
            print_note(str(error))
    _check_comparable(folders)
    return TrainingCurves(metric, curves)


def _common_metric(folders: Mapping[str, Path]) -> str:
    """Return the most telling metric that all runs were measured by."""
    from regard.training import history

    metrics_by_run = [history.metrics(path) for path in folders.values()]
    shared = [
        name
        for name in PREFERRED_METRICS
        if metrics_by_run and all(name in run_metrics for run_metrics in metrics_by_run if run_metrics)
    ]
    return shared[0] if shared else PREFERRED_METRICS[-1]


def _check_comparable(folders: Mapping[str, Path]) -> None:
    """Refuse runs of different tasks, and name those that were measured on other data or in another way."""
    from regard import config
    from regard.models import modernise_settings
    from regard.tasks import DEFAULT

    measured_by: dict[str, Any] = {}
    tasks: dict[str, str] = {}
    for name, folder in folders.items():
        settings = modernise_settings(config.read(folder / "config.yaml"))
        tasks[name] = settings.get("task", DEFAULT)
        try:
            facts = json.loads((folder / "data.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise ValueError(f"{folder / 'data.json'}: damaged or not of this version, give another run") from None
        measured_by[name] = {"valid": facts.get("valid"), "objective": settings.get("objective", {})}
    if len(set(tasks.values())) > 1:
        tasks_by_name = ", ".join(f"{name} of {task}" for name, task in tasks.items())
        raise ValueError(f"models of different tasks cannot be compared: {tasks_by_name}")
    first = next(iter(measured_by.values()), None)
    for name in [name for name, measure in measured_by.items() if measure != first]:
        print_note(f"{name} was measured on other held-out data or in another way; -i compares")


def training_time_table(curves: TrainingCurves) -> FittedTable:
    """Return a table of when each run reached which score."""
    from regard.cli.tables import FittedTable

    rows = []
    for name, points in curves.points_by_run.items():
        last, best, near_best = points[-1], curves.best_point(points), curves.first_near_best(points)
        numbers = f"{last.seconds:.1f}", f"{last.step:,}", f"{last.score:.4g}", f"{best.score:.4g}"
        rows.append((name, *numbers, f"{best.seconds:.1f}", f"{near_best.seconds:.1f}"))
    head = ("run", "seconds", "steps", "last", "best", "best at", "within 10 % at")
    return FittedTable(head, rows, f"{curves.title} of held-out data by seconds of training")
