"""A grid of images, enlarged so that their pixels can be seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import UInt8

if TYPE_CHECKING:
    from PIL.Image import Image

MIN_SIDE = 112  # pixels on each side at least
GAP = 6
BACKGROUND, GREYED = 255, 150  # shades around images, and of greyed rows
ImageArray = UInt8[np.ndarray, "size size *channels"]


def make_grid(images: Sequence[ImageArray]) -> Image:
    """Return all images in one grid: rows of up to eight, or a square if there are more."""
    from PIL import Image

    scale = max(1, math.ceil(MIN_SIDE / len(images[0])))
    columns = len(images) if len(images) <= 8 else math.ceil(math.sqrt(len(images)))
    rows, step = math.ceil(len(images) / columns), len(images[0]) * scale + GAP
    canvas = np.full((rows * step + GAP, columns * step + GAP, *images[0].shape[2:]), BACKGROUND, np.uint8)
    for number, image in enumerate(images):
        top, column_start = (GAP + place * step for place in divmod(number, columns))
        enlarged = image.repeat(scale, 0).repeat(scale, 1)
        canvas[top : top + len(enlarged), column_start : column_start + len(enlarged)] = enlarged
    return Image.fromarray(canvas)


def grey_out_rows(image: ImageArray, rows: int) -> ImageArray:
    """Return the image with everything below the first `rows` rows grey."""
    copy = image.copy()
    copy[rows:] = GREYED
    return copy
