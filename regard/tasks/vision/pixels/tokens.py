"""A picture as a row of tokens and back: shades or bytes of colours, row by row, or the nearest colours of a palette.

A token is a byte where nothing is lost: the shade of a grey pixel, or red, green and blue of a coloured one in turn.
With a palette a pixel is one token, the number of the colour nearest to its own; what it was cannot be told from that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor
from torch.nn import functional as F

BYTES = 256
ROUNDS = 25  # of k-means
CHUNK = 1 << 16  # pixels compared with all colours at a time


class Unit(NamedTuple):
    """What bits are counted by."""

    key: str
    name: str


DIMENSION, COLOUR = Unit("bits_per_dim", "bits per dimension"), Unit("bits_per_colour", "bits per colour")


@dataclass(frozen=True)
class Alphabet:
    """What a token of a picture is."""

    size: int
    """Pixels on each side."""
    channels: int
    """Of a picture: 1 of grey, 3 of colours."""
    palette: UInt8[Tensor, "colours channels"] | None = None

    @property
    def depth(self) -> int:
        """Tokens of a pixel."""
        return self.channels if self.palette is None else 1

    @property
    def places(self) -> int:
        """Tokens of a picture."""
        return self.size**2 * self.depth

    @property
    def begin(self) -> int:
        """The token that stands before every picture, and after all others in the vocabulary."""
        return BYTES if self.palette is None else len(self.palette)

    @property
    def vocab(self) -> int:
        """Tokens there are."""
        return self.begin + 1

    @property
    def unit(self) -> Unit:
        """What bits are counted by: those of colours are not bits per dimension, for colours are fewer than bytes."""
        return DIMENSION if self.palette is None else COLOUR

    @property
    def phrase(self) -> str:
        """What a token is, in a few words."""
        if self.palette is not None:
            return f"the nearest of {len(self.palette)} colours"
        return "one of 256 shades" if self.channels == 1 else "a byte of red, green or blue"

    def to(self, device: torch.device | str) -> Alphabet:
        """The same on a device."""
        return self if self.palette is None else replace(self, palette=self.palette.to(device))

    def tokens(self, pixels: UInt8[Tensor, "batch channels size size"]) -> Int[Tensor, "batch place"]:
        """Pictures row by row."""
        rows = pixels.permute(0, 2, 3, 1)
        return rows.flatten(1).long() if self.palette is None else nearest(rows.flatten(1, 2), self.palette)

    def pixels(self, tokens: Int[Tensor, "batch place"]) -> UInt8[Tensor, "batch channels size size"]:
        """Pictures again."""
        rows = tokens.to(torch.uint8) if self.palette is None else self.palette[tokens]
        return rows.reshape(len(tokens), self.size, self.size, self.channels).permute(0, 3, 1, 2).contiguous()

    def shifted(self, tokens: Int[Tensor, "batch place"]) -> Int[Tensor, "batch place"]:
        """What is read where each token is predicted: the one before it."""
        return F.pad(tokens[:, :-1], (1, 0), value=self.begin)


def nearest(
    pixels: UInt8[Tensor, "*batch channels"], palette: UInt8[Tensor, "colours channels"]
) -> Int[Tensor, "*batch"]:
    """The number of the colour nearest to each pixel; of equal ones the first."""
    return _distances(pixels.float(), palette.float()).argmin(-1)


def fitted(
    pixels: UInt8[Tensor, "pixel channels"], colours: int, *, seed: int = 0
) -> UInt8[Tensor, "colours channels"]:
    """The colours of a palette by k-means: each is the mean of the pixels that are nearest to it, rounded.

    It starts from different pixels, drawn at random. A colour that no pixel is nearest to takes the place of the pixel
    that is furthest from its own.
    """
    different = pixels.unique(dim=0)
    if len(different) < colours:
        raise ValueError(f"the pictures have {len(different)} different colours: set data.colours to no more, or null")
    chance = torch.Generator().manual_seed(seed)
    centres, points = different[torch.randperm(len(different), generator=chance)[:colours]].double(), pixels.double()
    for _ in range(ROUNDS):
        found = [_distances(some, centres).min(-1) for some in points.split(CHUNK)]
        own, apart = torch.cat([each.indices for each in found]), torch.cat([each.values for each in found])
        sums = torch.zeros_like(centres).index_add_(0, own, points)
        counts = own.bincount(minlength=colours)
        centres = torch.where(counts[:, None] > 0, sums / counts[:, None].clamp(min=1), centres)
        idle = (counts == 0).nonzero()[:, 0]
        centres[idle] = points[apart.topk(len(idle)).indices]
    return centres.round().to(torch.uint8)


def _distances(
    points: Float[Tensor, "*batch channels"], centres: Float[Tensor, "colours channels"]
) -> Float[Tensor, "*batch colours"]:
    """Squares of them, but for what all colours have in common: that of the point itself."""
    return centres.square().sum(-1) - 2 * points @ centres.T
