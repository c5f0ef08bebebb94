"""Records of tables with something between their cells: which delimiter that is, quoted cells that span several lines.

This is the only place that parses CSV. A bad record is refused, counted and remembered by its first line; reading goes
on with the next line.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice

from regard.data.line_report import NOT_UTF8, LineReport, Refusal

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
SAMPLE = 200  # records by which a delimiter is recognised
LINES_PER_CELL = 1000  # that a quoted cell may span; an open quotation mark must not swallow a file
LARGEST_CELL = 1 << 20  # characters
OPEN = "with a quotation mark that is never closed"
TOO_LONG = f"longer than {LARGEST_CELL:,} bytes"
BLANK = "blank"

csv.field_size_limit(LARGEST_CELL)  # of the whole process

SEPARATOR_LINE = re.compile(rb'"?sep=([,;\t|])"?\s*', re.IGNORECASE)
"""What Excel reads above the heading: the character between cells."""
NUMBERS = {mark: re.compile(rf"[+-]?[0-9]*{re.escape(mark)}[0-9]+(?:[eE][+-]?[0-9]+)?") for mark in ",."}

Lines = Iterable[bytes | None]


def split_records(
    lines: Lines, report: LineReport, delimiter: str, *, quoted: bool, file: int = 0, empty_cells: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Yield (first line, cells) of every record; bad ones are refused, blank ones left out.

    A record of several cells that are all empty is blank unless `empty_cells` are to be read.
    """
    feed = _Feed(lines)
    while feed.more():
        line = feed.number
        if line == 1 and feed.skip_separator_line():
            continue
        report.read += 1
        try:
            record = _next_record(feed, delimiter, quoted=quoted)
        except Refusal as refusal:
            report.refuse(refusal.reason, file + refusal.file, line)
            feed.back_to(line + 1)
            continue
        if any(cell.strip() for cell in record) or (empty_cells and len(record) > 1):
            yield line, record
        else:
            report.drop(BLANK, file, line)


def split_line(line: str, delimiter: str = ",") -> list[str]:
    """Return the cells of one line of CSV."""
    return next(csv.reader([line], delimiter=delimiter), [])


def find_delimiter(read: Callable[[], Lines], *, spreadsheet: bool) -> str:
    """Return the delimiter that splits the first lines into the same number of columns most regularly.

    Outside spreadsheets these are tabs unless another delimiter is much more regular.
    """
    if declared := separator_in(next(iter(read()), None)):
        return declared
    fits = {mark: _regularity(read(), mark, quoted=spreadsheet or mark != "\t") for mark in DELIMITERS}
    if not spreadsheet and (fits["\t"] or max(fits.values()) < 0.95):
        return "\t"
    return max(fits, key=fits.__getitem__)  # of equal ones the first


def heading_delimiter(lines: Iterable[bytes | None]) -> str:
    """Return the delimiter of a table whose first line names its columns: the most frequent one in that line."""
    first = next((line for line in lines if line and line.strip()), b"")
    return separator_in(first) or max(DELIMITERS, key=first.decode("utf-8", errors="replace").count)


def separator_in(line: bytes | None) -> str | None:
    """Return the delimiter that the first line names, as in `sep=;` of Excel."""
    match = SEPARATOR_LINE.fullmatch(line or b"")
    return match.group(1).decode() if match else None


def replace_decimal_commas(rows: Sequence[list[str]], delimiter: str) -> tuple[list[list[str]], bool]:
    """Return rows with 0.5 for 0,5 where numbers are written so throughout, and whether they are.

    Never where commas lie between cells, nor where a number has a decimal point: there 1,500 is more than a thousand.
    """
    stripped = [] if delimiter == "," else [cell.strip() for row in rows for cell in row]
    if not any(map(NUMBERS[","].fullmatch, stripped)) or any(map(NUMBERS["."].fullmatch, stripped)):
        return list(rows), False
    return [
        [cell.replace(",", ".") if NUMBERS[","].fullmatch(cell.strip()) else cell for cell in row] for row in rows
    ], True


def _regularity(lines: Lines, delimiter: str, *, quoted: bool) -> float:
    """The share of the first lines that this cuts into the same number of cells without blanks before them."""
    rows = [row for _, row in islice(split_records(lines, LineReport(), delimiter, quoted=quoted), SAMPLE)]
    widths = Counter(len(row) for row in rows if len(row) > 1)
    if not widths:
        return 0.0
    [(width, count)] = widths.most_common(1)
    blanks = sum(cell.startswith(" ") for row in rows if len(row) == width for cell in row[1:])
    return (count - blanks / (width - 1) / 2) / len(rows)  # after a comma of a text there is a blank


class _Feed:
    """Lines as text, with a way back to one that was read too early."""

    def __init__(self, lines: Lines) -> None:
        self._lines = iter(lines)
        self.number = 1
        self._read: list[bytes | None] = []  # from the line `self._start` on
        self._start = 1

    def more(self) -> bool:
        """True if there is another line; what was read before it is forgotten."""
        del self._read[: self.number - self._start]
        self._start = self.number
        return bool(self._read) or self._ahead()

    def skip_separator_line(self) -> bool:
        """Pass over the first line if it only says what separates cells."""
        if separator_in(self._read[0] if self._read else None) is None:
            return False
        self.number += 1
        return True

    def back_to(self, number: int) -> None:
        """Read on from this line."""
        self.number = number

    def __iter__(self) -> Iterator[str]:
        while self.number - self._start < len(self._read) or self._ahead():
            line = self._read[self.number - self._start]
            self.number += 1
            if line is None:
                raise Refusal(TOO_LONG)
            try:
                yield line.decode("utf-8") + "\n"
            except UnicodeDecodeError:
                raise Refusal(NOT_UTF8) from None
            if self.number - self._start > LINES_PER_CELL:
                raise Refusal(OPEN)

    def _ahead(self) -> bool:
        for line in self._lines:
            self._read.append(line)
            return True
        return False


def _next_record(feed: Iterable[str], delimiter: str, *, quoted: bool) -> list[str]:
    """Return the next cells; a quoted one may span several lines."""
    lines = iter(feed)
    line = next(lines)
    if not quoted or not ('"' in line or "\r" in line):  # by far the most, and twice as fast
        return line.removesuffix("\n").split(delimiter)
    try:
        return next(csv.reader(chain([line], lines), delimiter=delimiter, strict=True), [])
    except csv.Error:
        raise Refusal(OPEN) from None
