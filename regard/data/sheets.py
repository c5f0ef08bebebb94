"""Tables as they stand in files: rows of cells with their places, and cells that are numbers.

Commas, semicolons or tabs lie between cells, as the first line tells. Whatever cannot be read is an error with its file
and line.
"""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from regard.config.words import nearest, quantity
from regard.data.csv_records import separator_in
from regard.data.readers import LINE, lines

DELIMITERS = ",;\t"
UNREADABLE = "no cells, correct the line and its quotation marks"
LARGEST = 1e30  # what single precision still has room for after scaling


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
        """The table in a file; numbers with decimal commas get points."""
        found = cells(name)
        _, header = next(found)
        if twice := [cell for cell, count in Counter(header).items() if count > 1]:
            raise ValueError(f"{name}:1: two columns are named {twice[0]!r}: rename one")
        lines = list(found)
        delimiter = delimiter_in(next(text_lines(name), ""))
        rows, decimal_commas = replace_decimal_commas([row for _, row in lines], delimiter)
        places = [place for place, _ in lines]
        return cls(name, header, list(zip(places, rows, strict=True)), decimal_commas)


def delimiter_in(line: str) -> str:
    """What lies between the cells of a line: the most frequent of commas, semicolons and tabs."""
    return max(DELIMITERS, key=line.count)


def replace_decimal_commas(rows: list[list[str]], delimiter: str) -> tuple[list[list[str]], bool]:
    """Rows with 0.5 for 0,5 where numbers are written so throughout, and whether they are.

    Never where commas lie between cells, nor where a number has a decimal point: there 1,500 is more than a thousand.
    """
    if delimiter == ",":
        return rows, False
    numbers = {mark: re.compile(rf"[+-]?[0-9]*{re.escape(mark)}[0-9]+(?:[eE][+-]?[0-9]+)?") for mark in ",."}
    stripped = [cell.strip() for row in rows for cell in row]
    if not any(map(numbers[","].fullmatch, stripped)) or any(map(numbers["."].fullmatch, stripped)):
        return rows, False
    return [
        [cell.replace(",", ".") if numbers[","].fullmatch(cell.strip()) else cell for cell in row] for row in rows
    ], True


def cells(name: str) -> Iterator[tuple[str, list[str]]]:
    """Every line as its place and its cells, all as many as the first one, whose blanks are taken off."""
    texts = text_lines(name)
    first = next(texts, "")
    delimiter = delimiter_in(first)
    try:
        header = [cell.strip() for cell in next(csv.reader([first], delimiter=delimiter, strict=True), [])]
    except csv.Error as error:
        raise ValueError(f"{name}:1: {UNREADABLE} ({error})") from None
    if not any(header):
        raise ValueError(f"{name} is empty: give a table with the names of its columns in the first line")
    yield f"{name}:1", header
    reader = csv.reader(texts, delimiter=delimiter, strict=True)
    begins = 2 + has_separator_line(name)
    place = f"{name}:{begins}"
    try:
        for row in reader:
            if len(row) not in (0, len(header)):
                raise ValueError(
                    f"{place}: {quantity(len(row), 'cell')} under {quantity(len(header), 'column')}: correct the line"
                )
            if row:
                yield place, row
            place = f"{name}:{reader.line_num + begins}"  # where the next row begins: a quoted cell may go over lines
    except csv.Error as error:
        raise ValueError(f"{place}: {UNREADABLE} ({error})") from None


def text_lines(name: str) -> Iterator[str]:
    """The lines of a table as text, but for one that only names the separator; others that are none are errors."""
    for place, line in enumerate(lines(name), start=1):
        if place == 1 and separator_in(line) is not None:
            continue
        if line is None:
            raise ValueError(f"{name}:{place}: a line of more than {LINE:,} bytes: correct it")
        try:
            yield f"{line.decode('utf-8')}\n"
        except UnicodeDecodeError:
            raise ValueError(f"{name}:{place}: not UTF-8: save the table as UTF-8") from None


def has_separator_line(name: str) -> bool:
    """True if the first line of a table only names what separates cells, as in `sep=;` of Excel."""
    return separator_in(next(lines(name), None)) is not None


def known_in(name: str, header: Sequence[str], columns: Sequence[str]) -> None:
    """Stop at a column that the table does not have."""
    for column in columns:
        if column not in header:
            close = nearest(column, header)
            raise ValueError(f"{name} has no column {column}{close}{'' if close.endswith('?') else ': add it'}")


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
