"""Files of omics tables and labels: their settings, their reading, and their checks.

The first line of a table names its features, unless it holds numbers; the first column names the samples, unless it
holds numbers under a name of its own. Unusable contents are an error with its place and a remedy.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from regard.config.ranges import Batch, Seed, Share
from regard.config.resuming import Free, Warned
from regard.data.column_names import SAMPLES
from regard.data.columns import find_name
from regard.data.source_file import SourceFile
from regard.data.tables import LARGEST, number_in, read_even_rows

MASK_REMEDY = "take the sample out of this table: a missing omic is masked"


@dataclass(frozen=True, kw_only=True)
class OmicTable(SourceFile):
    """A table with one sample per line; it may be gzipped."""

    path: Free[str]
    """The file; commas, semicolons or tabs lie between its cells."""
    name: str | None = None
    """Name of the omic; null: that of the file, without its ending."""
    features: Free[str | None] = None
    """A file with the names of the features, one in each line, for a table whose first line holds none."""

    @property
    def omic_name(self) -> str:
        """The name of the omic, as set or from the file name."""
        return self.name or Path(self.path.removesuffix(".gz")).stem


@dataclass(frozen=True, kw_only=True)
class OmicsConfig:
    """Settings of the tables, and of the labels of their samples."""

    train: tuple[OmicTable, ...]
    """Tables to train on, one for each omic; joined by the names of samples, or by line where tables have none."""
    labels: Free[str]
    """A file with the label of every sample: behind its name, or by line."""
    valid: tuple[OmicTable, ...] | None = None
    """Validation tables, for the same omics in the same order; null: a share of the samples is held out."""
    valid_labels: Free[str | None] = None
    """Labels of the validation samples."""
    validation_share: Share = 0.2
    """Share of each class held out when valid names no table; 0 trains on all samples and keeps the last weights."""
    columns: Literal["refuse", "keep"] = "refuse"
    """What to do with columns that are constant, or repeat another."""
    batch_size: Warned[Batch] = 64
    """Samples in a row of training."""
    seed: Seed = 0
    """Random seed of the order of samples and the choice of held-out ones."""

    def __post_init__(self) -> None:
        if len(self.train) < 2:
            raise ValueError(f"train names {len(self.train)} tables: give two omics or more")
        if (self.valid is None) != (self.valid_labels is None):
            raise ValueError("valid and valid_labels go together: give both")
        repeated = [name for name, count in Counter(table.omic_name for table in self.train).items() if count > 1]
        if repeated:
            raise ValueError(f"two tables are called {repeated[0]}: give each a name of its own")
        if refused := [table.omic_name for table in self.train if "=" in table.omic_name]:
            raise ValueError(f"an omic cannot be called {refused[0]!r}: give a name without '='")
        if self.valid is not None and len(self.valid) != len(self.train):
            raise ValueError(
                f"{len(self.valid)} tables in valid for {len(self.train)} in train: give one for each omic"
            )


class Table(NamedTuple):
    """One omic of some samples, read from a file."""

    path: str
    features: tuple[str, ...] | None
    """Names of the columns; None if the file has none."""
    samples: tuple[str, ...] | None
    """Names of the samples; None if the file has none."""
    places: list[str]
    values: Float[np.ndarray, "samples features"]

    def select_features(self, features: Sequence[str], omic: str) -> Float[np.ndarray, "samples features"]:
        """Return the columns of a model's omic in the model's order, or all columns if the file has no names."""
        if self.features is None:
            if self.values.shape[1] != len(features):
                sizes = f"{self.values.shape[1]} columns and {omic} has {len(features)} features"
                raise ValueError(f"{self.path}: {sizes}: give the table of that omic, such as {omic}=FILE")
            return self.values
        if self.features == tuple(features):
            return self.values
        places = {name: place for place, name in enumerate(self.features)}
        for feature in features:
            if feature not in places:
                raise ValueError(
                    f"{self.path}:1: no column {feature}, which {omic} was trained with: name the features as then"
                )
        return self.values[:, [places[feature] for feature in features]]


def read(path: str, features: str | None = None) -> Table:
    """Read a table; the names of its features may come from another file."""
    rows = list(read_even_rows(path))
    first_row = rows[0][1]
    starts_with_samples = not first_row[0].strip() or find_name(first_row[:1], SAMPLES) is not None
    has_header = starts_with_samples or not all(map(_is_number, first_row[1:] or first_row))
    data_rows = rows[1:] if has_header else rows
    if not data_rows:
        raise ValueError(f"{path} holds no samples below its first line: give at least one")
    has_sample_names = starts_with_samples or not all(_is_number(row[0]) for _, row in data_rows)
    header = tuple(first_row[has_sample_names:]) if has_header else None
    if features is not None:
        header = _read_feature_names(features, len(first_row) - has_sample_names, path)
    if header and (repeated := [name for name, count in Counter(header).items() if count > 1]):
        raise ValueError(f"{path}:1: two columns are named {repeated[0]!r}: rename one, or take it out")
    if len(first_row) == has_sample_names:
        raise ValueError(f"{path}:1: no column but the names of samples: give features beside them")
    values = np.array([_parse_numbers(row[has_sample_names:], header, where) for where, row in data_rows])
    places = [where for where, _ in data_rows]
    samples = tuple(row[0].strip() for _, row in data_rows) if has_sample_names else None
    if samples and (repeated := [name for name, count in Counter(samples).items() if count > 1]):
        place = places[len(samples) - 1 - samples[::-1].index(repeated[0])]
        raise ValueError(f"{place}: sample {repeated[0]!r} stands here a second time: take one of them out")
    return Table(path, header, samples, places, values)


def check_columns(table: Table) -> None:
    """Raise an error for a constant column, or one that repeats another."""
    names = table.features or tuple(f"{number}" for number in range(1, table.values.shape[1] + 1))
    remedy = "take it out, or set data.columns=keep"
    name_of_column: dict[bytes, str] = {}
    for name, column in zip(names, table.values.T, strict=True):
        if (column == column[0]).all():
            raise ValueError(f"{table.path}: column {name} is {column[0]:g} in every sample: {remedy}")
        earlier = name_of_column.setdefault(column.tobytes(), name)
        if earlier != name:
            raise ValueError(f"{table.path}: column {name} repeats column {earlier}: {remedy}")


class LabelColumn(NamedTuple):
    """Labels read from a file."""

    path: str
    labels: list[str]
    places: list[str]
    samples: list[str] | None
    """Names of the labelled samples; None: labels are in the order of the samples."""


def read_labels(path: str, *, samples: Sequence[str] | None, count: int) -> LabelColumn:
    """Read the labels of `count` samples from a file; a first line with column names is skipped."""
    rows = list(read_even_rows(path))
    width = len(rows[0][1])
    if width > 2:
        raise ValueError(f"{path}:1: {width} columns: give the label alone, or the sample and its label")
    if width == 2 and samples is not None:
        rows = rows if rows[0][1][0].strip() in samples else rows[1:]
        owners: list[str] | None = [row[0].strip() for _, row in rows]
    elif width == 2:
        raise ValueError(
            f"{path}:1: labels with the names of samples, which the tables do not have: "
            "call their column `sample` there, or give labels alone, in the order of the tables"
        )
    else:
        rows, owners = rows[1:] if len(rows) == count + 1 else rows, None
        if len(rows) != count:
            raise ValueError(f"{path} has {len(rows)} labels for {count} samples: give one for each, in their order")
    cells = [row[-1].strip() for _, row in rows]
    places = [where for where, _ in rows]
    if owners and (repeated := [name for name, times in Counter(owners).items() if times > 1]):
        place = places[len(owners) - 1 - owners[::-1].index(repeated[0])]
        raise ValueError(f"{place}: sample {repeated[0]!r} is labelled a second time: take one of the lines out")
    for label, where in zip(cells, places, strict=True):
        if not label or label.lower() in ("nan", "na"):
            raise ValueError(f"{where}: the label is missing: give one, or take the sample out")
    return LabelColumn(path, _normalise_integers(cells), places, owners)


def _normalise_integers(cells: list[str]) -> list[str]:
    """Return numeric labels with integer values, such as 1.0e+00, as integers."""
    if not all(map(_is_number, cells)) or not all(float(label).is_integer() for label in cells):
        return cells
    return [f"{int(float(label))}" for label in cells]


def _read_feature_names(path: str, count: int, table: str) -> tuple[str, ...]:
    """Read the names of features from a separate file."""
    names = tuple(row[0].strip() for _, row in read_even_rows(path))
    if len(names) != count:
        raise ValueError(f"{path} names {len(names)} features and {table} has {count} columns: name each")
    return names


def _is_number(cell: str) -> bool:
    """True if a cell holds a number, NaN included."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _parse_numbers(row: Sequence[str], header: Sequence[str] | None, where: str) -> Float[np.ndarray, "features"]:
    """Parse the numbers of a sample; a cell that is not a number is an error with its column."""
    try:
        values = np.array(row, dtype=np.float64)
    except ValueError:
        values = np.array([math.nan])
    if not (np.abs(values) <= LARGEST).all():
        for place, cell in enumerate(row):
            number_in(cell, header[place] if header else f"{place + 1}", where, remedy=MASK_REMEDY)
    return values
