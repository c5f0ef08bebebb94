"""The command that explains: where a model looked, as a matrix, links, arithmetic, a page, a picture, a trace."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.lines import PICTURES, arguments, writable
from regard.cli.translate import guessed, named

if TYPE_CHECKING:
    from torch import Tensor

    from regard.interpret.terminal import Style
    from regard.interpret.trace import Trace
    from regard.metrics.alignment import Gold
    from regard.tasks.translation.translator import Translator

PAGES = (".html", ".htm")
KINDS = ("html", "png", "json", "csv", "htm", *PICTURES)


@dataclass(frozen=True)
class View:
    """Which weights are shown, and how."""

    attention: str | None
    head: int | None
    level: str | None
    specials: bool
    numbers: bool


def explain(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="WORD", help="A checkpoint directory or run folder (else the shipped model), then a text."
        ),
    ] = None,
    to: Annotated[str | None, typer.Option(help="Target language, of several; guessed when not given.")] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A page (.html), picture (.png, .svg), table (.csv) or trace (.json)."),
    ] = None,
    attention: Annotated[
        str | None,
        typer.Option(help="Which attention, such as decoder.1.cross; the last cross-attention if not given."),
    ] = None,
    head: Annotated[int | None, typer.Option(min=0, help="Which head; their mean when not given.")] = None,
    level: Annotated[str | None, typer.Option(help="word or subword; words, unless only one was read.")] = None,
    specials: Annotated[bool, typer.Option("--specials", help="Show special tokens too.")] = False,
    numbers: Annotated[bool, typer.Option("--numbers", help="Percentages instead of shades.")] = False,
    step: Annotated[int | None, typer.Option(min=0, help="Show the arithmetic of this written token.")] = None,
    alignments: Annotated[bool, typer.Option("--alignments", help="Print links, as 0-0 1-2: read-written.")] = False,
    gold: Annotated[str | None, typer.Option(help="Links made by hand, as '0-0 1p2', to show and to measure.")] = None,
    measures: Annotated[
        bool, typer.Option("--measures", help="Measure all heads against alignments drawn by hand, with controls.")
    ] = False,
    interventions: Annotated[
        bool, typer.Option("--interventions", help="Measure also silenced heads and words left out: minutes.")
    ] = False,
) -> None:
    """Show where a model looked as it translated or labelled: in the terminal, as a page, a picture or a trace."""
    import regard

    model, texts = named(words or [])
    _possible(texts, level, output)
    page = output is not None and output.suffix.lower() in PAGES
    if (measures or interventions) and (bool(texts) != page or (page and interventions)):
        raise ValueError("--measures takes no text, or a text and --output page.html to put them into")
    if len(texts) != 1 and not (measures or interventions or (alignments and texts)):
        raise ValueError(f"give one text to explain, not {len(texts)}")
    translator = regard.load(model, task=("translation", "classification", "tagging"))
    view = View(attention, head, level, specials, numbers)
    if hasattr(translator, "classes"):  # it labels, and writes nothing
        if alignments or measures or interventions or step is not None or gold is not None or to is not None:
            raise ValueError(
                "a model that labels writes nothing: --to, --step, --gold and measures are for translators"
            )
        show(translator, translator.look(texts[0]), view, output=output, step=None, gold=None, extra={})
    elif not texts:
        measure(translator, to, output, interventions=interventions)
    elif alignments:
        for text in arguments(texts):
            seen = translator.look(text, to=to or guessed(translator, [text])) if text.strip() else None
            print(links(seen, view) if seen is not None else "")  # line n answers line n
    else:
        to = to or guessed(translator, texts)  # a model of one direction is not asked for it; the measures are
        trace = translator.look(texts[0], to=to if translator.languages or not measures else None)
        extra = _extra(translator, trace, view, to, measures, gold) if page else {}
        show(translator, trace, view, output=output, step=step, gold=gold, extra=extra)


def _possible(texts: list[str], level: str | None, output: Path | None) -> None:
    """Stop before a model is loaded at what no model could do."""
    if level not in (None, "word", "subword"):
        raise ValueError(f"--level {level}: choose word or subword")
    if any(not text.strip() for text in texts):
        raise ValueError("the text is empty: there is nothing to explain in it")
    writable(output, KINDS)


def show(
    translator: Any,
    trace: Trace,
    view: View,
    *,
    output: Path | None,
    step: int | None,
    gold: str | None,
    extra: dict[str, Any],
) -> None:
    """One translation as what was asked for: a file, the arithmetic of a step, or a matrix."""
    if output is not None:
        write(translator, trace, output, view, extra=extra)
        print(f"{output}: where the model looked")
    elif step is not None:
        print(arithmetic(translator, trace, step, view))
    else:
        drawn, judged = matrix(trace, view), _judged(trace, view, gold)  # what cannot be shown is said before anything
        print(trace.facts["answer"], file=sys.stderr)
        print(drawn)
        for name, value in judged.items():
            print(f"{name}: {value:.3f}")


def matrix(trace: Trace, view: View) -> str:
    """Where one attention looked, in shades."""
    from regard.interpret import terminal

    return terminal.alignment(
        trace,
        view.attention,
        head=view.head,
        level=_level(trace, view),
        specials=view.specials,
        style=_style(numbers=view.numbers),
    )


def links(trace: Trace, view: View) -> str:
    """The word read for each word written, as alignment tools exchange them."""
    from regard.interpret import terminal

    seen = terminal.chosen(trace, view.attention)
    return terminal.pharaoh(_weights(trace, view), trace.items[seen.query], trace.items[seen.key])


def arithmetic(translator: Translator, trace: Trace, place: int, view: View) -> str:
    """Query, keys, scores, softmax, sum and the likeliest next tokens at one written token."""
    from regard.interpret import terminal

    seen = terminal.chosen(trace, view.attention)
    written = trace.items[seen.query]
    if place >= len(written):
        raise ValueError(f"--step {place}: the answer has tokens 0 to {len(written) - 1}")
    found = translator.steps(trace, names=[seen.name])
    one = found.attentions[seen.name].step(_known(view.head or 0, len(seen.values)), place)
    text, prediction = written[place].text, found.predictions[place]
    return terminal.step(one, trace.items[seen.key], token=text, prediction=prediction, style=_style())


def write(translator: Any, trace: Trace, path: Path, view: View, *, extra: dict[str, Any]) -> None:
    """A page, a picture, a table or a trace, as the file's name asks."""
    from regard.interpret import page, plots, terminal
    from regard.interpret.words import merge, units

    kind = path.suffix.lower()
    if kind == ".json":
        trace.save(path)
        return
    if kind in PAGES:
        page.save(trace, path, steps=translator.steps(trace) if hasattr(translator, "steps") else None, **extra)
        return
    seen = terminal.chosen(trace, view.attention)
    sides = (trace.items[side] for side in (seen.query, seen.key))
    queries, keys = (units(side, level=_level(trace, view), specials=view.specials) for side in sides)
    weights = merge(_weights(trace, view), queries, keys)
    rows, columns = ([unit.text for unit in side] for side in (queries, keys))
    if kind == ".csv":
        lines = ([row, *(round(each, 6) for each in line)] for row, line in zip(rows, weights.tolist(), strict=True))
        _table([["", *columns], *lines], path)
        return
    title = f"{trace.facts['text']}\n{trace.facts['answer']}"
    plots.save(plots.alignment(weights, queries=rows, keys=columns, title=title), path)


