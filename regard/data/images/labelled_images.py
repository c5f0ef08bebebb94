"""Labelled images in memory: their classes, the hold-out split, and the order of training."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Int, UInt8
from torch import Tensor

from regard.config.words import suggest_name
from regard.data.examples import Splits, TensorBatch, order_examples, sample_evenly
from regard.data.holdout import hold_out_of_classes, leave_out_measured, picture_keys
from regard.data.images import shortcut as shortcuts
from regard.data.images.album import Album, Shape
from regard.data.images.image_tables import LABEL
from regard.data.images.shortcut import ShortcutConfig
from regard.data.images.sources import ImageSource, PictureFile

STATISTICS_SAMPLE = 4096  # images used to measure mean and deviation
MIN_DEVIATION = 0.01  # least deviation of a channel, so that blank images can be scaled
LABELS_NAMED = 20  # labels named in an error
DEVICE_MEMORY_SHARE = 0.25  # share of free memory on the device that images may take
COPIED_AT_ONCE = 4096  # images that are copied to a device at once


@dataclass(frozen=True)
class LabelledImages:
    """A selection of an album's images, with their classes."""

    album: Album
    numbers: Int[np.ndarray, "images"]
    labels: Int[np.ndarray, "images"]
    marked: Bool[np.ndarray, "images"] | None = None
    """Which of them get the mark of a shortcut."""
    shortcut: ShortcutConfig | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    def place(self, image: int) -> str:
        """Return the place of an image, for messages."""
        return self.album.places[self.numbers[image]]

    def pixels(self, images: Int[np.ndarray, "some"]) -> UInt8[np.ndarray, "some channels size size"]:
        """Return copies of the bytes of these images."""
        copies = self.album.pixels[self.numbers[images]]
        if self.shortcut is None or self.marked is None:
            return copies
        with_mark = self.marked[images]
        copies[with_mark] = shortcuts.draw_mark(copies[with_mark], self.shortcut)
        return copies

    @property
    def size(self) -> int:
        """Pixels on each side of what a model reads."""
        return int(self.album.pixels.shape[-1])

    @property
    def channels(self) -> int:
        """Channels of what a model reads."""
        return int(self.album.pixels.shape[1])

    def choose(
        self, images: Int[np.ndarray, "some"], places: Int[np.ndarray, "some"], *, seed: int
    ) -> tuple[Int[np.ndarray, "some *part"], Int[np.ndarray, "some"]]:
        """Return the images that form the examples at these positions of the training order, and their labels."""
        return images, self.labels[images]

    def render(self, pixels: Tensor, places: Int[Tensor, "some"], *, seed: int) -> Tensor:
        """Return the model's input from the pixels of the examples at these positions."""
        return pixels

    def select(self, selection: np.ndarray) -> LabelledImages:
        """Return some of the images, chosen by number or by a mask."""
        marked = None if self.marked is None else self.marked[selection]
        return LabelledImages(self.album, self.numbers[selection], self.labels[selection], marked, self.shortcut)

    def with_shortcut(self, shortcut: ShortcutConfig, classes: Sequence[str]) -> LabelledImages:
        """Return the same images with the mark of a shortcut in those of its class."""
        if shortcut.label not in classes:
            known_labels = ", ".join(classes[:LABELS_NAMED])
            raise ValueError(
                f"data.shortcut.label is {shortcut.label!r}, which no picture has: choose one of {known_labels}"
            )
        has_label = self.labels == list(classes).index(shortcut.label)
        marked = has_label & shortcuts.choose_pictures(self.marks, shortcut.share)
        return replace(self, marked=marked, shortcut=shortcut)

    @property
    def marks(self) -> Int[np.ndarray, "images"]:
        """Return the digests of the pixels of all images."""
        return self.album.marks[self.numbers]

    def report(self, files: Sequence[PictureFile]) -> dict[str, Any]:
        """Return the files of these images, their number and their fingerprint, as JSON."""
        return {"files": [file.path for file in files], "pictures": len(self), "fingerprint": self.fingerprint}

    @property
    def fingerprint(self) -> str:
        """Return the SHA-256 of the digests and labels of all images."""
        return hashlib.sha256(self.marks.tobytes() + self.labels.astype(np.int64).tobytes()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class ImageSplits(Splits[LabelledImages, LabelledImages]):
    """Images to train on and to validate on, and the statistics of their channels."""

    shape: Shape
    """What a picture is brought to when it is decoded."""
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def size(self) -> int:
        """Return the pixels on each side of the model's input."""
        return self.train.size

    @property
    def channels(self) -> int:
        """Return the channels of the model's input."""
        return self.train.channels


def ordered_classes(shelves: Sequence[ImageSource], album: Album, parent_labels: list[str]) -> list[str]:
    """Return all labels in order: that of the parent model, that of the files, or numerical or alphabetical."""
    present = dict.fromkeys(album.columns[LABEL])
    if parent_labels and present.keys() <= set(parent_labels):
        return parent_labels
    orders = {shelf.classes for shelf in shelves}
    order = next(iter(orders)) if len(orders) == 1 else ()
    if order:
        return [label for label in order if label in present]
    if len(present) < 2:
        only = f"only the class {next(iter(present))!r}" if present else "no class"
        raise ValueError(f"{shelves[0].name} has {only}: give pictures of two classes at least")
    numeric = all(label.isdecimal() for label in present)
    return sorted(present, key=lambda label: (int(label), label) if numeric else (0, label))


def class_numbers(album: Album, classes: Sequence[str]) -> Int[np.ndarray, "images"]:
    """Return the number of each image's class; a label that is not among the classes is an error."""
    numbers = {label: place for place, label in enumerate(classes)}
    for place, label in zip(album.places, album.columns[LABEL], strict=True):
        if label not in numbers:
            remedy = f"correct it, or leave it out{suggest_name(label, classes)}"
            raise ValueError(f"{place}: the label {label!r} is never learnt: {remedy}")
    return np.array([numbers[label] for label in album.columns[LABEL]], np.int64)


def hold_out_images(images: LabelledImages, share: float, seed: int) -> tuple[LabelledImages, LabelledImages]:
    """Split off a share of each class by content: at least one image, never all."""
    is_held_out = hold_out_of_classes(picture_keys(images.marks, seed), images.labels, share)
    if not is_held_out.any():
        raise ValueError(f"{images.place(0)}: too few different pictures to hold some out: give more, or data.valid")
    return images.select(~is_held_out), images.select(is_held_out)


def choose_training_images(
    train: LabelledImages, valid: LabelledImages, most: int | None, *, seed: int
) -> tuple[LabelledImages, list[str]]:
    """Remove training images that equal validation images, and take at most `most` of the others."""
    is_unseen, notes = leave_out_measured(train.marks, valid.marks, train.place)
    train = train.select(is_unseen)
    return train if most is None else limit_images(train, most, seed), notes


def limit_images(images: LabelledImages, most: int, seed: int) -> LabelledImages:
    """Return `most` images with classes as balanced as possible, the same for the same seed."""
    ranks, rounds = picture_keys(images.marks, seed + 1), np.zeros(len(images), np.int64)
    for label in np.unique(images.labels):
        members = np.flatnonzero(images.labels == label)
        rounds[members[np.argsort(ranks[members], kind="stable")]] = np.arange(len(members))
    order = np.lexsort((images.labels, rounds))[:most]
    return images.select(np.sort(order))


def channel_statistics(train: Any, mean: Any, std: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation of every channel, as given or as measured on a sample."""
    if mean is None or std is None:
        sample = train.pixels(np.array(sample_evenly(range(len(train)), STATISTICS_SAMPLE))) / 255
        mean = mean or [round(float(value), 4) for value in sample.mean((0, 2, 3))]
        std = std or [max(MIN_DEVIATION, round(float(value), 4)) for value in sample.std((0, 2, 3))]
    return tuple(map(float, mean)), tuple(map(float, std))


def training_row(
    images: LabelledImages, row: int, *, batch: int, seed: int
) -> tuple[Int[np.ndarray, "some"], Int[np.ndarray, "some"]]:
    """Return the images of a training row, and their positions in the order of training.

    The order is a sequence of permutations, so that every row is full, and a pure function of seed and row.
    """
    places = np.arange(row * batch, (row + 1) * batch)
    return order_examples(places, len(images), seed=seed), places


@dataclass(frozen=True)
class ImageBatch(TensorBatch):
    """A batch of images: numbers, positions in the training order, labels, and bytes unless they are on the device.

    A scattered scene has several images: the one that labels it and those from which the rest is made.
    """

    numbers: Int[Tensor, "image *part"]
    places: Int[Tensor, "image"]
    labels: Int[Tensor, "image"]
    pixels: UInt8[Tensor, "image *part channels size size"] | None = None
    group: ClassVar[int] = 2
    """Pictures are mixed in pairs."""


def copy_to_device(images: LabelledImages, device: torch.device) -> Tensor | None:
    """Return all training images as a tensor on the GPU if they fit; None elsewhere, where they stay in the cache."""
    if device.type != "cuda":
        return None
    shape = images.album.pixels.shape[1:]
    free_memory, _ = torch.cuda.mem_get_info(device)
    if len(images) * math.prod(shape) > DEVICE_MEMORY_SHARE * free_memory:
        return None
    device_pixels = torch.empty((len(images), *shape), dtype=torch.uint8, device=device)
    for start in range(0, len(images), COPIED_AT_ONCE):
        chunk = np.arange(start, min(start + COPIED_AT_ONCE, len(images)))
        device_pixels[chunk[0] : chunk[-1] + 1] = torch.from_numpy(images.pixels(chunk)).to(device)
    return device_pixels
