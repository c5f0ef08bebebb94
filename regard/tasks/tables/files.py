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
from regard.data.columns import check_columns, missing_column_error
from regard.data.examples import Splits, order_examples
from regard.data.holdout import count_to_hold_out, hold_out, row_keys
from regard.data.readers import digest
from regard.data.source_file import SourceFile, Unit
from regard.data.tables import LARGEST, Sheet, number_in
from regard.tasks.tables.columns import MAX_CLASSES, choose_columns


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
    validation_share: Some = 0.2
    """Share of the rows held out when valid names no file, chosen by content: equal rows stay together."""
    target: str
    """Column to predict."""
    inputs: tuple[str, ...] = ()
    """Columns to predict from; none named: all others that hold numbers, but not those that only number the rows."""
    predicts: Literal["number", "class"] | None = None
    """What the target is: a number, or the name of a class; null: words and a few whole numbers, such as 0 and 1, are
    classes."""
    batch_size: Warned[Batch] = 64
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
    """The columns that a model reads and predicts, with the means and deviations that numbers are scaled by."""

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

    def scale(self, values: Float[np.ndarray, "rows inputs"]) -> Float[np.ndarray, "rows inputs"]:
        """Return inputs scaled to mean 0 and deviation 1, as measured on the training rows."""
        values_scaled = (values - np.array(self.means)) / np.array(self.deviations)
        if (beyond := np.argwhere(np.abs(values_scaled) > LARGEST)).size:
            row, place = beyond[0]
            name, mean = self.inputs[place], self.means[place]
            raise ValueError(
                f"{values[row, place]:g} in column {name} is too far from {mean:g}, its mean in training: correct it"
            )
        return values_scaled.astype(np.float32)


@dataclass(frozen=True)
class TableRows:
    """The rows of a table: inputs, and targets as numbers or as numbers of classes."""

    inputs: Float[np.ndarray, "rows inputs"]
    targets: np.ndarray | None
    places: list[str]
    """Where each stands, such as table.csv:12."""

    def __len__(self) -> int:
        return len(self.inputs)

    def select(self, rows: np.ndarray) -> TableRows:
        """Return the rows with these numbers."""
        targets = None if self.targets is None else self.targets[rows]
        return TableRows(self.inputs[rows], targets, [self.places[row] for row in rows])


