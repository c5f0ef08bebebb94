"""Labelled images, from the files of a recipe to cached arrays: classes, the hold-out split, oddities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from regard.config.ranges import Batch, Count, Part, Positive, Range, Seed, Some
from regard.config.resuming import Free, Warned
from regard.config.words import quantity
from regard.data.columns import ColumnSample, Role, unclear_column_error
from regard.data.findings import Finding, describe_finding
from regard.data.images.album import ALLOWED, PREPARATION, RAISED, Album, Shape, load_album, read_album, shape_of
from regard.data.images.decoding import Fit, Resample
from regard.data.images.image_tables import LABEL
from regard.data.images.labelled_images import (
    ImageSplits,
    LabelledImages,
    channel_statistics,
    choose_training_images,
    class_numbers,
    hold_out_images,
    ordered_classes,
)
from regard.data.images.scattering import ScatterConfig
from regard.data.images.shortcut import ShortcutConfig
from regard.data.images.sources import ImageSource, PictureFile, has_test_part, shelve

Size = Annotated[int, Range(8, 1024)]
CLASSES_SHOWN = 20  # classes named in a line


@dataclass(frozen=True, kw_only=True)
class ImageDataConfig:
    """Labelled images to train on, and how they are resized."""

    train: tuple[PictureFile, ...]
    """Folders and files to train on; a single one may be written without a list."""
    valid: tuple[PictureFile, ...] = ()
    """Validation pictures; none: a share of every class is held out."""
    validation_share: Some = 0.1
    """Share of the pictures held out when valid names none, chosen by content: equal pictures stay together."""
    shortcut: ShortcutConfig | None = None
    """For lessons: a mark put into the pictures of one class, held-out ones too; `regard probe` should expose it."""
    scatter: ScatterConfig | None = None
    """Scenes made of the pictures: turned, scaled, moved on a larger canvas among scraps of others; null: none."""
    max_images: Count | None = None
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
    batch_size: Warned[Batch] = 256
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
            values = getattr(self, name)
            if values is not None and channels is not None and len(values) != channels:
                remedy = (
                    f"give one for each by data.{name}, whose numbers are otherwise, with --from, those of its model"
                )
                raise ValueError(f"{name} has {len(values)} numbers for {channels} channels: {remedy}")


def prepare(config: ImageDataConfig, parent_config: Mapping[str, Any] | None = None) -> ImageSplits:
    """Read and decode all images, and choose those that are held out.

    `parent_config` is the config of a model to start from: its labels, and the size and statistics of its images, are
    used unless others are named.
    """
    parent_data: Any = (parent_config or {}).get("data") or {}
    shelves = [shelve(file) for file in config.train]
    preparation = {name: getattr(config, name) or parent_data.get(name) for name in PREPARATION}
    shape = shape_of(shelves, *(preparation[name] for name in Shape._fields))
    album = _load_album(shelves, shape, config.reject)
    classes = ordered_classes(shelves, album, [str(label) for label in (parent_config or {}).get("labels", ())])
    train = LabelledImages(album, np.arange(len(album)), class_numbers(album, classes))
    notes = _describe_lost_classes(shelves, album)
    if config.valid:
        valid_album = _load_album([shelve(file, part="test") for file in config.valid], shape, config.reject)
        valid = LabelledImages(valid_album, np.arange(len(valid_album)), class_numbers(valid_album, classes))
    else:
        train, valid = hold_out_images(train, config.validation_share, config.seed)
    train, shared = choose_training_images(train, valid, config.max_images, seed=config.seed)
    notes += [
        *shared,
        *_describe_oddities(train, valid, classes),
        *_describe_test_duplicates(train, config.train, shape),
    ]
    if config.shortcut is not None:
        train, valid = (side.with_shortcut(config.shortcut, classes) for side in (train, valid))
        notes.append(
            f"shortcut: a mark is in {100 * config.shortcut.share:.0f} % of the pictures of {config.shortcut.label}"
        )
    mean, std = channel_statistics(train, preparation["mean"], preparation["std"])
    valid_summary = [] if valid.album is album else valid.album.summary
    sizes = _describe_sizes(train, valid, classes, shape)
    summary = [*sizes, *album.summary, *valid_summary, *notes]
    return ImageSplits(
        train=train,
        valid=valid,
        classes=classes,
        report={"train": train.report(config.train), "valid": valid.report(config.valid or config.train)},
        summary=summary,
        fresh=not parent_config,
        shape=shape,
        mean=mean,
        std=std,
    )


def read(paths: Sequence[PictureFile], shape: Shape, classes: list[str], *, reject: float | None) -> LabelledImages:
    """Read labelled images to evaluate a model on."""
    return load_labelled_images([shelve(file, part="test") for file in paths], shape, classes, reject=reject)


def load_labelled_images(
    shelves: Sequence[ImageSource], shape: Shape, classes: list[str], *, reject: float | None = None
) -> LabelledImages:
    """Load labelled images; `reject` is the share that may be bad, None where no setting can allow any."""
    album = _load_album(shelves, shape, reject or 0.0, remedy="leave them out" if reject is None else ALLOWED)
    return LabelledImages(album, np.arange(len(album)), class_numbers(album, classes))


def _load_album(shelves: Sequence[ImageSource], shape: Shape, reject: float, *, remedy: str = RAISED) -> Album:
    """Load the images of these shelves; too many bad ones, or a missing column of labels, are an error."""
    album = read_album(shelves, shape, reject=reject, remedy=remedy)
    for shelf in shelves:
        if LABEL not in shelf.columns:
            setting = "data.train.label" if remedy == RAISED else "-s label"
            role = Role(name="label", setting=f"name it, {setting}=COLUMN")
            raise unclear_column_error(role, ColumnSample(shelf.name, tuple(shelf.columns)))
    return album


def without_path(file: PictureFile) -> PictureFile:
    """Return how to read other files of the same kind: the settings of a file without its path."""
    return replace(file, path="", folder=None)


def _describe_sizes(train: LabelledImages, valid: LabelledImages, classes: Sequence[str], shape: Shape) -> list[str]:
    """Describe how many images there are of each class."""
    counts = Counter(train.labels.tolist())
    class_counts = ", ".join(f"{classes[label]} {counts[label]:,}" for label in range(len(classes))[:CLASSES_SHOWN])
    images = quantity(len(train), f"{'grey' if shape.channels == 1 else 'colour'} picture")
    return [
        f"{images} of {shape.size} x {shape.size} to learn {len(classes):,} classes from, {len(valid):,} to measure on",
        f"classes: {class_counts}{', ...' * (len(classes) > CLASSES_SHOWN)}",
    ]


def _describe_oddities(train: LabelledImages, valid: LabelledImages, classes: Sequence[str]) -> list[str]:
    """Describe classes with too few images, and duplicate images."""
    notes, train_counts, valid_counts = [], Counter(train.labels.tolist()), Counter(valid.labels.tolist())
    single = [name for label, name in enumerate(classes) if train_counts[label] == 1]
    if single:
        notes.append(f"classes with one picture to learn from: {_join_names(single)}: add pictures of them")
    if missing := [name for label, name in enumerate(classes) if not train_counts[label]]:
        notes.append(f"classes without a picture to learn from: {_join_names(missing)}: add pictures of them")
    if never_measured := [
        name for label, name in enumerate(classes) if train_counts[label] and not valid_counts[label]
    ]:
        notes.append(f"classes that are never measured: {_join_names(never_measured)}: add pictures of them")
    return notes + _describe_duplicates(train, valid)


def _describe_lost_classes(shelves: Sequence[ImageSource], album: Album) -> list[str]:
    """Describe classes of which no image can be used."""
    label_cells = (value for shelf in shelves for value in shelf.columns.get(LABEL, ()))
    present = set(album.columns[LABEL])
    lost = [label for label in dict.fromkeys(label_cells) if label not in present]
    return (
        [f"classes without a usable picture, so not learnt: {_join_names(lost)}: mend or remove them"] if lost else []
    )


def _describe_test_duplicates(train: LabelledImages, files: Sequence[PictureFile], shape: Shape) -> list[str]:
    """Describe training images that the same source also has among its test images, which would flatter a score."""
    test_marks, finding = list[np.ndarray](), Finding()
    for file in files:
        with suppress(ValueError):  # reported when they are tested on
            test_marks += [load_album(shelve(file, part="test"), shape).marks] if has_test_part(file.path) else []
    for image in np.flatnonzero(np.isin(train.marks, np.concatenate(test_marks))) if test_marks else ():
        finding.add(train.place(int(image)))
    return (
        [f"{describe_finding(finding, 'equal to pictures to test on')}: remove them on one side"]
        if finding.count
        else []
    )


def _describe_duplicates(*splits: LabelledImages) -> list[str]:
    """Describe duplicate images within each split, and those that have another label the second time."""
    same_label, other_label = Finding(), Finding()
    for images in splits:
        first_by_mark = dict[int, int]()
        for image, mark in enumerate(images.marks.tolist()):
            first_image = first_by_mark.setdefault(mark, image)
            if first_image != image:
                equal_labels = images.labels[first_image] == images.labels[image]
                (same_label if equal_labels else other_label).add(images.place(image))
    findings = [(same_label, "", "remove them, or know that they count twice")]
    findings += [(other_label, " with another label", "correct the label, or remove one of them")]
    return [
        f"{describe_finding(finding, f'equal to an earlier picture{suffix}')}: {remedy}"
        for finding, suffix, remedy in findings
        if finding.count
    ]


def _join_names(names: Sequence[str]) -> str:
    return ", ".join(names[:CLASSES_SHOWN]) + ", ..." * (len(names) > CLASSES_SHOWN)
