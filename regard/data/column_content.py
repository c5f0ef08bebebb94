"""Kinds of content by which columns without a usual name are told apart: texts, classes and numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

MAX_LABEL_WORDS = 3
MIN_NUMERIC_SHARE = 0.9  # of the cells of a column of numbers, in which some may be mistyped
MIN_LABELS = 20  # below which nothing can be said of how labels are spread
MAX_MEAN_LABEL_WORDS = 8


def is_number(cell: str) -> bool:
    """True if a cell is a finite number."""
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


@dataclass(frozen=True)
class Column:
    """Some cells of a column, one below the other."""

    cells: tuple[str, ...]

    @cached_property
    def words(self) -> float:
        """Mean number of words in a cell."""
        return sum(len(cell.split()) for cell in self.cells) / max(1, len(self.cells))

    @cached_property
    def distinct(self) -> int:
        """Number of different cells."""
        return len(set(self.cells))

    @property
    def is_numeric(self) -> bool:
        """True if every cell is a number."""
        return bool(self.cells) and all(map(is_number, self.cells))

    @property
    def is_mostly_numeric(self) -> bool:
        """True if nearly all cells that are not blank are numbers."""
        present = [cell for cell in self.cells if cell]
        return bool(present) and sum(map(is_number, present)) >= MIN_NUMERIC_SHARE * len(present)

    @property
    def is_row_number(self) -> bool:
        """True if it holds different whole numbers, as a column of ids does."""
        return (
            self.is_numeric
            and self.distinct == len(self.cells)
            and all(float(cell).is_integer() for cell in self.cells)
        )

    @property
    def is_categorical(self) -> bool:
        """True if it holds a few short texts again and again, as labels do; doubtful without `has_enough_cells`."""
        few = max(2.0, 1.5 * math.sqrt(len(self.cells)))
        return self.distinct <= few and max((len(cell.split()) for cell in self.cells), default=0) <= MAX_LABEL_WORDS

    @property
    def has_enough_cells(self) -> bool:
        """True if there are enough cells to rely on `is_categorical`."""
        return len(self.cells) >= 10


class Content(NamedTuple):
    """A kind of content: which columns have it, and which of several is preferred."""

    fits: Callable[[Column], bool]
    """True if a column without a usual name is likely to hold it."""
    preference: Callable[[Column], Any] = lambda column: 0
    """Of several columns that fit, the first one with the highest value is chosen."""
    is_possible: Callable[[Column], bool] = lambda column: True
    """True if a column that stands where this content is expected can hold it."""


def explain_no_labels(cells: Sequence[str]) -> str | None:
    """Say why cells cannot be labels, in a few words: nearly every text has its own, or they are sentences."""
    if len(cells) < MIN_LABELS:
        return None
    distinct = len(set(cells))
    if distinct > len(cells) / 2:
        return f"{distinct:,} different labels for {len(cells):,} texts"
    words = sum(len(cell.split()) for cell in cells) / len(cells)
    return f"labels of {words:.0f} words" if words > MAX_MEAN_LABEL_WORDS and distinct > MIN_LABELS else None


TEXT = Content(
    lambda column: not column.is_categorical and not column.is_mostly_numeric,
    lambda column: column.words,
    lambda column: not column.is_mostly_numeric,
)
CLASS = Content(
    lambda column: bool(column.cells) and column.is_categorical,
    lambda column: (column.distinct > 1, -column.distinct),
    lambda column: column.distinct > 1 and explain_no_labels(column.cells) is None,
)
NUMBER = Content(lambda column: column.is_numeric, is_possible=lambda column: column.is_numeric)
