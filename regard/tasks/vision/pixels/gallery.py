"""Pictures side by side in one, enlarged so that their pixels can be seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import UInt8

if TYPE_CHECKING:
    from PIL.Image import Image

SEEN = 112  # pixels on each side at least
GAP = 6
GROUND, VEIL = 255, 150  # shades around pictures, and where nothing was given
Picture = UInt8[np.ndarray, "size size *channels"]


def hung(pictures: Sequence[Picture]) -> Image:
    """All of them in rows, as many in a row as there are rows or a few more; up to eight in one."""
    from PIL import Image

    larger = max(1, math.ceil(SEEN / len(pictures[0])))
    wide = len(pictures) if len(pictures) <= 8 else math.ceil(math.sqrt(len(pictures)))
    high, step = math.ceil(len(pictures) / wide), len(pictures[0]) * larger + GAP
    wall = np.full((high * step + GAP, wide * step + GAP, *pictures[0].shape[2:]), GROUND, np.uint8)
    for number, picture in enumerate(pictures):
        top, left = (GAP + place * step for place in divmod(number, wide))
        grown = picture.repeat(larger, 0).repeat(larger, 1)
        wall[top : top + len(grown), left : left + len(grown)] = grown
    return Image.fromarray(wall)


def veiled(picture: Picture, rows: int) -> Picture:
    """The picture as far as so many rows; grey below them."""
    found = picture.copy()
    found[rows:] = VEIL
    return found
