"""Which columns of a table can be learnt from, which are left out and why, and whether the target is a class.

A column of numbers in which a few cells are none is an error that names the first of them: leaving the column out, or
taking its numbers for names of classes, would change what is learnt without a word.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from regard.config.words import quantity
from regard.data.column_content import is_number
from regard.data.tables import Sheet

Kind = Literal["number", "class"]
MAX_CLASSES = 1000  # different targets that are still believed to be classes
FEW_VALUES = 10  # different whole numbers, counted from 0 or 1, that are taken for classes
ROWS_PER_VALUE = 5  # fewest rows a value, in the mean, of a target whose numbers are classes
STRAY_SHARE = 0.1  # most cells that are no numbers in a column meant to hold numbers
NUMBERED_ROWS = 10  # rows from which on a column that counts 1, 2, 3, ... is believed to number them
MISSING = frozenset({"", "na", "n/a", "null", "none", "nil", "?", "-", ".", "#n/a"})
ID_NAME = re.compile(r"(?i:id|index|no|nr|row|rownames?|unnamed: ?0|.*[ _.-]id|id[ _.-].*|.*index)|.*[a-z](?:Id|ID)")


@dataclass(frozen=True)
class ColumnChoice:
    """What a table's target is and which columns it is predicted from."""

    inputs: tuple[str, ...]
    kind: Kind
    notes: tuple[str, ...] = ()
    """What was left out or decided without being named, one line a matter."""


@dataclass(frozen=True)
class TableColumn:
    """One column of one or several tables: its cells, and where each stands."""

    name: str
    cells: tuple[str, ...]
    places: tuple[str, ...]

    @classmethod
    def of(cls, sheets: Sequence[Sheet], name: str) -> TableColumn:
        """Return the column of that name, table after table."""
        rows = [(row[sheet.header.index(name)].strip(), place) for sheet in sheets for place, row in sheet.lines]
        return cls(name, tuple(cell for cell, _ in rows), tuple(place for _, place in rows))

    @property
    def bad_rows(self) -> list[int]:
        """Rows whose cell is no number."""
        return [row for row, cell in enumerate(self.cells) if not is_number(cell)]

    @property
    def is_numeric(self) -> bool:
        """True if every cell is a number."""
        return bool(self.cells) and not self.bad_rows

    @property
    def is_empty(self) -> bool:
        """True if no cell holds anything."""
        return all(cell.lower() in MISSING for cell in self.cells)

    @property
    def is_nearly_numeric(self) -> bool:
        """True for a column of numbers with a few cells that are not, such as missing values or typing errors."""
        present = [cell for cell in self.cells if cell.lower() not in MISSING]
        strays = sum(not _parses_as_float(cell) for cell in present)
        most = max(STRAY_SHARE * len(present), 1 if len(present) > 2 else 0)
        return bool(present) and not self.is_numeric and strays <= most and strays < len(present)

    @property
    def numbers(self) -> list[float]:
        """Its cells as numbers."""
        return [float(cell) for cell in self.cells]

    @property
    def identifies_rows(self) -> bool:
        """True for a column of row ids: distinct whole numbers under a usual name, or 1, 2, 3, ... in order."""
        if not self.is_numeric or len(set(self.cells)) < len(self.cells) or len(self.cells) < 2:
            return False
        values = self.numbers
        if not all(value.is_integer() for value in values):
            return False
        counted = len(values) >= NUMBERED_ROWS and values[0] in (0, 1)
        counted = counted and all(after == before + 1 for before, after in pairwise(values))
        return counted or ID_NAME.fullmatch(self.name) is not None

    def not_a_number_error(self, remedy: str) -> ValueError:
        """Return the error that names the first cell which is no number, and how many there are."""
        rows = self.bad_rows
        cell = self.cells[rows[0]]
        what = f"{cell[:40]!r}" if cell else "an empty cell"
        others = f" (and {quantity(len(rows) - 1, 'cell')} more)" if len(rows) > 1 else ""
        return ValueError(
            f"{self.places[rows[0]]}: {what} in column {self.name} is no number{others}: correct it, or {remedy}"
        )


