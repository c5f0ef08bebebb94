"""Samples of which several tables are known: joined by name or by line, labelled, scaled, and dealt out to rows."""

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
    """What a model was given and what it answers: omics, their features and scales, and the classes."""

    names: tuple[str, ...]
    features: tuple[tuple[str, ...], ...]
    """Of each omic."""
    means: tuple[float, ...]
    """Of all features, one omic after the other."""
    deviations: tuple[float, ...]
    classes: tuple[str, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Features of each omic."""
        return tuple(map(len, self.features))

    @property
    def columns(self) -> list[tuple[str, str]]:
        """The omic and the name of every feature, in the order in which a model reads them."""
        return [(name, each) for name, own in zip(self.names, self.features, strict=True) for each in own]

    def scaled(self, samples: Samples) -> Float[np.ndarray, "samples features"]:
        """Features with mean 0 and deviation 1, as they were in the samples learnt from; 0 where an omic is missing."""
        there = np.repeat(samples.present, self.sizes, axis=1)
        return np.where(there, (samples.values - np.array(self.means)) / np.array(self.deviations), 0).astype(
            np.float32
        )


@dataclass(frozen=True)
class Samples:
    """Samples with the features of all omics side by side, and which omics each has."""

    names: tuple[str, ...]
    values: Float[np.ndarray, "samples features"]
    present: Bool[np.ndarray, "samples omics"]
    targets: Int[np.ndarray, "samples"] | None = None
    strangers: tuple[str, ...] = ()
    """Names that the file of labels has and these tables have not."""

    def __len__(self) -> int:
        return len(self.names)

    def chosen(self, kept: Sequence[int] | np.ndarray) -> Samples:
        """Only those whose numbers are given."""
        rows = np.asarray(kept, dtype=np.int64)
        targets = None if self.targets is None else self.targets[rows]
        return Samples(tuple(self.names[row] for row in rows), self.values[rows], self.present[rows], targets)


@dataclass(frozen=True, kw_only=True)
class Prepared(Splits[Samples, Samples]):
    """Samples, and what is known of their features."""

    omics: Omics
    apart: bool
    """Whether nothing was learnt from what is measured on."""
    strangers: tuple[str, ...] = ()
    """Samples that have a label and stand in no table."""

    def rows(self, batch: int) -> int:
        """Rows of training in an epoch."""
        return -(-len(self.train) // batch)

    def row(self, row: int, *, batch: int, seed: int) -> np.ndarray:
        """Which samples are in a row of training, about as many in each: a pure function of the seed and its number."""
        rows, total = self.rows(batch), len(self.train)
        places = np.arange(row * total // rows, (row + 1) * total // rows)
        return order_examples(places, total, seed=seed)


def prepare(config: OmicsConfig, known: Omics | None = None) -> Prepared:
    """Read and join the tables, hold samples out, and measure the features of the others, unless they are `known`."""
    tables = [files.read(table.path, table.features) for table in config.train]
    names = tuple(table.called for table in config.train)
    if known is None and config.columns == "refuse":
        for table in tables:
            files.steady(table)
    features = known.features if known else tuple(map(_features, tables, names))
    if known is not None and known.names != names:
        raise ValueError(f"the model to start from has the omics {', '.join(known.names)}: give tables for the same")
    omics = known or Omics(names, features, (), (), ())
    _shared(tables)
    found, classes = _labelled(joined(dict(zip(names, tables, strict=True)), omics), tables, config.labels, omics)
    omics = replace(omics, classes=classes)
    if known is None:
        _several(found, classes, config.labels)
    if config.valid is not None and config.valid_labels is not None:
        beside = [files.read(table.path, table.features) for table in config.valid]
        _shared(beside)
        measured = joined(dict(zip(names, beside, strict=True)), omics)
        train, (valid, _) = found, _labelled(measured, beside, config.valid_labels, omics)
    else:
        train, valid = _split(found, config.held, config.seed)
    omics = omics if known else _measured(omics, train)
    apart = config.valid is not None or bool(config.held)
    report = _report(config, {"train": train, "valid": valid})
    here = {*train.names, *valid.names}  # one file may label both
    strangers = tuple(name for name in dict.fromkeys((*found.strangers, *valid.strangers)) if name not in here)
    summary = _summary(omics, train, f"{len(valid):,} held out" if apart else NONE_HELD_OUT)
    if strangers:
        summary.append(f"{len(strangers):,} labelled but in no table, such as {strangers[0]!r}: left out")
    return Prepared(
        train=train, valid=valid, report=report, summary=summary, omics=omics, apart=apart, strangers=strangers
    )


def _summary(omics: Omics, train: Samples, held: str) -> list[str]:
    """How many samples there are, of what, and which omics some of them lack."""
    sizes = ", ".join(f"{name} ({size})" for name, size in zip(omics.names, omics.sizes, strict=True))
    lines = [f"{quantity(len(train), 'sample')} with {sizes}, {held}"]
    for name, there in zip(omics.names, train.present.T, strict=True):
        if lacking := int((~there).sum()):
            lines.append(f"{quantity(lacking, 'sample')} without {name}: masked")
    return lines


def given(words: Sequence[str], omics: Omics) -> tuple[Samples, list[Table]]:
    """Samples in files that somebody names for a model: by the features they hold, `mrna=FILE`, or all in its order.

    `sample=NAME` keeps that one only, by its name or its number, counted from 1.
    """
    wanted = [word.partition("=")[2] for word in words if word.startswith("sample=")]
    tables: dict[str, Table] = {}
    paths = [word for word in words if not word.startswith("sample=")]
    for place, word in enumerate(paths):
        omic, mark, path = word.partition("=")
        if mark and omic in omics.names:
            table = files.read(path)
        else:
            table = files.read(word)
            omic = _recognised(table, omics, place, given=len(paths))
        if omic in tables:
            raise ValueError(f"{tables[omic].path} and {table.path} both stand for {omic}: give one of them")
        tables[omic] = table
    if not tables:
        raise ValueError(f"no table: give one for each omic, {', '.join(omics.names)}")
    found = joined(tables, omics)
    if not wanted:
        return found, list(tables.values())
    if wanted[-1] not in found.names:
        raise ValueError(f"no sample {wanted[-1]} in these tables{suggest_name(wanted[-1], found.names)}")
    return found.chosen([found.names.index(wanted[-1])]), list(tables.values())


def labelled(samples: Samples, tables: Sequence[Table], path: str, omics: Omics) -> Samples:
    """The same samples with the labels that a file gives them."""
    return _labelled(samples, tables, path, omics)[0]


def joined(tables: dict[str, Table], omics: Omics) -> Samples:
    """The samples of some of a model's omics side by side; what is missing is zero and marked so."""
    first, *others = tables.values()
    for other in others:
        if (first.samples is None) != (other.samples is None):
            named, bare = (first, other) if first.samples else (other, first)
            raise ValueError(
                f"{named.path} names its samples and {bare.path} does not: name them in all tables or none"
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
    at = {name: row for row, name in enumerate(names)}
    values, present = np.zeros((len(names), sum(omics.sizes))), np.zeros((len(names), len(omics.names)), bool)
    starts = np.cumsum([0, *omics.sizes])
    for number_, (name, features) in enumerate(zip(omics.names, omics.features, strict=True)):
        if name not in tables:
            continue
        table = tables[name]
        rows = [at[sample] for sample in table.samples or names]
        values[rows, starts[number_] : starts[number_ + 1]] = table.ordered(features, name)
        present[rows, number_] = True
    return Samples(names, values, present)


def _shared(tables: Sequence[Table]) -> None:
    """Stop at a sample that stands in one of several tables only: there is nothing to join it with."""
    if any(table.samples is None for table in tables):
        _nameless(tables)
        return
    counts = Counter(name for table in tables for name in table.samples or ())
    for table in tables:
        for name, place in zip(table.samples or (), table.places, strict=True):
            if counts[name] == 1:
                raise ValueError(
                    f"{place}: sample {name!r} stands in this table only: add it to another, or take it out"
                )


def _nameless(tables: Sequence[Table]) -> None:
    """Stop at tables whose first column is called the same in all and counts: samples by their numbers, surely."""
    firsts = {table.features[0] if table.features else None for table in tables}
    ids = [table.values[:, 0] for table in tables]
    if None in firsts or len(firsts) > 1 or len(tables) < 2:
        return
    if all(len(np.unique(each)) == len(each) and (each == each.round()).all() for each in ids):
        [name] = firsts
        raise ValueError(
            f"{tables[0].path}:1: the first column of every table is {name} and holds whole numbers, each once: "
            "if they name samples, call it `sample`, else put another column first"
        )


def _features(table: Table, omic: str) -> tuple[str, ...]:
    return table.features or tuple(f"{omic}.{number}" for number in range(1, table.values.shape[1] + 1))


def _recognised(table: Table, omics: Omics, place: int, *, given: int) -> str:
    """Whose table this is: by its features, or, where it names none and every omic is given, by its place."""
    if table.features is None:
        if given > len(omics.names):
            raise ValueError(f"{table.path}: the model has {len(omics.names)} omics only, {', '.join(omics.names)}")
        if given < len(omics.names):
            raise ValueError(
                f"{table.path} names no features, and there are fewer tables than omics: say which it is, such as "
                f"{omics.names[place]}={table.path}"
            )
        return omics.names[place]
    held = set(table.features)
    shared = [len(held & set(own)) / len(held | set(own)) for own in omics.features]
    if not max(shared):
        raise ValueError(f"{table.path}:1: no feature of {', '.join(omics.names)}: name the features as in training")
    alike = [name for name, share in zip(omics.names, shared, strict=True) if share == max(shared)]
    if len(alike) > 1:
        both = " and ".join(alike)
        raise ValueError(
            f"{table.path}:1: {both} have the same features: say which it is, such as {alike[0]}={table.path}"
        )
    return alike[0]


def _labelled(samples: Samples, tables: Sequence[Table], path: str, omics: Omics) -> tuple[Samples, tuple[str, ...]]:
    """Samples with the labels of a file, and the classes: those known, or else those found."""
    by_name = tables[0].samples is not None
    found = files.labels(path, samples=samples.names if by_name else None, count=len(samples))
    if found.samples is None:
        own, places = found.labels, found.places
    else:
        table = dict(zip(found.samples, zip(found.labels, found.places, strict=True), strict=True))
        for name in samples.names:
            if name not in table:
                raise ValueError(
                    f"{path}: no label for sample {name!r}: give one, or take the sample out of the tables"
                )
        own, places = zip(*(table[name] for name in samples.names), strict=True)  # type: ignore[assignment]
        here = set(samples.names)
        samples = replace(samples, strangers=tuple(name for name in found.samples if name not in here))
    classes = omics.classes or tuple(sorted(set(own)))
    for label, place in zip(own, places, strict=True):
        if label not in classes:
            those = ", ".join(classes[:8])
            raise ValueError(f"{place}: {label!r} is none of the training classes, {those}: correct it, or take it out")
    return replace(samples, targets=np.array([classes.index(label) for label in own], np.int64)), classes


def _several(samples: Samples, classes: Sequence[str], path: str) -> None:
    """Stop where there is nothing to tell apart, or a class of which one cannot both learn and hold out."""
    assert samples.targets is not None
    if len(classes) < 2:
        raise ValueError(f"{path}: every sample is {classes[0]!r}: give samples of two classes or more")
    for label, count in zip(classes, np.bincount(samples.targets, minlength=len(classes)), strict=True):
        if count < 2:
            place = int(np.flatnonzero(samples.targets == classes.index(label))[0])
            raise ValueError(
                f"{path}: class {label!r} has one sample, {samples.names[place]}: give another, or take it out"
            )


def _split(samples: Samples, held: float, seed: int) -> tuple[Samples, Samples]:
    """Samples to learn from and samples to measure on, as many of each class; equal ones are on one side."""
    assert samples.targets is not None
    if not held:
        return samples, samples
    out = hold_out_of_classes(row_keys(samples.values, seed), samples.targets, held, leave=1)
    return samples.chosen(np.flatnonzero(~out)), samples.chosen(np.flatnonzero(out))


def _measured(omics: Omics, train: Samples) -> Omics:
    """The omics with the mean and deviation of every feature over the samples that have it."""
    there = np.repeat(train.present, omics.sizes, axis=1)
    values = np.ma.masked_array(train.values, ~there)
    deviations = np.ma.filled(values.std(0), 0.0)
    deviations = np.where(deviations > 0, deviations, 1.0)  # a column that never changes keeps its unit
    means = np.ma.filled(values.mean(0), 0.0)
    return replace(omics, means=tuple(map(float, means)), deviations=tuple(map(float, deviations)))


def _report(config: OmicsConfig, parts: dict[str, Samples]) -> dict[str, Any]:
    """Counts and fingerprints: a run is resumed with the same samples only."""
    named = {"train": [table.path for table in config.train] + [config.labels]}
    named["valid"] = [table.path for table in config.valid or config.train] + [config.valid_labels or config.labels]
    how = (config.held, config.seed) if config.valid is None else ()
    return {
        part: {
            "files": named[part],
            "samples": len(samples),
            "fingerprint": hashlib.sha256(f"{''.join(map(digest, named[part]))}{how}{part}".encode()).hexdigest(),
        }
        for part, samples in parts.items()
    }
