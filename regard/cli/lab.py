"""The command that asks taggers about French participles: how often they err, by the distance of the subject."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.compare import called
from regard.cli.lines import PICTURES, counted, writable

if TYPE_CHECKING:
    from rich.table import Table

    from regard.lab.agreement.judging import Point

MOST = 200  # words that a sentence can sensibly have


def agreement(
    runs: Annotated[list[Path], typer.Argument(help="Taggers trained on what `regard data agreement` writes.")],
    labels: Annotated[
        str | None, typer.Option(help="Names for the runs, between commas; runs of one name are averaged.")
    ] = None,
    distances: Annotated[str, typer.Option(help="Words between subject and participle.")] = "1,2,4,8,12,16,24,32,48",
    count: Annotated[int, typer.Option(min=1, help="Sentences at each distance.")] = 500,
    seed: Annotated[int, typer.Option(min=0, help="Where the sentences start.")] = 0,
    plain: Annotated[bool, typer.Option("--plain", help="Without participles beside the nouns in between.")] = False,
    longest: Annotated[int, typer.Option(min=1, help="Longest distance met in training, drawn as a line.")] = 16,
    plot: Annotated[Path | None, typer.Option(help="Draw the curves into this PNG or SVG file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Every number as one JSON object.")] = False,
) -> None:
    """How often taggers misjudge a French participle, by distance from its subject, with and without attractors."""
    from rich.console import Console

    import regard
    from regard.interpret import curves, plots
    from regard.lab.agreement import judging

    writable(plot, PICTURES)
    groups = _groups(runs, labels)
    lengths, found = _distances(distances), {}
    for name, paths in groups.items():
        taggers = [regard.load(path, task="tagging") for path in paths]
        found[name] = judging.measure(taggers, distances=lengths, count=count, seed=seed, described=not plain)
    if as_json:
        told = {name: [point.plain() for point in points] for name, points in found.items()}
        print(json.dumps({"sentences": count, "seed": seed, "models": told}, ensure_ascii=False, indent=1))
    else:
        for attractors, title in judging.CONDITIONS.items():
            Console().print(_table(title, _chosen(found, attractors)))
    if plot is not None:
        panels = {title: _drawn(_chosen(found, each)) for each, title in judging.CONDITIONS.items()}
        plots.save(curves.by_words_between(panels, longest=longest), plot)
        print(f"{plot}: errors against distance", file=sys.stderr if as_json else sys.stdout)


def _groups(runs: Sequence[Path], labels: str | None) -> dict[str, list[Path]]:
    """Runs by their name."""
    names = [called(path) for path in runs] if labels is None else [name.strip() for name in labels.split(",")]
    if len(names) != len(runs) or not all(names):
        raise ValueError(f"--labels {labels!r}: give {counted(len(runs), 'name')} between commas, one for each run")
    groups: dict[str, list[Path]] = {}
    for name, path in zip(names, runs, strict=True):
        groups.setdefault(name, []).append(path)
    return groups


def _distances(text: str) -> list[int]:
    try:
        found = sorted({int(each) for each in text.split(",")})
    except ValueError:
        found = [0]
    if found[0] < 1 or found[-1] > MOST:
        raise ValueError(f"--distances {text!r}: give whole numbers from 1 to {MOST} between commas, such as 1,8,32")
    return found


def _chosen(found: Mapping[str, Sequence[Point]], attractors: bool) -> dict[str, list[Point]]:
    return {name: [point for point in points if point.attractors == attractors] for name, points in found.items()}


def _drawn(found: Mapping[str, Sequence[Point]]) -> dict[str, list[tuple[int, float, float, float]]]:
    """Distance, mean, least and most error of each model."""
    return {
        name: [(point.distance, point.error, min(point.errors), max(point.errors)) for point in points]
        for name, points in found.items()
    }


def _table(title: str, found: Mapping[str, Sequence[Point]]) -> Table:
    """A line for every distance, however many there are, and a column for every model."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=f"Errors in 100, {title}", box=box.SIMPLE_HEAD)
    table.add_column("words between", justify="right")
    for name in found:
        table.add_column(Text(name), justify="right", overflow="fold")
    for points in zip(*found.values(), strict=True):
        table.add_row(f"{points[0].distance}", *(f"{point.error:.1f}" for point in points))
    return table
