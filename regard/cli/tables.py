"""Tables for the terminal: they fit its width, and every number stays whole."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

Cell = str | float | int | None
NUMBER = re.compile(r"[<n^+-]*\d[\d,.e+-]*( ?[%a-zA-Z]{1,5})?( ± \S+)?|-")
"""What stands on the right of its column: a number, with its unit or interval if it has one."""
MAX_WHOLE_WORD = 30
"""Longest word that is never broken."""


@dataclass(frozen=True)
class FittedTable:
    """A table whose words fold to fit the terminal; columns that are still too many go on in a table below.

    Cells are text, never markup; floats are shown to three digits. Without a single heading none is shown, and without
    rows only the title.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str | None = None
    note: str | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines of the table, as wide as the console allows."""
        if self.title:
            yield Text(self.title, style="italic")
        if not self.rows:
            return
        headings, cells, widths = self._fit(options.max_width)
        gap = 2 if sum(widths) + 2 * (len(widths) - 1) <= options.max_width else 1
        for number, columns in enumerate(_split_into_bands(widths, options.max_width, gap)):
            if number:
                yield Text("")
            yield self._table(columns, headings, cells, gap=gap)
        if self.note:
            yield Text(self.note, style="dim")

    def _fit(self, width: int) -> tuple[list[str], list[list[str]], list[int]]:
        """Return headings and cells broken into lines, and the widths of their columns."""
        cells = [[_format_cell(cell) for cell in row] for row in self.rows]
        numeric = [self._is_numeric(index) for index in range(len(self.columns))]
        headings = list(self.columns)
        if (
            sum(map(_widest_line, zip(headings, *cells, strict=True))) + 2 * (len(headings) - 1) > width
        ):  # numbers need not be wide
            headings = [
                _wrap_text(name, max(_widest_line(cells_of_column), _longest_word([name]))) if is_number else name
                for name, is_number, cells_of_column in zip(headings, numeric, zip(*cells, strict=True), strict=True)
            ]
        widths = _shrink_columns(headings, cells, numeric, total_width=width)
        headings = [_wrap_text(name, size) for name, size in zip(headings, widths, strict=True)]
        line_count = max(name.count("\n") for name in headings)
        # the last line of each heading stands above its column
        headings = ["\n" * (line_count - name.count("\n")) + name for name in headings]
        cells = [[_wrap_text(cell, size) for cell, size in zip(row, widths, strict=True)] for row in cells]
        return headings, cells, widths

    def _table(
        self, columns: Sequence[int], headings: Sequence[str], cells: Sequence[Sequence[str]], *, gap: int
    ) -> Table:
        """Return a table of some of the columns."""
        table = Table(box=box.SIMPLE_HEAD, padding=(0, gap - 1, 0, 0), pad_edge=False, show_edge=False)
        table.show_header = any(self.columns)
        for index in columns:
            justify: Literal["left", "right"] = "right" if self._is_numeric(index) else "left"
            table.add_column(Text(headings[index]), justify=justify, no_wrap=True)
        for row in cells:
            table.add_row(*(Text(row[index]) for index in columns))
        return table

    def _is_numeric(self, index: int) -> bool:
        """Return True if a column holds numbers."""
        return all(NUMBER.fullmatch(_format_cell(row[index])) for row in self.rows)


def _format_cell(cell: Cell) -> str:
    """Format a cell: floats to three digits, integers in groups of three, None as -, control characters as dots."""
    if cell is None:
        return "-"
    if isinstance(cell, str):
        return "".join(letter if letter.isprintable() or letter == "\n" else "·" for letter in cell)
    return f"{cell:.3f}" if isinstance(cell, float) else f"{cell:,}"


def _shrink_columns(
    headings: Sequence[str], cells: Sequence[Sequence[str]], numeric: Sequence[bool], *, total_width: int
) -> list[int]:
    """Return the width of each column: its own, or less for columns of words if the table is too wide."""
    columns = [[name, *(row[index] for row in cells)] for index, name in enumerate(headings)]
    widths = [_widest_line(column) for column in columns]
    min_widths = [
        width if is_number else min(width, max(_longest_word(column), 8))
        for width, is_number, column in zip(widths, numeric, columns, strict=True)
    ]
    while sum(widths) + len(widths) - 1 > total_width:
        index = max(range(len(widths)), key=lambda candidate: widths[candidate] - min_widths[candidate])
        if widths[index] == min_widths[index]:
            break
        widths[index] -= 1
    return widths


def _longest_word(texts: Iterable[str]) -> int:
    """Return the length of the longest word that is kept whole."""
    return min(MAX_WHOLE_WORD, max((len(word) for text in texts for word in text.split()), default=1))


def _wrap_text(text: str, width: int) -> str:
    """Wrap text between words, and inside one only if it is longer than a line."""
    wrapped = (textwrap.wrap(line, max(width, 1), break_on_hyphens=False) or [""] for line in text.split("\n"))
    return "\n".join(part for line in wrapped for part in line)


def _widest_line(texts: Iterable[str]) -> int:
    return max((len(line) for text in texts for line in text.split("\n")), default=0)


def _split_into_bands(widths: Sequence[int], total_width: int, gap: int) -> list[list[int]]:
    """Split columns into runs that fit side by side, each beginning with the first column."""
    bands, used_width = [[0]], widths[0]
    for index, column_width in enumerate(widths[1:], start=1):
        if used_width + gap + column_width > total_width and len(bands[-1]) > 1:
            bands.append([0])
            used_width = widths[0]
        bands[-1].append(index)
        used_width += gap + column_width
    return bands
