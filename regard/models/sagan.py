"""SAGAN: pictures generated from noise and a label, with self-attention between their places (Zhang et al. 2019).

A generator makes pictures, a discriminator distinguishes them from real ones, and each learns from the other. Both are
convolutional residual networks with spectral norms (Miyato et al. 2018); the generator knows the class by its norms,
the discriminator by a projection (Miyato and Koyama 2018). Attention makes distant places of a map consistent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.multihead import Heads, MultiHead
from regard.attention.scores import dot
from regard.config.ranges import Range, Vocabulary, check_affordable
from regard.models.interface import Model, ModelConfig, Traits
from regard.models.parts.batch_norm import ClassNorm, RunningNorm
from regard.models.parts.images import Channels, Plane, Side, check
from regard.models.parts.spectral_norm import add_spectral_norm

SHARE = 8  # the width over that of queries and keys

Maps = Annotated[int, Range(1, 4096)]
"""Number of feature maps."""


@dataclass(frozen=True, kw_only=True)
class SAGANConfig(ModelConfig):
    """A generator and a discriminator of pictures."""

    name: Literal["sagan"] = "sagan"
    """Which model this is."""
    classes: Vocabulary = 0
    """Number of classes; filled in from the data."""
    channels: Channels = 1
    """Numbers of a pixel: 3 of colours, 1 of grey."""
    size: Side = 0
    """Pixels on each side of a picture; filled in from the data."""
    noise: Annotated[int, Range(1, 4096)] = 128
    """Random numbers that a picture is made of."""
    widths: tuple[Maps, ...] = (256, 128, 128)
    """Features of the generator's maps, from the smallest to that of the picture's size, each twice as large as the one
    before on each side; the discriminator's run the other way."""
    attention: bool = True
    """Self-attention in both, at half the picture's size."""

    def __post_init__(self) -> None:
        times = 2 ** (len(self.widths) - 1)
        if not 2 <= len(self.widths) <= 8:
            raise ValueError(f"widths has {len(self.widths)} maps: give from 2 to 8, such as 256, 128, 128")
        if self.size % times:
            near = max(1, round(self.size / times)) * times
            raise ValueError(
                f"pictures of {self.size} x {self.size} cannot be doubled to from {len(self.widths)} maps: "
                f"set data.size to a multiple of {times} ({near}), or give other widths"
            )
        if self.attention and (odd := [width for width in (self.widths[-2], self.widths[-1]) if width < SHARE]):
            raise ValueError(f"attention over {odd[0]} features: queries have an eighth of them, give {SHARE} or more")
        check_affordable(self.parameters, "lower widths")

    @property
    def smallest(self) -> int:
        """Rows and columns of the first map."""
        return self.size >> (len(self.widths) - 1)

    @property
    def grid(self) -> Plane:
        """Return the rows and columns of the map with self-attention."""
        return self.size // 2, self.size // 2

    @property
    def parameters(self) -> int:
        """Return the approximate number of parameters."""
        blocks = sum(10 * inputs * outputs + 9 * outputs * outputs for inputs, outputs in pairwise(self.widths))
        return 2 * blocks + self.widths[0] * (self.noise * self.smallest**2 + self.classes)

    @property
    def phrase(self) -> str:
        """Return a short description of the model."""
        maps = ", ".join(map(str, self.widths))
        return f"A SAGAN {'with' if self.attention else 'without'} self-attention, maps of {maps} features"


