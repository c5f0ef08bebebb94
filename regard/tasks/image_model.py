"""Protocols of image models that explanations and evaluations rely on."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, runtime_checkable

from jaxtyping import Float, UInt8
from torch import Tensor

from regard.interpret.items import Item

IMAGE_CLASSIFICATION = "pictures"  # the task of such a classifier


@runtime_checkable
class ImageModel(Protocol):
    """An image classifier with the preparation of its images."""

    task: ClassVar[str]
    name: str
    model: Any
    classes: list[str]
    temperature: float

    def normalise(self, pixels: UInt8[Tensor, "batch channels size size"]) -> Tensor:
        """Return bytes as normalised inputs of the model."""

    def logits(self, pixels: UInt8[Tensor, "batch channels size size"]) -> Float[Tensor, "batch classes"]:
        """Return the logits of images given as bytes."""

    def patch_items(self) -> list[Item]:
        """Return the model's patches as items."""


@runtime_checkable
class BoxModel(Protocol):
    """A model that was trained to predict boxes."""

    name: str
    model: Any

    def boxes(self, shades: Float[Tensor, "image height width"]) -> Float[Tensor, "image 4"]:
        """Return a box for each image, as shares of the sides."""
