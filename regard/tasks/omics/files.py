"""Tables of omics and labels as they stand in files: which tables, how they are read, and what is refused.

The first line of a table names its features, unless it holds numbers; the first column names the samples, unless it
holds numbers under a name of its own. Whatever cannot be learnt from is an error with its place and a remedy.
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
from regard.data.source_file import SourceFile
from regard.data.tables import LARGEST, number_in, read_even_rows

NAMES = ("", "sample", "samples", "sample_id", "id", "name", "patient", "patient_id")  # of a column that names samples
MASKED = "take the sample out of this table: a missing omic is masked"


@dataclass(frozen=True, kw_only=True)
class OmicTable(SourceFile):
    """A table with a sample in each line; it may be gzipped."""

    path: Free[str]
    """The file; commas, semicolons or tabs lie between its cells."""
    name: str | None = None
    """What the omic is called; null: as the file, without its ending."""
    features: Free[str | None] = None
    """A file with the names of the features, one in each line, for a table whose first line holds none."""

    @property
    def called(self) -> str:
        """The name of the omic."""
        return self.name or Path(self.path.removesuffix(".gz")).stem


@dataclass(frozen=True, kw_only=True)
class OmicsConfig:
    """Which tables, and the labels of their samples."""

    train: tuple[OmicTable, ...]
    """Tables to train on, one for each omic; joined by the names of samples, or by line where tables have none."""
    labels: Free[str]
    """A file with the label of every sample: behind its name, or by line."""
    valid: tuple[OmicTable, ...] | None = None
    """Validation tables, for the same omics in the same order; null: a share of the samples is held out."""
    valid_labels: Free[str | None] = None
    """Labels of the validation samples."""
    held: Share = 0.2
    """Share of each class held out when valid names no table; 0 trains on all samples and keeps the last weights."""
    columns: Literal["refuse", "keep"] = "refuse"
    """What becomes of columns that never change, or repeat another."""
    batch: Warned[Batch] = 64
    """Samples in a row of training."""
    seed: Seed = 0
    """Random seed of the order of samples and the choice of held-out ones."""

    def __post_init__(self) -> None:
        if len(self.train) < 2:
            raise ValueError(f"train names {len(self.train)} tables: give two omics or more")
        if (self.valid is None) != (self.valid_labels is None):
            raise ValueError("valid and valid_labels go together: give both")
        twice = [name for name, count in Counter(table.called for table in self.train).items() if count > 1]
        if twice:
            raise ValueError(f"two tables are called {twice[0]}: give each a name of its own")
        if strange := [table.called for table in self.train if "=" in table.called]:
            raise ValueError(f"an omic cannot be called {strange[0]!r}: give a name without '='")
        if self.valid is not None and len(self.valid) != len(self.train):
            raise ValueError(
                f"{len(self.valid)} tables in valid for {len(self.train)} in train: give one for each omic"
            )


class Table(NamedTuple):
    """One omic of some samples, as it stands in a file."""

    path: str
    features: tuple[str, ...] | None
    """Names of the columns; None where the file has none."""
    samples: tuple[str, ...] | None
    """Names of the samples; None where the file has none."""
    places: list[str]
    values: Float[np.ndarray, "samples features"]

    def ordered(self, features: Sequence[str], omic: str) -> Float[np.ndarray, "samples features"]:
        """The columns of a model's omic, in its order; where the file has no names, all of them."""
        if self.features is None:
            if self.values.shape[1] != len(features):
                had = f"{self.values.shape[1]} columns and {omic} has {len(features)} features"
                raise ValueError(f"{self.path}: {had}: give the table of that omic, such as {omic}=FILE")
            return self.values
        if self.features == tuple(features):
            return self.values
        at = {name: place for place, name in enumerate(self.features)}
        for feature in features:
            if feature not in at:
                raise ValueError(
                    f"{self.path}:1: no column {feature}, which {omic} was trained with: name the features as then"
                )
        return self.values[:, [at[feature] for feature in features]]


