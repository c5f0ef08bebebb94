"""How scores are shown: as tables in the terminal, as JSON, and in files by their names."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.text_io import count_formulas, warn_about_formulas

if TYPE_CHECKING:
    from rich.console import Console

    from regard.metrics.scores import Comparison, Scores


def write_scores(systems: Sequence[Scores], comparison: Comparison | None, path: Path, *, worst: int = 5) -> None:
    """Write two systems side by side, scores by length, all numbers or every answer, as the file's name asks."""
    from regard.interpret.draw import curves, plots

    ending = path.suffix.lower()
    if ending == ".json":
        path.write_text(f"{scores_json(systems, comparison, worst)}\n", encoding="utf-8")
    elif ending == ".csv":
        _write_answers(systems, path)
    elif ending in (".html", ".htm"):
        assert comparison is not None, "two systems were asked for"
        path.write_text(_side_by_side_page(comparison), encoding="utf-8")
    elif not all(system.lengths for system in systems):
        raise ValueError(f"{path}: {systems[0].name} has no scores by length to draw, choose json or csv")
    else:
        plots.save(curves.by_length({system.name: system.lengths for system in systems}), path)


def _write_answers(systems: Sequence[Scores], path: Path) -> None:
    """Write a row for every example: input, reference, and the answer of each system."""
    import csv

    first = systems[0]
    if not first.examples:
        raise ValueError(f"{path}: {first.name} gives no single answers to list, choose json")
    formulas = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["number", "given", "right", *(name for system in systems for name in (system.name, "score"))])
        for rows in zip(*(system.examples for system in systems), strict=True):
            answer_cells = (cell for row in rows for cell in (row.answer, f"{row.score:.6g}"))
            cells = [rows[0].number, rows[0].given, rows[0].right, *answer_cells]
            formulas += count_formulas(cells)
            table.writerow(cells)
    warn_about_formulas(formulas, path)


def _side_by_side_page(comparison: Comparison) -> str:
    """Return a page with two systems side by side, example by example."""
    from regard.interpret.draw import side_by_side
    from regard.metrics.scores import number_duplicates

    first, second = comparison.systems[:2]
    sign = -1 if first.lower_is_better else 1  # the page puts what is worth more first
    rows = [
        side_by_side.Row(
            example.number,
            example.given,
            example.right,
            (example.answer, other_example.answer),
            (sign * example.score, sign * other_example.score),
        )
        for example, other_example in zip(first.examples, second.examples, strict=True)
    ]
    example, other_example = number_duplicates([first.name, second.name])
    return side_by_side.page((example, other_example), rows, summary=comparison.lines(), score=first.counted)


def scores_json(systems: Sequence[Scores], comparison: Comparison | None, worst: int) -> str:
    """Return the scores, and how they compare, as JSON."""
    record = comparison.plain(worst=worst) if comparison else systems[0].plain(worst=worst)
    return json.dumps(record, ensure_ascii=False, indent=1)


def print_scores(systems: Sequence[Scores], comparison: Comparison | None, *, worst: int) -> None:
    """Print the scores of each system, how they compare, and the worst answers of the first."""
    from rich.console import Console

    from regard.cli.tables import FittedTable

    console = Console(highlight=False)
    for system in systems:
        console.print(FittedTable(("", ""), system.lines()), "")
        for table in system.tables:
            if table.rows:
                console.print(FittedTable(table.head, table.rows, table.title), "")
    if comparison is not None:
        print_tests(console, comparison)
    for note in systems[0].notes:  # signatures are copied whole
        print(textwrap.fill(note, console.width, break_long_words=False, break_on_hyphens=False))
    for example in systems[0].worst(worst):
        heading = (f"{example.number}", f"{systems[0].counted} {example.score:.3g}")
        fields = zip(("given", "right", "answer"), example[1:4], strict=True)
        console.print("", FittedTable(("", ""), [heading, *fields]))


def print_tests(console: Console, comparison: Comparison) -> None:
    """Print each system by each metric, and the probability that its difference is chance."""
    from regard.cli.tables import FittedTable

    head, *rows = comparison.lines()
    console.print(FittedTable(head, rows, "Paired tests against the first"), "")
