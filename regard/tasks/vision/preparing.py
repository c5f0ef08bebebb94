"""Labelled pictures, from the files of a recipe to bytes in the cache: classes, what is held out, what is odd."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from jaxtyping import Bool, Int, UInt8
from torch import Tensor

from regard.config.ranges import Batch, Count, Part, Positive, Range, Seed, Some
from regard.config.resuming import Free, Warned
from regard.config.words import quantity, suggest_name
from regard.data.examples import Splits, order_examples
from regard.data.findings import Finding, describe_finding
from regard.data.holdout import hold_out_of_classes, leave_out_measured, picture_keys
from regard.data.pictures import shortcut as shortcuts
from regard.data.pictures.album import ALLOWED, PREPARATION, RAISED, Album, Shape, load_album, read_album, shape_of
from regard.data.pictures.decoding import Fit, Resample
from regard.data.pictures.scatter import ScatterConfig
from regard.data.pictures.shelves import PictureFile, Shelf, has_test_part, shelve
from regard.data.pictures.shortcut import ShortcutConfig
from regard.data.pictures.tables import LABEL
from regard.training.task import sample_evenly

Size = Annotated[int, Range(8, 1024)]
MEASURED = 4096  # pictures that mean and deviation are measured on
SHOWN = 20  # classes that are counted in a line
FLAT = 0.01  # deviation of shades below which pictures are taken to be blank


@dataclass(frozen=True, kw_only=True)
class PicturesConfig:
    """Labelled pictures to learn from, and what they are brought to."""

    train: tuple[PictureFile, ...]
    """Folders and files to train on; a single one may be written without a list."""
    valid: tuple[PictureFile, ...] = ()
    """Validation pictures; none: a share of every class is held out."""
    held: Some = 0.1
    """Share of the pictures held out when valid names none, chosen by content: equal pictures stay together."""
    shortcut: ShortcutConfig | None = None
    """For lessons: a mark put into the pictures of one class, held-out ones too; `regard probe` should expose it."""
    scatter: ScatterConfig | None = None
    """Scenes made of the pictures: turned, scaled, moved on a larger canvas among scraps of others; null: none."""
    most: Count | None = None
    """Learn from so many pictures only, classes alike; null: from all."""
    size: Size | None = None
    """Pixels on each side after decoding; null: about the median of the short sides, 224 at most."""
    channels: Annotated[int, Range(1, 3)] | None = None
    """3 of colours, 1 of grey; null: 1 where all pictures are grey."""
    fit: Fit | None = None
    """How a picture becomes a square: its middle is cut out, or it is squeezed; null: as for a model to start from, or
    cut out."""
    resample: Resample | None = None
    """How pixels are interpolated; null: as for a model to start from, or bicubic."""
    margin: Annotated[float, Range(1, 4)] | None = None
    """Where the middle is cut out: the short side is first made so many times the size; null: as for a model to start
    from, or the size."""
    mean: tuple[Part, ...] | None = None
    """Mean of each channel, from 0 to 1, taken off every pixel; null: that of the training pictures."""
    std: tuple[Positive, ...] | None = None
    """Deviation of each channel, by which pixels are divided; null: that of the training pictures."""
    batch: Warned[Batch] = 256
    """Pictures in a row of training; an even number where they are mixed."""
    reject: Free[Part] = 0.01
    """Share of unusable pictures above which nothing is trained."""
    seed: Seed = 0
    """Random seed of the choice of held-out pictures."""

    def __post_init__(self) -> None:
        if not self.train:
            raise ValueError("train needs at least one folder or file of pictures")
        if self.channels == 2:
            raise ValueError("channels must be 3, of colours, or 1, of grey")
        if self.scatter is not None and self.shortcut is not None:
            raise ValueError("scatter and shortcut do not go together: a mark would be turned and moved; give one")
        channels = self.channels if self.scatter is None or not self.channels else self.scatter.channels(self.channels)
        for name in ("mean", "std"):
            given = getattr(self, name)
            if given is not None and channels is not None and len(given) != channels:
                remedy = (
                    f"give one for each by data.{name}, whose numbers are otherwise, with --from, those of its model"
                )
                raise ValueError(f"{name} has {len(given)} numbers for {channels} channels: {remedy}")


@dataclass(frozen=True)
class Side:
    """Some pictures of an album with their classes, by number."""

    album: Album
    numbers: Int[np.ndarray, "pictures"]
    labels: Int[np.ndarray, "pictures"]
    marked: Bool[np.ndarray, "pictures"] | None = None
    """Which of them get the mark of a shortcut."""
    shortcut: ShortcutConfig | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    def place(self, picture: int) -> str:
        """Where a picture stands."""
        return self.album.places[self.numbers[picture]]

    def pixels(self, pictures: Int[np.ndarray, "some"]) -> UInt8[np.ndarray, "some channels size size"]:
        """The bytes of these, copied out of the cache."""
        found = self.album.pixels[self.numbers[pictures]]
        if self.shortcut is None or self.marked is None:
            return found
        with_mark = self.marked[pictures]
        found[with_mark] = shortcuts.draw_mark(found[with_mark], self.shortcut)
        return found

    @property
    def size(self) -> int:
        """Pixels on each side of what a model sees."""
        return int(self.album.pixels.shape[-1])

    @property
    def channels(self) -> int:
        """Numbers of a pixel of what a model sees."""
        return int(self.album.pixels.shape[1])

    def choose(
        self, pictures: Int[np.ndarray, "some"], places: Int[np.ndarray, "some"], *, seed: int
    ) -> tuple[Int[np.ndarray, "some *part"], Int[np.ndarray, "some"]]:
        """Return the pictures that make the examples at these places of the order of training, and their labels."""
        return pictures, self.labels[pictures]

    def render(self, pixels: Tensor, places: Int[Tensor, "some"], *, seed: int) -> Tensor:
        """Return what a model sees of the pixels of the examples at these places."""
        return pixels

    def kept(self, chosen: np.ndarray) -> Side:
        """Only those that are chosen, by number or by a mask."""
        own = None if self.marked is None else self.marked[chosen]
        return Side(self.album, self.numbers[chosen], self.labels[chosen], own, self.shortcut)

    def with_shortcut(self, how: ShortcutConfig, classes: Sequence[str]) -> Side:
        """The same with the mark of a shortcut in pictures of its class."""
        if how.label not in classes:
            known = ", ".join(classes[:SHOWN])
            raise ValueError(f"data.shortcut.label is {how.label!r}, which no picture has: choose one of {known}")
        own = (self.labels == list(classes).index(how.label)) & shortcuts.choose_pictures(self.marks, how.share)
        return replace(self, marked=own, shortcut=how)

    @property
    def marks(self) -> Int[np.ndarray, "pictures"]:
        """Digests of the pixels."""
        return self.album.marks[self.numbers]

    def report(self, files: Sequence[PictureFile]) -> dict[str, Any]:
        """Which files these pictures are from, and how many they are."""
        return {"files": [file.path for file in files], "pictures": len(self), "fingerprint": self.fingerprint}

    @property
    def fingerprint(self) -> str:
        """What tells these pictures and labels from others."""
        return hashlib.sha256(self.marks.tobytes() + self.labels.astype(np.int64).tobytes()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Prepared(Splits[Side, Side]):
    """Labelled pictures, and their scales."""

    shape: Shape
    """What a picture is brought to when it is decoded."""
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def size(self) -> int:
        """Pixels on each side of what a model sees."""
        return self.train.size

    @property
    def channels(self) -> int:
        """Numbers of a pixel of what a model sees."""
        return self.train.channels


def prepare(config: PicturesConfig, known: Mapping[str, Any] | None = None) -> Prepared:
    """Read and decode all pictures, and choose those that are held out.

    `known` is the config of a model to go on from: its labels, and the size and scales of its pictures, unless others
    are named.
    """
    before: Any = (known or {}).get("data") or {}
    shelves = [shelve(file) for file in config.train]
    given = {name: getattr(config, name) or before.get(name) for name in PREPARATION}
    shape = shape_of(shelves, *(given[name] for name in Shape._fields))
    found = _album(shelves, shape, config.reject)
    classes = classes_of(shelves, found, [str(each) for each in (known or {}).get("labels", ())])
    train, notes = Side(found, np.arange(len(found)), numbered(found, classes)), _lost(shelves, found)
    if config.valid:
        measured = _album([shelve(file, part="test") for file in config.valid], shape, config.reject)
        valid = Side(measured, np.arange(len(measured)), numbered(measured, classes))
    else:
        train, valid = held_out(train, config.held, config.seed)
    train, shared = choose_training_pictures(train, valid, config.most, seed=config.seed)
    notes += [*shared, *_oddities(train, valid, classes), *_tested(train, config.train, shape)]
    if config.shortcut is not None:
        train, valid = (side.with_shortcut(config.shortcut, classes) for side in (train, valid))
        notes.append(
            f"shortcut: a mark is in {100 * config.shortcut.share:.0f} % of the pictures of {config.shortcut.label}"
        )
    mean, std = scales(train, given["mean"], given["std"])
    own = [] if valid.album is found else valid.album.summary
    head = _head(train, valid, classes, shape)
    summary = [*head, *found.summary, *own, *notes]
    return Prepared(
        train=train,
        valid=valid,
        classes=classes,
        report={"train": train.report(config.train), "valid": valid.report(config.valid or config.train)},
        summary=summary,
        fresh=not known,
        shape=shape,
        mean=mean,
        std=std,
    )


def read(paths: Sequence[PictureFile], shape: Shape, classes: list[str], *, reject: float | None) -> Side:
    """Labelled pictures to score a model on."""
    return sided([shelve(file, part="test") for file in paths], shape, classes, reject=reject)


def sided(shelves: Sequence[Shelf], shape: Shape, classes: list[str], *, reject: float | None = None) -> Side:
    """The labelled pictures of these shelves; `reject` is None where nobody can say how many may be bad."""
    found = _album(shelves, shape, reject or 0.0, remedy="leave them out" if reject is None else ALLOWED)
    return Side(found, np.arange(len(found)), numbered(found, classes))


def _album(shelves: Sequence[Shelf], shape: Shape, reject: float, *, remedy: str = RAISED) -> Album:
    """The pictures of these shelves; too many bad ones are an error."""
    found = read_album(shelves, shape, reject=reject, remedy=remedy)
    for shelf in shelves:
        if LABEL not in shelf.columns:
            setting = "data.train.label" if remedy == RAISED else "-s label"
            there = ", ".join(shelf.columns)
            raise ValueError(f"{shelf.name} has no column with labels, only {there}: name it, {setting}=COLUMN")
    return found


def classes_of(shelves: Sequence[Shelf], found: Album, known: list[str]) -> list[str]:
    """All labels in their order: that of a model to go on from, of the files, or of numbers or letters."""
    met = dict.fromkeys(found.columns[LABEL])
    if known and met.keys() <= set(known):
        return known
    orders = {shelf.classes for shelf in shelves}
    order = next(iter(orders)) if len(orders) == 1 else ()
    if order:
        return [label for label in order if label in met]
    if len(met) < 2:
        only = f"only the class {next(iter(met))!r}" if met else "no class"
        raise ValueError(f"{shelves[0].name} has {only}: give pictures of two classes at least")
    numeric = all(label.isdecimal() for label in met)
    return sorted(met, key=lambda label: (int(label), label) if numeric else (0, label))


def numbered(found: Album, classes: Sequence[str]) -> Int[np.ndarray, "pictures"]:
    """The number of each picture's class; one that is never learnt is an error."""
    numbers = {label: place for place, label in enumerate(classes)}
    for place, label in zip(found.places, found.columns[LABEL], strict=True):
        if label not in numbers:
            remedy = f"correct it, or leave it out{suggest_name(label, classes)}"
            raise ValueError(f"{place}: the label {label!r} is never learnt: {remedy}")
    return np.array([numbers[label] for label in found.columns[LABEL]], np.int64)