def measure(translator: Translator, to: str | None, path: Path | None, *, interventions: bool) -> None:
    """What the heads do, each number with its controls, over the sentences that were aligned by hand."""
    from rich.console import Console

    from regard import report
    from regard.interpret.alignment.summary import summary

    if path is not None and path.suffix.lower() != ".json":
        raise ValueError(f"{path}: measures are written as .json, or shown in the terminal without --output")
    reader, golds = _reader(translator, to)
    tables = summary(reader, golds, intervene=interventions)
    if path is not None:
        path.write_text(json.dumps([asdict(table) for table in tables], ensure_ascii=False, indent=1) + "\n", "utf-8")
        print(f"{path}: what the heads do")
        return
    console = Console()
    for table in tables:
        for part in report.measured(table, width=console.width):
            console.print(part)
            console.print()


def _extra(
    translator: Translator, trace: Trace, view: View, to: str | None, measured: bool, gold: str | None
) -> dict[str, Any]:
    """What a page shows beside the weights: numbers of the heads, and links made by hand with their score."""
    from regard.interpret.alignment import measures, summary

    numbers: dict[str, Any] = dict(_judged(trace, view, gold))
    if measured:
        reader, golds = _reader(translator, to)
        numbers |= summary.for_page(measures.examples(reader, golds))
    return {"measures": numbers, "gold": gold}


def _judged(trace: Trace, view: View, gold: str | None) -> dict[str, float]:
    """The error of the links shown against those made by hand, and that of the diagonal."""
    from regard.interpret import terminal
    from regard.metrics import alignment

    if gold is None:
        return {}
    seen = terminal.chosen(trace, view.attention)
    if (seen.query, seen.key) != ("target", "source"):
        raise ValueError(f"--gold links words read and written: {seen.name} looks at one side only")
    sure, possible = alignment.parse(gold)
    found, _ = alignment.parse(links(trace, view))
    sides = (trace.items[side] for side in (seen.key, seen.query))
    read, written = (1 + max((item.word for item in side if item.word is not None), default=0) for side in sides)
    straight = alignment.diagonal(read, written)
    own, other = (alignment.aer(each, sure, possible) for each in (found, straight))
    return {"AER of this sentence": own, "AER of the diagonal": other}


def _reader(translator: Translator, to: str | None) -> tuple[Any, list[Gold]]:
    """The translator that is told the answers, and the pairs aligned by hand in its direction."""
    from regard.interpret.alignment.forced import Reader
    from regard.metrics import alignment

    if to not in ("en", "fr"):
        raise ValueError("the alignments are English and French: say --to en or --to fr")
    golds = alignment.read()
    turned = [gold.turned() for gold in golds] if to == "en" else golds
    return Reader(translator, to if translator.languages else None), turned


def _weights(trace: Trace, view: View) -> Tensor:
    """Those of one head, or the mean of all."""
    from regard.interpret import terminal

    seen = terminal.chosen(trace, view.attention)
    return seen.values.mean(0) if view.head is None else seen.values[_known(view.head, len(seen.values))]


def _level(trace: Trace, view: View) -> str:
    """As asked; else words, unless that leaves a single column, which tells nothing, of several tokens."""
    from regard.interpret import terminal
    from regard.interpret.words import units

    read = trace.items[terminal.chosen(trace, view.attention).key]
    single = len(units(read)) == 1 < len(units(read, level="subword"))
    return view.level or ("subword" if single else "word")


def _known(head: int, heads: int) -> int:
    if head >= heads:
        raise ValueError(f"--head {head}: there are heads 0 to {heads - 1}")
    return head


def _table(rows: list[list[Any]], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)


def _style(*, numbers: bool = False) -> Style:
    """Shades where the terminal can show them."""
    import shutil

    from regard.interpret.terminal import Style

    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    try:
        "░".encode(encoding)
        plain = False
    except (UnicodeEncodeError, LookupError):
        plain = True
    return Style(width=shutil.get_terminal_size().columns, ascii=plain, numbers=numbers)
