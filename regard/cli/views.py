"""Where a model looked, as somebody asks to see it: a matrix, links, arithmetic, a page, a picture, a table."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.lines import PICTURES

if TYPE_CHECKING:
    from torch import Tensor

    from regard.interpret.terminal import Style
    from regard.interpret.trace import Trace

PAGES = (".html", ".htm")
SHOWN = (*PAGES, *(f".{kind}" for kind in PICTURES))  # files for people; others have every piece of a word
UNLIKE = ("asked", "label", "target")  # what looks at a picture and is no part of it


@dataclass(frozen=True)
class View:
    """Which weights are shown, and how."""

    attention: str | None
    head: int | None
    level: str | None
    specials: bool
    numbers: bool
    as_json: bool = False


def show(
    trace: Trace, view: View, *, output: Path | None, step: int | None, gold: str | None, extra: dict[str, Any]
) -> None:
    """One answer as what was asked for: a file, the arithmetic of a step, or a matrix."""
    if trace.pictures and view.level != "subword" and (output is None or output.suffix.lower() in SHOWN):
        trace = trace.by_words()
    if output is not None:
        write(trace, output, view, extra=extra)
        print(f"{output}: where the model looked")
    elif step is not None:
        print(arithmetic(trace, step, view))
    elif view.as_json:
        print(json.dumps(_plain(trace, view) | judged(trace, view, gold), ensure_ascii=False))
    else:
        drawn, found = matrix(trace, view), judged(trace, view, gold)  # what cannot be shown is said before anything
        print(trace.facts["answer"], file=sys.stderr)
        print(drawn)
        for name, value in found.items():
            print(f"{name}: {value:.3f}")


def show_made(trained: Any, labels: list[str], seed: int, view: View, *, output: Path | None) -> None:
    """Where places of a picture looked that is made of this seed, and of a label if one is given."""
    if "make" not in trained.extras:
        raise ValueError(f"--seed is for generators of pictures: {trained.name} is {trained.kind}, leave it out")
    if len(labels) > 1:
        raise ValueError(f"give one label to explain, not {len(labels)}")
    check_attention(trained, view.attention)
    show(trained.look(*labels, seed=seed), view, output=output, step=None, gold=None, extra={})


def check_attention(trained: Any, name: str | None) -> None:
    """Refuse a name that no weights of a model will have before it looks; one without attention says so itself."""
    from regard.interpret.trace import unknown_weights

    known = [] if name is None else trained.attention_names()
    if name is not None and known and name not in known:
        raise unknown_weights(name, known)


def matrix(trace: Trace, view: View) -> str:
    """Where one attention looked, in shades."""
    from regard.interpret import terminal

    if "graph" in trace.facts:
        return _neighbours(trace, view)
    if trace.find(view.attention).query in UNLIKE and trace.pictures:
        return terminal.regions(trace, view.attention, head=view.head, style=_style(numbers=view.numbers))
    return terminal.alignment(
        trace,
        view.attention,
        head=view.head,
        level=_level(trace, view),
        specials=view.specials,
        style=_style(numbers=view.numbers),
    )


def _neighbours(trace: Trace, view: View) -> str:
    """The edges of a node in a table."""
    from rich.console import Console

    from regard.cli.tables import Fitted
    from regard.interpret import neighbourhood

    seen = trace.find(view.attention)
    head = None if view.head is None else _known(view.head, len(seen.values))
    rows = neighbourhood.table(trace, seen.name, head=head)
    console = Console(highlight=False)
    which = f"head {view.head}"
    if view.head is None:
        which = "the only head" if len(seen.values) == 1 else f"mean of {len(seen.values)} heads"
    with console.capture() as shown:
        console.print(
            Fitted(neighbourhood.HEAD, rows, f"{seen.name}, {which}: where it looked, not why", _controls(trace))
        )
    return shown.get().rstrip("\n")


def _controls(trace: Trace) -> str | None:
    """What a graph's model answers when its looks are taken from it."""
    names = {"equal": "with equal weights", "none": "without neighbours"}
    found = trace.facts.get("controls", {})
    told = [f"{names[name]}: {label} ({chance:.3f})" for name, (label, chance) in found.items()]
    return f"Its answer {'; '.join(told)}" if told else None


def links(trace: Trace, view: View) -> str:
    """The word read for each word written, as alignment tools exchange them."""
    from regard.interpret import terminal

    seen = trace.find(view.attention)
    return terminal.pharaoh(_weights(trace, view), trace.items[seen.query], trace.items[seen.key])


def arithmetic(trace: Trace, place: int, view: View) -> str:
    """Query, keys, scores, softmax, sum and the likeliest answers at one item that looks."""
    from regard.interpret import terminal

    seen = trace.find(view.attention)
    looking = trace.items[seen.query]
    if place >= len(looking):
        raise ValueError(f"--step {place}: {seen.name} looks from tokens 0 to {len(looking) - 1}")
    found = trace.steps([seen.name])
    if found is None:
        raise ValueError("--step: this model has no arithmetic to show, leave it out")
    one = found.attentions[seen.name].step(_known(view.head or 0, len(seen.values)), place)
    return terminal.step(
        one,
        trace.items[seen.key],
        token=looking[place].text,
        prediction=found.prediction(seen.query, place),
        answered=found.of,
        style=_style(),
    )