def held_out(side: Side, share: float, seed: int) -> tuple[Side, Side]:
    """The pictures to learn from and those held out: a share of each class by content, one at least, never all."""
    held = hold_out_of_classes(picture_keys(side.marks, seed), side.labels, share)
    if not held.any():
        raise ValueError(f"{side.place(0)}: too few different pictures to hold some out: give more, or data.valid")
    return side.kept(~held), side.kept(held)


def choose_training_pictures(train: Side, valid: Side, most: int | None, *, seed: int) -> tuple[Side, list[str]]:
    """Leave out training pictures that equal some to measure on, and take at most so many of the others."""
    fresh, notes = leave_out_measured(train.marks, valid.marks, train.place)
    train = train.kept(fresh)
    return train if most is None else limited(train, most, seed), notes


def limited(side: Side, most: int, seed: int) -> Side:
    """So many pictures, as many of each class as there are, the same for the same seed."""
    ranks, turn = picture_keys(side.marks, seed + 1), np.zeros(len(side), np.int64)
    for label in np.unique(side.labels):
        own = np.flatnonzero(side.labels == label)
        turn[own[np.argsort(ranks[own], kind="stable")]] = np.arange(len(own))
    order = np.lexsort((side.labels, turn))[:most]
    return side.kept(np.sort(order))


