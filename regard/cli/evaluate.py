"""The command that measures: scores of a model on test files, whatever its task, and whether it beats another."""

from __future__ import annotations

import inspect
import json
import re
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.file_options import COLUMNS
from regard.cli.grammar import Device, Json, Settings, called, named, options
from regard.cli.lines import PICTURES, count_formulas, tell_formulas, writable

if TYPE_CHECKING:
    from rich.console import Console

    from regard.metrics.scores import Comparison, Scores

PAIR = re.compile(r"([0-9]+),\s*([0-9]+)")
KINDS = ("html", "png", "svg", "json", "csv", "htm", *PICTURES)
Columns = Annotated[tuple[int, int] | None, typer.Option(help=COLUMNS)]
To = Annotated[str | None, typer.Option(help="Target language of translators; guessed if not given.")]


def evaluate(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL] FILE...", help="A model, else the shipped one; test files like those it was trained on."
        ),
    ] = None,
    against: Annotated[
        list[Path] | None,
        typer.Option(metavar="MODEL", help="Another model, or a file of answers, to compare with; again for more."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Side by side (.html), by length (.png, .svg), all numbers (.json), every answer (.csv).",
        ),
    ] = None,
    columns: Columns = None,
    to: To = None,
    metric: Annotated[
        str | None,
        typer.Option(help="Of translators: overlap (BLEU, chrF, TER) or errors (wrong answers, edits to the nearest)."),
    ] = None,
    able: Annotated[
        str | None,
        typer.Option("--as", metavar="TASK", help="What to score a model by that can do several: masked-lm, matching."),
    ] = None,
    length: Annotated[
        int | None, typer.Option(metavar="STEPS", help="Of models of drawn sequences: their length, 80 for instance.")
    ] = None,
    worst: Annotated[int, typer.Option(min=0, help="How many of the worst answers to show.")] = 5,
    settings: Settings = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Score a model on test files; compare it with others."""
    from regard import shipped
    from regard.metrics.scores import compare

    model, files = named(words or [])
    others = against or []
    _possible(output, files, others)
    given = {"columns": columns, "to": to, "metric": metric, "length": length}
    chosen = options(settings) | {name: value for name, value in given.items() if value is not None}
    systems = [
        scored(path, files, chosen, device=device, among=bool(others), able=able)
        for path in (model or Path(shipped.FIRST), *others)
    ]
    compared = compare(systems) if others else None
    if as_json:
        print(_json(systems, compared, worst))
    else:
        _print(systems, compared, worst=worst)
    if output is not None:
        write(systems, compared, output, worst=worst)


def split_columns(words: Sequence[str]) -> list[str]:
    """The words of a command, `--columns 1,2` written as `--columns 1 2`."""
    split: list[str] = []
    for before, word in zip(("", *words), words, strict=False):
        name, _, value = word.rpartition("=")
        numbers = PAIR.fullmatch(value)
        if numbers and (name == "--columns" or (not name and before == "--columns")):
            split += [*([name] if name else []), *numbers.groups()]
        else:
            split.append(word)
    return split


def scored(
    path: Path,
    files: Sequence[str],
    chosen: dict[str, Any],
    *,
    device: str,
    among: bool,
    name: str | None = None,
    able: str | None = None,
) -> Scores:
    """The scores of a model, or of the answers in a file; among others, a model may not know some of the options."""
    from regard import recipe
    from regard.tasks import FACES

    name = name or called(path)
    if path.is_file():
        judge = next(face.score_answers for face in FACES.values() if face.score_answers is not None)
        known = judge.Options.__dataclass_fields__  # the others are for models
        return judge.call(path, *files, name=name, **{key: value for key, value in chosen.items() if key in known})
    trained = recipe.load(path, device=device, task=able)
    if among and "alignments" in trained.extras and not trained.languages:
        chosen = {key: value for key, value in chosen.items() if key != "to"}  # of one direction: nothing to choose
    scores = trained.evaluate(*files, name=name, **_known(trained, chosen))
    for line in scores.warnings:
        print(line, file=sys.stderr)
    return scores


def _known(trained: Any, chosen: dict[str, Any]) -> dict[str, Any]:
    """The options, all of which its evaluation must know, checked; lists of YAML as tuples."""
    from regard import config

    parameters = inspect.signature(trained.evaluate).parameters.values()
    names = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY and one.name != "name"]
    if not any(one.kind is one.VAR_KEYWORD for one in parameters):
        for option in chosen:
            if option not in names:
                may = f"set {', '.join(names)}" if names else "leave it out"
                raise ValueError(f"{option} is nothing that {trained.kind} is evaluated by: {may}")
    checked = config.arguments(trained.evaluate, chosen)
    return {name: tuple(value) if isinstance(value, list) else value for name, value in checked.items()}


def _possible(output: Path | None, files: Sequence[str], others: Sequence[Path]) -> None:
    """Stop before anything is loaded at what could not be written."""
    writable(output, KINDS, reads=[*map(Path, files), *others])
    if output is not None and output.suffix.lower() in (".html", ".htm") and len(others) != 1:
        raise ValueError(f"{output} shows two systems side by side: give one --against, not {len(others)}")


def write(systems: Sequence[Scores], compared: Comparison | None, path: Path, *, worst: int = 5) -> None:
    """What the file's name asks for: side by side, by length, all numbers, or every answer."""
    from regard.interpret import curves, plots

    kind = path.suffix.lower()
    if kind == ".json":
        path.write_text(f"{_json(systems, compared, worst)}\n", encoding="utf-8")
    elif kind == ".csv":
        _every(systems, path)
    elif kind in (".html", ".htm"):
        assert compared is not None, "two systems were asked for"
        path.write_text(_page(compared), encoding="utf-8")
    elif not all(one.lengths for one in systems):
        raise ValueError(f"{path}: {systems[0].name} has no scores by length to draw, choose json or csv")
    else:
        plots.save(curves.by_length({one.name: one.lengths for one in systems}), path)


