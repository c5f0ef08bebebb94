"""File previews: guess columns, heading and kind from the first lines, as `csv.Sniffer` does."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, zip_longest
from typing import Any

from regard.data.column_content import MAX_LABEL_WORDS, Column, is_number
from regard.data.encodings import find_file, find_path
from regard.data.foreign_formats import describe_marks, refuse_foreign_format
from regard.data.line_report import LineReport
from regard.data.readers import JSON_SUFFIXES, LINE, MEMORY_SUFFIX, Refusal, lines, parse_json_line, read_cells, suffix
from regard.data.table_records import heading_delimiter, replace_decimal_commas, separator_in, split_records
from regard.data.tables import TABLE_SUFFIXES

PREVIEW_LINES = 1000
MARKUP_LINES = 10  # first lines, in which markup shows
MIN_TABLE_NUMBERS = 3  # columns of numbers beside texts that make a file as likely a table as labelled texts


def array_names(name: str) -> set[str]:
    """Return the names of the arrays in an npz file; none for any other file."""
    try:
        with zipfile.ZipFile(find_file(name)) as file:
            return {member.removesuffix(".npy") for member in file.namelist()}
    except (zipfile.BadZipFile, OSError, ValueError):
        return set()


@dataclass(frozen=True)
class FilePreview:
    """The first lines of a file."""

    name: str
    lines: tuple[str, ...]

    @classmethod
    def read(cls, name: str, *, declared: bool = False) -> FilePreview:
        """Read the first lines of a file; a missing or empty file is an error.

        So is a single line that is too long, unless its kind was `declared`.
        """
        find_file(name)
        if suffix(name) == MEMORY_SUFFIX:
            units = [row for _, row in islice(read_cells(name, LineReport()), PREVIEW_LINES)]
            return cls(name, tuple("\t".join(row) for row in units))
        first_lines = list(islice(lines(name), PREVIEW_LINES))
        refuse_foreign_format(name, b"\n".join(line or b"" for line in first_lines[:MARKUP_LINES]))
        decoded = tuple((line or b"").decode("utf-8", errors="replace") for line in first_lines)
        if None in first_lines and not any(line.strip() for line in decoded):
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
        """Return the ending of its name, without .gz."""
        return suffix(self.name)

    @property
    def is_json(self) -> bool:
        """True if its name is that of JSON lines."""
        return self.suffix in JSON_SUFFIXES

    @property
    def is_plain(self) -> bool:
        """True if its lines are plain texts: neither JSON nor columns."""
        return not self.is_json and self.suffix != ".csv" and not self.is_binary and not self.rows

    @cached_property
    def is_binary(self) -> bool:
        """True if it is not text: it has NUL bytes, or most lines are not UTF-8."""
        broken_lines = sum("\ufffd" in line for line in self.lines)
        return any("\0" in line for line in self.lines) or broken_lines > len(self.lines) / 2

    @cached_property
    def records(self) -> list[Mapping[str, Any]]:
        """Return its JSON objects."""
        return [record for line in self.lines if (record := _parse_record(line)) is not None] if self.is_json else []

    @cached_property
    def blank_line_count(self) -> int:
        """Return the number of empty lines between others."""
        text = "\n".join(line.strip() for line in self.lines).strip("\n")
        return text.split("\n").count("")

    @cached_property
    def rows(self) -> list[list[str]]:
        """Return its cells by line; empty unless nearly all lines have the same number of columns, at least two."""
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
        """Return the names of the columns, if the first line differs from those below it."""
        if len(self.rows) < 2:
            return None
        first, rest = self.rows[0], _columns(self.rows[1:])
        if not all(cell.strip() and len(cell.split()) <= MAX_LABEL_WORDS and not is_number(cell) for cell in first):
            return None
        unlike = [cell not in column.cells for cell, column in zip(first, rest, strict=True) if column.is_categorical]
        numbers = [column for column in rest if column.is_mostly_numeric]
        longer = [column for column in rest if column.words > 2 * MAX_LABEL_WORDS]
        return [cell.strip() for cell in first] if (numbers or unlike or longer) and all(unlike) else None

    @cached_property
    def columns(self) -> list[Column]:
        """Return its columns without the heading."""
        return _columns(self.rows[1:] if self.heading else self.rows)

    @cached_property
    def mixes_texts_and_numbers(self) -> bool:
        """True if short texts are next to several numeric columns, as in a list of people."""
        numbers = [column for column in self.columns if column.is_mostly_numeric and not column.is_row_number]
        prose = [column for column in self.columns if column.words > 2 * MAX_LABEL_WORDS]
        return self.heading is not None and len(numbers) >= MIN_TABLE_NUMBERS and not prose


def _text_settings(preview: FilePreview) -> dict[str, Any] | None:
    """Return the data settings to read a file as text, plain or a field of JSON lines; None if it is something else."""
    if not preview.is_json:
        return {"path": preview.name} if preview.is_plain else None
    texts = [name for name, value in (preview.records or [{}])[0].items() if isinstance(value, str)]
    if "text" in texts:
        return {"path": preview.name}
    return {"path": preview.name, "field": texts[0]} if len(texts) == 1 else None


def sniff_text_file(name: str, *, declared: bool) -> dict[str, Any] | None:
    """Return the data settings to read a file as text; None if it is not text and was not `declared` as such."""
    if (marks := describe_marks(name)) is not None:
        if declared:
            raise ValueError(marks)
        return None
    preview = FilePreview.read(name, declared=declared)
    if (marks := describe_marks(name, "\n".join(preview.lines[:MARKUP_LINES]))) is not None:
        raise ValueError(marks)
    return _text_settings(preview) or ({"path": name} if declared else None)


def is_folder(name: str) -> bool:
    """True if this is the name of a folder that exists."""
    try:
        return find_path(name).is_dir()
    except ValueError:
        return False


def have_same_length(names: Sequence[str]) -> bool:
    """True if files have the same number of lines."""
    missing = object()
    return all(missing not in row for row in zip_longest(*map(lines, names), fillvalue=missing))


def _columns(rows: Sequence[Sequence[str]]) -> list[Column]:
    return [Column(tuple(cell.strip() for cell in cells)) for cells in zip(*rows, strict=True)]


def _parse_record(line: str) -> Mapping[str, Any] | None:
    try:
        record = parse_json_line(line)
    except Refusal:
        return None
    return record if isinstance(record, Mapping) else None
