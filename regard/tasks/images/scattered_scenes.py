"""Scenes made of labelled images scattered over a background: their images, their labels, and scenes to evaluate on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from regard.data.examples import sample_evenly
from regard.data.images import image_dataset, labelled_images
from regard.data.images.album import Shape, sample_headers
from regard.data.images.image_dataset import ImageDataConfig
from regard.data.images.labelled_images import ImageSplits, LabelledImages
from regard.data.images.scattering import ScatterConfig, draw_companions, label_sums, scenes
from regard.data.images.sources import PictureFile, shelve

SCENES_PER_BATCH = 512  # scenes rendered at a time
HEADERS_READ = 16  # headers read to find the size of the images
EVALUATION_SEED = 0xF17EDD16175CE4E5  # differs from the seed of training scenes


@dataclass(frozen=True)
class ScatteredScenes:
    """Settings by which scenes are made of images, and the labels of these images."""

    how: ScatterConfig
    single_labels: Sequence[str]
    """Labels of single images, in the order of their numbers."""

    @property
    def classes(self) -> list[str]:
        """Labels of scenes."""
        return list(self.single_labels) if self.how.count == 1 else label_sums(self.single_labels, self.how.count)

    def choose_images(
        self,
        source: LabelledImages,
        image_numbers: Int[np.ndarray, "scene"],
        places: Int[np.ndarray, "scene"],
        *,
        seed: int,
    ) -> Int[np.ndarray, "scene image"]:
        """Return the numbers of the images in each scene, starting with the given one."""
        numbers, turns = torch.from_numpy(image_numbers), torch.from_numpy(places)
        return draw_companions(self.how, numbers, turns, len(source), seed=seed).numpy()

    def labels(
        self, source: LabelledImages, chosen: Int[np.ndarray, "scene image"], classes: Sequence[str]
    ) -> Int[np.ndarray, "scene"]:
        """Return the labels of scenes made of these images: the label of one image, or the sum of several."""
        component_labels = source.labels[chosen[:, : self.how.count]]
        if self.how.count == 1:
            return component_labels[:, 0]
        totals = np.array([int(label) for label in self.single_labels])[component_labels].sum(1)
        class_numbers = {label: number for number, label in enumerate(classes)}
        if unknown_sums := [str(total) for total in np.unique(totals) if str(total) not in class_numbers]:
            raise ValueError(
                f"{source.place(0)}: the sum {unknown_sums[0]!r} is never learnt: measure on labels that were"
            )
        return np.array([class_numbers[str(total)] for total in totals])

    def render_scenes(
        self,
        images: UInt8[Tensor, "scene image channels size size"],
        places: Int[Tensor, "scene"],
        *,
        seed: int,
    ) -> UInt8[Tensor, "scene shades side side"]:
        """Render the scenes at these positions in the training order."""
        return scenes(self.how, images, places, seed=seed)

    def fixed_scenes(self, source: LabelledImages, classes: Sequence[str]) -> LabelledImages:
        """Return one fixed scene for each image, to evaluate a model on."""
        seed, pixels, labels = self.how.seed ^ EVALUATION_SEED, list[np.ndarray](), list[np.ndarray]()
        for first in range(0, len(source), SCENES_PER_BATCH):
            numbers = np.arange(first, min(first + SCENES_PER_BATCH, len(source)))
            chosen = self.choose_images(source, numbers, numbers, seed=seed)
            images = source.pixels(chosen.ravel()).reshape(*chosen.shape, *source.album.pixels.shape[1:])
            pixels.append(self.render_scenes(*map(torch.from_numpy, (images, numbers)), seed=seed).numpy())
            labels.append(self.labels(source, chosen, classes))
        album = replace(
            source.album,
            pixels=np.concatenate(pixels),
            marks=source.marks,
            places=[source.place(image) for image in range(len(source))],
            sides=np.full(len(source), self.how.size),
        )
        return LabelledImages(album, np.arange(len(source)), np.concatenate(labels))


@dataclass(frozen=True, kw_only=True)
class ScatteredImages(LabelledImages):
    """Training images that are rendered as scenes on demand."""

    scenes: ScatteredScenes
    classes: Sequence[str]
    """Labels of scenes."""

    @property
    def size(self) -> int:
        """Pixels on each side of a scene."""
        return self.scenes.how.size

    @property
    def channels(self) -> int:
        """Channels of a scene."""
        return self.scenes.how.channels(super().channels)

    def choose(
        self, images: Int[np.ndarray, "some"], places: Int[np.ndarray, "some"], *, seed: int
    ) -> tuple[Int[np.ndarray, "some *part"], Int[np.ndarray, "some"]]:
        """Return the numbers of the images in the scenes at these positions, and the labels of the scenes."""
        chosen = self.scenes.choose_images(self, images, places, seed=seed)
        return chosen, self.scenes.labels(self, chosen, self.classes)

    def render(self, pixels: Tensor, places: Int[Tensor, "some"], *, seed: int) -> Tensor:
        """Return the scenes at these positions in the training order."""
        return self.scenes.render_scenes(pixels, places, seed=seed)


def prepare(config: ImageDataConfig, how: ScatterConfig, parent_config: Mapping[str, Any] | None = None) -> ImageSplits:
    """Prepare the images of training scenes, and fixed validation scenes."""
    without_sums = {"labels": ()} if how.count > 1 else {}  # the parent's labels are sums, not labels of single images
    single_config = {**(parent_config or {}), **without_sums}
    singles = replace(image_dataset.prepare(config, single_config), fresh=not parent_config)
    how.check(singles.shape.size, singles.shape.channels)
    scattered = ScatteredScenes(how, singles.classes)
    classes, parent_data = scattered.classes, (parent_config or {}).get("data") or {}
    channels, parent_channels = how.channels(singles.shape.channels), len(parent_data.get("mean") or ())
    if parent_channels and parent_channels != channels:
        raise ValueError(
            f"the model to start from sees {parent_channels} numbers of a pixel, and these scenes have {channels}: "
            "leave out --from, or give data.scatter.colours as it had"
        )
    sampled = np.array(sample_evenly(range(len(singles.train)), labelled_images.STATISTICS_SAMPLE))
    sample = scattered.fixed_scenes(singles.train.select(sampled), classes)
    statistics = (getattr(config, name) or parent_data.get(name) for name in ("mean", "std"))
    mean, std = labelled_images.channel_statistics(sample, *statistics)
    (min_scraps, max_scraps), colour_note = how.scraps, ", each in a colour of its own" * how.colours
    size_note = f"scattered: scenes of {how.size} x {how.size} with {how.count} of them"
    note = f"{size_note} and {min_scraps} to {max_scraps} scraps of others{colour_note}"
    album = replace(singles.train.album, sides=np.full(len(singles.train.album), how.size))  # the size of a scene
    train = ScatteredImages(album, singles.train.numbers, singles.train.labels, scenes=scattered, classes=classes)
    return replace(
        singles,
        classes=classes,
        train=train,
        valid=scattered.fixed_scenes(singles.valid, classes),
        mean=mean,
        std=std,
        summary=[*singles.summary, note],
    )


def are_scenes(paths: Sequence[PictureFile], size: int, how: ScatterConfig) -> bool:
    """True if all images have the size of scenes, and single images have another size."""
    shelves = [shelve(file, part="test") for file in paths]
    sizes = {(header.width, header.height) for shelf in shelves for header in sample_headers(shelf, HEADERS_READ)}
    return sizes == {(how.size, how.size)} and how.size != size


def read(
    paths: Sequence[PictureFile], shape: Shape, classes: list[str], how: ScatterConfig, *, reject: float | None
) -> LabelledImages:
    """Read labelled images and make the scenes to score a model on."""
    single_labels = classes
    if how.count > 1:  # the smallest and the largest sum are sums of equal labels
        smallest, greatest = (int(extreme) // how.count for extreme in (classes[0], classes[-1]))
        single_labels = [str(label) for label in range(smallest, greatest + 1)]
    images = image_dataset.read(paths, shape, single_labels, reject=reject)
    how.check(shape.size, shape.channels)
    return ScatteredScenes(how, single_labels).fixed_scenes(images, classes)
