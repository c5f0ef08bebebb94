"""What `regard explain` shows and writes: a matrix, links, arithmetic, a page, a picture, a trace."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.interpret.terminal import Style
    from regard.interpret.trace import Trace
    from regard.tasks.translator import Translator


def matrix(trace: Trace, attention: str | None, head: int | None, level: str) -> str:
    """Where one attention looked, in shades."""
    from regard.interpret import terminal

    return terminal.alignment(trace, attention, head=head, level=level, style=_style())


def links(trace: Trace, attention: str | None, head: int | None) -> str:
    """The word read for each word written, as alignment tools exchange them."""
    from regard.interpret import terminal

    seen = terminal.chosen(trace, attention)
    weights = seen.values.mean(0) if head is None else seen.values[_known(head, len(seen.values))]
    return terminal.pharaoh(weights, trace.items[seen.query], trace.items[seen.key])


def arithmetic(translator: Translator, trace: Trace, place: int, *, attention: str | None, head: int) -> str:
    """Query, keys, scores, softmax, sum and the likeliest next tokens at one written token."""
    from regard.interpret import terminal

    seen = terminal.chosen(trace, attention)
    written = trace.items[seen.query]
    if place >= len(written):
        raise ValueError(f"--step {place}: the answer has tokens 0 to {len(written) - 1}")
    found = translator.steps(trace, names=[seen.name])
    one = found.attentions[seen.name].step(_known(head, len(seen.values)), place)
    text, prediction = written[place].text, found.predictions[place]
    return terminal.step(one, trace.items[seen.key], token=text, prediction=prediction, style=_style())


def write(
    translator: Translator, trace: Trace, path: Path, *, attention: str | None, head: int | None, level: str
) -> None:
    """A page, a picture or a trace, as the file's name asks."""
    from regard.interpret import page, plots, terminal
    from regard.interpret.words import word_level

    kind = path.suffix.lower()
    if kind == ".json":
        trace.save(path)
        return
    if kind in (".html", ".htm"):
        page.save(trace, path, steps=translator.steps(trace))
        return
    seen = terminal.chosen(trace, attention)
    weights = seen.values.mean(0) if head is None else seen.values[_known(head, len(seen.values))]
    queries, keys = trace.items[seen.query], trace.items[seen.key]
    rows, columns = [item.text for item in queries], [item.text for item in keys]
    if level == "word":
        weights, rows, columns = word_level(weights, queries, keys)
    title = f"{trace.facts['text']}\n{trace.facts['answer']}"
    plots.save(plots.alignment(weights, queries=rows, keys=columns, title=title), path)


def measure(translator: Translator, to: str | None, *, interventions: bool) -> None:
    """Print what the heads do, each number with its controls, over the sentences that were aligned by hand."""
    from rich.console import Console

    from regard import report
    from regard.interpret.forced import Reader
    from regard.interpret.summary import summary
    from regard.metrics import alignment

    if to not in ("en", "fr"):
        raise ValueError("the alignments are English and French: say --to en or --to fr")
    golds = alignment.read()
    if to == "en":
        golds = [gold.turned() for gold in golds]
    console = Console()
    for table in summary(Reader(translator, to if translator.languages else None), golds, intervene=interventions):
        console.print(report.measured(table))


def _known(head: int, heads: int) -> int:
    if head >= heads:
        raise ValueError(f"--head {head}: there are heads 0 to {heads - 1}")
    return head


def _style() -> Style:
    """Shades where the terminal can show them."""
    import shutil

    from regard.interpret.terminal import Style

    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    try:
        "░".encode(encoding)
        plain = False
    except (UnicodeEncodeError, LookupError):
        plain = True
    return Style(width=shutil.get_terminal_size().columns, ascii=plain)
