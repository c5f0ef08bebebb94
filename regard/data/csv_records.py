"""Records of CSV files, one after the other: what separates their cells, and cells that go over several lines.

A bad record is refused, counted and remembered by its first line; reading goes on with the next line.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from regard.data.line_report import LineReport, Refusal

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
SAMPLE = 200  # records by which a delimiter is recognised
SPAN = 1000  # lines that a quoted cell may go over; an open quotation mark must not swallow a file
LARGEST_CELL = 1 << 20  # characters
OPEN = "with a quotation mark that is never closed"

csv.field_size_limit(LARGEST_CELL)  # of the whole process: every reader of CSV files reads the same cells

SEPARATOR_LINE = re.compile(rb'"?sep=([,;\t|])"?\s*', re.IGNORECASE)
"""What Excel reads above the heading: the character between cells."""

Lines = Iterable[bytes | None]


def cells(
    lines: Lines, tally: LineReport, delimiter: str, *, quoted: bool, file: int = 0
) -> Iterator[tuple[int, list[str]]]:
    """(line, cells) of every record, by its first line; blank lines are left out, bad ones refused."""
    feed = _Feed(lines)
    while feed.more():
        line = feed.number
        if line == 1 and feed.skip_separator_line():
            continue
        tally.read += 1
        try:
            record = _record(feed, delimiter, quoted=quoted)
        except Refusal as refusal:
            tally.refuse(refusal.reason, file + refusal.file, line)
            feed.back_to(line + 1)
            continue
        if any(cell.strip() for cell in record):
            yield line, record
        else:
            tally.drop("blank", file, line)


def find_delimiter(read: Callable[[], Lines], *, spreadsheet: bool) -> str:
    """What cuts the first lines into the same number of columns most regularly; tabs where no spreadsheet wrote it."""
    if named := separator_in(next(iter(read()), None)):
        return named
    fits = {mark: _regularity(read(), mark, quoted=spreadsheet or mark != "\t") for mark in DELIMITERS}
    if not spreadsheet and (fits["\t"] or max(fits.values()) < 0.95):
        return "\t"
    return max(fits, key=fits.__getitem__)  # of equal ones the first


def separator_in(line: bytes | None) -> str | None:
    """Return the character that the first line names as the one between cells, as in `sep=;` of Excel."""
    found = SEPARATOR_LINE.fullmatch(line or b"")
    return found.group(1).decode() if found else None


def _regularity(lines: Lines, delimiter: str, *, quoted: bool) -> float:
    """The share of the first lines that this cuts into the same number of cells without blanks before them."""
    rows = [row for _, row in islice(cells(lines, LineReport(), delimiter, quoted=quoted), SAMPLE)]
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
        """Whether there is another line; what was read before it is forgotten."""
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
                raise Refusal(f"longer than {LARGEST_CELL:,} bytes")
            try:
                yield line.decode("utf-8") + "\n"
            except UnicodeDecodeError:
                raise Refusal("invalid UTF-8") from None
            if self.number - self._start > SPAN:
                raise Refusal(OPEN)

    def _ahead(self) -> bool:
        for line in self._lines:
            self._read.append(line)
            return True
        return False


def _record(feed: Iterable[str], delimiter: str, *, quoted: bool) -> list[str]:
    """The next cells; a quoted one may go over several lines."""
    if not quoted:
        return next(iter(feed)).removesuffix("\n").split(delimiter)
    try:
        return next(csv.reader(feed, delimiter=delimiter, strict=True), [])
    except csv.Error:
        raise Refusal(OPEN) from None