def choose_columns(sheets: Sequence[Sheet], target: str, inputs: Sequence[str], kind: Kind | None) -> ColumnChoice:
    """Choose the input columns and the kind of target: as named, or from the cells, with notes on the choice."""
    kind, notes = choose_kind(TableColumn.of(sheets, target), kind, sheets[0].header)
    if inputs:
        return ColumnChoice(tuple(inputs), kind, tuple(notes))
    others = [TableColumn.of(sheets, name) for name in sheets[0].header if name != target]
    left_out = {column.name: reason for column in others if (reason := _reason_to_leave_out(column))}
    usable_names = [column.name for column in others if column.name not in left_out]
    if not usable_names:  # a table may well be a series: 1, 2, 3, ... and what was measured then
        usable_names = [column.name for column in others if column.is_numeric and not ID_NAME.fullmatch(column.name)]
        left_out = {name: reason for name, reason in left_out.items() if name not in usable_names}
    for column in others:
        if column.is_nearly_numeric:
            usable = [name for name in usable_names if name != column.name]
            remedy = f"name the columns to learn from, {_setting('inputs', usable)}" if usable else "give other columns"
            raise column.not_a_number_error(remedy)
    if left_out:
        reasons = ", ".join(f"{name} ({reason})" for name, reason in left_out.items())
        if not usable_names:
            where = sheets[0].name
            raise ValueError(
                f"{where}: no column of numbers to predict {target} from; {reasons}: add one that holds some"
            )
        notes.append(f"left out: {reasons}; data.inputs=[...] names the columns to learn from")
    return ColumnChoice(tuple(usable_names), kind, tuple(notes))


def choose_kind(target: TableColumn, kind: Kind | None, header: Sequence[str]) -> tuple[Kind, list[str]]:
    """Choose whether the target is a number or a class; cells that are neither, or always the same, are an error."""
    if not target.cells:
        return kind or "number", []
    different = set(target.cells)
    others = [name for name in header if name != target.name]
    remedy = f"data.target=NAME ({', '.join(others[:8])})" if others else "another table"
    if target.is_empty:
        raise ValueError(f"{target.places[0]}: column {target.name} is empty, nothing to learn: choose {remedy}")
    if kind is None and target.is_nearly_numeric:
        raise target.not_a_number_error("set data.predicts=class if these are names of classes")
    if kind == "number" or (kind is None and target.is_numeric):
        _check_varies(target, remedy)
    if kind is not None:
        return kind, []
    if target.is_numeric:
        return _kind_of_numbers(target)
    if blank := [place for place, cell in zip(target.places, target.cells, strict=True) if not cell]:
        raise ValueError(
            f"{blank[0]}: an empty cell in column {target.name}, which is predicted ({len(blank):,} in all): "
            "fill it, or take the row out"
        )
    if len(target.cells) >= NUMBERED_ROWS and len(different) > len(target.cells) / 2:
        raise ValueError(
            f"{target.places[0]}: column {target.name} holds {len(different):,} different texts in "
            f"{len(target.cells):,} rows, such as {target.cells[0][:40]!r}, which are no classes: choose {remedy}"
        )
    return "class", [f"{target.name} holds {len(different):,} words: learnt as classes"]


def _kind_of_numbers(target: TableColumn) -> tuple[Kind, list[str]]:
    values = sorted(set(target.numbers))
    whole = all(value.is_integer() for value in values) and len(set(target.cells)) == len(values)
    coded = values == [values[0] + step for step in range(len(values))] and values[0] in (0, 1)
    few = len(values) == 2 or (coded and len(values) <= FEW_VALUES)
    if not (whole and few and len(target.cells) >= ROWS_PER_VALUE * len(values)):
        return "number", []
    return "class", [
        f"{target.name} holds {len(values)} values: learnt as classes; data.predicts=number learns a number"
    ]


def _check_varies(target: TableColumn, choice: str) -> None:
    if target.is_numeric and len(set(target.numbers)) == 1 and len(target.cells) > 1:
        raise ValueError(
            f"{target.places[0]}: column {target.name} is {target.cells[0]} in every row, nothing to learn: "
            f"choose {choice}"
        )


def _reason_to_leave_out(column: TableColumn) -> str:
    """Return why a column cannot be learnt from, in a few words; nothing if it can, or should after a correction."""
    if column.is_empty:
        return "empty"
    if column.identifies_rows:
        return "a number for each row"
    if column.is_numeric or column.is_nearly_numeric:
        return ""
    numbers = len(column.cells) - len(column.bad_rows)
    return "words, not numbers" if not numbers else f"{len(column.bad_rows):,} of {len(column.cells):,} are no numbers"


def _setting(name: str, values: Sequence[str]) -> str:
    """Return a setting that can be pasted into a shell."""
    plain = [value if re.fullmatch(r"[A-Za-z_][\w -]*", value) else json.dumps(value) for value in values]
    return shlex.quote(f"data.{name}=[{', '.join(plain)}]")


def _parses_as_float(cell: str) -> bool:
    """True for numbers, and for inf and nan."""
    try:
        float(cell)
    except ValueError:
        return False
    return True
