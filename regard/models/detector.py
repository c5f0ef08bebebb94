"""Small convolutional networks: one classifies and locates a digit in a picture, the other counts in every frame.

Convolutions: LeCun et al. 1998. Group norms instead of batch norms (Wu and He 2018), so that the prediction for a
picture does not depend on the other pictures of its batch.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.config.ranges import Range, Share, Small, Vocabulary, Width, check_affordable
from regard.config.resuming import Warned
from regard.models.interface import Model, ModelConfig, Traits
from regard.models.parts.cells import Kind, Layers

GROUPS = 4


@dataclass(frozen=True, kw_only=True)
class LocatorConfig(ModelConfig):
    """Convolutions, then a class and a box."""

    name: Literal["class-and-box"] = "class-and-box"
    """Which model this is."""
    size: Annotated[int, Range(0, 4096)] = 0
    """Pixels on each side of a picture; filled in from the data."""
    classes: Annotated[int, Range(2, 10_000_000)] = 10
    """Number of classes."""
    channels: tuple[Width, ...] = (16, 32, 64, 64)
    """Features of each stage of convolutions; a stage halves the sides. Multiples of 4."""
    width: Width = 128
    """Features that the box is predicted from."""
    dropout: Warned[Share] = 0.0
    """Dropout rate of the output of the convolutions."""

    def __post_init__(self) -> None:
        _check(self.channels, self.size, self.width)


@dataclass(frozen=True, kw_only=True)
class CounterConfig(ModelConfig):
    """Convolutions in every frame, recurrent layers over the frames, then a count."""

    name: Literal["count-per-frame"] = "count-per-frame"
    """Which model this is."""
    size: Annotated[int, Range(0, 4096)] = 0
    """Pixels on each side of a frame; filled in from the data."""
    most: Vocabulary = 0
    """The highest count; filled in from the data."""
    channels: tuple[Width, ...] = (16, 32, 32)
    """Features of each stage of convolutions; a stage halves the sides. Multiples of 4."""
    cell: Kind | Literal["none"] = "gru"
    """Recurrent cell that carries a state from frame to frame; none: each frame is counted by itself."""
    width: Width = 96
    """Features of a frame, and of a layer's state."""
    depth: Small = 1
    """Recurrent layers on top of one another; without a cell, plain ones."""
    dropout: Warned[Share] = 0.0
    """Dropout rate, applied to the features of a frame and between layers."""

    def __post_init__(self) -> None:
        _check(self.channels, self.size, self.width, self.depth)


def _check(channels: tuple[int, ...], size: int, width: int, depth: int = 0) -> None:
    if not channels or any(channel < GROUPS or channel % GROUPS for channel in channels):
        raise ValueError(f"channels must be multiples of {GROUPS}, one for each stage, not {list(channels)}")
    if size and Convolutions.count_flat_features(channels, size) < 1:
        raise ValueError(f"{len(channels)} stages leave nothing of {size} pixels: leave some of model.channels out")
    layers = 9 * sum(before * after for before, after in itertools.pairwise((1, *channels)))
    flat = Convolutions.count_flat_features(channels, size) if size else 0
    check_affordable(layers + flat * width + 8 * depth * width**2, "lower width, depth or channels")


class Convolutions(nn.Module):
    """Stages of convolutions that halve the sides of the map: the first by a stride of 2, the others by max-pooling."""

    def __init__(self, channels: tuple[int, ...]):
        super().__init__()
        first, *others = channels
        stages = [nn.Conv2d(1, first, 5, stride=2, padding=2), nn.GroupNorm(GROUPS, first), nn.ReLU()]
        for before, after in zip(channels, others, strict=False):
            stages += [nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(GROUPS, after), nn.ReLU(), nn.MaxPool2d(2)]
        self.stages = nn.Sequential(*stages)

    def forward(self, pictures: Float[Tensor, "batch height width"]) -> Float[Tensor, "batch features rows columns"]:
        """Return a coarse map of features."""
        return self.stages(pictures[:, None] - 0.5)

    @staticmethod
    def count_flat_features(channels: tuple[int, ...], size: int) -> int:
        """Return the number of features of a whole flattened map."""
        side = -(-size // 2) >> (len(channels) - 1)
        return channels[-1] * side**2


class ClassAndBox(Model):
    """A network that predicts the class in a picture and its box, with shared convolutions.

    The class does not depend on the position: it is predicted from the maximum of every feature over the map, the box
    from the whole map.
    """

    traits = Traits(capturable=False)  # training is shorter than compilation

    def __init__(self, config: LocatorConfig):
        super().__init__()
        self.config = config
        self.convolutions = Convolutions(config.channels)
        self.dropout = nn.Dropout(config.dropout)
        self.label = nn.Linear(config.channels[-1], config.classes)
        self.flat = nn.Linear(Convolutions.count_flat_features(config.channels, config.size), config.width)
        self.box = nn.Linear(config.width, 4)

    def forward(
        self, pictures: Float[Tensor, "batch height width"]
    ) -> tuple[Float[Tensor, "batch classes"], Float[Tensor, "batch 4"]]:
        """Return the logits of the classes, and the box: left, top, right, bottom as shares of the side."""
        maps = self.convolutions(pictures)
        features = torch.relu(self.flat(self.dropout(maps.flatten(1))))
        centre, sides = self.box(features).float().sigmoid().split(2, -1)
        return self.label(self.dropout(maps.amax((-2, -1)))), torch.cat([centre - sides / 2, centre + sides / 2], -1)


class CountPerFrame(Model):
    """A network that predicts a count in each frame, given the frames before it: N inputs, N outputs."""

    traits = Traits(capturable=False)  # training is shorter than compilation

    def __init__(self, config: CounterConfig):
        super().__init__()
        self.config = config
        self.convolutions = Convolutions(config.channels)
        self.flat = nn.Linear(Convolutions.count_flat_features(config.channels, config.size), config.width)
        self.dropout = nn.Dropout(config.dropout)
        kind, width, depth = config.cell, config.width, config.depth
        self.layers = None if kind == "none" else Layers(kind, width, width, depth=depth, dropout=config.dropout)
        plain = [] if self.layers else [module for _ in range(depth) for module in (nn.Linear(width, width), nn.ReLU())]
        self.count = nn.Sequential(*plain, nn.Linear(width, config.most + 1))

    def forward(
        self, frames: Float[Tensor, "batch time rows columns"], state: Float[Tensor, "batch parts width"] | None = None
    ) -> tuple[Float[Tensor, "batch time counts"], Float[Tensor, "batch parts width"] | None]:
        """Return the logits of every count in every frame, and the state to continue from; None without a cell."""
        maps = self.convolutions(frames.flatten(0, 1)).flatten(1)
        features = self.dropout(torch.relu(self.flat(maps))).unflatten(0, frames.shape[:2])
        if self.layers is None:
            return self.count(features), None
        with torch.autocast(features.device.type, enabled=False):  # errors of all frames accumulate in the state
            features, state = self.layers(features.float(), state)
        return self.count(features), state
