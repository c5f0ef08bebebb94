"""Which column of a table, or field of JSON lines, holds the texts for a model in use, and the texts in it.

The column is the one that somebody names, the one that training took, or one with a usual name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from regard.config.words import quantity
from regard.data.column_names import LABELS, TEXTS
from regard.data.columns import (
    ColumnSample,
    Role,
    can_be_heading,
    choose_columns,
    choose_pair,
    describe_left_out,
    find_name,
    list_columns,
)
from regard.data.labelled_columns import SAMPLE
from regard.data.line_report import LineReport
from regard.data.readers import Refusal, lines, parse_json_line, records, text_at
from regard.data.tables import NO_OBJECT, TableFormat, detect_format, is_json, read_rows

TITLED = 0.9  # share of rows of one width below a line that is no heading
COLUMN_OPTION = "name the column of the texts, as --column {column}"


class TextColumn(NamedTuple):
    """Which column of a table held the texts that a model was trained on, as far as that is known."""

    names: tuple[str, ...] = ()
    """What the column was called."""
    number: int | None = None
    """Its number, counted from 1."""
    label_number: int | None = None
    """The number of the column of the labels."""
    labels: frozenset[str] = frozenset()
    """The labels there were, by which a line of the table is told from its heading."""


NOTHING_KNOWN = TextColumn()


class TextColumnChoice(NamedTuple):
    """Where the texts of a table stand."""

    form: TableFormat
    width: int
    """Columns of the table; 1 where a delimiter is part of the text."""
    place: int
    heading: tuple[str, ...]
    """The names in the first line; none if it is a row like the others."""
    reason: str = ""


def read_table_texts(
    path: str,
    *,
    column: str | None = None,
    expected: TextColumn = NOTHING_KNOWN,
    usual: Sequence[str] = TEXTS,
    tell: Callable[[str], None] = lambda note: None,
) -> Iterator[str]:
    """Return the texts of a table or of JSON lines, and `tell` in a line which are read and what is left out."""
    if is_json(path):
        return _json_texts(path, column, expected, usual, tell)
    choice = find_text_column(path, column=column, expected=expected, usual=usual)
    tell(f"{path}: {_describe(choice)}")
    return _cells_of(path, choice)


def find_text_column(
    path: str, *, column: str | None = None, expected: TextColumn = NOTHING_KNOWN, usual: Sequence[str] = TEXTS
) -> TextColumnChoice:
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
    headed = can_be_heading(first) and find_name(first, (*usual, *expected.names, *TEXTS, *LABELS)) is not None
    headed = headed and not _has_label(first, expected)
    labels_below = _labels_begin_below(first, rows, expected)
    number = 1 if width == 1 else expected.number if not expected.names else None
    is_pair = choose_pair(first) is not None
    role = Role(
        name="text",
        column=column,
        trained=expected.names,
        usual=usual if headed and width > 1 else (),
        position=number if number is not None and number <= width else None,
        required=not is_pair,
        setting=COLUMN_OPTION,
    )
    choice = choose_columns(ColumnSample(path, first, rows), [role])
    if not choice.places:
        raise ValueError(f"{path} holds pairs of texts ({list_columns(first)}), and one is read: name it with --column")
    reason = choice.reasons[role.name]
    as_in_training = reason == "training" or (reason == "position" and width > 1)
    heading = first if choice.by_name or headed or labels_below else ()
    return TextColumnChoice(form, width, choice.places[role.name], heading, "as in training" if as_in_training else "")


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


def _has_label(row: Sequence[str], expected: TextColumn) -> bool:
    """True if a row has a known label in the column of the labels."""
    place = (expected.label_number or 0) - 1
    return 0 <= place < len(row) and row[place].strip() in expected.labels


def _labels_begin_below(first: Sequence[str], rows: Sequence[Sequence[str]], expected: TextColumn) -> bool:
    """True if the first line has no known label where the lines below it have one."""
    below = sum(_has_label(row, expected) for row in rows)
    return not _has_label(first, expected) and below > len(rows) / 2


def _describe(choice: TextColumnChoice) -> str:
    """Say which column is read and what is left out."""
    others = [name for index, name in enumerate(choice.heading) if index != choice.place and name]
    called = repr(choice.heading[choice.place]) if choice.heading else f"{choice.place + 1} of {choice.width}"
    how = f", {choice.reason}" if choice.reason else ""
    if choice.width == 1:
        return (
            f"reading its only column {called}{how}; the heading is left out"
            if choice.heading
            else "reading its only column, the first line too; if that is a heading, name it with --column"
        )
    if choice.heading:
        plural = "column" if len(others) == 1 else "columns"
        return f"reading the column {called}{how}; the heading and the {plural} {list_columns(others)} are left out"
    rest = "the other is" if choice.width == 2 else "the others are"
    return f"reading column {called}{how}, the first line too; {rest} left out"


def _cells_of(path: str, choice: TextColumnChoice) -> Iterator[str]:
    """Yield the text of every row below the heading; a blank row is an empty text, a bad one an error."""
    tally, blanks, headed = LineReport(), 0, bool(choice.heading)
    rows = read_rows(path, tally, choice.form)
    for line, row in chain(rows, [(0, [])]):  # the last one stands for the end
        if tally.refused:
            tally.check(0.0, [path], unit="text")
        dropped = sum(occurrences.count for occurrences in tally.dropped.values())
        if not headed:
            yield from [""] * (dropped - blanks)
        blanks = dropped
        if headed or not row:
            headed = False
        elif choice.width == 1:
            yield choice.form.delimiter.join(row).strip()
        elif choice.place < len(row) <= choice.width:
            yield row[choice.place].strip()
        else:
            remedy = "put quotation marks around the text, or correct the line"
            raise ValueError(f"{path}:{line}: {quantity(len(row), 'cell')} under {choice.width} columns: {remedy}")


def _json_texts(
    path: str, column: str | None, expected: TextColumn, usual: Sequence[str], tell: Callable[[str], None]
) -> Iterator[str]:
    """Yield the text of every line of JSON."""
    _refuse_whole_json(path)
    tally = LineReport()
    first = next((record for _, record in records(path, tally, _record) if record is not None), None)
    tally.check(0.0, [path], unit="text")
    field = None if isinstance(first, str) else _choose_field(path, first, column, expected.names, usual)
    if field is not None:
        others = [name for name in first if name != field] if isinstance(first, dict) else []
        tell(f"{path}: reading {field!r} of each line{describe_left_out(others)}")

    def take(line: str) -> str:
        record = _record(line)
        return "" if record is None else record if isinstance(record, str) else text_at(record, field or "")

    return _read_strictly(path, take)


def _refuse_whole_json(path: str) -> None:
    """Raise ValueError for a JSON file with a single value over several lines, such as a translation catalogue."""
    head = list(islice(lines(path), 2))
    if len(head) < 2 or (head[0] or b"").strip() not in (b"{", b"[", b"[{"):
        return
    remedy = "write its texts into a .txt file, one in each line, or give JSON lines with an object in each line"
    raise ValueError(f"{path} is one value of JSON over several lines, such as a catalogue of texts: {remedy}")


def _read_strictly(path: str, take: Any) -> Iterator[str]:
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
    record = parse_json_line(line)
    if not isinstance(record, dict | str):
        raise Refusal(NO_OBJECT)
    return record


def _choose_field(path: str, record: Any, column: str | None, trained: Sequence[str], usual: Sequence[str]) -> str:
    """Return the name of the text in records like this one."""
    sample = ColumnSample.of_records(path, [record], texts=True)
    nested = any(isinstance(value, (dict, list)) for value in record.values())  # whose texts lie further inside
    position = 1 if len(sample.names) == 1 and not nested else None
    role = Role(name="text", column=column, trained=trained, usual=usual, position=position, setting=COLUMN_OPTION)
    return choose_columns(sample, [role]).column_name(role.name)
