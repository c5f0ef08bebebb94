"""Scenes in the place of single pictures: what they are made of, how they are labelled, and those measured on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from regard.data.pictures.album import Shape, first_looks
from regard.data.pictures.scatter import ScatterConfig, draw_companions, label_sums, scenes
from regard.data.pictures.shelves import PictureFile, shelve
from regard.tasks.vision import preparing
from regard.tasks.vision.preparing import PicturesConfig, Prepared, Side
from regard.training.task import sample_evenly

CHUNK = 512  # scenes made at a time
LOOKED = 16  # pictures whose size is looked at before scenes are made of them
FIXED = 0xF17EDD16175CE4E5  # a seed apart: scenes that are measured on are none of training


@dataclass(frozen=True)
class Scenes:
    """How scenes are made of the pictures of a side, and what they show."""

    how: ScatterConfig
    singles: Sequence[str]
    """Labels of single pictures, in their order."""

    @property
    def classes(self) -> list[str]:
        """Labels of scenes."""
        return list(self.singles) if self.how.count == 1 else label_sums(self.singles, self.how.count)

    def chosen(
        self, side: Side, own: Int[np.ndarray, "scene"], places: Int[np.ndarray, "scene"], *, seed: int
    ) -> Int[np.ndarray, "scene picture"]:
        """Numbers of the pictures that make scenes, their own first."""
        numbers, turns = torch.from_numpy(own), torch.from_numpy(places)
        return draw_companions(self.how, numbers, turns, len(side), seed=seed).numpy()

    def labels(
        self, side: Side, chosen: Int[np.ndarray, "scene picture"], classes: Sequence[str]
    ) -> Int[np.ndarray, "scene"]:
        """What scenes made of these show: the label of one picture, or the sum of several."""
        shown = side.labels[chosen[:, : self.how.count]]
        if self.how.count == 1:
            return shown[:, 0]
        totals = np.array([int(label) for label in self.singles])[shown].sum(1)
        known = {label: place for place, label in enumerate(classes)}
        if odd := [str(total) for total in np.unique(totals) if str(total) not in known]:
            raise ValueError(f"{side.place(0)}: the sum {odd[0]!r} is never learnt: measure on labels that were")
        return np.array([known[str(total)] for total in totals])

    def made(
        self,
        pictures: UInt8[Tensor, "scene picture channels size size"],
        places: Int[Tensor, "scene"],
        *,
        seed: int,
    ) -> UInt8[Tensor, "scene shades side side"]:
        """The scenes at these places of an order."""
        return scenes(self.how, pictures, places, seed=seed)

    def fixed(self, side: Side, classes: Sequence[str]) -> Side:
        """One scene for each picture, always the same: what a model is measured on."""
        seed, pixels, labels = self.how.seed ^ FIXED, list[np.ndarray](), list[np.ndarray]()
        for first in range(0, len(side), CHUNK):
            own = np.arange(first, min(first + CHUNK, len(side)))
            chosen = self.chosen(side, own, own, seed=seed)
            pictures = side.pixels(chosen.ravel()).reshape(*chosen.shape, *side.album.pixels.shape[1:])
            pixels.append(self.made(*map(torch.from_numpy, (pictures, own)), seed=seed).numpy())
            labels.append(self.labels(side, chosen, classes))
        album = replace(
            side.album,
            pixels=np.concatenate(pixels),
            marks=side.marks,
            places=[side.place(picture) for picture in range(len(side))],
            sides=np.full(len(side), self.how.size),
        )
        return Side(album, np.arange(len(side)), np.concatenate(labels))


@dataclass(frozen=True, kw_only=True)
class ScatteredSide(Side):
    """Pictures to learn from, of which scenes are made as they are asked for."""

    scenes: Scenes
    classes: Sequence[str]
    """Labels of scenes."""

    @property
    def size(self) -> int:
        """Pixels on each side of a scene."""
        return self.scenes.how.size

    @property
    def channels(self) -> int:
        """Numbers of a pixel of a scene."""
        return self.scenes.how.channels(super().channels)

    def choose(
        self, pictures: Int[np.ndarray, "some"], places: Int[np.ndarray, "some"], *, seed: int
    ) -> tuple[Int[np.ndarray, "some *part"], Int[np.ndarray, "some"]]:
        """Return the pictures that make the scenes at these places, their own first, and what the scenes show."""
        chosen = self.scenes.chosen(self, pictures, places, seed=seed)
        return chosen, self.scenes.labels(self, chosen, self.classes)

    def render(self, pixels: Tensor, places: Int[Tensor, "some"], *, seed: int) -> Tensor:
        """Return the scenes at these places."""
        return self.scenes.made(pixels, places, seed=seed)


def prepare(config: PicturesConfig, how: ScatterConfig, known: Mapping[str, Any] | None = None) -> Prepared:
    """Pictures to learn from that make scenes, and scenes to measure on."""
    single = {**(known or {}), **({"labels": ()} if how.count > 1 else {})}  # sums are no labels of single pictures
    found = replace(preparing.prepare(config, single), fresh=not known)
    how.check(found.shape.size, found.shape.channels)
    made = Scenes(how, found.classes)
    classes, before = made.classes, (known or {}).get("data") or {}
    channels, seen = how.channels(found.shape.channels), len(before.get("mean") or ())
    if seen and seen != channels:
        raise ValueError(
            f"the model to start from sees {seen} numbers of a pixel, and these scenes have {channels}: leave out "
            "--from, or give data.scatter.colours as it had"
        )
    some = made.fixed(found.train.kept(np.array(sample_evenly(range(len(found.train)), preparing.MEASURED))), classes)
    mean, std = preparing.scales(some, *(getattr(config, name) or before.get(name) for name in ("mean", "std")))
    (few, most), each = how.scraps, ", each in a colour of its own" * how.colours
    note = f"scattered: scenes of {how.size} x {how.size} with {how.count} of them and {few} to {most} scraps of others"
    album = replace(found.train.album, sides=np.full(len(found.train.album), how.size))  # of what a model sees
    train = ScatteredSide(album, found.train.numbers, found.train.labels, scenes=made, classes=classes)
    return replace(
        found,
        classes=classes,
        train=train,
        valid=made.fixed(found.valid, classes),
        mean=mean,
        std=std,
        summary=[*found.summary, note + each],
    )


def are_scenes(paths: Sequence[PictureFile], size: int, how: ScatterConfig) -> bool:
    """Whether pictures are as large as scenes, where single ones would have another size."""
    shelves = [shelve(file, part="test") for file in paths]
    sizes = {(look.width, look.height) for shelf in shelves for look in first_looks(shelf, LOOKED)}
    return sizes == {(how.size, how.size)} and how.size != size


def read(
    paths: Sequence[PictureFile], shape: Shape, classes: list[str], how: ScatterConfig, *, reject: float | None
) -> Side:
    """Scenes to score a model on, made of labelled pictures."""
    singles = classes
    if how.count > 1:  # the least sum and the greatest are those of equal labels
        least, greatest = (int(each) // how.count for each in (classes[0], classes[-1]))
        singles = [str(label) for label in range(least, greatest + 1)]
    side = preparing.read(paths, shape, singles, reject=reject)
    how.check(shape.size, shape.channels)
    return Scenes(how, singles).fixed(side, classes)
