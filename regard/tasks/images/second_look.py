"""A second look at an image: the brightest part of its map, enlarged, is classified once more.

An eye sees sharply in its fovea alone and turns it to what matters. Here the first look, over the whole image, says
where that is; the second reads that part in the resolution that the file has. No part of it is learnt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from regard.attention.hardware import device_of
from regard.config.words import suggest_name
from regard.data.images.album import Shape
from regard.interpret.measure import maps
from regard.tasks.image_inputs import ImageInput, decode_images
from regard.tasks.image_model import ImageModel
from regard.tasks.supervised.prediction import Prediction

Box = tuple[float, float, float, float]
MAX_ZOOM = 8


@dataclass(frozen=True, kw_only=True)
class SecondLookOptions:
    """Options of a second look at an image."""

    zoom: int = 2
    """How many times the part is enlarged, from 2 to 8."""
    about: str | None = None
    """The label whose evidence says where to look; null: the answer of the first look."""
    method: str | None = None
    """The kind of map that says where; null: the last of those that fit the model."""


@dataclass(frozen=True)
class SecondLook:
    """Both predictions, with the pixels and the box they are based on."""

    first: Prediction
    second: Prediction
    box: Box
    """The crop: left, top, right, bottom as shares of the image's sides."""
    method: str
    whole: UInt8[Tensor, "channels size size"]
    part: UInt8[Tensor, "channels size size"]

    def plain(self) -> dict[str, Any]:
        """Return everything as JSON."""
        first, second = self.first.plain(), self.second.plain()
        return {"method": self.method, "box": list(self.box), "first": first, "second": second}


class PixelClassifier(ImageModel, Protocol):
    """An image classifier that predicts from bytes, with the settings by which images are decoded for it."""

    shape: Shape
    patch: int

    def predict_pixels(
        self, names: Sequence[ImageInput], pixels: UInt8[Tensor, "images channels size size"]
    ) -> Sequence[Prediction]:
        """Classify decoded images."""


def look_again(classifier: PixelClassifier, image: ImageInput, options: SecondLookOptions) -> SecondLook:
    """Classify an image, then an enlarged crop around the maximum of its evidence map."""
    zoom, about, methods = options.zoom, options.about, maps.methods(classifier.model)
    if not 2 <= zoom <= MAX_ZOOM:
        raise ValueError(f"zoom must be from 2 to {MAX_ZOOM}, not {zoom}")
    if about is not None and about not in classifier.classes:
        raise ValueError(f"{about!r} is no label of {classifier.name}{suggest_name(about, classifier.classes)}")
    method = options.method or methods[-1]
    if method not in methods:
        raise ValueError(f"no map called {method} fits {classifier.name}: choose {' or '.join(methods)}")
    whole = torch.from_numpy(decode_images([image], classifier.shape, patch=classifier.patch))
    [first] = classifier.predict_pixels([image], whole)
    device = device_of(classifier.model)
    label = torch.tensor([classifier.classes.index(about or first.label)], device=device)
    pixels = classifier.normalise(whole.to(device))
    evidence = maps.evidence_maps(classifier.model, pixels, label, method)[0].cpu()
    box = brightest_box(evidence, zoom)
    part = _cut_out(image, classifier.shape, classifier.patch, box, zoom)
    [second] = classifier.predict_pixels([image], part)
    return SecondLook(first, second, box, method, whole[0], part[0])


def brightest_box(evidence: Float[Tensor, "rows columns"], zoom: int) -> Box:
    """Return the box of 1/`zoom` of each side around the maximum, shifted so that it lies inside the image."""
    rows, columns = evidence.shape
    row, column = divmod(int(evidence.flatten().argmax()), columns)
    centres = (column + 0.5) / columns, (row + 0.5) / rows
    left, top = (min(max(centre - 0.5 / zoom, 0.0), 1 - 1 / zoom) for centre in centres)
    return left, top, left + 1 / zoom, top + 1 / zoom


def _cut_out(image: ImageInput, shape: Shape, patch: int, box: Box, zoom: int) -> UInt8[Tensor, "1 channels size size"]:
    """Decode the image at `zoom` times the size, with the framing of the first look, and crop it."""
    large = torch.from_numpy(decode_images([image], shape._replace(size=shape.size * zoom), patch=patch))
    left, top = (round(share * shape.size * zoom) for share in box[:2])
    return large[:, :, top : top + shape.size, left : left + shape.size].contiguous()