def _every(systems: Sequence[Scores], path: Path) -> None:
    """A row for every example: what was given, what is right, and what each system answered."""
    import csv

    first = systems[0]
    if not first.examples:
        raise ValueError(f"{path}: {first.name} gives no single answers to list, choose json")
    formulas = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["number", "given", "right", *(name for one in systems for name in (one.name, "score"))])
        for rows in zip(*(one.examples for one in systems), strict=True):
            own = (cell for row in rows for cell in (row.answer, f"{row.score:.6g}"))
            cells = [rows[0].number, rows[0].given, rows[0].right, *own]
            formulas += count_formulas(cells)
            table.writerow(cells)
    tell_formulas(formulas, path)


def _page(compared: Comparison) -> str:
    """Two systems side by side, example by example."""
    from regard.interpret import sidebyside
    from regard.metrics.scores import number_duplicates

    first, second = compared.systems[:2]
    sign = -1 if first.lower_is_better else 1  # the page puts what is worth more first
    rows = [
        sidebyside.Row(
            one.number, one.given, one.right, (one.answer, other.answer), (sign * one.score, sign * other.score)
        )
        for one, other in zip(first.examples, second.examples, strict=True)
    ]
    one, other = number_duplicates([first.name, second.name])
    return sidebyside.page((one, other), rows, summary=compared.lines(), score=first.counted)


def _json(systems: Sequence[Scores], compared: Comparison | None, worst: int) -> str:
    told = compared.plain(worst=worst) if compared else systems[0].plain(worst=worst)
    return json.dumps(told, ensure_ascii=False, indent=1)


def _print(systems: Sequence[Scores], compared: Comparison | None, *, worst: int) -> None:
    """Scores of each, how they compare, and the worst answers of the first."""
    from rich.console import Console

    from regard.cli.tables import Fitted

    console = Console(highlight=False)
    for one in systems:
        console.print(Fitted(("", ""), one.lines()), "")
        for table in one.tables:
            if table.rows:
                console.print(Fitted(table.head, table.rows, table.title), "")
    if compared is not None:
        print_tests(console, compared)
    for note in systems[0].notes:  # signatures are copied whole
        print(textwrap.fill(note, console.width, break_long_words=False, break_on_hyphens=False))
    for example in systems[0].worst(worst):
        head = (f"{example.number}", f"{systems[0].counted} {example.score:.3g}")
        told = zip(("given", "right", "answer"), example[1:4], strict=True)
        console.print("", Fitted(("", ""), [head, *told]))


def print_tests(console: Console, compared: Comparison) -> None:
    """Each system by each metric, and the probability of its difference by chance."""
    from regard.cli.tables import Fitted

    head, *rows = compared.lines()
    console.print(Fitted(head, rows, "Paired tests against the first"), "")