@dataclass(frozen=True, kw_only=True)
class TableData(Splits[TableRows, TableRows]):
    """Rows of tables to train on and to measure on, and what their columns are."""

    columns: Columns

    def row(self, row: int, *, batch: int, seed: int) -> np.ndarray:
        """Return the table rows of a training row: a pure function of the seed and its number."""
        epoch, place = divmod(row, self.rows(batch))
        total = len(self.train)
        places = epoch * total + np.arange(place * batch, min((place + 1) * batch, total))
        return order_examples(places, total, seed=seed)

    def rows(self, batch: int) -> int:
        """Return the number of training rows in an epoch; the last one may be shorter."""
        return -(-len(self.train) // batch)


def prepare(config: TableConfig, parent_columns: Columns | None = None) -> TableData:
    """Read the tables, hold rows out, and measure the columns of the others, unless a model to start from has some."""
    sheets = [Sheet.read(file.path) for file in config.train]
    first = sheets[0]
    if first.header == [config.target]:
        raise ValueError(f"{first.name} has no column but {config.target}: there is nothing to predict it from")
    for sheet in sheets:
        check_columns(sheet.name, sheet.header, (*(config.inputs or first.header), config.target))
    inputs, kind, notes = _resolve_columns(config, sheets, parent_columns)
    classes = (
        () if kind != "class" else parent_columns.classes if parent_columns else _list_classes(config.target, sheets)
    )
    rows = _concatenate([_parse_rows(sheet, inputs, config.target, classes) for sheet in sheets])
    if config.valid is None:
        train, valid = _split(config, rows)
    else:
        unscaled = Columns(inputs, (), (), config.target, classes)
        train, valid = rows, _concatenate([read(file.path, unscaled, target=True) for file in config.valid])
    assert train.targets is not None
    scale = (0.0, 1.0) if classes else _scale(train.targets)
    scales = [_scale(column) for column in train.inputs.T]
    own_columns = Columns(inputs, *map(tuple, zip(*scales, strict=True)), config.target, classes, *scale)  # type: ignore
    columns = parent_columns or own_columns
    groups = {"train": config.train, "valid": config.valid or config.train}
    files = {part: [file.path for file in group] for part, group in groups.items()}
    fingerprints = {part: _fingerprint("".join(map(digest, names)), config, part) for part, names in files.items()}
    counts = {"train": len(train), "valid": len(valid)}
    report = {part: {"files": files[part], "rows": counts[part], "fingerprint": fingerprints[part]} for part in files}
    learnt_from = f"{quantity(len(train), 'row')} to learn {columns.target} from {', '.join(columns.inputs)}"
    summary = [f"{learnt_from}, {len(valid):,} held out", *(f"  {note}" for note in notes)]
    return TableData(columns=columns, train=train, valid=valid, report=report, summary=summary)


def _resolve_columns(
    config: TableConfig, sheets: Sequence[Sheet], parent_columns: Columns | None
) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    """Return inputs and kind of the target with notes on them; those of a model to start from, if there is one."""
    notes = [f"{sheet.name}: decimal commas are read as points" for sheet in sheets if sheet.decimal_commas]
    if parent_columns is None:
        choice = choose_columns(sheets, config.target, config.inputs, config.predicts)
        return choice.inputs, choice.kind, (*notes, *choice.notes)
    kind = "class" if parent_columns.classes else "number"
    if (config.inputs or parent_columns.inputs, config.target, config.predicts or kind) != (
        parent_columns.inputs,
        parent_columns.target,
        kind,
    ):
        learnt = f"{parent_columns.target} from {', '.join(parent_columns.inputs)}"
        raise ValueError(f"{sheets[0].name}: the model to start from predicts {learnt}: name the same columns")
    check_columns(sheets[0].name, sheets[0].header, parent_columns.inputs)
    return parent_columns.inputs, kind, tuple(notes)


def read(name: str, columns: Columns, *, target: bool | None = None) -> TableRows:
    """Read the rows of a table that a model can answer; with a `target` that all must have, or None if all have one."""
    sheet = Sheet.read(name)
    check_columns(name, sheet.header, columns.inputs)
    if target is False:
        return _parse_rows(sheet, columns.inputs, None, ())
    missing = _place_without_target(sheet, columns.target)
    if missing is not None and target:
        if columns.target not in sheet.header:
            remedy = "give a table that has it to measure on"
            raise missing_column_error(name, sheet.header, columns.target, remedy=remedy)
        raise ValueError(
            f"{missing}: an empty cell in column {columns.target}, which answers are measured by: "
            "fill it, or take the row out"
        )
    known_target = columns.target if missing is None else None
    return _parse_rows(sheet, columns.inputs, known_target, columns.classes, remedy="take the row out")


def _place_without_target(sheet: Sheet, target: str) -> str | None:
    """Return the place of the first cell without a target; None if every row has one."""
    if target not in sheet.header:
        return sheet.name
    place = sheet.header.index(target)
    return next((where for where, row in sheet.lines if not row[place].strip()), None)


def _parse_rows(
    sheet: Sheet,
    inputs: Sequence[str],
    target: str | None,
    classes: Sequence[str],
    *,
    remedy: str = "set data.predicts=class",
) -> TableRows:
    name, header, lines = sheet.name, sheet.header, sheet.lines
    if not lines:
        raise ValueError(f"{name} holds no rows below its header: give at least one")
    input_places = [header.index(column) for column in inputs]
    values = np.array([[number_in(row[place], header[place], where) for place in input_places] for where, row in lines])
    targets = None
    if target:
        place = header.index(target)
        cells = [(row[place].strip(), where) for where, row in lines]
        targets = np.array([_parse_target(cell, target, classes, where, remedy=remedy) for cell, where in cells])
    return TableRows(values, targets, [where for where, _ in lines])


def _concatenate(parts: Sequence[TableRows]) -> TableRows:
    """Return the rows of several tables, one table after the other."""
    targets = np.concatenate([part.targets for part in parts if part.targets is not None])
    return TableRows(
        np.concatenate([part.inputs for part in parts]), targets, [place for part in parts for place in part.places]
    )


def _parse_target(cell: str, column: str, classes: Sequence[str], where: str, *, remedy: str) -> float | int:
    if not classes:
        return number_in(cell, column, where, remedy=remedy)
    if cell not in classes:
        raise ValueError(
            f"{where}: {cell!r} in column {column} is none of the training classes: {', '.join(classes[:8])}"
        )
    return classes.index(cell)


def _list_classes(target: str, sheets: Sequence[Sheet]) -> tuple[str, ...]:
    """Return the names of the classes, in order."""
    names = sorted({row[sheet.header.index(target)].strip() for sheet in sheets for _, row in sheet.lines})
    if not 2 <= len(names) <= MAX_CLASSES:
        where = " and ".join(sheet.name for sheet in sheets)
        raise ValueError(
            f"{where}: column {target} holds {len(names)} classes: give 2 to {MAX_CLASSES}, or data.predicts=number"
        )
    return tuple(names)


def _split(config: TableConfig, rows: TableRows) -> tuple[TableRows, TableRows]:
    """Split rows into training and validation rows; rows with equal inputs stay together."""
    is_valid = hold_out(row_keys(rows.inputs, config.seed), count_to_hold_out(config.validation_share, len(rows)))
    if is_valid.all():
        name = config.train[0].path
        raise ValueError(f"{name} holds too few different rows to hold some out: give more, or data.valid")
    return rows.select(np.flatnonzero(~is_valid)), rows.select(np.flatnonzero(is_valid))


def _scale(values: np.ndarray) -> tuple[float, float]:
    """Return mean and deviation; a column that never changes keeps its unit."""
    return float(values.mean()), float(values.std()) or 1.0


def _fingerprint(content: str, config: TableConfig, part: str) -> str:
    """Return a hash of the rows and of the settings that select them."""
    settings = (
        config.target,
        config.inputs,
        config.predicts,
        config.valid is None and (config.validation_share, config.seed),
        part,
    )
    return hashlib.sha256(f"{content}{settings}".encode()).hexdigest()
