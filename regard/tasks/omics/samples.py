"""Samples described by several tables: joined by name or by line, labelled, scaled, and divided into rows."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from regard.config.words import quantity, suggest_name
from regard.data.examples import Splits, order_examples
from regard.data.holdout import hold_out_of_classes, row_keys
from regard.data.readers import digest
from regard.tasks.omics import files
from regard.tasks.omics.files import OmicsConfig, Table

NONE_HELD_OUT = "none held out: scores are those of training"


@dataclass(frozen=True)
class Omics:
    """The omics that a model reads, with their features and scales, and the classes that it predicts."""

    names: tuple[str, ...]
    features: tuple[tuple[str, ...], ...]
    """Names of the features of each omic."""
    means: tuple[float, ...]
    """Means of all features, one omic after the other."""
    deviations: tuple[float, ...]
    classes: tuple[str, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of features of each omic."""
        return tuple(map(len, self.features))

    @property
    def columns(self) -> list[tuple[str, str]]:
        """The omic and the name of every feature, in the model's order."""
        return [
            (name, feature) for name, features in zip(self.names, self.features, strict=True) for feature in features
        ]

    def scale(self, samples: Samples) -> Float[np.ndarray, "samples features"]:
        """Scale features as in training, to mean 0 and standard deviation 1; missing omics become 0."""
        is_present = np.repeat(samples.present, self.sizes, axis=1)
        return np.where(is_present, (samples.values - np.array(self.means)) / np.array(self.deviations), 0).astype(
            np.float32
        )


@dataclass(frozen=True)
class Samples:
    """Samples with the features of all omics side by side, and a mask of the omics that each has."""

    names: tuple[str, ...]
    values: Float[np.ndarray, "samples features"]
    present: Bool[np.ndarray, "samples omics"]
    targets: Int[np.ndarray, "samples"] | None = None
    unmatched: tuple[str, ...] = ()
    """Names in the file of labels that are in none of the tables."""

    def __len__(self) -> int:
        return len(self.names)

    def select(self, rows: Sequence[int] | np.ndarray) -> Samples:
        """Return the samples in these rows."""
        numbers = np.asarray(rows, dtype=np.int64)
        targets = None if self.targets is None else self.targets[numbers]
        return Samples(tuple(self.names[row] for row in numbers), self.values[numbers], self.present[numbers], targets)


