"""Show a trace of attention as a matrix, links, arithmetic, a page, a picture or a table."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.text_io import PICTURE_FORMATS

if TYPE_CHECKING:
    from torch import Tensor

    from regard.interpret.draw.terminal import Style
    from regard.interpret.trace import Trace

PAGE_ENDINGS = (".html", ".htm")
# files for people; others have every piece of a word
READABLE_FILES = (*PAGE_ENDINGS, *(f".{kind}" for kind in PICTURE_FORMATS))
NON_PICTURE_QUERIES = ("asked", "label", "target")  # what looks at a picture and is no part of it


@dataclass(frozen=True)
class View:
    """The weights to show, and how."""

    attention: str | None
    head: int | None
    level: str | None
    specials: bool
    numbers: bool
    as_json: bool = False
    step: int | None = None
    """The row whose arithmetic is shown."""


def show(
    trace: Trace, view: View, *, output: Path | None, gold: str | None = None, extra: Mapping[str, Any] | None = None
) -> None:
    """Show a trace as asked for: in a file, as the arithmetic of a step, or as a matrix."""
    if trace.pictures and view.level != "subword" and (output is None or output.suffix.lower() in READABLE_FILES):
        trace = trace.by_words()
    if output is not None:
        write_trace(trace, output, view, extra=extra or {})
        print(f"{output}: where the model looked")
    elif view.step is not None:
        print(format_arithmetic(trace, view.step, view))
    elif view.as_json:
        print(json.dumps(_matrix_record(trace, view) | link_errors(trace, view, gold), ensure_ascii=False))
    else:
        shades, errors = format_matrix(trace, view), link_errors(trace, view, gold)  # either may refuse to
        print(trace.facts["answer"], file=sys.stderr)
        print(shades)
        for name, value in errors.items():
            print(f"{name}: {value:.3f}")


def show_generated(trained: Any, labels: list[str], seed: int, view: View, *, output: Path | None) -> None:
    """Show where the positions of a generated picture looked, for this seed and label."""
    if "make" not in trained.extras:
        raise ValueError(f"--seed is for generators of pictures: {trained.name} is {trained.kind}, leave it out")
    if len(labels) > 1:
        raise ValueError(f"give one label to explain, not {len(labels)}")
    check_attention(trained, view.attention)
    show(trained.look(*labels, seed=seed), view, output=output)


def check_attention(trained: Any, name: str | None) -> None:
    """Refuse the name of attention weights that the model does not have, before it runs."""
    from regard.interpret.trace import unknown_weights

    attention_names = [] if name is None else trained.attention_names()
    if name is not None and attention_names and name not in attention_names:
        raise unknown_weights(name, attention_names)


def format_matrix(trace: Trace, view: View) -> str:
    """Return one attention matrix in shades."""
    from regard.interpret.draw import terminal

    if "graph" in trace.facts:
        return _neighbour_table(trace, view)
    if trace.find(view.attention).query in NON_PICTURE_QUERIES and trace.pictures:
        return terminal.regions(trace, view.attention, head=view.head, style=terminal_style(numbers=view.numbers))
    return terminal.alignment(
        trace,
        view.attention,
        head=view.head,
        level=_choose_level(trace, view),
        specials=view.specials,
        style=terminal_style(numbers=view.numbers),
    )


def _neighbour_table(trace: Trace, view: View) -> str:
    """Return the edges of a node as a table."""
    from rich.console import Console

    from regard.cli.tables import FittedTable
    from regard.interpret.draw import neighbourhood

    attention = trace.find(view.attention)
    head = None if view.head is None else _check_head(view.head, len(attention.values))
    rows = neighbourhood.table(trace, attention.name, head=head)
    console = Console(highlight=False)
    head_label = f"head {view.head}"
    if view.head is None:
        head_label = "the only head" if len(attention.values) == 1 else f"mean of {len(attention.values)} heads"
    with console.capture() as capture:
        console.print(
            FittedTable(
                neighbourhood.HEAD,
                rows,
                f"{attention.name}, {head_label}: where it looked, not why",
                _describe_controls(trace),
            )
        )
    return capture.get().rstrip("\n")


def _describe_controls(trace: Trace) -> str | None:
    """Describe what a model of graphs answers without its attention."""
    names = {"equal": "with equal weights", "none": "without neighbours"}
    controls = trace.facts.get("controls", {})
    answers = [f"{names[name]}: {label} ({chance:.3f})" for name, (label, chance) in controls.items()]
    return f"Its answer {'; '.join(answers)}" if answers else None


def format_links(trace: Trace, view: View) -> str:
    """Return the source word read for each target word, in Pharaoh format."""
    from regard.interpret.draw import terminal

    attention = trace.find(view.attention)
    return terminal.pharaoh(_select_weights(trace, view), trace.items[attention.query], trace.items[attention.key])


def format_arithmetic(trace: Trace, position: int, view: View) -> str:
    """Return query, keys, scores, softmax, sum and likeliest answers at one query position."""
    from regard.interpret.draw import terminal

    attention = trace.find(view.attention)
    queries = trace.items[attention.query]
    if position >= len(queries):
        raise ValueError(f"--step {position}: {attention.name} looks from tokens 0 to {len(queries) - 1}")
    steps = trace.steps([attention.name])
    if steps is None:
        raise ValueError("--step: this model has no arithmetic to show, leave it out")
    head_step = steps.attentions[attention.name].step(_check_head(view.head or 0, len(attention.values)), position)
    return terminal.step(
        head_step,
        trace.items[attention.key],
        token=queries[position].text,
        prediction=steps.prediction(attention.query, position),
        answered=steps.of,
        style=terminal_style(),
    )


def write_trace(trace: Trace, path: Path, view: View, *, extra: Mapping[str, Any]) -> None:
    """Write a page, picture, table, numbers or trace, as the file's name asks."""
    from regard.interpret.draw import page, plots

    kind = path.suffix.lower()
    if kind == ".json":
        trace.save(path)
        return
    if kind in PAGE_ENDINGS:
        page.save(trace, path, **extra)
        return
    attention = trace.find(view.attention)
    if kind == ".npy":
        import numpy

        numpy.save(path, attention.values.numpy())
        return
    if "graph" in trace.facts:
        return _write_neighbourhood(trace, path, view)
    weights, rows, columns = _shown_weights(trace, view)
    if kind == ".csv":
        lines = (
            [row, *(round(weight, 6) for weight in line)] for row, line in zip(rows, weights.tolist(), strict=True)
        )
        _write_csv([["", *columns], *lines], path)
        return
    title = f"{trace.facts['text']}\n{trace.facts['answer']}"
    if trace.pictures and all(item.box is not None for item in trace.items[attention.query]):
        return plots.save(plots.places(trace, title=title), path)
    if trace.facts.get("questions"):
        from regard.interpret.draw import gaze

        return plots.save(gaze.compare_questions(trace, name=view.attention, title=title), path)
    if trace.pictures:
        name = view.attention if view.head is None else attention.name
        return plots.save(plots.plot_on_picture(trace, name=name, head=view.head, title=title), path)
    sides = attention.query, attention.key
    plots.save(plots.alignment(weights, queries=rows, keys=columns, title=title, sides=sides), path)


