"""The command that sets translators side by side: against the length of sentences, against the time they learnt."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.lines import PICTURES, counted, writable

if TYPE_CHECKING:
    from rich.table import Table

    from regard.tasks.translation.evaluation import Evaluation
    from regard.training.history import Point

NEARLY = 0.9  # of the best score: when it is reached says more than when the best one, which is a matter of chance


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, checkpoint directories or files of answers.")],
    test: Annotated[
        tuple[Path, Path] | None, typer.Option(metavar="SOURCE REFERENCE", help="Two files to translate and score.")
    ] = None,
    pairs: Annotated[Path | None, typer.Option(help="One file with both instead: TSV or JSON lines.")] = None,
    columns: Annotated[tuple[int, int], typer.Option(help="Columns of source and target in a TSV file.")] = (1, 2),
    to: Annotated[str | None, typer.Option(help="Target language; guessed when not given.")] = None,
    labels: Annotated[str | None, typer.Option(help="Names for the runs, in their order, between commas.")] = None,
    tokenize: Annotated[str, typer.Option(help="BLEU's tokenizer, such as 13a, none or zh.")] = "13a",
    out: Annotated[Path | None, typer.Option(help="Draw the curves into this PNG or SVG file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as one JSON object.")] = False,
    settings: Annotated[
        list[str] | None, typer.Option("--set", "-s", help="A decoding setting, such as beams=1.")
    ] = None,
) -> None:
    """Translators side by side: BLEU against the length of sentences and against seconds of training."""
    from rich.console import Console

    from regard import config
    from regard.cli.evaluate import directed, system
    from regard.interpret import plots

    writable(out, PICTURES)
    names = _names(runs, labels)
    curves = _curves(runs, names, needed=test is None and pairs is None)
    sentences = _sentences(test, pairs, columns)
    chosen = config.override({}, settings or [])
    if to is not None and not sentences:
        raise ValueError(f"--to {to} is for sentences to translate: name them by --test, or leave it out")
    directed(runs, to)
    each = partial(system, test=sentences or [], to=to, among=len(runs) > 1, tokenize=tokenize, settings=chosen)
    scored = [each(path) for path in runs] if sentences else []
    evaluations = dict(zip(names, scored, strict=True)) if scored else {}
    if as_json:
        print(json.dumps(_plain(runs, names, evaluations, curves), ensure_ascii=False, indent=1))
    else:
        tables = [*([_lengths(evaluations)] if evaluations else []), *([_times(curves)] if curves else [])]
        Console().print(*tables, sep="\n")
        for signature in {one.signatures()[0]: None for one in scored}:
            print(signature)
    if out is not None:
        plots.save(_drawn(evaluations, curves), out)
        print(f"{out}: {len(runs)} side by side", file=sys.stderr if as_json else sys.stdout)


def called(path: Path) -> str:
    """The name of a folder; of a checkpoint in a run folder both names, since many are called best."""
    found = path.resolve()
    folder = found.parents[1] if found.parent.name == "checkpoints" else found.parent
    return f"{folder.name}/{found.name}" if (folder / "metrics.jsonl").is_file() else found.name


def _names(runs: Sequence[Path], labels: str | None) -> list[str]:
    """One name for each run: as given, or that of its folder."""
    from regard.tasks.translation.evaluation import distinct

    if labels is None:
        return distinct([called(path) for path in runs])
    names = [name.strip() for name in labels.split(",")]
    if len(names) != len(runs) or not all(names) or len(set(names)) < len(names):
        raise ValueError(
            f"--labels {labels!r}: give {counted(len(runs), 'different name')} between commas, one for each run"
        )
    return names


def _sentences(
    test: tuple[Path, Path] | None, pairs: Path | None, columns: tuple[int, int]
) -> list[tuple[str, str]] | None:
    """The sentences to score on, if any."""
    from regard.data import testset
    from regard.data.readers import Corpus

    if test is None and pairs is None:
        return None
    if test is not None and pairs is not None:
        raise ValueError("--test and --pairs both name sentences to score on: give one of them")
    source, target = map(str, test) if test is not None else (None, None)
    return testset.read(
        Corpus(source=source, target=target, path=None if pairs is None else str(pairs), columns=columns)
    )


def _curves(runs: Sequence[Path], names: Sequence[str], *, needed: bool) -> dict[str, list[Point]]:
    """What the runs measured while they learnt; only run folders have measured anything."""
    from regard.training import history

    found, ways = {}, {}
    for path, name in zip(runs, names, strict=True):
        if not path.exists():
            raise ValueError(f"no model at {path}: give a run folder, a checkpoint directory or a file of answers")
        if (path / "metrics.jsonl").is_file():
            ways[name] = _measured_by(path)
            try:
                found[name] = history.curve(path, "bleu")
            except ValueError as error:
                if needed:
                    raise
                print(f"regard: {error}", file=sys.stderr)
        elif needed:
            raise ValueError(f"{path}: not a run folder, so nothing is known over time: name sentences by --test")
        else:
            print(f"regard: {path}: not a run folder, left out over time", file=sys.stderr)
    if len({json.dumps(way) for way in ways.values()}) > 1:
        print("regard: these runs were not held against the same sentences in the same way:", file=sys.stderr)
        for name, way in ways.items():
            print(f"regard:   {name}: {way['judged']} of {way['pairs']} pairs, beams {way['beams']}", file=sys.stderr)
    return found


def _measured_by(folder: Path) -> dict[str, Any]:
    """On what, and how, a run of translation was scored while it learnt."""
    from regard import config

    settings = config.read(folder / "config.yaml")
    if (task := settings.get("task", "translation")) != "translation":
        raise ValueError(f"{folder}: made for the task {task}, and this needs a model for translation")
    try:
        held = json.loads((folder / "data.json").read_text(encoding="utf-8"))["valid"]
        files = [corpus["sha256"] for corpus in held["corpora"]]
    except (OSError, ValueError, KeyError, TypeError):
        raise ValueError(f"{folder / 'data.json'}: damaged or not of this version, give another run") from None
    objective = settings.get("objective", {})
    return {"files": files, "pairs": held["pairs"], "judged": objective.get("judged"), "beams": objective.get("beams")}


def _plain(
    runs: Sequence[Path],
    names: Sequence[str],
    evaluations: Mapping[str, Evaluation],
    curves: Mapping[str, Sequence[Point]],
) -> dict[str, Any]:
    """As JSON."""
    told = []
    for path, name in zip(runs, names, strict=True):
        one: dict[str, Any] = {"name": name, "path": str(path)}
        if name in evaluations:
            own = evaluations[name].plain(worst=0)
            one |= {"sentences": own["sentences"], "bleu": own["bleu"], "by_length": own["by_length"]}
        if name in curves:
            one["by_time"] = [{"step": p.step, "seconds": p.seconds, "bleu": p.score} for p in curves[name]]
        told.append(one)
    return {"systems": told}


def _lengths(evaluations: Mapping[str, Evaluation]) -> Table:
    """BLEU of every system by the length of the sentences."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title="BLEU by words of the source, ± half of a 95 % interval", box=box.SIMPLE_HEAD)
    table.add_column("words", no_wrap=True)
    table.add_column("sentences", justify="right", no_wrap=True)
    for name in evaluations:
        table.add_column(Text(name), justify="right", overflow="fold")
    first = next(iter(evaluations.values()))
    for number, bucket in enumerate(first.lengths):
        own = [one.lengths[number] for one in evaluations.values()]
        several = len(bucket.members) > 1
        cells = (f"{one.score:.1f}{f' ± {one.interval.half:.1f}' if several else ''}" for one in own)
        table.add_row(bucket.name, f"{len(bucket.members):,}", *cells)
    scores = (f"{one.scores['bleu'].value:.1f}" for one in evaluations.values())
    table.add_row("all", f"{len(first.answers):,}", *scores)
    return table


def _times(curves: Mapping[str, Sequence[Point]]) -> Table:
    """When every run was how good."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title="BLEU of held-out pairs by seconds of training", box=box.SIMPLE_HEAD)
    table.add_column("run", overflow="fold")
    for name in ("seconds", "steps", "last", "best", "best at", "9/10 of it at"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, points in curves.items():
        last, best = points[-1], max(points, key=lambda point: point.score)
        nearly = next(point for point in points if point.score >= NEARLY * best.score)
        numbers = (f"{last.seconds:.1f}", f"{last.step:,}", f"{last.score:.1f}")
        table.add_row(Text(name), *numbers, f"{best.score:.1f}", f"{best.seconds:.1f}", f"{nearly.seconds:.1f}")
    return table


def _drawn(evaluations: Mapping[str, Evaluation], curves: Mapping[str, Sequence[Point]]) -> Any:
    """What there is to draw."""
    from regard.interpret import curves as pictures

    lengths = {name: one.lengths for name, one in evaluations.items()}
    times = {name: [(point.seconds, point.score) for point in points] for name, points in curves.items()}
    if lengths and times:
        return pictures.by_length_and_time(lengths, times)
    return pictures.by_length(lengths) if lengths else pictures.by_time(times)
