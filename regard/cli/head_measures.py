"""What the heads of a translator do, measured over sentences that were aligned by hand."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.trace_views import View, link_errors

if TYPE_CHECKING:
    from regard.interpret.trace import Trace
    from regard.metrics.alignment import Gold


def measure_heads(trained: Any, to: str | None, path: Path | None, *, interventions: bool, as_json: bool) -> None:
    """Print what the heads do over the sentences aligned by hand: in sentences, then in tables."""
    from rich.console import Console

    from regard.cli.tables import FittedTable
    from regard.interpret.measure.summary import summary

    if path is not None and path.suffix.lower() != ".json":
        raise ValueError(f"{path}: measures are written as .json, or shown in the terminal without -o")
    reader, golds = _load_reader_and_golds(trained, to)
    tables = summary(reader, golds, intervene=interventions)
    json_text = json.dumps([asdict(table) for table in tables], ensure_ascii=False, indent=1)
    if as_json:
        print(json_text)
        return
    if path is not None:
        path.write_text(f"{json_text}\n", encoding="utf-8")
        print(f"{path}: what the heads do")
        return
    console = Console(highlight=False)
    for table in tables:
        console.print(table.finding, markup=False)
    for table in tables:
        if table.main:
            console.print()
            rows = [table.rows[number] for number in table.main]
            console.print(FittedTable(table.columns, rows, table.title, table.note))
    console.print("\nEvery head by itself: --json, or -o heads.json.")


def page_extras(
    trained: Any, trace: Trace, view: View, to: str | None, with_measures: bool, gold: str | None
) -> dict[str, Any]:
    """Return what a page shows beside the weights: numbers of the heads, and links made by hand with their score."""
    from regard.interpret.measure import alignment_scores, summary

    numbers: dict[str, Any] = dict(link_errors(trace, view, gold))
    if with_measures:
        reader, golds = _load_reader_and_golds(trained, to)
        numbers |= summary.measures_for_page(alignment_scores.examples(reader, golds))
    return {"measures": numbers, "gold": gold}


def _load_reader_and_golds(trained: Any, to: str | None) -> tuple[Any, list[Gold]]:
    """Return the model in forced decoding, and the pairs aligned by hand in its direction."""
    from regard.metrics import alignment

    if to not in ("en", "fr"):
        raise ValueError("the alignments are English and French: give --to en or --to fr")
    golds = alignment.read()
    directed_golds = [gold.swap_languages() for gold in golds] if to == "en" else golds
    return trained.extras["alignments"].call(to=to), directed_golds
