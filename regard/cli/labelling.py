"""Commands for models that label text: classify, tag; and how evaluate and explain show them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.lines import arguments, blocks, writer

if TYPE_CHECKING:
    from rich.table import Table

    from regard.metrics.labels import Labels
    from regard.tasks.labels.task import Measured

MODEL = "A run folder or checkpoint directory."
TEXTS = "Texts; lines of standard input where there are none, or in place of a dash."
DEVICE = "auto, cpu, cuda or mps."
BLOCK = 1024  # lines labelled at a time
SHOWN = 12  # labels, and mistakes, that a table has room for


def classify(
    model: Annotated[Path, typer.Argument(help=MODEL)],
    texts: Annotated[list[str] | None, typer.Argument(metavar="TEXT", help=TEXTS)] = None,
    all_labels: Annotated[bool, typer.Option("--all", help="Every label with its probability.")] = False,
    device: Annotated[str, typer.Option(help=DEVICE)] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per text.")] = False,
) -> None:
    """Say what a text is, and how probable that is."""
    import regard

    classifier = regard.load(model, device=device, task="classification")
    with writer(None) as write:
        for block in blocks(_texts(texts), BLOCK):
            found = iter(classifier.classify([text for text in block if text.strip()]))
            for verdict in (next(found) if text.strip() else None for text in block):
                if verdict is None:  # line n answers line n, and there is nothing to say of a blank one
                    write(json.dumps({"text": "", "label": None, "probability": None}) if as_json else "")
                    continue
                chances = verdict.all if all_labels else {verdict.label: verdict.probability}
                if as_json:
                    rounded = {label: round(chance, 6) for label, chance in chances.items()}
                    more = {"all": rounded} if all_labels else {}
                    told = {"text": verdict.text, "label": verdict.label, "probability": round(verdict.probability, 6)}
                    write(json.dumps({**told, **more}, ensure_ascii=False))
                else:
                    write("\t".join(f"{label}\t{chance:.4f}" for label, chance in chances.items()))


def tag(
    model: Annotated[Path, typer.Argument(help=MODEL)],
    texts: Annotated[list[str] | None, typer.Argument(metavar="TEXT", help=TEXTS)] = None,
    device: Annotated[str, typer.Option(help=DEVICE)] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per sentence, with probabilities.")] = False,
) -> None:
    """Say what each word of a sentence is."""
    import regard

    tagger = regard.load(model, device=device, task="tagging")
    with writer(None) as write:
        for block in blocks(_texts(texts), BLOCK):
            for tagged in tagger.tag(block):
                chances = [round(chance, 6) for chance in tagged.probabilities]
                told = {"words": tagged.words, "tags": tagged.tags, "probabilities": chances}
                write(json.dumps(told, ensure_ascii=False) if as_json else str(tagged))


def score(model: Path | None, file: Path, *, columns: tuple[int, int] | None, as_json: bool) -> None:
    """How well a model labels a file, which is read as those it was trained on."""
    from rich.console import Console

    import regard

    labels = regard.load(model, task=("classification", "tagging"))
    changes = {} if columns is None else {"columns": columns}
    _, found = labels.measure(str(file), **changes)
    if as_json:
        print(json.dumps(plain(found), ensure_ascii=False, indent=1))
        return
    console = Console()
    console.print(_table(_lines(str(model), str(file), found)))
    judged = "texts" if found.whole is None else "words"
    console.print(_table(_by_label(found.labels), head=("label", judged, "precision", "recall", "F1")))
    if mistakes := found.labels.mistakes[:SHOWN]:
        rows = [(truth, answer, f"{count:,}") for truth, answer, count in mistakes]
        console.print(_table(rows, head=("truth", "taken for", "times")))


def plain(found: Measured) -> dict[str, Any]:
    """Everything that was measured, as JSON."""
    each = {
        label.name: {"count": label.count, "precision": label.precision, "recall": label.recall, "f1": label.f1}
        for label in found.labels.labels
    }
    return {**found.metrics, "labels": each, "confusion": found.labels.confusion.tolist()}


def _texts(given: list[str] | None) -> Iterator[str]:
    if any(not text.strip() for text in given or []):
        raise ValueError("one of the texts is empty: there is nothing to label in it")
    found = arguments(given or ["-"])
    if (first := next(found, None)) is None:
        raise ValueError("standard input is empty: give texts, or lines to read")
    return chain([first], found)


def _lines(name: str, file: str, found: Measured) -> list[tuple[str, str]]:
    labels = found.labels
    rows = [("model", name), ("file", file), ("judged", f"{int(labels.confusion.sum()):,}")]
    rows += [("accuracy", f"{labels.accuracy:.2%}"), ("macro F1", f"{labels.f1:.2%}"), ("loss", f"{found.loss:.4f}")]
    return rows if found.whole is None else [*rows, ("sentences all right", f"{found.whole:.2%}")]


def _by_label(labels: Labels) -> list[tuple[str, ...]]:
    """The most frequent labels, each by itself."""
    ranked = sorted(labels.labels, key=lambda label: -label.count)[:SHOWN]
    return [
        (each.name, f"{each.count:,}", f"{each.precision:.1%}", f"{each.recall:.1%}", f"{each.f1:.1%}")
        for each in ranked
    ]


def _table(rows: Sequence[Sequence[str]], head: Sequence[str] | None = None) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=head is not None)
    for name in head or [""] * len(rows[0]):
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))  # text, not markup: brackets are somebody's words
    return table