def read(path: str, features: str | None = None) -> Table:
    """The table in a file; another may hold the names of its features."""
    found = list(read_even_rows(path))
    first = found[0][1]
    headed = first[0].strip().lower() in NAMES or not all(map(_numeric, first[1:] or first))
    below = found[1:] if headed else found
    if not below:
        raise ValueError(f"{path} holds no samples below its first line: give at least one")
    named = (headed and first[0].lower() in NAMES) or not all(_numeric(row[0]) for _, row in below)
    header = tuple(first[named:]) if headed else None
    if features is not None:
        header = _listed(features, len(first) - named, path)
    if header and (twice := [name for name, count in Counter(header).items() if count > 1]):
        raise ValueError(f"{path}:1: two columns are named {twice[0]!r}: rename one, or take it out")
    if len(first) == named:
        raise ValueError(f"{path}:1: no column but the names of samples: give features beside them")
    values = np.array([_numbers(row[named:], header, where) for where, row in below])
    places = [where for where, _ in below]
    samples = tuple(row[0].strip() for _, row in below) if named else None
    if samples and (twice := [name for name, count in Counter(samples).items() if count > 1]):
        at = places[len(samples) - 1 - samples[::-1].index(twice[0])]
        raise ValueError(f"{at}: sample {twice[0]!r} stands here a second time: take one of them out")
    return Table(path, header, samples, places, values)


def steady(table: Table) -> None:
    """Stop at a column that says nothing: one that never changes, or that repeats another."""
    names = table.features or tuple(f"{number}" for number in range(1, table.values.shape[1] + 1))
    remedy = "take it out, or set data.columns=keep"
    seen: dict[bytes, str] = {}
    for name, column in zip(names, table.values.T, strict=True):
        if (column == column[0]).all():
            raise ValueError(f"{table.path}: column {name} is {column[0]:g} in every sample: {remedy}")
        before = seen.setdefault(column.tobytes(), name)
        if before != name:
            raise ValueError(f"{table.path}: column {name} repeats column {before}: {remedy}")


class Labelled(NamedTuple):
    """Labels as they stand in a file."""

    path: str
    labels: list[str]
    places: list[str]
    samples: list[str] | None
    """Whose they are; None: those of the samples, line by line."""


def labels(path: str, *, samples: Sequence[str] | None, count: int) -> Labelled:
    """The labels in a file for so many samples; a first line that names columns is passed over."""
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
    found = [row[-1].strip() for _, row in rows]
    places = [where for where, _ in rows]
    if owners and (twice := [name for name, times in Counter(owners).items() if times > 1]):
        at = places[len(owners) - 1 - owners[::-1].index(twice[0])]
        raise ValueError(f"{at}: sample {twice[0]!r} is labelled a second time: take one of the lines out")
    for label, where in zip(found, places, strict=True):
        if not label or label.lower() in ("nan", "na"):
            raise ValueError(f"{where}: the label is missing: give one, or take the sample out")
    return Labelled(path, _whole(found), places, owners)


def _whole(found: list[str]) -> list[str]:
    """Labels that are whole numbers written in another way, such as 1.0e+00, as whole numbers."""
    if not all(map(_numeric, found)) or not all(float(label).is_integer() for label in found):
        return found
    return [f"{int(float(label))}" for label in found]


def _listed(path: str, count: int, table: str) -> tuple[str, ...]:
    """The names of features in a file of their own."""
    names = tuple(row[0].strip() for _, row in read_even_rows(path))
    if len(names) != count:
        raise ValueError(f"{path} names {len(names)} features and {table} has {count} columns: name each")
    return names


def _numeric(cell: str) -> bool:
    """Whether a cell holds a number; NaN is one that is missing."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _numbers(row: Sequence[str], header: Sequence[str] | None, where: str) -> Float[np.ndarray, "features"]:
    """The numbers of a sample; what is none is named with its column."""
    try:
        values = np.array(row, dtype=np.float64)
    except ValueError:
        values = np.array([math.nan])
    if not (np.abs(values) <= LARGEST).all():
        for place, cell in enumerate(row):
            number_in(cell, header[place] if header else f"{place + 1}", where, remedy=MASKED)
    return values