def write(trace: Trace, path: Path, view: View, *, extra: dict[str, Any]) -> None:
    """A page, a picture, a table, numbers or a trace, as the file's name asks."""
    from regard.interpret import page, plots

    kind = path.suffix.lower()
    if kind == ".json":
        trace.save(path)
        return
    if kind in PAGES:
        page.save(trace, path, **extra)
        return
    seen = trace.find(view.attention)
    if kind == ".npy":
        import numpy

        numpy.save(path, seen.values.numpy())
        return
    if "graph" in trace.facts:
        return _neighbourhood(trace, path, view)
    weights, rows, columns = _shown(trace, view)
    if kind == ".csv":
        lines = ([row, *(round(each, 6) for each in line)] for row, line in zip(rows, weights.tolist(), strict=True))
        _table([["", *columns], *lines], path)
        return
    title = f"{trace.facts['text']}\n{trace.facts['answer']}"
    if trace.pictures and all(item.box is not None for item in trace.items[seen.query]):
        return plots.save(plots.places(trace, title=title), path)
    if trace.pictures:
        name = view.attention if view.head is None else seen.name
        return plots.save(plots.plot_on_picture(trace, name=name, head=view.head, title=title), path)
    sides = seen.query, seen.key
    plots.save(plots.alignment(weights, queries=rows, keys=columns, title=title, sides=sides), path)


def _neighbourhood(trace: Trace, path: Path, view: View) -> None:
    """The edges of a node as a table, or drawn."""
    from regard.interpret import neighbourhood, plots

    head = None if view.head is None else _known(view.head, len(trace.find(view.attention).values))
    if path.suffix.lower() == ".csv":
        rows = neighbourhood.table(trace, trace.find(view.attention).name, head=head)
        return _table([list(neighbourhood.HEAD), *map(list, rows)], path)
    if view.attention is not None:
        raise ValueError("--attention: the picture of a neighbourhood shows the last two layers, leave it out")
    title = f"{trace.facts['text']}: {trace.facts['answer']}"
    plots.save(neighbourhood.picture(trace, head=head, title=title), path)


def _shown(trace: Trace, view: View) -> tuple[Tensor, list[str], list[str]]:
    """The weights that are shown, with the texts of their lines and columns."""
    from regard.interpret.words import group_items, merge

    seen = trace.find(view.attention)
    sides = (trace.items[side] for side in (seen.query, seen.key))
    queries, keys = (group_items(side, level=_level(trace, view), specials=view.specials) for side in sides)
    weights = merge(_weights(trace, view), queries, keys)
    return weights, [unit.text for unit in queries], [unit.text for unit in keys]


def _plain(trace: Trace, view: View) -> dict[str, Any]:
    """The matrix that is shown, as JSON has it."""
    weights, rows, columns = _shown(trace, view)
    known = {name: trace.facts[name] for name in ("text", "answer") if name in trace.facts}
    shown = {"attention": trace.find(view.attention).name, "head": "mean" if view.head is None else view.head}
    numbers = [[round(value, 6) for value in line] for line in weights.tolist()]
    return known | shown | {"rows": rows, "columns": columns, "weights": numbers}


def judged(trace: Trace, view: View, gold: str | None) -> dict[str, float]:
    """The error of the links shown against those made by hand, and that of the diagonal."""
    from regard.metrics import alignment

    if gold is None:
        return {}
    seen = trace.find(view.attention)
    if (seen.query, seen.key) != ("target", "source"):
        raise ValueError(f"--gold links words read and written: {seen.name} looks at one side only")
    sure, possible = alignment.parse_links(gold)
    found, _ = alignment.parse_links(links(trace, view))
    sides = (trace.items[side] for side in (seen.key, seen.query))
    read, written = (1 + max((item.word for item in side if item.word is not None), default=0) for side in sides)
    straight = alignment.diagonal(read, written)
    own, other = (alignment.aer(each, sure, possible) for each in (found, straight))
    return {"AER of this sentence": own, "AER of the diagonal": other}


def _weights(trace: Trace, view: View) -> Tensor:
    """Those of one head, or the mean of all."""

    seen = trace.find(view.attention)
    return seen.values.mean(0) if view.head is None else seen.values[_known(view.head, len(seen.values))]


def _level(trace: Trace, view: View) -> str:
    """As asked; else words, unless that leaves a single column, which tells nothing, of several tokens."""
    from regard.interpret.words import group_items

    read = trace.items[trace.find(view.attention).key]
    single = len(group_items(read)) == 1 < len(group_items(read, level="subword"))
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
    from regard.interpret.terminal import Style

    encoding = "ascii" if sys.stdout is None else sys.stdout.encoding or "ascii"
    try:
        "░".encode(encoding)
        plain = False
    except (UnicodeEncodeError, LookupError):
        plain = True
    return Style(width=shutil.get_terminal_size().columns, ascii=plain, numbers=numbers)