def scales(train: Any, mean: Any, std: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of every channel, as told or as measured."""
    if mean is None or std is None:
        some = train.pixels(np.array(sample_evenly(range(len(train)), MEASURED))) / 255
        mean = mean or [round(float(each), 4) for each in some.mean((0, 2, 3))]
        std = std or [max(FLAT, round(float(each), 4)) for each in some.std((0, 2, 3))]
    return tuple(map(float, mean)), tuple(map(float, std))


def _head(train: Side, valid: Side, classes: Sequence[str], shape: Shape) -> list[str]:
    """How many pictures of what."""
    counts = Counter(train.labels.tolist())
    some = ", ".join(f"{classes[label]} {counts[label]:,}" for label in range(len(classes))[:SHOWN])
    pictures = quantity(len(train), f"{'grey' if shape.channels == 1 else 'colour'} picture")
    return [
        f"{pictures} of {shape.size} x {shape.size} to learn {len(classes):,} classes from, "
        f"{len(valid):,} to measure on",
        f"classes: {some}{', ...' * (len(classes) > SHOWN)}",
    ]


def _oddities(train: Side, valid: Side, classes: Sequence[str]) -> list[str]:
    """Classes that can hardly be learnt, and pictures that are there twice."""
    notes, learnt, measured = [], Counter(train.labels.tolist()), Counter(valid.labels.tolist())
    alone = [name for label, name in enumerate(classes) if learnt[label] == 1]
    if alone:
        notes.append(f"classes with one picture to learn from: {_listed(alone)}: add pictures of them")
    if missing := [name for label, name in enumerate(classes) if not learnt[label]]:
        notes.append(f"classes without a picture to learn from: {_listed(missing)}: add pictures of them")
    if never := [name for label, name in enumerate(classes) if learnt[label] and not measured[label]]:
        notes.append(f"classes that are never measured: {_listed(never)}: add pictures of them")
    return notes + _repeated(train, valid)


def _lost(shelves: Sequence[Shelf], found: Album) -> list[str]:
    """Classes of which no picture can be used."""
    named, there = (each for one in shelves for each in one.columns.get(LABEL, ())), set(found.columns[LABEL])
    lost = [label for label in dict.fromkeys(named) if label not in there]
    return [f"classes without a usable picture, so not learnt: {_listed(lost)}: mend or remove them"] if lost else []


def _tested(train: Side, files: Sequence[PictureFile], shape: Shape) -> list[str]:
    """Pictures to learn from that the same source also has among those to test on: a score would flatter the model."""
    there, finding = list[np.ndarray](), Finding()
    for file in files:
        with suppress(ValueError):  # whoever tests on them is told
            there += [load_album(shelve(file, part="test"), shape).marks] if has_test_part(file.path) else []
    for picture in np.flatnonzero(np.isin(train.marks, np.concatenate(there))) if there else ():
        finding.add(train.place(int(picture)))
    return (
        [f"{describe_finding(finding, 'equal to pictures to test on')}: remove them on one side"]
        if finding.count
        else []
    )


def _repeated(*sides: Side) -> list[str]:
    """Pictures that are there twice on their side, and those that have another label the second time."""
    again, otherwise = Finding(), Finding()
    for side in sides:
        first = dict[int, int]()
        for picture, mark in enumerate(side.marks.tolist()):
            before = first.setdefault(mark, picture)
            if before != picture:
                same = side.labels[before] == side.labels[picture]
                (again if same else otherwise).add(side.place(picture))
    found = [(again, "", "remove them, or know that they count twice")]
    found += [(otherwise, " with another label", "correct the label, or remove one of them")]
    return [
        f"{describe_finding(one, f'equal to an earlier picture{how}')}: {why}" for one, how, why in found if one.count
    ]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + ", ..." * (len(names) > SHOWN)


def row(side: Side, row: int, *, batch: int, seed: int) -> tuple[Int[np.ndarray, "some"], Int[np.ndarray, "some"]]:
    """Which pictures are in a row of training, and their places in the order of all.

    The order is one permutation after the other, so that every row is full, and a pure function of seed and row.
    """
    places = np.arange(row * batch, (row + 1) * batch)
    return order_examples(places, len(side), seed=seed), places


def like(file: PictureFile) -> PictureFile:
    """How another file of the same kind is read."""
    return replace(file, path="", folder=None)
