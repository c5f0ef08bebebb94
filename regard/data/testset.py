"""Test sets, read unchanged: no line is cleaned, left out or moved, so that scores equal those of other tools."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from regard.config.words import quantity
from regard.data.encodings import hint
from regard.data.line_report import LineReport
from regard.data.readers import CELL_FORMS, LINE, Corpus, lines, read_cells

Pair = tuple[str, str]


def read(corpus: Corpus) -> list[Pair]:
    """Return source and reference of every line; a line that lacks one of them is an error."""
    if corpus.path is not None:
        pairs = _cell_pairs(corpus) if corpus.form in CELL_FORMS else _line_pairs(corpus)
    else:
        sources, references = (texts(name) for name in corpus.files)
        if len(sources) != len(references):
            raise ValueError(
                f"{corpus.source} has {quantity(len(sources), 'line')} but {corpus.target} has {len(references)}: "
                "give files in which line n translates line n"
            )
        pairs = list(zip(sources, references, strict=True))
    if not pairs:
        raise ValueError(f"{corpus.files[0]} is empty: give a file with at least one pair")
    return pairs


def texts(name: str) -> list[str]:
    """Return the lines of a file, unchanged."""
    return [line for _, line in read_numbered_lines(name)]


def read_answers(name: str, count: int) -> list[str]:
    """Return the answers in a file, one for each of `count` sources."""
    lines_read = texts(name)
    if len(lines_read) != count:
        sizes = f"{quantity(len(lines_read), 'line')} for {quantity(count, 'source')}"
        raise ValueError(f"{name} has {sizes}: give one answer per line, in their order")
    return lines_read


def read_numbered_lines(name: str) -> Iterator[tuple[int, str]]:
    """Yield every line of a file with its number, counted from 1."""
    for number, line in enumerate(lines(name), start=1):
        if line is None:
            raise ValueError(f"{name}:{number}: longer than {LINE:,} bytes, cut the line")
        try:
            yield number, line.decode("utf-8")
        except UnicodeDecodeError:
            encoding_note = hint(line, name)
            raise ValueError(
                f"{name}:{number}: not UTF-8, convert the text first{encoding_note and f' ({encoding_note})'}"
            ) from None


def _line_pairs(corpus: Corpus) -> list[Pair]:
    rows = list(read_numbered_lines(str(corpus.path)))
    if corpus.form == "json":
        return [_fields(corpus, number, line) for number, line in rows]
    cells = [(number, line.split("\t")) for number, line in rows]
    first = cells[:1] if cells and corpus.starts_with_heading(cells[0][1]) else []
    return [_columns(corpus, number, row) for number, row in cells[len(first) :]]


def _cell_pairs(corpus: Corpus) -> list[Pair]:
    tally = LineReport()
    rows = list(read_cells(str(corpus.path), tally))
    tally.check(0.0, corpus.files)
    if rows and corpus.starts_with_heading(rows[0][1]):
        del rows[0]
    return [_columns(corpus, number, row) for number, row in rows]


def _columns(corpus: Corpus, number: int, cells: Sequence[str]) -> Pair:
    source, target = corpus.columns
    if len(cells) < max(source, target):
        raise ValueError(
            f"{corpus.path}:{number}: {quantity(len(cells), 'column')}, wanted column {max(source, target)}"
        )
    return cells[source - 1], cells[target - 1]


def _fields(corpus: Corpus, number: int, line: str) -> Pair:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError(f"{corpus.path}:{number}: not JSON, give one object per line") from None
    source, target = (_field(corpus, number, record, name) for name in corpus.fields)
    return source, target


def _field(corpus: Corpus, number: int, record: Any, name: str) -> str:
    value = record
    for part in [name] if isinstance(record, dict) and name in record else name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if not isinstance(value, str):
        raise ValueError(f"{corpus.path}:{number}: no text named {name}, name it by the fields of the corpus")
    return value
