"""2-D positional encodings of patches or pixels in an image, added or rotary, and resizing of learned ones."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.positions import Positions, sinusoidal_table

Plane = tuple[int, int]  # rows and columns of patches
BASE = 100.0  # of rotation rates: a side has tens of patches, not thousands of tokens (Heo et al. 2024)


def sinusoidal_plane(plane: Plane, width: int) -> Float[Tensor, "patch width"]:
    """Return 2-D sinusoidal codes, row by row: half of the features encode the row, the others the column."""
    if width % 4:
        raise ValueError(f"2-D sinusoidal positions need a width that 4 divides, not {width}")
    rows, columns = (sinusoidal_table(side, width // 2, halves=True) for side in plane)
    return torch.cat([rows[:, None].expand(-1, plane[1], -1), columns.expand(plane[0], -1, -1)], -1).flatten(0, 1)


class RotaryPlane(Positions):
    """2-D rotary positions: half of the feature pairs turn with the row, the others with the column (axial RoPE).

    Tokens before the patches are not rotated.
    """

    angles: Tensor

    def __init__(self, plane: Plane, depth: int, *, before: int = 0, base: float = BASE):
        super().__init__()
        if depth % 4:
            raise ValueError(
                f"2-D rotary positions turn features by fours, and {depth} per head is no multiple: choose other heads"
            )
        self.depth = depth
        rates = base ** (-torch.arange(0, depth // 2, 2).float() / (depth // 2))
        rows, columns = (torch.arange(side)[:, None] * rates for side in plane)
        pairs = rows[:, None].expand(-1, plane[1], -1), columns.expand(plane[0], -1, -1)
        turned = torch.cat(pairs, -1).flatten(0, 1)
        self.register_buffer("angles", F.pad(turned, (0, 0, before, 0)), persistent=False)

    @property
    def room(self) -> int:
        """The number of patches and tokens before them."""
        return len(self.angles)

    def turn(
        self, vectors: Float[Tensor, "*batch heads place depth"], places: Int[Tensor, "*places place"]
    ) -> Float[Tensor, "*batch heads place depth"]:
        """Rotate queries or keys; feature i turns together with feature i + depth/2."""
        angles = self.angles[places].unsqueeze(-3)  # add an axis for the heads
        first, second = vectors.chunk(2, dim=-1)
        cosine, sine = angles.cos().to(vectors.dtype), angles.sin().to(vectors.dtype)
        return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


class LearnedPlane(Positions):
    """Learned vectors of the row, the column and the channel, added up, for pixels read row by row, channel by channel.

    It has one vector per row, column and channel, where a table of all places has one per pixel and channel.
    """

    def __init__(self, plane: Plane, width: int, *, channels: int = 1):
        super().__init__()
        self.places = plane[0] * plane[1] * channels
        self.rows, self.columns = (nn.Embedding(side, width) for side in plane)
        self.channels = nn.Embedding(channels, width)
        for table in (self.rows, self.columns, self.channels):
            nn.init.normal_(table.weight, std=0.02)

    def embed(
        self, places: Int[Tensor, "*batch"], lengths: Int[Tensor, "*lengths"] | None = None
    ) -> Float[Tensor, "*batch width"]:
        """Return the sum of the three vectors; places beyond the last one count as the last."""
        places = places.clamp(max=self.places - 1)
        channels, columns = self.channels.num_embeddings, self.columns.num_embeddings
        pixel, channel = places // channels, places % channels
        return self.rows(pixel // columns) + self.columns(pixel % columns) + self.channels(channel)


def interpolate_positions(
    table: Float[Tensor, "place width"], plane: Plane, *, before: int = 0
) -> Float[Tensor, "places width"]:
    """Resize a learned table of square images to another plane, bicubically; the first `before` rows are unchanged."""
    side = math.isqrt(len(table) - before)
    if side * side != len(table) - before:
        raise ValueError(f"a table of {len(table) - before} positions is none of a square picture: it cannot be fitted")
    if (side, side) == plane:
        return table
    square = table[before:].unflatten(0, (side, side)).movedim(-1, 0)[None].float()
    resized = F.interpolate(square, size=plane, mode="bicubic", align_corners=False)[0].movedim(0, -1).flatten(0, 1)
    return torch.cat([table[:before], resized.to(table.dtype)])