def _write_neighbourhood(trace: Trace, path: Path, view: View) -> None:
    """Write the edges of a node as a table or a picture."""
    from regard.interpret.draw import neighbourhood, plots

    head = None if view.head is None else _check_head(view.head, len(trace.find(view.attention).values))
    if path.suffix.lower() == ".csv":
        rows = neighbourhood.table(trace, trace.find(view.attention).name, head=head)
        return _write_csv([list(neighbourhood.HEAD), *map(list, rows)], path)
    if view.attention is not None:
        raise ValueError("--attention: the picture of a neighbourhood shows the last two layers, leave it out")
    title = f"{trace.facts['text']}: {trace.facts['answer']}"
    plots.save(neighbourhood.picture(trace, head=head, title=title), path)


def _shown_weights(trace: Trace, view: View) -> tuple[Tensor, list[str], list[str]]:
    """Return the weights to show, with the texts of their rows and columns."""
    from regard.interpret.words import group_items, merge

    attention = trace.find(view.attention)
    sides = (trace.items[side] for side in (attention.query, attention.key))
    queries, keys = (group_items(side, level=_choose_level(trace, view), specials=view.specials) for side in sides)
    weights = merge(_select_weights(trace, view), queries, keys)
    return weights, [unit.text for unit in queries], [unit.text for unit in keys]


def _matrix_record(trace: Trace, view: View) -> dict[str, Any]:
    """Return the matrix that is shown as JSON."""
    weights, rows, columns = _shown_weights(trace, view)
    facts = {name: trace.facts[name] for name in ("text", "answer") if name in trace.facts}
    shown = {"attention": trace.find(view.attention).name, "head": "mean" if view.head is None else view.head}
    numbers = [[round(value, 6) for value in line] for line in weights.tolist()]
    return facts | shown | {"rows": rows, "columns": columns, "weights": numbers}


def link_errors(trace: Trace, view: View, gold: str | None) -> dict[str, float]:
    """Return the alignment error of the links shown, and that of the diagonal, against links made by hand."""
    from regard.metrics import alignment

    if gold is None:
        return {}
    attention = trace.find(view.attention)
    if (attention.query, attention.key) != ("target", "source"):
        raise ValueError(f"--gold links words read and written: {attention.name} looks at one side only")
    sure, possible = alignment.parse_links(gold)
    predicted, _ = alignment.parse_links(format_links(trace, view))
    sides = (trace.items[side] for side in (attention.key, attention.query))
    source_words, target_words = (
        1 + max((item.word for item in side if item.word is not None), default=0) for side in sides
    )
    diagonal = alignment.diagonal(source_words, target_words)
    model_error, diagonal_error = (
        alignment.aer(predicted_links, sure, possible) for predicted_links in (predicted, diagonal)
    )
    return {"AER of this sentence": model_error, "AER of the diagonal": diagonal_error}


def _select_weights(trace: Trace, view: View) -> Tensor:
    """Return the weights of one head, or the mean of all."""

    attention = trace.find(view.attention)
    return (
        attention.values.mean(0)
        if view.head is None
        else attention.values[_check_head(view.head, len(attention.values))]
    )


def _choose_level(trace: Trace, view: View) -> str:
    """Return the level of merging: as asked, else words, unless that leaves a single column of several tokens."""
    from regard.interpret.words import group_items

    keys = trace.items[trace.find(view.attention).key]
    is_single_column = len(group_items(keys)) == 1 < len(group_items(keys, level="subword"))
    return view.level or ("subword" if is_single_column else "word")


def _check_head(head: int, heads: int) -> int:
    if head >= heads:
        raise ValueError(f"--head {head}: there are heads 0 to {heads - 1}")
    return head


def _write_csv(rows: list[list[Any]], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)


def terminal_style(*, numbers: bool = False) -> Style:
    """Return the terminal's style: shades where it can show them."""
    from regard.interpret.draw.terminal import Style

    encoding = "ascii" if sys.stdout is None else sys.stdout.encoding or "ascii"
    try:
        "░".encode(encoding)
        plain = False
    except (UnicodeEncodeError, LookupError):
        plain = True
    return Style(width=shutil.get_terminal_size().columns, ascii=plain, numbers=numbers)
