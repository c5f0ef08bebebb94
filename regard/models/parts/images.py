"""The parts shared by image models: the settings and check of their input, and convolutions with norms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any

from jaxtyping import Float
from torch import Tensor, nn

from regard.config.ranges import Range
from regard.models.interface import Model
from regard.models.parts.batch_norm import RunningNorm

Side = Annotated[int, Range(0, 4096)]
"""Pixels on each side of a picture; 0 until the data is known."""
Channels = Annotated[int, Range(1, 64)]
"""Channels of an image."""
Plane = tuple[int, int]  # rows and columns
Activation = Callable[[Tensor], Tensor]


def check(config: Any, pixels: Float[Tensor, "batch channels rows columns"]) -> None:
    """Raise ValueError for images of another size than the model's."""
    side = config.size
    if pixels.shape[1:] != (config.channels, side, side):
        shape = " x ".join(map(str, pixels.shape[1:]))
        raise ValueError(f"pictures of {shape}, and the model reads {config.channels} x {side} x {side}")


def halvings(side: int, times: int) -> int:
    """Return the length of a side after halving it `times` times, rounding up."""
    return -(-side // 2**times)


class Convolved(nn.Module):
    """A convolution without bias, a norm with running statistics, and an activation if there is one."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        *,
        stride: int = 1,
        groups: int = 1,
        eps: float = 1e-5,
        activation: Activation | None = None,
    ):
        super().__init__()
        self.convolution = nn.Conv2d(
            inputs, outputs, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False
        )
        nn.init.normal_(self.convolution.weight, std=math.sqrt(2 * groups / (kernel**2 * outputs)))  # He et al. 2015
        self.norm = RunningNorm(outputs, eps=eps)
        self.activation = activation

    def forward(self, x: Float[Tensor, "batch inputs rows columns"]) -> Float[Tensor, "batch outputs y x"]:
        """Return a normalised map of features."""
        y = self.norm(self.convolution(x))
        return y if self.activation is None else self.activation(y)


class Convolutional(Model):
    """A convolutional classifier whose last map gives the regions, with their mean as the head's input."""

    config: Any
    head: nn.Module
    dropout: nn.Module

    def maps(self, pixels: Float[Tensor, "batch channels rows columns"]) -> Float[Tensor, "batch features y x"]:
        """Return the last map of features."""
        raise NotImplementedError

    @property
    def grid(self) -> Plane:
        """Rows and columns of regions."""
        return self.config.plane

    @property
    def width(self) -> int:
        """Features of a region."""
        return self.config.features

    def forward(self, pixels: Float[Tensor, "batch channels rows columns"]) -> Float[Tensor, "batch classes"]:
        """Return the logits of the classes, for normalised pixels."""
        check(self.config, pixels)
        return self.head(self.dropout(self.pool_features(self.maps(pixels))))

    def pool_features(self, maps: Float[Tensor, "batch features y x"]) -> Float[Tensor, "batch out"]:
        """Return one vector for each picture."""
        return maps.mean((2, 3))

    @property
    def averages(self) -> bool:
        """True if the head reads the mean of the regions."""
        return True

    def early(self, pixels: Float[Tensor, "batch channels rows columns"]) -> Float[Tensor, "batch region features"]:
        """Return the last features of which all contribute to the prediction."""
        return self.regions(pixels)

    def late(self, tokens: Float[Tensor, "batch region features"]) -> Float[Tensor, "batch classes"]:
        """Return the logits of the classes from the features of `early`."""
        return self.head(self.dropout(self.pool_features(tokens.mT.unflatten(2, self.grid))))

    def regions(self, pixels: Float[Tensor, "batch channels rows columns"]) -> Float[Tensor, "batch region features"]:
        """Return the last map row by row."""
        check(self.config, pixels)
        return self.maps(pixels).flatten(2).transpose(1, 2)
