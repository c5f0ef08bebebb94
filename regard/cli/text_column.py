"""The texts of a file for a model in use: lines of plain text, or one column of a table, and never its heading."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from regard.cli.lines import lines_of, note
from regard.cli.table_files import is_unnamed_table, sample_columns
from regard.config.words import nearest, quantity
from regard.data.line_report import LineReport
from regard.data.readers import Refusal, lines, parsed, records, suffix, text_at, value_at
from regard.data.tables import NO_OBJECT, TableFormat, detect_format, is_json, is_table, read_rows
from regard.tasks.labels.layout import LABELS, SAMPLE, TEXTS, pair_among
from regard.tasks.trained import TextColumn

TAGGED = (".conll", ".conllu")
FILE_NAMES = ("path", "file", "filename", "file_name", "image", "picture", "photo", "img")
"""What a column of picture files is usually called."""
NOTHING_KNOWN = TextColumn()
TITLED = 0.9  # share of rows of one width below a line that is no heading
NAMED = 4  # columns that a message names


class Layout(NamedTuple):
    """Where the texts of a table stand."""

    form: TableFormat
    width: int
    """Columns of the table; 1 where a delimiter is part of the text."""
    place: int
    heading: tuple[str, ...]
    """The names in the first line; none if it is a row like the others."""
    reason: str = ""


def plain_lines(path: Path) -> Iterator[str]:
    """Return the lines of a file for a command that reads no columns; a table is refused."""
    if is_table(path.name):
        raise ValueError(f"{path} is a table: give a file with a text in each line (.txt)")
    return lines_of(path)


def read_texts(
    path: Path,
    *,
    trained: Any = None,
    column: str | None = None,
    usual: Sequence[str] = (),
    tell: Callable[[str], None] = note,
) -> Iterator[str]:
    """Return the texts of a file: its lines, or the cells of one column of a table, and `tell` which.

    The column is the one asked for, the one of the training file, or one with a `usual` name. A file in which none can
    be found is refused.
    """
    if suffix(path.name) in getattr(trained, "word_files", TAGGED) and column is None:
        raise ValueError(f"{path} has a word in each line: give a file with a sentence in each line (.txt)")
    expected = getattr(trained, "text_column", NOTHING_KNOWN)
    usual = FILE_NAMES if getattr(trained, "opens", False) else (*usual, *TEXTS)
    if not is_table(path.name):
        delimiter, rows = sample_columns(path)
        if column is not None and not rows:
            raise ValueError(f"--column {column}: {path} is no table (.csv, .tsv, .jsonl), leave it out")
        if column is None and not is_unnamed_table(delimiter, rows, expected, usual):
            if whole := _describe_whole_lines(path, delimiter, rows, words=hasattr(trained, "word_files")):
                tell(whole)
            return lines_of(path)
    if is_json(path.name):
        return _json_texts(str(path), column, expected, usual, tell)
    layout = find_column(str(path), column=column, expected=expected, usual=usual)
    tell(f"{path}: {_describe(layout)}")
    return _cells_of(str(path), layout)


def find_column(
    path: str, *, column: str | None = None, expected: TextColumn = NOTHING_KNOWN, usual: Sequence[str] = TEXTS
) -> Layout:
    """Find the column of the texts in a table; a table in which it cannot be told is an error with the remedy."""
    form, tally = detect_format(path), LineReport()
    sample = [row for _, row in islice(read_rows(path, tally, form), SAMPLE)]
    tally.check(0.0, [path], unit="text")
    if not sample:
        raise ValueError(f"{path} holds nothing but blank lines: give a table with at least one text")
    first, rows = tuple(cell.strip() for cell in sample[0]), sample[1:]
    _check_title(path, sample)
    width = 1 if _is_one_column(sample) else len(first)
    if width == 1:
        first = (form.delimiter.join(sample[0]).strip(),)
    known = {name.casefold() for name in (*usual, *expected.names, *TEXTS, *LABELS)}

    def layout(index: int, heading: bool, reason: str = "") -> Layout:
        return Layout(form, width, index, first if heading else (), reason)

    headed = _names_columns(first) and any(name.casefold() in known for name in first)
    headed = headed and not _has_label(first, expected)
    if column is not None:
        return layout(*_asked_column(path, column, first, headed or _labels_begin_below(first, rows, expected)))
    if (index := _position(first, expected.names)) is not None:
        return layout(index, True, "as in training")
    if width == 1:
        return layout(0, headed)
    if headed and (index := _position(first, usual)) is not None:
        return layout(index, True)
    if expected.number is not None and not expected.names and expected.number <= width:
        heading = headed or _labels_begin_below(first, rows, expected)
        return layout(expected.number - 1, heading, "as in training")
    if pair_among(first) is not None:
        raise ValueError(f"{path} holds pairs of texts ({_listed(first)}), and one is read: name it with --column")
    trained_on = f", and none is called {expected.names[0]!r} as in training" if expected.names else ""
    raise ValueError(
        f"{path} is a table of {width} columns ({_listed(first)}){trained_on}: "
        f"name the column of the texts, as --column {_example(first, rows or [first])}"
    )


def _asked_column(path: str, column: str, first: tuple[str, ...], headed: bool) -> tuple[int, bool]:
    """Return the place of the column that somebody named, and whether the first line is a heading."""
    if (index := _position(first, [column])) is not None:
        return index, True
    if column.isdecimal() and 1 <= int(column) <= len(first):
        return int(column) - 1, headed
    close = nearest(column, first)
    raise ValueError(f"{path} has no column {column!r}{close}: its first line is {_listed(first)}; a number does too")


def _position(first: Sequence[str], names: Sequence[str]) -> int | None:
    """Return where the first of these names stands in a heading, whatever its capitals."""
    lower = [name.casefold() for name in first]
    return next((lower.index(name.strip().casefold()) for name in names if name.strip().casefold() in lower), None)


def _check_title(path: str, sample: Sequence[Sequence[str]]) -> None:
    """Stop at a table that has a line above its heading, such as a title."""
    widths = Counter(len(row) for row in sample[1:])
    width, count = widths.most_common(1)[0] if widths else (1, 0)
    if len(sample[0]) == 1 < width and count >= TITLED * len(sample[1:]) and len(sample) > 3:
        raise ValueError(
            f"{path} has 1 cell in its first line and {width} in those below: take out what stands above the heading, "
            "or put quotation marks around texts"
        )


def _is_one_column(sample: Sequence[Sequence[str]]) -> bool:
    """True if most records are one cell, or no delimiter stands in the first: then one in a text is part of it."""
    single = sum(len(row) == 1 for row in sample)
    return single > len(sample) / 2 or (len(sample) <= 2 and len(sample[0]) == 1)


def _names_columns(first: Sequence[str]) -> bool:
    """True if cells can be the names of columns: all there, all different, no numbers."""
    named = list(first)
    while named and not named[-1]:  # what a spreadsheet leaves behind the last column
        named.pop()
    numeric = any(cell.replace(",", ".").replace(".", "", 1).lstrip("+-").isdecimal() for cell in named)
    return all(named) and len(set(named)) == len(named) and not numeric


def _has_label(row: Sequence[str], expected: TextColumn) -> bool:
    """True if a row has a known label in the column of the labels."""
    place = (expected.label_number or 0) - 1
    return 0 <= place < len(row) and row[place].strip() in expected.labels


def _labels_begin_below(first: Sequence[str], rows: Sequence[Sequence[str]], expected: TextColumn) -> bool:
    """True if the first line has no known label where the lines below it have one."""
    below = sum(_has_label(row, expected) for row in rows)
    return not _has_label(first, expected) and below > len(rows) / 2


def _describe(layout: Layout) -> str:
    """Say which column is read and what is left out."""
    others = [name for index, name in enumerate(layout.heading) if index != layout.place and name]
    called = repr(layout.heading[layout.place]) if layout.heading else f"{layout.place + 1} of {layout.width}"
    how = f", {layout.reason}" if layout.reason else ""
    if layout.width == 1:
        return (
            f"reading its only column {called}{how}; the heading is left out"
            if layout.heading
            else "reading its only column, the first line too; if that is a heading, name it with --column"
        )
    if layout.heading:
        plural = "column" if len(others) == 1 else "columns"
        return f"reading the column {called}{how}; the heading and the {plural} {_listed(others)} are left out"
    rest = "the other is" if layout.width == 2 else "the others are"
    return f"reading column {called}{how}, the first line too; {rest} left out"


def _describe_whole_lines(path: Path, delimiter: str, rows: Sequence[Sequence[str]], *, words: bool) -> str:
    """Say that lines with tabs between columns are texts as a whole; stop where these are words with their tags."""
    if delimiter != "\t" or len(rows) < 2:
        return ""
    if words:
        raise ValueError(f"{path} has a word in each line: give a file with a sentence in each line (.txt)")
    width = len(rows[0])
    return (
        f"{path}: its lines are read whole, though all have {width} columns between tabs: "
        f"--column {_example((), rows)} reads one of them"
    )


def _cells_of(path: str, layout: Layout) -> Iterator[str]:
    """Yield the text of every row below the heading; a blank row is an empty text, a bad one an error."""
    tally, blanks, headed = LineReport(), 0, bool(layout.heading)
    rows = read_rows(path, tally, layout.form)
    for line, row in chain(rows, [(0, [])]):  # the last one stands for the end
        if tally.refused:
            tally.check(0.0, [path], unit="text")
        dropped = sum(found.count for found in tally.dropped.values())
        if not headed:
            yield from [""] * (dropped - blanks)
        blanks = dropped
        if headed or not row:
            headed = False
        elif layout.width == 1:
            yield layout.form.delimiter.join(row).strip()
        elif layout.place < len(row) <= layout.width:
            yield row[layout.place].strip()
        else:
            remedy = "put quotation marks around the text, or correct the line"
            raise ValueError(f"{path}:{line}: {quantity(len(row), 'cell')} under {layout.width} columns: {remedy}")


def _json_texts(
    path: str, column: str | None, expected: TextColumn, usual: Sequence[str], tell: Callable[[str], None]
) -> Iterator[str]:
    """Yield the text of every line of JSON."""
    _refuse_whole_json(path)
    tally = LineReport()
    first = next((record for _, record in records(path, tally, _record) if record is not None), None)
    tally.check(0.0, [path], unit="text")
    field = None if isinstance(first, str) else _field(path, first, column, (*expected.names, *usual))
    if field is not None:
        others = [name for name in first if name != field] if isinstance(first, dict) else []
        rest = f"; {_listed(others)} {'is' if len(others) == 1 else 'are'} left out" if others else ""
        tell(f"{path}: reading {field!r} of each line{rest}")

    def take(line: str) -> str:
        record = _record(line)
        return "" if record is None else record if isinstance(record, str) else text_at(record, field or "")

    return _checked(path, take)


def _refuse_whole_json(path: str) -> None:
    """Stop at a file that is one value of JSON over several lines, such as a catalogue of the texts of a program."""
    head = list(islice(lines(path), 2))
    if len(head) < 2 or (head[0] or b"").strip() not in (b"{", b"[", b"[{"):
        return
    remedy = "write its texts into a .txt file, one in each line, or give JSON lines with an object in each line"
    raise ValueError(f"{path} is one value of JSON over several lines, such as a catalogue of texts: {remedy}")


def _checked(path: str, take: Any) -> Iterator[str]:
    """Yield what is taken of every line; the first that is refused is an error."""
    tally = LineReport()
    for _, text in records(path, tally, take):
        if tally.refused:
            break
        yield text.strip()
    if tally.refused:
        tally.check(0.0, [path], unit="text")


def _record(line: str) -> Any:
    """Return what a line of JSON holds; None if it is blank."""
    if not line.strip():
        return None
    record = parsed(line)
    if not isinstance(record, dict | str):
        raise Refusal(NO_OBJECT)
    return record


def _field(path: str, record: Any, column: str | None, names: Sequence[str]) -> str:
    """Return the name of the text in records like this one."""
    texts = [name for name, value in record.items() if isinstance(value, str)]
    if column is not None:
        if isinstance(value_at(record, column), str):
            return column
        raise ValueError(
            f"{path} has no text named {column!r}{nearest(column, texts)}: its first line has {_listed(texts)}"
        )
    if field := next((name for name in names if isinstance(value_at(record, name), str)), None):
        return field
    if (index := _position(texts, names)) is not None:
        return texts[index]
    nested = any(isinstance(value, (dict, list)) for value in record.values())  # whose texts lie further inside
    if len(texts) == 1 and not nested:
        return texts[0]
    raise ValueError(
        f"{path} does not say which text in each line is meant ({_listed(texts) or 'none is known'}): "
        f"name the one to read, as --column {_example(texts, [[record[name] for name in texts]])}"
    )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(name if len(name) <= 30 else f"{name[:27]}..." for name in names[:NAMED])
    return f"{shown}, ..." if len(names) > NAMED else shown


def _example(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a column of long texts as it might be asked for: by its name if that is one, else by number."""
    if not rows and not names:
        return "NAME"
    lengths = [sum(map(len, column)) for column in zip(*rows, strict=False)] or [0]
    place = next(place for place, length in enumerate(lengths) if length >= max(lengths) / 2)
    name = names[place] if place < len(names) else ""
    return name if name.isidentifier() and _names_columns(names) else str(place + 1)
