"""The command that compares models or runs: paired tests, scores by length, scores by training time."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.evaluate import Columns, To, score_system
from regard.cli.grammar import Device, Json, Labels, Settings, is_shipped, model_name, parse_settings
from regard.cli.score_views import print_tests, write_scores
from regard.cli.text_io import PICTURE_FORMATS, check_writable
from regard.cli.training_curves import TrainingCurves, read_training_curves, training_time_table
from regard.config.words import quantity

if TYPE_CHECKING:
    from regard.cli.tables import FittedTable
    from regard.metrics.scores import Comparison, Scores

PAGE_FORMATS = ("html", "htm")


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
    from regard.metrics.scores import compare

    files = [str(file) for file in input or []]
    _check_paths(output, models, input or [])
    names = model_names(models, labels)
    curves = read_training_curves(models, names, metric, required=not files)
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
        _print_comparison(systems, comparison, curves)
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


def _print_comparison(systems: Sequence[Scores], comparison: Comparison | None, curves: TrainingCurves) -> None:
    """Print paired tests, scores by length and by training time, and how the scores were counted."""
    from rich.console import Console

    console = Console(highlight=False)
    if comparison is not None:
        print_tests(console, comparison)
    if systems and all(system.lengths for system in systems):
        console.print(_length_table(systems), "")
    if curves.points_by_run:
        console.print(training_time_table(curves), "")
    for note in {note: None for system in systems for note in system.notes[:1]}:
        print(note)


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


def _length_table(systems: Sequence[Scores]) -> FittedTable:
    """Return a table of the scores of all systems by the length of the input."""
    from regard.cli.tables import FittedTable

    rows = []
    for number, bucket in enumerate(systems[0].lengths):
        buckets = [system.lengths[number] for system in systems]
        has_interval = len(bucket.members) > 1
        cells = (f"{system.score:.1f}{f' ± {system.interval.half:.1f}' if has_interval else ''}" for system in buckets)
        rows.append((bucket.name, f"{len(bucket.members):,}", *cells))
    metric = next(iter(systems[0].metrics))
    rows.append(("all", f"{len(systems[0]):,}", *(f"{system.metrics[metric]:.1f}" for system in systems)))
    names = ("words", f"{systems[0].unit}s", *(system.name for system in systems))
    return FittedTable(names, rows, f"{metric} by words of the source, ± half of a 95 % interval")


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
