"""Tokenizer of images: pixels as bytes, row by row, or as the nearest colours of a palette.

Bytes lose nothing: a token is the shade of a grey pixel, or red, green and blue of a colour pixel in turn.
With a palette a pixel is one token, the number of the nearest colour; its exact colour is lost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor
from torch.nn import functional as F

BYTES = 256
KMEANS_ROUNDS = 25
PIXELS_PER_CHUNK = 1 << 16  # pixels compared with all colours at a time


class Unit(NamedTuple):
    """The unit in which bits are reported."""

    key: str
    name: str


DIMENSION, COLOUR = Unit("bits_per_dim", "bits per dimension"), Unit("bits_per_colour", "bits per colour")


@dataclass(frozen=True)
class PixelTokenizer:
    """Tokenizer that encodes images as tokens and decodes them."""

    size: int
    """Pixels on each side."""
    channels: int
    """Channels of an image: 1 for grey, 3 for colour."""
    palette: UInt8[Tensor, "colours channels"] | None = None

    @property
    def tokens_per_pixel(self) -> int:
        """Tokens of a pixel."""
        return self.channels if self.palette is None else 1

    @property
    def length(self) -> int:
        """Tokens of an image."""
        return self.size**2 * self.tokens_per_pixel

    @property
    def begin_token(self) -> int:
        """The token that begins every image, the last of the vocabulary."""
        return BYTES if self.palette is None else len(self.palette)

    @property
    def vocab(self) -> int:
        """Size of the vocabulary."""
        return self.begin_token + 1

    @property
    def unit(self) -> Unit:
        """The unit of bits; with a palette it is bits per colour, which are not comparable with bits per dimension."""
        return DIMENSION if self.palette is None else COLOUR

    @property
    def phrase(self) -> str:
        """Description of a token in a few words."""
        if self.palette is not None:
            return f"the nearest of {len(self.palette)} colours"
        return "one of 256 shades" if self.channels == 1 else "a byte of red, green or blue"

    def to(self, device: torch.device | str) -> PixelTokenizer:
        """Return the same tokenizer on a device."""
        return self if self.palette is None else replace(self, palette=self.palette.to(device))

    def encode(self, pixels: UInt8[Tensor, "batch channels size size"]) -> Int[Tensor, "batch place"]:
        """Return the tokens of images, row by row."""
        rows = pixels.permute(0, 2, 3, 1)
        return rows.flatten(1).long() if self.palette is None else nearest_colours(rows.flatten(1, 2), self.palette)

    def decode(self, tokens: Int[Tensor, "batch place"]) -> UInt8[Tensor, "batch channels size size"]:
        """Return the images of tokens."""
        rows = tokens.to(torch.uint8) if self.palette is None else self.palette[tokens]
        return rows.reshape(len(tokens), self.size, self.size, self.channels).permute(0, 3, 1, 2).contiguous()

    def shift_right(self, tokens: Int[Tensor, "batch place"]) -> Int[Tensor, "batch place"]:
        """Return the model's inputs: the token before each token, the begin token first."""
        return F.pad(tokens[:, :-1], (1, 0), value=self.begin_token)


def nearest_colours(
    pixels: UInt8[Tensor, "*batch channels"], palette: UInt8[Tensor, "colours channels"]
) -> Int[Tensor, "*batch"]:
    """Return the number of the palette colour nearest to each pixel; ties go to the first."""
    return _squared_distances(pixels.float(), palette.float()).argmin(-1)


def fit_palette(
    pixels: UInt8[Tensor, "pixel channels"], colours: int, *, seed: int = 0
) -> UInt8[Tensor, "colours channels"]:
    """Return the colours of a palette by k-means: each is the rounded mean of the pixels nearest to it.

    It starts from distinct pixels, drawn at random. A colour that is nearest to no pixel is replaced by the pixel that
    is furthest from its nearest colour.
    """
    different = pixels.unique(dim=0)
    if len(different) < colours:
        raise ValueError(f"the pictures have {len(different)} different colours: set data.colours to no more, or null")
    generator = torch.Generator().manual_seed(seed)
    centres, points = different[torch.randperm(len(different), generator=generator)[:colours]].double(), pixels.double()
    for _ in range(KMEANS_ROUNDS):
        matches = [_squared_distances(chunk, centres).min(-1) for chunk in points.split(PIXELS_PER_CHUNK)]
        nearest_centre, distances = (
            torch.cat([match.indices for match in matches]),
            torch.cat([match.values for match in matches]),
        )
        sums = torch.zeros_like(centres).index_add_(0, nearest_centre, points)
        counts = nearest_centre.bincount(minlength=colours)
        centres = torch.where(counts[:, None] > 0, sums / counts[:, None].clamp(min=1), centres)
        unused = (counts == 0).nonzero()[:, 0]
        centres[unused] = points[distances.topk(len(unused)).indices]
    return centres.round().to(torch.uint8)


def _squared_distances(
    points: Float[Tensor, "*batch channels"], centres: Float[Tensor, "colours channels"]
) -> Float[Tensor, "*batch colours"]:
    """Return squared distances to all centres, without the squared norm of the point, which is the same for all."""
    return centres.square().sum(-1) - 2 * points @ centres.T