class Attention(nn.Module):
    """`x + gain * attention(x)` over the places of a map; the gain starts at 0, so that at first there is none."""

    def __init__(self, width: int):
        super().__init__()
        shape = Heads(1, depth=width // SHARE, features=max(1, width // 2))
        self.attention = MultiHead(width, shape, bias=False, score=dot)
        self.gain = nn.Parameter(torch.zeros(()))

    def forward(self, x: Float[Tensor, "batch width rows columns"]) -> Float[Tensor, "batch width rows columns"]:
        """Apply attention of every place to all places, by the plain dot product of queries and keys."""
        places = self.attention(x.flatten(2).mT)
        return x + self.gain * places.mT.unflatten(2, x.shape[2:])


class Up(nn.Module):
    """A residual block that doubles the sides of a map."""

    def __init__(self, inputs: int, outputs: int, classes: int):
        super().__init__()
        self.norm1, self.norm2 = ClassNorm(inputs, classes), ClassNorm(outputs, classes)
        self.convolution1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.convolution2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.skip = nn.Conv2d(inputs, outputs, 1)

    def forward(
        self, x: Float[Tensor, "batch inputs rows columns"], labels: Int[Tensor, "batch"]
    ) -> Float[Tensor, "batch outputs y x"]:
        """Return the map, normalised by the classes of the labels."""
        y = self.convolution1(upsample(self.norm1(x, labels).relu()))
        y = self.convolution2(self.norm2(y, labels).relu())
        return y + upsample(self.skip(x))


class Down(nn.Module):
    """A residual block without norms, which halves the sides of a map or keeps them."""

    def __init__(self, inputs: int, outputs: int, *, first: bool = False, halves: bool = True):
        super().__init__()
        self.first, self.halves = first, halves
        self.convolution1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.convolution2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.skip = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: Float[Tensor, "batch inputs rows columns"]) -> Float[Tensor, "batch outputs y x"]:
        """Return the next map; the first block reads pixels without a ReLU."""
        y = self.convolution1(x if self.first else x.relu())
        y = self.convolution2(y.relu())
        return self._downsample(y) + self.skip(self._downsample(x))

    def _downsample(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(x, 2) if self.halves else x


class Generator(nn.Module):
    """A network from noise and a label to a picture with values from -1, black, to 1."""

    def __init__(self, config: SAGANConfig):
        super().__init__()
        widths, self.smallest = config.widths, config.smallest
        self.start = nn.Linear(config.noise, widths[0] * self.smallest**2)
        self.blocks = nn.ModuleList(Up(inputs, outputs, config.classes) for inputs, outputs in pairwise(widths))
        self.attention = Attention(widths[-2]) if config.attention else None
        self.norm = RunningNorm(widths[-1])
        self.picture = nn.Conv2d(widths[-1], config.channels, 3, padding=1)

    def forward(
        self, noise: Float[Tensor, "batch noise"], labels: Int[Tensor, "batch"]
    ) -> Float[Tensor, "batch channels size size"]:
        """Generate a picture of each label."""
        x = self.start(noise).unflatten(1, (-1, self.smallest, self.smallest))
        for block in self.blocks[:-1]:
            x = block(x, labels)
        if self.attention is not None:
            x = self.attention(x)
        x = self.blocks[-1](x, labels)
        return self.picture(self.norm(x).relu()).float().tanh()


class Discriminator(nn.Module):
    """A network from a picture and a label to a score: above 0 for real pictures of that class."""

    def __init__(self, config: SAGANConfig):
        super().__init__()
        widths = config.widths[:0:-1]
        self.first = Down(config.channels, widths[0], first=True)
        self.attention = Attention(widths[0]) if config.attention else None
        self.blocks = nn.ModuleList(Down(inputs, outputs) for inputs, outputs in pairwise(widths))
        self.last = Down(widths[-1], config.widths[0], halves=False)
        self.real = nn.Linear(config.widths[0], 1)
        self.fits = nn.Embedding(config.classes, config.widths[0])

    def forward(
        self, pixels: Float[Tensor, "batch channels size size"], labels: Int[Tensor, "batch"]
    ) -> Float[Tensor, "batch"]:
        """Return `w . h + e(class) . h` of the features `h`, which are summed over all places."""
        x = self.first(pixels)
        x = x if self.attention is None else self.attention(x)
        for block in self.blocks:
            x = block(x)
        h = self.last(x).relu().sum((2, 3))
        return (self.real(h).squeeze(1) + (self.fits(labels) * h).sum(1)).float()


class SAGAN(Model):
    """A generator and a discriminator; after training only the generator is used."""

    traits = Traits(compilable=False)  # a step freezes the part that is not trained

    def __init__(self, config: SAGANConfig):
        super().__init__()
        self.config = config
        self.generator, self.discriminator = Generator(config), Discriminator(config)
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear | nn.Embedding):
                nn.init.xavier_uniform_(module.weight)
                if not isinstance(module, nn.Embedding) and module.bias is not None:
                    nn.init.zeros_(module.bias)
        add_spectral_norm(self)

    def forward(
        self, noise: Float[Tensor, "batch noise"], labels: Int[Tensor, "batch"]
    ) -> Float[Tensor, "batch channels size size"]:
        """Generate a picture of each label, with values from -1 to 1."""
        return self.generator(noise, labels)

    def judge(
        self, pixels: Float[Tensor, "batch channels size size"], labels: Int[Tensor, "batch"]
    ) -> Float[Tensor, "batch"]:
        """Return the discriminator's scores of pictures, given their classes."""
        check(self.config, pixels)
        return self.discriminator(pixels, labels)


def upsample(x: Float[Tensor, "batch width rows columns"]) -> Float[Tensor, "batch width y x"]:
    """Double the sides of a map by repeating every number."""
    return F.interpolate(x, scale_factor=2.0, mode="nearest")


@contextmanager
def freeze_weights(module: nn.Module) -> Iterator[None]:
    """Freeze the weights of a module within the block; gradients still pass through it."""
    learning = [parameter for parameter in module.parameters() if parameter.requires_grad]
    for parameter in learning:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in learning:
            parameter.requires_grad_(True)


def hinge(real: Float[Tensor, "batch"], generated: Float[Tensor, "batch"]) -> Float[Tensor, ""]:
    """Return the discriminator's loss, `sum max(0, 1 - D(x)) + max(0, 1 + D(G(z)))` (Lim and Ye 2017)."""
    return (1 - real).relu().sum() + (1 + generated).relu().sum()


def flattery(generated: Float[Tensor, "batch"]) -> Float[Tensor, ""]:
    """Return the generator's loss, `-sum D(G(z))`."""
    return -generated.sum()
