"""Tables of numbers as CSV files: some columns to predict from, one to predict.

Commas, semicolons or tabs lie between cells, as the header tells. Whatever is no number where there should be one is
an error with its file and line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float

from regard.config.ranges import Batch, Seed, Some
from regard.config.resuming import Free, Warned
from regard.config.words import quantity
from regard.data.examples import Splits, order_examples
from regard.data.holdout import count_to_hold_out, hold_out, row_keys
from regard.data.readers import digest
from regard.data.source_file import SourceFile, Unit
from regard.data.tables import LARGEST, Sheet, known_in, number_in
from regard.tasks.tables.columns import CLASSES, choose_columns


@dataclass(frozen=True, kw_only=True)
class TableFile(SourceFile):
    """A CSV file whose first line names its columns; it may be gzipped."""

    example_unit: ClassVar[Unit] = "rows"

    path: Free[str]
    """The file; commas, semicolons or tabs lie between its cells."""


@dataclass(frozen=True, kw_only=True)
class TableConfig:
    """Which table, and which of its columns."""

    train: tuple[TableFile, ...]
    """Tables to train on, with the same columns; a single one may be written without a list."""
    valid: tuple[TableFile, ...] | None = None
    """Validation tables; null: a share of the rows is held out."""
    held: Some = 0.2
    """Share of the rows held out when valid names no file, chosen by content: equal rows stay together."""
    target: str
    """Column to predict."""
    inputs: tuple[str, ...] = ()
    """Columns to predict from; none named: all others that hold numbers, but not those that only number the rows."""
    predicts: Literal["number", "class"] | None = None
    """What the target is: a number, or the name of a class; null: words and a few whole numbers, such as 0 and 1, are
    classes."""
    batch: Warned[Batch] = 64
    """Table rows in a row of training."""
    seed: Seed = 0
    """Random seed of the order of rows and the choice of held-out ones."""

    def __post_init__(self) -> None:
        if not self.train or self.valid == ():
            raise ValueError(f"{'valid' if self.train else 'train'} needs at least one table")
        if self.target in self.inputs:
            raise ValueError(f"target {self.target} cannot be one of the inputs: leave it out of one of them")


@dataclass(frozen=True)
class Columns:
    """What a model was given and what it answers: names, and the mean and deviation that numbers are brought to."""

    inputs: tuple[str, ...]
    means: tuple[float, ...]
    deviations: tuple[float, ...]
    target: str
    classes: tuple[str, ...] = ()
    """Names of the classes; none: the target is a number."""
    mean: float = 0.0
    """Of the target."""
    deviation: float = 1.0
    """Of the target."""

    def scaled(self, values: Float[np.ndarray, "rows inputs"]) -> Float[np.ndarray, "rows inputs"]:
        """Inputs with mean 0 and deviation 1, as they were in the table that was learnt from."""
        scaled = (values - np.array(self.means)) / np.array(self.deviations)
        if (beyond := np.argwhere(np.abs(scaled) > LARGEST)).size:
            row, place = beyond[0]
            name, mean = self.inputs[place], self.means[place]
            raise ValueError(
                f"{values[row, place]:g} in column {name} is too far from {mean:g}, its mean in training: correct it"
            )
        return scaled.astype(np.float32)


@dataclass(frozen=True)
class Rows:
    """The rows of a table: inputs, and targets as numbers or as numbers of classes."""

    inputs: Float[np.ndarray, "rows inputs"]
    targets: np.ndarray | None
    places: list[str]
    """Where each stands, such as table.csv:12."""

    def __len__(self) -> int:
        return len(self.inputs)

    def chosen(self, kept: np.ndarray) -> Rows:
        """Only those whose numbers are given."""
        targets = None if self.targets is None else self.targets[kept]
        return Rows(self.inputs[kept], targets, [self.places[row] for row in kept])


@dataclass(frozen=True, kw_only=True)
class Tables(Splits[Rows, Rows]):
    """Rows of tables, and what their columns are."""

    columns: Columns

    def row(self, row: int, *, batch: int, seed: int) -> np.ndarray:
        """Which table rows are in a row of training: a pure function of the seed and its number."""
        epoch, place = divmod(row, self.rows(batch))
        total = len(self.train)
        places = epoch * total + np.arange(place * batch, min((place + 1) * batch, total))
        return order_examples(places, total, seed=seed)

    def rows(self, batch: int) -> int:
        """Rows of training in an epoch; the last one may be shorter."""
        return -(-len(self.train) // batch)


def prepare(config: TableConfig, known: Columns | None = None) -> Tables:
    """Read the tables, choose the held-out rows, and measure the columns of the others, unless they are `known`."""
    sheets = [Sheet.read(file.path) for file in config.train]
    first = sheets[0]
    if first.header == [config.target]:
        raise ValueError(f"{first.name} has no column but {config.target}: there is nothing to predict it from")
    for sheet in sheets:
        known_in(sheet.name, sheet.header, (*(config.inputs or first.header), config.target))
    inputs, kind, notes = _chosen_columns(config, sheets, known)
    classes = () if kind != "class" else known.classes if known else _classes(config.target, sheets)
    found = _joined([_rows(sheet, inputs, config.target, classes) for sheet in sheets])
    if config.valid is None:
        train, valid = _split(config, found)
    else:
        measured = Columns(inputs, (), (), config.target, classes)
        train, valid = found, _joined([read(file.path, measured, target=True) for file in config.valid])
    assert train.targets is not None
    scale = (0.0, 1.0) if classes else _scale(train.targets)
    scales = [_scale(column) for column in train.inputs.T]
    found_here = Columns(inputs, *map(tuple, zip(*scales, strict=True)), config.target, classes, *scale)  # type: ignore
    columns = known or found_here
    groups = {"train": config.train, "valid": config.valid or config.train}
    files = {part: [file.path for file in group] for part, group in groups.items()}
    marks = {part: _mark("".join(map(digest, names)), config, part) for part, names in files.items()}
    counts = {"train": len(train), "valid": len(valid)}
    report = {part: {"files": files[part], "rows": counts[part], "fingerprint": marks[part]} for part in files}
    learnt = f"{quantity(len(train), 'row')} to learn {columns.target} from {', '.join(columns.inputs)}"
    summary = [f"{learnt}, {len(valid):,} held out", *(f"  {note}" for note in notes)]
    return Tables(columns=columns, train=train, valid=valid, report=report, summary=summary)


def _chosen_columns(
    config: TableConfig, sheets: Sequence[Sheet], known: Columns | None
) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    """Inputs and kind of the target, with what to say of them; those of a model to start from if one is `known`."""
    notes = [f"{sheet.name}: decimal commas are read as points" for sheet in sheets if sheet.decimal_commas]
    if known is None:
        choice = choose_columns(sheets, config.target, config.inputs, config.predicts)
        return choice.inputs, choice.kind, (*notes, *choice.notes)
    kind = "class" if known.classes else "number"
    if (config.inputs or known.inputs, config.target, config.predicts or kind) != (known.inputs, known.target, kind):
        learnt = f"{known.target} from {', '.join(known.inputs)}"
        raise ValueError(f"{sheets[0].name}: the model to start from predicts {learnt}: name the same columns")
    known_in(sheets[0].name, sheets[0].header, known.inputs)
    return known.inputs, kind, tuple(notes)


def read(name: str, columns: Columns, *, target: bool | None = None) -> Rows:
    """The rows of a table that a model can answer; with a `target` that all must have, or None if all have one."""
    sheet = Sheet.read(name)
    known_in(name, sheet.header, columns.inputs)
    if target is False:
        return _rows(sheet, columns.inputs, None, ())
    missing = _place_without_target(sheet, columns.target)
    if missing is not None and target:
        if columns.target not in sheet.header:
            raise ValueError(f"{name} has no column {columns.target} to measure on: give a table that has it")
        raise ValueError(
            f"{missing}: an empty cell in column {columns.target}, which answers are measured by: "
            "fill it, or take the row out"
        )
    known = columns.target if missing is None else None
    return _rows(sheet, columns.inputs, known, columns.classes, remedy="take the row out")


def _place_without_target(sheet: Sheet, target: str) -> str | None:
    """Where the first cell without a target is; None if every row has one."""
    if target not in sheet.header:
        return sheet.name
    place = sheet.header.index(target)
    return next((where for where, row in sheet.lines if not row[place].strip()), None)


def _rows(
    sheet: Sheet,
    inputs: Sequence[str],
    target: str | None,
    classes: Sequence[str],
    *,
    remedy: str = "set data.predicts=class",
) -> Rows:
    name, header, texts = sheet.name, sheet.header, sheet.lines
    if not texts:
        raise ValueError(f"{name} holds no rows below its header: give at least one")
    at = [header.index(column) for column in inputs]
    values = np.array([[number_in(row[place], header[place], where) for place in at] for where, row in texts])
    targets = None
    if target:
        place = header.index(target)
        cells = [(row[place].strip(), where) for where, row in texts]
        targets = np.array([_target(cell, target, classes, where, remedy=remedy) for cell, where in cells])
    return Rows(values, targets, [where for where, _ in texts])


def _joined(parts: Sequence[Rows]) -> Rows:
    """The rows of several tables, one table after the other."""
    targets = np.concatenate([part.targets for part in parts if part.targets is not None])
    return Rows(np.concatenate([part.inputs for part in parts]), targets, [at for part in parts for at in part.places])


def _target(cell: str, column: str, classes: Sequence[str], where: str, *, remedy: str) -> float | int:
    if not classes:
        return number_in(cell, column, where, remedy=remedy)
    if cell not in classes:
        raise ValueError(
            f"{where}: {cell!r} in column {column} is none of the training classes: {', '.join(classes[:8])}"
        )
    return classes.index(cell)


def _classes(target: str, sheets: Sequence[Sheet]) -> tuple[str, ...]:
    """The names of the classes, in order."""
    names = sorted({row[sheet.header.index(target)].strip() for sheet in sheets for _, row in sheet.lines})
    if not 2 <= len(names) <= CLASSES:
        where = " and ".join(sheet.name for sheet in sheets)
        raise ValueError(
            f"{where}: column {target} holds {len(names)} classes: give 2 to {CLASSES}, or data.predicts=number"
        )
    return tuple(names)


def _split(config: TableConfig, found: Rows) -> tuple[Rows, Rows]:
    """Rows to learn from and rows to measure on; equal inputs are on one side."""
    held = hold_out(row_keys(found.inputs, config.seed), count_to_hold_out(config.held, len(found)))
    if held.all():
        name = config.train[0].path
        raise ValueError(f"{name} holds too few different rows to hold some out: give more, or data.valid")
    return found.chosen(np.flatnonzero(~held)), found.chosen(np.flatnonzero(held))


def _scale(values: np.ndarray) -> tuple[float, float]:
    """Mean and deviation; a column that never changes keeps its unit."""
    return float(values.mean()), float(values.std()) or 1.0


def _mark(content: str, config: TableConfig, part: str) -> str:
    """What tells these rows from others."""
    how = (config.target, config.inputs, config.predicts, config.valid is None and (config.held, config.seed), part)
    return hashlib.sha256(f"{content}{how}".encode()).hexdigest()
