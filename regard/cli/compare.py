"""The command that sets models or runs side by side: paired tests, by length, and by the time they trained."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.evaluate import Columns, To, print_tests, scored, write
from regard.cli.grammar import Device, Json, Labels, Settings, called, options, ships
from regard.cli.lines import PICTURES, counted, writable

if TYPE_CHECKING:
    from regard.cli.tables import Fitted
    from regard.metrics.scores import Comparison, Scores
    from regard.training.history import Point

NEARLY = 0.1  # off the best score: when that is reached says more than when the best one, which is a matter of chance
PAGES = ("html", "htm")
USUAL = ("bleu", "accuracy", "loss")  # metrics of trainings, the most telling first
LOWER = ("loss", "errors", "mae", "perplexity")  # better when smaller
SHOWN = {"bleu": "BLEU"}


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
    _possible(output, models, input or [])
    names = names_of(models, labels)
    times = _times(models, names, metric, needed=not files)
    given = {"columns": columns, "to": to}
    chosen = options(settings) | {name: value for name, value in given.items() if value is not None}
    if chosen and not files:
        raise ValueError(f"{next(iter(chosen))} is for test files: name some by -i, or leave it out")
    _directed(models, to)
    systems = [
        scored(path, files, chosen, device=device, among=len(models) > 1, name=name)
        for path, name in zip(models, names, strict=True)
        if files
    ]
    compared = compare(systems) if len(systems) > 1 else None
    if as_json:
        print(json.dumps(_plain(models, names, systems, compared, times), ensure_ascii=False, indent=1))
    else:
        console = Console(highlight=False)
        if compared is not None:
            print_tests(console, compared)
        for table in (*_lengths(systems), *(_over_time(times) if times.curves else [])):
            console.print(table, "")
        for note in {note: None for one in systems for note in one.notes[:1]}:
            print(note)
    if output is not None:
        _write(output, systems, compared, times)
        print(f"{output}: {counted(len(models), 'model')} side by side", file=sys.stderr if as_json else sys.stdout)


def names_of(models: Sequence[Path], labels: str | None) -> list[str]:
    """One name for each model: as given, or that of its folder."""
    from regard.metrics.scores import number_duplicates

    if labels is None:
        return number_duplicates([called(path) for path in models])
    names = [name.strip() for name in labels.split(",")]
    if len(names) != len(models) or not all(names) or len(set(names)) < len(names):
        raise ValueError(
            f"--labels {labels!r}: give {counted(len(models), 'different name')} between commas, one for each model"
        )
    return names


def _possible(output: Path | None, models: Sequence[Path], files: Sequence[Path]) -> None:
    """Stop before anything is loaded at what is not there or could not be written."""
    writable(output, ("png", "svg", "html", "json", "csv", *PAGES, *PICTURES), reads=[*files, *models])
    if output is not None and output.suffix.lstrip(".").lower() in PAGES and (len(models) != 2 or not files):
        raise ValueError(f"{output} shows two models side by side: give two, and test files by -i")
    for path in models:
        if not path.exists() and not ships(str(path)):
            raise ValueError(f"no model at {path}: give a run folder, a checkpoint directory or a file of answers")


def _directed(models: Sequence[Path], to: str | None) -> None:
    """Stop at a language that none of several models can be sent to; a single one says so itself."""
    from regard import recipe

    if to is None or len(models) < 2:
        return
    loaded = (recipe.load(path, device="cpu") for path in models if not path.is_file())
    if not any(trained.languages for trained in loaded):
        raise ValueError(f"--to {to}: no model here translates to several languages, leave it out")


@dataclass(frozen=True)
class Times:
    """What runs measured while they trained, by one metric."""

    metric: str
    curves: Mapping[str, Sequence[Point]]

    @property
    def title(self) -> str:
        """The metric as it is written."""
        return SHOWN.get(self.metric, self.metric)

    def best(self, points: Sequence[Point]) -> Point:
        """The best evaluation of a run."""
        return min(points, key=lambda point: point.score if self.metric in LOWER else -point.score)

    def near(self, points: Sequence[Point]) -> Point:
        """The first evaluation that came within a tenth of the best one."""
        best = self.best(points).score
        gap = NEARLY * abs(best)
        return next(p for p in points if (p.score - best if self.metric in LOWER else best - p.score) <= gap)


def _times(models: Sequence[Path], names: Sequence[str], metric: str | None, *, needed: bool) -> Times:
    """What the runs measured while they trained; only run folders have measured anything."""
    from regard.training import history

    folders = {}
    for path, name in zip(models, names, strict=True):
        if (path / "metrics.jsonl").is_file():
            folders[name] = path
        elif needed:
            raise ValueError(f"{path}: not a run folder, so nothing is known over time: name test files by -i")
        else:
            print(f"regard: {path}: not a run folder, left out over time", file=sys.stderr)
    metric = metric or _shared(folders)
    curves = {}
    for name, path in folders.items():
        try:
            curves[name] = history.learning_curve(path, metric)
        except ValueError as error:
            if needed:
                raise
            print(f"regard: {error}", file=sys.stderr)
    _alike(folders)
    return Times(metric, curves)


def _shared(folders: Mapping[str, Path]) -> str:
    """A metric that all runs were measured by, the most telling one."""
    from regard.training import history

    known = [history.metrics(path) for path in folders.values()]
    shared = [name for name in USUAL if known and all(name in own for own in known if own)]
    return shared[0] if shared else USUAL[-1]


def _alike(folders: Mapping[str, Path]) -> None:
    """Refuse runs of different tasks, and say which were not measured on the same data in the same way."""
    from regard import config
    from regard.tasks import DEFAULT

    ways, tasks = {}, {}
    for name, folder in folders.items():
        settings = config.read(folder / "config.yaml")
        tasks[name] = settings.get("task", DEFAULT)
        try:
            facts = json.loads((folder / "data.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise ValueError(f"{folder / 'data.json'}: damaged or not of this version, give another run") from None
        ways[name] = {"valid": facts.get("valid"), "objective": settings.get("objective", {})}
    if len(set(tasks.values())) > 1:
        told = ", ".join(f"{name} of {task}" for name, task in tasks.items())
        raise ValueError(f"models of different tasks cannot be compared: {told}")
    first = next(iter(ways.values()), None)
    for name in [name for name, way in ways.items() if way != first]:
        print(f"regard: {name} was measured on other held-out data or in another way; -i compares", file=sys.stderr)


def _plain(
    models: Sequence[Path],
    names: Sequence[str],
    systems: Sequence[Scores],
    compared: Comparison | None,
    times: Times,
) -> dict[str, Any]:
    """As JSON."""
    told = []
    for number, (path, name) in enumerate(zip(models, names, strict=True)):
        one: dict[str, Any] = {"name": name, "path": str(path)}
        if systems:
            one |= systems[number].plain(worst=0)
        if name in times.curves:
            points = times.curves[name]
            one["by_time"] = [{"step": p.step, "seconds": p.seconds, times.metric: p.score} for p in points]
        told.append(one)
    return {"systems": told} | ({"tests": compared.plain(worst=0)["tests"]} if compared else {})


def _lengths(systems: Sequence[Scores]) -> list[Fitted]:
    """The scores of every system by the length of what was given, where that makes sense."""
    from regard.cli.tables import Fitted

    if not systems or not all(one.lengths for one in systems):
        return []
    rows = []
    for number, bucket in enumerate(systems[0].lengths):
        own = [one.lengths[number] for one in systems]
        several = len(bucket.members) > 1
        cells = (f"{one.score:.1f}{f' ± {one.interval.half:.1f}' if several else ''}" for one in own)
        rows.append((bucket.name, f"{len(bucket.members):,}", *cells))
    metric = next(iter(systems[0].metrics))
    rows.append(("all", f"{len(systems[0]):,}", *(f"{one.metrics[metric]:.1f}" for one in systems)))
    names = ("words", f"{systems[0].unit}s", *(one.name for one in systems))
    return [Fitted(names, rows, f"{metric} by words of the source, ± half of a 95 % interval")]


def _over_time(times: Times) -> list[Fitted]:
    """When every run was how good."""
    from regard.cli.tables import Fitted

    rows = []
    for name, points in times.curves.items():
        last, best, near = points[-1], times.best(points), times.near(points)
        numbers = f"{last.seconds:.1f}", f"{last.step:,}", f"{last.score:.4g}", f"{best.score:.4g}"
        rows.append((name, *numbers, f"{best.seconds:.1f}", f"{near.seconds:.1f}"))
    head = ("run", "seconds", "steps", "last", "best", "best at", "within 10 % at")
    return [Fitted(head, rows, f"{times.title} of held-out data by seconds of training")]


def _write(path: Path, systems: Sequence[Scores], compared: Comparison | None, times: Times) -> None:
    """What the file's name asks for."""
    from regard.interpret import curves, plots

    if path.suffix.lstrip(".").lower() in (*PAGES, "json", "csv"):
        if not systems:
            raise ValueError(f"{path}: nothing was evaluated, name test files by -i or choose png")
        return write(systems, compared, path)
    lengths = {one.name: one.lengths for one in systems if one.lengths}
    points = {name: [(point.seconds, point.score) for point in some] for name, some in times.curves.items()}
    if lengths and points:
        return plots.save(curves.by_length_and_time(lengths, points, score=times.title), path)
    plots.save(curves.by_length(lengths) if lengths else curves.by_time(points, score=times.title), path)
