"""The command that compares models or runs: paired tests, scores by length, scores by training time."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.evaluate import Columns, To, print_tests, score_system, write_scores
from regard.cli.grammar import Device, Json, Labels, Settings, is_shipped, model_name, parse_settings
from regard.cli.text_io import PICTURE_FORMATS, check_writable
from regard.config.words import quantity

if TYPE_CHECKING:
    from regard.cli.tables import FittedTable
    from regard.metrics.scores import Comparison, Scores
    from regard.training.history import Point

NEAR_BEST = (
    0.1  # off the best score: when that is reached says more than when the best one, which is a matter of chance
)
PAGE_FORMATS = ("html", "htm")
PREFERRED_METRICS = ("bleu", "accuracy", "loss")  # metrics of trainings, the most telling first
LOWER_IS_BETTER = ("loss", "errors", "mae", "perplexity")  # better when smaller
METRIC_TITLES = {"bleu": "BLEU"}


def compare(
    models: Annotated[
        list[Path], typer.Argument(metavar="MODEL...", help="Run folders, checkpoints or files of answers.")
    ],
    input: Annotated[
        list[Path] | None,
        typer.Option("--input", "-i", metavar="FILE", help="Test file to evaluate all on; again for a second side."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Curves (.png, .svg), side by side (.html), .json or .csv."
        ),
    ] = None,
    labels: Labels = None,
    metric: Annotated[
        str | None, typer.Option(metavar="NAME", help="What runs are compared by over time; else their goal.")
    ] = None,
    columns: Columns = None,
    to: To = None,
    settings: Settings = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Compare models: paired tests, by length, by training time."""
    from rich.console import Console

    from regard.metrics.scores import compare

    files = [str(file) for file in input or []]
    _check_paths(output, models, input or [])
    names = model_names(models, labels)
    curves = _read_training_curves(models, names, metric, required=not files)
    options = parse_settings(settings, columns=columns, to=to)
    if options and not files:
        raise ValueError(f"{next(iter(options))} is for test files: name some by -i, or leave it out")
    _check_target_language(models, to)
    systems = [
        score_system(path, files, options, device=device, is_one_of_several=len(models) > 1, name=name)
        for path, name in zip(models, names, strict=True)
        if files
    ]
    comparison = compare(systems) if len(systems) > 1 else None
    if as_json:
        print(json.dumps(_comparison_record(models, names, systems, comparison, curves), ensure_ascii=False, indent=1))
    else:
        console = Console(highlight=False)
        if comparison is not None:
            print_tests(console, comparison)
        for table in (*_length_tables(systems), *(_time_tables(curves) if curves.points_by_run else [])):
            console.print(table, "")
        for note in {note: None for system in systems for note in system.notes[:1]}:
            print(note)
    if output is not None:
        _write_comparison(output, systems, comparison, curves)
        print(f"{output}: {quantity(len(models), 'model')} side by side", file=sys.stderr if as_json else sys.stdout)


def model_names(models: Sequence[Path], labels: str | None) -> list[str]:
    """Return a name for each model: as given by --labels, or that of its folder."""
    from regard.metrics.scores import number_duplicates

    if labels is None:
        return number_duplicates([model_name(path) for path in models])
    names = [name.strip() for name in labels.split(",")]
    if len(names) != len(models) or not all(names) or len(set(names)) < len(names):
        raise ValueError(
            f"--labels {labels!r}: give {quantity(len(models), 'different name')} between commas, one for each model"
        )
    return names


def _check_paths(output: Path | None, models: Sequence[Path], files: Sequence[Path]) -> None:
    """Refuse, before anything is loaded, missing models and an output that cannot be written."""
    check_writable(
        output, ("png", "svg", "html", "json", "csv", *PAGE_FORMATS, *PICTURE_FORMATS), inputs=[*files, *models]
    )
    if output is not None and output.suffix.lstrip(".").lower() in PAGE_FORMATS and (len(models) != 2 or not files):
        raise ValueError(f"{output} shows two models side by side: give two, and test files by -i")
    for path in models:
        if not path.exists() and not is_shipped(str(path)):
            raise ValueError(f"no model at {path}: give a run folder, a checkpoint directory or a file of answers")


