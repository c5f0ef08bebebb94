"""One look for every table in a terminal: it fits the width, and every number stays whole."""

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
LONGEST = 30
"""Longest word that is never broken."""


@dataclass(frozen=True)
class Fitted:
    """Rows under their headings: words fold first, and columns that are still too many go on in a table below.

    Cells are text, never markup; floats are shown to three digits. Without a single heading none is shown, and of
    no rows only the title.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str | None = None
    note: str | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines, as wide as there is room."""
        if self.title:
            yield Text(self.title, style="italic")
        if not self.rows:
            return
        names, cells, sizes = self._fit(options.max_width)
        gap = 2 if sum(sizes) + 2 * (len(sizes) - 1) <= options.max_width else 1
        for number, band in enumerate(_bands(sizes, options.max_width, gap)):
            if number:
                yield Text("")
            yield self._table(band, names, cells, gap=gap)
        if self.note:
            yield Text(self.note, style="dim")

    def _fit(self, width: int) -> tuple[list[str], list[list[str]], list[int]]:
        """Headings and cells in lines, and how wide their columns are."""
        cells = [[_text(cell) for cell in row] for row in self.rows]
        counted = [self._counted(place) for place in range(len(self.columns))]
        names = list(self.columns)
        if (
            sum(map(_widest, zip(names, *cells, strict=True))) + 2 * (len(names) - 1) > width
        ):  # numbers need not be wide
            names = [
                _folded(name, max(_widest(column), _longest([name]))) if number else name
                for name, number, column in zip(names, counted, zip(*cells, strict=True), strict=True)
            ]
        sizes = _shrunk(names, cells, counted, room=width)
        names = [_folded(name, size) for name, size in zip(names, sizes, strict=True)]
        tall = max(name.count("\n") for name in names)
        names = ["\n" * (tall - name.count("\n")) + name for name in names]  # the last line of each above its column
        return names, [[_folded(cell, size) for cell, size in zip(row, sizes, strict=True)] for row in cells], sizes

    def _table(self, band: Sequence[int], names: Sequence[str], cells: Sequence[Sequence[str]], *, gap: int) -> Table:
        """Some of the columns."""
        table = Table(box=box.SIMPLE_HEAD, padding=(0, gap - 1, 0, 0), pad_edge=False, show_edge=False)
        table.show_header = any(self.columns)
        for place in band:
            side: Literal["left", "right"] = "right" if self._counted(place) else "left"
            table.add_column(Text(names[place]), justify=side, no_wrap=True)
        for row in cells:
            table.add_row(*(Text(row[place]) for place in band))
        return table

    def _counted(self, place: int) -> bool:
        """Whether a column holds numbers."""
        return all(NUMBER.fullmatch(_text(row[place])) for row in self.rows)


def _text(cell: Cell) -> str:
    """A number to three digits, whole numbers in groups of three, a dash for nothing; of a text what can be shown."""
    if cell is None:
        return "-"
    if isinstance(cell, str):
        return "".join(letter if letter.isprintable() or letter == "\n" else "·" for letter in cell)
    return f"{cell:.3f}" if isinstance(cell, float) else f"{cell:,}"


def _shrunk(names: Sequence[str], cells: Sequence[Sequence[str]], counted: Sequence[bool], *, room: int) -> list[int]:
    """Columns that each column gets: its own, or in what is too wide less for those that hold words."""
    columns = [[name, *(row[place] for row in cells)] for place, name in enumerate(names)]
    sizes = [_widest(column) for column in columns]
    least = [
        size if number else min(size, max(_longest(column), 8))
        for size, number, column in zip(sizes, counted, columns, strict=True)
    ]
    while sum(sizes) + len(sizes) - 1 > room:
        place = max(range(len(sizes)), key=lambda each: sizes[each] - least[each])
        if sizes[place] == least[place]:
            break
        sizes[place] -= 1
    return sizes


def _longest(texts: Iterable[str]) -> int:
    """The longest word that is kept whole."""
    return min(LONGEST, max((len(word) for text in texts for word in text.split()), default=1))


def _folded(text: str, width: int) -> str:
    """The text in lines that break between words, and inside one only if it is longer than a line."""
    wrapped = (textwrap.wrap(line, max(width, 1), break_on_hyphens=False) or [""] for line in text.split("\n"))
    return "\n".join(part for line in wrapped for part in line)


def _widest(texts: Iterable[str]) -> int:
    return max((len(line) for text in texts for line in text.split("\n")), default=0)


def _bands(sizes: Sequence[int], width: int, gap: int) -> list[list[int]]:
    """Runs of columns that fit side by side, the first column in each of them."""
    bands, used = [[0]], sizes[0]
    for place, size in enumerate(sizes[1:], start=1):
        if used + gap + size > width and len(bands[-1]) > 1:
            bands.append([0])
            used = sizes[0]
        bands[-1].append(place)
        used += gap + size
    return bands
