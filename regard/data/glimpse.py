"""A first look at a file: as much of it as tells what it holds."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, zip_longest
from typing import Any

from regard.data.encodings import find_file, find_path
from regard.data.foreign_formats import describe_marks, refuse_foreign_format
from regard.data.line_report import LineReport
from regard.data.readers import JSON_SUFFIXES, LINE, MEMORY_SUFFIX, Refusal, lines, parse_json_line, read_cells, suffix
from regard.data.table_records import heading_delimiter, replace_decimal_commas, separator_in, split_records
from regard.data.tables import TABLE_SUFFIXES

LINES = 1000  # looked at
MARKUP_LINES = 10  # in which a file in a markup of its own says so
WORDS = 3  # of a label, at most
NUMERIC_SHARE = 0.9  # of the cells of a column of numbers, in which some may be mistyped
ENOUGH_NUMBERS = 3  # columns of numbers beside texts that make a file as likely a table as labelled texts


def arrays_in(name: str) -> set[str]:
    """The names of the arrays in an npz file; of what is none, nothing."""
    try:
        with zipfile.ZipFile(find_file(name)) as file:
            return {member.removesuffix(".npy") for member in file.namelist()}
    except (zipfile.BadZipFile, OSError, ValueError):
        return set()


@dataclass(frozen=True)
class Column:
    """Some cells of a column, one below the other."""

    cells: tuple[str, ...]

    @cached_property
    def words(self) -> float:
        """Words in a cell, in the mean."""
        return sum(len(cell.split()) for cell in self.cells) / max(1, len(self.cells))

    @cached_property
    def distinct(self) -> int:
        """How many different cells there are."""
        return len(set(self.cells))

    @property
    def numeric(self) -> bool:
        """Whether every cell is a number."""
        return bool(self.cells) and all(map(is_number, self.cells))

    @property
    def mostly_numeric(self) -> bool:
        """Whether it is meant to hold numbers: nearly all cells that are not blank are some."""
        present = [cell for cell in self.cells if cell]
        return bool(present) and sum(map(is_number, present)) >= NUMERIC_SHARE * len(present)

    @property
    def numbers_rows(self) -> bool:
        """Whether it holds whole numbers of which none comes again, as an id does."""
        return (
            self.numeric and self.distinct == len(self.cells) and all(float(cell).is_integer() for cell in self.cells)
        )

    @property
    def repeats(self) -> bool:
        """Whether it holds a few short texts again and again, as labels do; of few cells nobody can tell."""
        few = max(2.0, 1.5 * math.sqrt(len(self.cells)))
        return self.distinct <= few and max((len(cell.split()) for cell in self.cells), default=0) <= WORDS

    @property
    def telling(self) -> bool:
        """Whether there are cells enough to believe in what `repeats` says."""
        return len(self.cells) >= 10


@dataclass(frozen=True)
class Glimpse:
    """The first lines of a file."""

    name: str
    lines: tuple[str, ...]

    @classmethod
    def at(cls, name: str, *, declared: bool = False) -> Glimpse:
        """A look at this file; one that is not there, or empty, is an error.

        Where nobody `declared` what it holds, neither may it be a single line that is too long to look at.
        """
        find_file(name)
        if suffix(name) == MEMORY_SUFFIX:
            units = [row for _, row in islice(read_cells(name, LineReport()), LINES)]
            return cls(name, tuple("\t".join(row) for row in units))
        read = list(islice(lines(name), LINES))
        refuse_foreign_format(name, b"\n".join(line or b"" for line in read[:MARKUP_LINES]))
        decoded = tuple((line or b"").decode("utf-8", errors="replace") for line in read)
        if None in read and not any(line.strip() for line in decoded):
            if declared:
                return cls(name, ())
            raise ValueError(
                f"{name} is one line of more than {LINE:,} bytes: say what it holds, with --text for plain text, "
                "--questions for SQuAD"
            )
        if not any(line.strip() for line in decoded):
            raise ValueError(f"{name} is empty: give a file with something to train on")
        return cls(name, decoded)

    @property
    def suffix(self) -> str:
        """How its name ends, whether or not it is gzipped."""
        return suffix(self.name)

    @property
    def is_json(self) -> bool:
        """Whether it is named like JSON lines."""
        return self.suffix in JSON_SUFFIXES

    @property
    def is_plain(self) -> bool:
        """Whether its lines are texts, as far as one sees: neither JSON nor columns."""
        return not self.is_json and self.suffix != ".csv" and not self.is_binary and not self.rows

    @cached_property
    def is_binary(self) -> bool:
        """Whether it is no text: it holds NUL bytes, or most lines are no UTF-8."""
        odd = sum("\ufffd" in line for line in self.lines)
        return any("\0" in line for line in self.lines) or odd > len(self.lines) / 2

    @cached_property
    def records(self) -> list[Mapping[str, Any]]:
        """Its JSON objects."""
        return [record for line in self.lines if (record := _parse_record(line)) is not None] if self.is_json else []

    @cached_property
    def blanks(self) -> int:
        """Empty lines between others."""
        text = "\n".join(line.strip() for line in self.lines).strip("\n")
        return text.split("\n").count("")

    @cached_property
    def rows(self) -> list[list[str]]:
        """Its cells, line by line, where lines have as many columns as one another and two at least."""
        if self.is_json or not self.lines:
            return []
        text = [line.encode() for line in self.lines]
        delimiter = heading_delimiter(text) if self.suffix == ".csv" else separator_in(text[0]) or "\t"
        split_rows = [row for _, row in split_records(text, LineReport(), delimiter, quoted=self.suffix == ".csv")]
        split_rows, _ = (
            replace_decimal_commas(split_rows, delimiter) if self.suffix in TABLE_SUFFIXES else (split_rows, False)
        )
        width = len(split_rows[0]) if split_rows else 0
        even = sum(len(row) == width for row in split_rows)
        return [row for row in split_rows if len(row) == width] if width > 1 and even >= 0.9 * len(split_rows) else []

    @cached_property
    def heading(self) -> list[str] | None:
        """The names of the columns, where the first line is unlike those below it."""
        if len(self.rows) < 2:
            return None
        first, rest = self.rows[0], _columns(self.rows[1:])
        if not all(cell.strip() and len(cell.split()) <= WORDS and not is_number(cell) for cell in first):
            return None
        unlike = [cell not in column.cells for cell, column in zip(first, rest, strict=True) if column.repeats]
        numbers = [column for column in rest if column.mostly_numeric]
        longer = [column for column in rest if column.words > 2 * WORDS]
        return [cell.strip() for cell in first] if (numbers or unlike or longer) and all(unlike) else None

    @cached_property
    def columns(self) -> list[Column]:
        """Its columns, without the heading."""
        return _columns(self.rows[1:] if self.heading else self.rows)

    @cached_property
    def mixes_texts_and_numbers(self) -> bool:
        """Whether texts that are no prose stand beside several columns of numbers, as in a list of people."""
        numbers = [column for column in self.columns if column.mostly_numeric and not column.numbers_rows]
        prose = [column for column in self.columns if column.words > 2 * WORDS]
        return self.heading is not None and len(numbers) >= ENOUGH_NUMBERS and not prose


def text_file(look: Glimpse) -> dict[str, Any] | None:
    """The settings by which a file is read as text: plain, or a field of JSON lines."""
    if not look.is_json:
        return {"path": look.name} if look.is_plain else None
    texts = [name for name, value in (look.records or [{}])[0].items() if isinstance(value, str)]
    if "text" in texts:
        return {"path": look.name}
    return {"path": look.name, "field": texts[0]} if len(texts) == 1 else None


def text_file_at(name: str, *, declared: bool) -> dict[str, Any] | None:
    """The settings by which the file of this name is read as text; what is `declared` to be text is read as some."""
    if (marks := describe_marks(name)) is not None:
        if declared:
            raise ValueError(marks)
        return None
    look = Glimpse.at(name, declared=declared)
    if (marks := describe_marks(name, "\n".join(look.lines[:MARKUP_LINES]))) is not None:
        raise ValueError(marks)
    return text_file(look) or ({"path": name} if declared else None)


def is_folder(name: str) -> bool:
    """Whether this is the name of a folder; of what is not there nobody can tell."""
    try:
        return find_path(name).is_dir()
    except ValueError:
        return False


def is_number(cell: str) -> bool:
    """Whether a cell is a number."""
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def same_length(names: Sequence[str]) -> bool:
    """Whether files have the same number of lines."""
    over = object()
    return all(over not in together for together in zip_longest(*map(lines, names), fillvalue=over))


def _columns(rows: Sequence[Sequence[str]]) -> list[Column]:
    return [Column(tuple(cell.strip() for cell in cells)) for cells in zip(*rows, strict=True)]


def _parse_record(line: str) -> Mapping[str, Any] | None:
    try:
        record = parse_json_line(line)
    except Refusal:
        return None
    return record if isinstance(record, Mapping) else None