def _check_target_language(models: Sequence[Path], to: str | None) -> None:
    """Refuse a target language that none of several models knows; a single model refuses it itself."""
    from regard import recipe

    if to is None or len(models) < 2:
        return
    trained_models = (recipe.load(path, device="cpu") for path in models if not path.is_file())
    if not any(trained.languages for trained in trained_models):
        raise ValueError(f"--to {to}: no model here translates to several languages, leave it out")


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


def _read_training_curves(
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
            print(f"regard: {path}: not a run folder, left out over time", file=sys.stderr)
    metric = metric or _common_metric(folders)
    curves = {}
    for name, path in folders.items():
        try:
            curves[name] = history.learning_curve(path, metric)
        except ValueError as error:
            if required:
                raise
            print(f"regard: {error}", file=sys.stderr)
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
    from regard.tasks import DEFAULT

    measured_by, tasks = {}, {}
    for name, folder in folders.items():
        settings = config.read(folder / "config.yaml")
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
        print(f"regard: {name} was measured on other held-out data or in another way; -i compares", file=sys.stderr)


def _comparison_record(
    models: Sequence[Path],
    names: Sequence[str],
    systems: Sequence[Scores],
    comparison: Comparison | None,
    curves: TrainingCurves,
) -> dict[str, Any]:
    """Return the comparison as JSON."""
    records = []
    for number, (path, name) in enumerate(zip(models, names, strict=True)):
        record: dict[str, Any] = {"name": name, "path": str(path)}
        if systems:
            record |= systems[number].plain(worst=0)
        if name in curves.points_by_run:
            points = curves.points_by_run[name]
            record["by_time"] = [
                {"step": point.step, "seconds": point.seconds, curves.metric: point.score} for point in points
            ]
        records.append(record)
    return {"systems": records} | ({"tests": comparison.plain(worst=0)["tests"]} if comparison else {})


def _length_tables(systems: Sequence[Scores]) -> list[FittedTable]:
    """Return a table of scores by the length of the input, where every system has them."""
    from regard.cli.tables import FittedTable

    if not systems or not all(system.lengths for system in systems):
        return []
    rows = []
    for number, bucket in enumerate(systems[0].lengths):
        buckets = [system.lengths[number] for system in systems]
        has_interval = len(bucket.members) > 1
        cells = (f"{system.score:.1f}{f' ± {system.interval.half:.1f}' if has_interval else ''}" for system in buckets)
        rows.append((bucket.name, f"{len(bucket.members):,}", *cells))
    metric = next(iter(systems[0].metrics))
    rows.append(("all", f"{len(systems[0]):,}", *(f"{system.metrics[metric]:.1f}" for system in systems)))
    names = ("words", f"{systems[0].unit}s", *(system.name for system in systems))
    return [FittedTable(names, rows, f"{metric} by words of the source, ± half of a 95 % interval")]


def _time_tables(curves: TrainingCurves) -> list[FittedTable]:
    """Return a table of when each run reached which score."""
    from regard.cli.tables import FittedTable

    rows = []
    for name, points in curves.points_by_run.items():
        last, best, near_best = points[-1], curves.best_point(points), curves.first_near_best(points)
        numbers = f"{last.seconds:.1f}", f"{last.step:,}", f"{last.score:.4g}", f"{best.score:.4g}"
        rows.append((name, *numbers, f"{best.seconds:.1f}", f"{near_best.seconds:.1f}"))
    head = ("run", "seconds", "steps", "last", "best", "best at", "within 10 % at")
    return [FittedTable(head, rows, f"{curves.title} of held-out data by seconds of training")]


def _write_comparison(
    path: Path, systems: Sequence[Scores], comparison: Comparison | None, training_curves: TrainingCurves
) -> None:
    """Write curves, a page of two systems side by side, or numbers, as the file's name asks."""
    from regard.interpret.draw import curves, plots

    if path.suffix.lstrip(".").lower() in (*PAGE_FORMATS, "json", "csv"):
        if not systems:
            raise ValueError(f"{path}: nothing was evaluated, name test files by -i or choose png")
        return write_scores(systems, comparison, path)
    lengths = {system.name: system.lengths for system in systems if system.lengths}
    points = {
        name: [(point.seconds, point.score) for point in curve] for name, curve in training_curves.points_by_run.items()
    }
    if lengths and points:
        return plots.save(curves.by_length_and_time(lengths, points, score=training_curves.title), path)
    plots.save(curves.by_length(lengths) if lengths else curves.by_time(points, score=training_curves.title), path)
