"""Tables in files, plain or gzipped: rows of cells or JSON objects, each with the line on which it begins.

A reader that can do without some rows passes a `LineReport`, which counts what was refused and left out, and why; one
that needs every row passes a `StrictReport`, for which the first refusal is an error with its place and a remedy.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from regard.config.words import quantity
from regard.data.encodings import hint_of
from regard.data.line_report import NOT_UTF8, LineReport
from regard.data.readers import JSON_SUFFIXES, MEMORY_SUFFIX, Refusal, lines, parse_json_line, records, suffix
from regard.data.table_records import (
    LARGEST_CELL,
    OPEN,
    TOO_LONG,
    find_delimiter,
    heading_delimiter,
    replace_decimal_commas,
    split_records,
)

TABLE_SUFFIXES = (".csv", ".tsv")
LARGEST = 1e30  # what single precision still has room for after scaling
NO_OBJECT = "that is no object of JSON"
REMEDIES = {
    NOT_UTF8: "not UTF-8: save the table as UTF-8",
    TOO_LONG: f"a line of more than {LARGEST_CELL:,} bytes: correct it",
    OPEN: "a quotation mark inside a cell, or one that is never closed: correct the line and its quotation marks",
    "invalid JSON": "invalid JSON, give one object in each line",
    NO_OBJECT: "no JSON object, give one in each line",
}
Row = tuple[int, list[str]]


class TableFormat(NamedTuple):
    """How the cells of a table are separated."""

    delimiter: str
    quoted: bool
    """Whether cells may stand between quotation marks, as spreadsheets write them."""


@dataclass
class StrictReport(LineReport):
    """A report that stops at the first refusal, with its place and what to do."""

    path: str = ""

    def refuse(self, reason: str, file: int, line: int) -> None:
        """Raise an error for a line that cannot be read."""
        remedy = hint_of(self.path) if reason == NOT_UTF8 else ""
        raise ValueError(f"{self.path}:{line}: {REMEDIES.get(reason, reason)}{remedy and f' ({remedy})'}")


def is_json(path: str) -> bool:
    """True if a file holds JSON lines, by its name."""
    return suffix(path) in JSON_SUFFIXES


def is_table(path: str) -> bool:
    """True if a file is a table, a translation memory or JSON lines, by its name."""
    return suffix(path) in (*TABLE_SUFFIXES, MEMORY_SUFFIX) or is_json(path)


def detect_format(path: str, delimiter: str | None = None) -> TableFormat:
    """Return how a table is written, from its first lines; tabs separate the columns of most files but .csv."""
    spreadsheet = suffix(path) == ".csv"
    delimiter = delimiter or find_delimiter(lambda: lines(path), spreadsheet=spreadsheet)
    return TableFormat(delimiter, spreadsheet or delimiter != "\t")


def detect_heading_format(path: str) -> TableFormat:
    """Return how a table is written whose first line names its columns."""
    return TableFormat(heading_delimiter(lines(path)), True)


def read_rows(
    path: str, report: LineReport, form: TableFormat | None = None, *, empty_cells: bool = False
) -> Iterator[Row]:
    """Yield (first line, cells) of every row, the heading included."""
    form = form or detect_format(path)
    return split_records(lines(path), report, form.delimiter, quoted=form.quoted, empty_cells=empty_cells)


def read_sample(path: str, form: TableFormat, count: int) -> list[list[str]]:
    """Return the cells of the first rows."""
    return [row for _, row in islice(read_rows(path, LineReport(), form), count)]


def read_objects(path: str, report: LineReport) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield (line, object) of every line of JSON."""
    return records(path, report, parse_object)


def parse_object(line: str) -> Mapping[str, Any]:
    """Return the JSON object in a line."""
    record = parse_json_line(line)
    if not isinstance(record, dict):
        raise Refusal(NO_OBJECT)
    return record


def read_even_rows(path: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the place and the cells of every row, all as many as in the heading, which comes first without blanks.

    Whatever cannot be read is an error.
    """
    rows = read_rows(path, StrictReport(path=path), detect_heading_format(path), empty_cells=True)
    first, heading = next(rows, (1, []))
    heading = [cell.strip() for cell in heading]
    if not any(heading):
        raise ValueError(f"{path} is empty: give a table with the names of its columns in the first line")
    yield f"{path}:{first}", heading
    for line, row in rows:
        if len(row) != len(heading):
            raise ValueError(f"{path}:{line}: {describe_width(row, heading)}")
        yield f"{path}:{line}", row


def describe_width(row: Sequence[str], heading: Sequence[str]) -> str:
    """Say that a row has other cells than its table has columns, and what to do."""
    return f"{quantity(len(row), 'cell')} under {quantity(len(heading), 'column')}: correct the line"


class Sheet(NamedTuple):
    """A table as it stands in a file."""

    name: str
    header: list[str]
    lines: list[tuple[str, list[str]]]
    """The place and the cells of every line below the header."""
    decimal_commas: bool = False
    """Whether numbers were written as 0,5 in the file; in `lines` they have a point."""

    @classmethod
    def read(cls, name: str) -> Sheet:
        """Read the table in a file; numbers with decimal commas get points."""
        (place, header), *below = read_even_rows(name)
        if twice := [cell for cell, count in Counter(header).items() if count > 1]:
            raise ValueError(f"{place}: two columns are named {twice[0]!r}: rename one")
        rows, decimal_commas = replace_decimal_commas([row for _, row in below], detect_heading_format(name).delimiter)
        return cls(name, header, list(zip([place for place, _ in below], rows, strict=True)), decimal_commas)


def number_in(cell: str, column: str, where: str, *, remedy: str = "leave the column out") -> float:
    """The number in a cell of a column; what is none, or too large, is an error."""
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        what = f"{cell.strip()[:40]!r}" if cell.strip() else "an empty cell"
        raise ValueError(f"{where}: {what} in column {column} is no number: correct it, or {remedy}")
    if abs(value) > LARGEST:
        raise ValueError(f"{where}: {cell.strip()[:40]} in column {column} is beyond {LARGEST:g}: choose another unit")
    return value
