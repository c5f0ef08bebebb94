"""What the heads of a model do, measured over sentences that were aligned or marked by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.text_io import guess_language
from regard.cli.trace_views import View, link_errors

if TYPE_CHECKING:
    from regard.interpret.measure.alignment_scores import Table
    from regard.interpret.trace import Trace
    from regard.metrics.alignment import Gold


def measure_heads(trained: Any, to: str | None, path: Path | None, *, interventions: bool, as_json: bool) -> None:
    """Print what the heads do over the sentences aligned by hand: in sentences, then in tables."""
    from regard.interpret.measure.summary import summary

    _check_measures_file(path)
    reader, golds, pronouns = _load_reader_and_golds(trained, to)
    tables = summary(reader, golds, intervene=interventions, pronouns=pronouns)
    _print_tables(tables, path, as_json=as_json)


def measure_pronouns(trained: Any, to: str | None, path: Path | None, *, as_json: bool) -> None:
    """Print which heads look from a pronoun to its noun, over the English sentences marked by hand."""
    from regard.interpret.measure import pronouns
    from regard.tasks.inputs import TEXT

    _check_measures_file(path)
    sentences = pronouns.read_sentences()
    translates = "alignments" in trained.extras
    if trained.inputs.kind is not TEXT and not translates:
        raise ValueError(f"--pronouns reads English sentences: {trained.name} is {trained.kind}")
    to = to or (guess_language(trained, [sentences[0].text]) if translates else None)
    traces = [trained.look(sentence.text, **({"to": to} if translates else {})) for sentence in sentences]
    table = pronouns.pronoun_table(pronouns.measure_looks(sentences, traces))
    if not table.rows:
        raise ValueError(f"{trained.name} has no attention among the words that it reads: nothing to measure")
    _print_tables([table], path, as_json=as_json)


def _check_measures_file(path: Path | None) -> None:
    if path is not None and path.suffix.lower() != ".json":
        raise ValueError(f"{path}: measures are written as .json, or shown in the terminal without -o")


def _print_tables(tables: Sequence[Table], path: Path | None, *, as_json: bool) -> None:
    """Print what was measured: in sentences, then the main rows of the tables."""
    from rich.console import Console

    from regard.cli.tables import FittedTable

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
    trained: Any, trace: Trace, view: View, *, to: str | None, gold: str | None, measures: bool, interventions: bool
) -> dict[str, Any]:
    """Return what a page shows beside the weights: numbers of the heads, and links made by hand with their score."""
    from regard.interpret.measure import alignment_scores, summary

    numbers: dict[str, Any] = dict(link_errors(trace, view, gold))
    if measures:
        reader, golds, pronouns = _load_reader_and_golds(trained, to)
        ablations = summary.silence_heads(reader, golds) if interventions else []
        numbers |= summary.measures_for_page(
            alignment_scores.examples(reader, golds),
            ablations,
            pronouns=alignment_scores.pronoun_examples(reader, pronouns),
        )
    return {"measures": numbers, "gold": gold}


def _load_reader_and_golds(trained: Any, to: str | None) -> tuple[Any, list[Gold], list[Gold]]:
    """Return the model in forced decoding, the pairs aligned by hand in its direction, and those with pronouns."""
    from regard.interpret.measure import pronoun_rule
    from regard.metrics import alignment

    if to not in ("en", "fr"):
        raise ValueError("the alignments are English and French: give --to en or --to fr")
    directed_golds = [
        [gold.swap_languages() for gold in golds] if to == "en" else golds
        for golds in (alignment.read(), pronoun_rule.read_pairs())
    ]
    return trained.extras["alignments"].call(to=to), *directed_golds
