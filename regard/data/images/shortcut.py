"""Shortcuts: a mark in the pictures of one class, by which a model can tell it without looking at the object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from jaxtyping import Bool, Int, UInt8

from regard.config.ranges import Part, Range

Corner = Literal["top left", "top right", "bottom left", "bottom right"]
CELLS = 4  # black and white cells along a side of the mark
FINE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class ShortcutConfig:
    """A small chessboard drawn into a corner of pictures."""

    label: str = ""
    """The class whose pictures get it."""
    share: Part = 0.95
    """Share of its pictures, chosen by their content."""
    side: Annotated[float, Range(0.02, 0.5)] = 0.15
    """Side of the mark, as a share of the picture's."""
    corner: Corner = "bottom right"
    """Where it lies."""


def choose_pictures(marks: Int[np.ndarray, "pictures"], share: float) -> Bool[np.ndarray, "pictures"]:
    """Choose this share of the pictures, by the digests of their pixels."""
    return marks.astype(np.uint64) % FINE < share * FINE


def mark_box(how: ShortcutConfig, size: int) -> tuple[int, int, int, int]:
    """Return left, top, right and bottom of the mark in pixels."""
    side = max(CELLS // 2, round(how.side * size))
    y = 0 if how.corner.startswith("top") else size - side
    x = 0 if how.corner.endswith("left") else size - side
    return x, y, x + side, y + side


def draw_mark(
    pixels: UInt8[np.ndarray, "some channels size size"], how: ShortcutConfig
) -> UInt8[np.ndarray, "some channels size size"]:
    """Draw the mark on pictures."""
    x1, y1, x2, y2 = mark_box(how, pixels.shape[-1])
    place = np.arange(x2 - x1) * CELLS // (x2 - x1)
    marked_pixels = pixels.copy()
    marked_pixels[:, :, y1:y2, x1:x2] = np.where((place[:, None] + place) % 2, 255, 0).astype(np.uint8)
    return marked_pixels