@dataclass(frozen=True, kw_only=True)
class OmicsData(Splits[Samples, Samples]):
    """Training and validation samples, with the omics they consist of."""

    omics: Omics
    has_validation: bool
    """False if the validation samples are the training samples."""
    unmatched: tuple[str, ...] = ()
    """Names of labelled samples that are in no table."""

    def rows(self, batch: int) -> int:
        """Return the number of training rows in an epoch."""
        return -(-len(self.train) // batch)

    def row(self, row: int, *, batch: int, seed: int) -> np.ndarray:
        """Return the samples of a training row, a pure function of seed and row; rows have about the same size."""
        rows, total = self.rows(batch), len(self.train)
        places = np.arange(row * total // rows, (row + 1) * total // rows)
        return order_examples(places, total, seed=seed)


def prepare(config: OmicsConfig, parent_omics: Omics | None = None) -> OmicsData:
    """Read and join the tables, hold samples out, and measure the scales of features unless a parent has them."""
    tables = [files.read(table.path, table.features) for table in config.train]
    names = tuple(table.omic_name for table in config.train)
    if parent_omics is None and config.columns == "refuse":
        for table in tables:
            files.check_columns(table)
    features = parent_omics.features if parent_omics else tuple(map(_feature_names, tables, names))
    if parent_omics is not None and parent_omics.names != names:
        raise ValueError(
            f"the model to start from has the omics {', '.join(parent_omics.names)}: give tables for the same"
        )
    omics = parent_omics or Omics(names, features, (), (), ())
    _check_shared(tables)
    samples, classes = _add_labels(
        join_tables(dict(zip(names, tables, strict=True)), omics), tables, config.labels, omics
    )
    omics = replace(omics, classes=classes)
    if parent_omics is None:
        _check_classes(samples, classes, config.labels)
    if config.valid is not None and config.valid_labels is not None:
        valid_tables = [files.read(table.path, table.features) for table in config.valid]
        _check_shared(valid_tables)
        valid_samples = join_tables(dict(zip(names, valid_tables, strict=True)), omics)
        train, (valid, _) = samples, _add_labels(valid_samples, valid_tables, config.valid_labels, omics)
    else:
        train, valid = _split(samples, config.validation_share, config.seed)
    omics = omics if parent_omics else _measure_scales(omics, train)
    has_validation = config.valid is not None or bool(config.validation_share)
    report = _report(config, {"train": train, "valid": valid})
    names_in_tables = {*train.names, *valid.names}  # one file may have the labels of both
    unmatched = tuple(
        name for name in dict.fromkeys((*samples.unmatched, *valid.unmatched)) if name not in names_in_tables
    )
    summary = _summary(omics, train, f"{len(valid):,} held out" if has_validation else NONE_HELD_OUT)
    if unmatched:
        summary.append(f"{len(unmatched):,} labelled but in no table, such as {unmatched[0]!r}: left out")
    return OmicsData(
        train=train,
        valid=valid,
        report=report,
        summary=summary,
        omics=omics,
        has_validation=has_validation,
        unmatched=unmatched,
    )


def _summary(omics: Omics, train: Samples, validation: str) -> list[str]:
    """Return summary lines: the number of samples, the omics, and how many samples lack one."""
    sizes = ", ".join(f"{name} ({size})" for name, size in zip(omics.names, omics.sizes, strict=True))
    lines = [f"{quantity(len(train), 'sample')} with {sizes}, {validation}"]
    for name, is_present in zip(omics.names, train.present.T, strict=True):
        if missing := int((~is_present).sum()):
            lines.append(f"{quantity(missing, 'sample')} without {name}: masked")
    return lines


def read_for_model(words: Sequence[str], omics: Omics) -> tuple[Samples, list[Table]]:
    """Read tables for a model: the omic of each is found by its features, by `mrna=FILE`, or by its position.

    `sample=NAME` selects a single sample, by its name or its number from 1.
    """
    sample_names = [word.partition("=")[2] for word in words if word.startswith("sample=")]
    tables: dict[str, Table] = {}
    paths = [word for word in words if not word.startswith("sample=")]
    for place, word in enumerate(paths):
        omic, mark, path = word.partition("=")
        if mark and omic in omics.names:
            table = files.read(path)
        else:
            table = files.read(word)
            omic = _recognise_omic(table, omics, place, table_count=len(paths))
        if omic in tables:
            raise ValueError(f"{tables[omic].path} and {table.path} both stand for {omic}: give one of them")
        tables[omic] = table
    if not tables:
        raise ValueError(f"no table: give one for each omic, {', '.join(omics.names)}")
    samples = join_tables(tables, omics)
    if not sample_names:
        return samples, list(tables.values())
    if sample_names[-1] not in samples.names:
        raise ValueError(f"no sample {sample_names[-1]} in these tables{suggest_name(sample_names[-1], samples.names)}")
    return samples.select([samples.names.index(sample_names[-1])]), list(tables.values())


def add_labels(samples: Samples, tables: Sequence[Table], path: str, omics: Omics) -> Samples:
    """Return the samples with labels from a file."""
    return _add_labels(samples, tables, path, omics)[0]


def join_tables(tables: dict[str, Table], omics: Omics) -> Samples:
    """Join the tables of some of a model's omics; the values of missing omics are zero and masked."""
    first, *others = tables.values()
    for other in others:
        if (first.samples is None) != (other.samples is None):
            with_names, without_names = (first, other) if first.samples else (other, first)
            raise ValueError(
                f"{with_names.path} names its samples and {without_names.path} does not: "
                "name them in all tables or none"
            )
        if first.samples is None and len(first.places) != len(other.places):
            raise ValueError(
                f"{first.path} has {len(first.places)} samples and {other.path} {len(other.places)}: joined by line "
                "they need as many; else name samples in the first column"
            )
    if first.samples is None:
        names = tuple(str(place) for place in range(1, len(first.places) + 1))
    else:
        names = tuple(dict.fromkeys(name for table in tables.values() for name in table.samples or ()))
    row_of = {name: row for row, name in enumerate(names)}
    values, present = np.zeros((len(names), sum(omics.sizes))), np.zeros((len(names), len(omics.names)), bool)
    starts = np.cumsum([0, *omics.sizes])
    for omic, (name, features) in enumerate(zip(omics.names, omics.features, strict=True)):
        if name not in tables:
            continue
        table = tables[name]
        rows = [row_of[sample] for sample in table.samples or names]
        values[rows, starts[omic] : starts[omic + 1]] = table.select_features(features, name)
        present[rows, omic] = True
    return Samples(names, values, present)


def _check_shared(tables: Sequence[Table]) -> None:
    """Raise an error for a sample that is in one table only, as it cannot be joined."""
    if any(table.samples is None for table in tables):
        _check_unnamed_ids(tables)
        return
    counts = Counter(name for table in tables for name in table.samples or ())
    for table in tables:
        for name, place in zip(table.samples or (), table.places, strict=True):
            if counts[name] == 1:
                raise ValueError(
                    f"{place}: sample {name!r} stands in this table only: add it to another, or take it out"
                )


def _check_unnamed_ids(tables: Sequence[Table]) -> None:
    """Raise an error if the first column of all tables has one name and distinct integers, like sample ids."""
    first_names = {table.features[0] if table.features else None for table in tables}
    ids = [table.values[:, 0] for table in tables]
    if None in first_names or len(first_names) > 1 or len(tables) < 2:
        return
    if all(len(np.unique(column)) == len(column) and (column == column.round()).all() for column in ids):
        [name] = first_names
        raise ValueError(
            f"{tables[0].path}:1: the first column of every table is {name} and holds whole numbers, each once: "
            "if they name samples, call it `sample`, else put another column first"
        )


def _feature_names(table: Table, omic: str) -> tuple[str, ...]:
    return table.features or tuple(f"{omic}.{number}" for number in range(1, table.values.shape[1] + 1))


def _recognise_omic(table: Table, omics: Omics, place: int, *, table_count: int) -> str:
    """Return the omic of a table by its features; without feature names, by its position if no table is missing."""
    if table.features is None:
        if table_count > len(omics.names):
            raise ValueError(f"{table.path}: the model has {len(omics.names)} omics only, {', '.join(omics.names)}")
        if table_count < len(omics.names):
            raise ValueError(
                f"{table.path} names no features, and there are fewer tables than omics: say which it is, such as "
                f"{omics.names[place]}={table.path}"
            )
        return omics.names[place]
    table_features = set(table.features)
    overlaps = [
        len(table_features & set(features)) / len(table_features | set(features)) for features in omics.features
    ]
    if not max(overlaps):
        raise ValueError(f"{table.path}:1: no feature of {', '.join(omics.names)}: name the features as in training")
    best = [name for name, overlap in zip(omics.names, overlaps, strict=True) if overlap == max(overlaps)]
    if len(best) > 1:
        both = " and ".join(best)
        raise ValueError(
            f"{table.path}:1: {both} have the same features: say which it is, such as {best[0]}={table.path}"
        )
    return best[0]


def _add_labels(samples: Samples, tables: Sequence[Table], path: str, omics: Omics) -> tuple[Samples, tuple[str, ...]]:
    """Return samples with labels from a file, and the classes: those of the model, or else all in the file."""
    by_name = tables[0].samples is not None
    label_column = files.read_labels(path, samples=samples.names if by_name else None, count=len(samples))
    if label_column.samples is None:
        labels, places = label_column.labels, label_column.places
    else:
        label_of = dict(
            zip(label_column.samples, zip(label_column.labels, label_column.places, strict=True), strict=True)
        )
        for name in samples.names:
            if name not in label_of:
                raise ValueError(
                    f"{path}: no label for sample {name!r}: give one, or take the sample out of the tables"
                )
        labels, places = zip(*(label_of[name] for name in samples.names), strict=True)  # type: ignore[assignment]
        known_names = set(samples.names)
        samples = replace(samples, unmatched=tuple(name for name in label_column.samples if name not in known_names))
    classes = omics.classes or tuple(sorted(set(labels)))
    for label, place in zip(labels, places, strict=True):
        if label not in classes:
            examples = ", ".join(classes[:8])
            raise ValueError(
                f"{place}: {label!r} is none of the training classes, {examples}: correct it, or take it out"
            )
    return replace(samples, targets=np.array([classes.index(label) for label in labels], np.int64)), classes


def _check_classes(samples: Samples, classes: Sequence[str], path: str) -> None:
    """Raise an error if there is a single class, or a class with too few samples to train on and to hold out."""
    assert samples.targets is not None
    if len(classes) < 2:
        raise ValueError(f"{path}: every sample is {classes[0]!r}: give samples of two classes or more")
    for label, count in zip(classes, np.bincount(samples.targets, minlength=len(classes)), strict=True):
        if count < 2:
            place = int(np.flatnonzero(samples.targets == classes.index(label))[0])
            raise ValueError(
                f"{path}: class {label!r} has one sample, {samples.names[place]}: give another, or take it out"
            )


def _split(samples: Samples, share: float, seed: int) -> tuple[Samples, Samples]:
    """Split samples into training and validation samples, stratified by class; equal samples stay together."""
    assert samples.targets is not None
    if not share:
        return samples, samples
    is_valid = hold_out_of_classes(row_keys(samples.values, seed), samples.targets, share, leave=1)
    return samples.select(np.flatnonzero(~is_valid)), samples.select(np.flatnonzero(is_valid))


def _measure_scales(omics: Omics, train: Samples) -> Omics:
    """Return the omics with mean and standard deviation of every feature over the samples that have it."""
    is_present = np.repeat(train.present, omics.sizes, axis=1)
    values = np.ma.masked_array(train.values, ~is_present)
    deviations = np.ma.filled(values.std(0), 0.0)
    deviations = np.where(deviations > 0, deviations, 1.0)  # constant features are not scaled
    means = np.ma.filled(values.mean(0), 0.0)
    return replace(omics, means=tuple(map(float, means)), deviations=tuple(map(float, deviations)))


def _report(config: OmicsConfig, parts: dict[str, Samples]) -> dict[str, Any]:
    """Return counts and fingerprints, by which resuming a run checks that the samples are the same."""
    paths = {"train": [table.path for table in config.train] + [config.labels]}
    paths["valid"] = [table.path for table in config.valid or config.train] + [config.valid_labels or config.labels]
    settings = (config.validation_share, config.seed) if config.valid is None else ()
    return {
        part: {
            "files": paths[part],
            "samples": len(samples),
            "fingerprint": hashlib.sha256(f"{''.join(map(digest, paths[part]))}{settings}{part}".encode()).hexdigest(),
        }
        for part, samples in parts.items()
    }
