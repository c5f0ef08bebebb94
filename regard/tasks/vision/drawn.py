"""Pictures of digits, drawn when asked for: one digit to find, or frames to count in.

Each is a pure function of a seed and its number. A digit is a glyph whose size, breadth, slant and stroke are drawn at
random; its box is the smallest rectangle around its ink. Coordinates are
shares of the picture's side: left, top, right, bottom.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from regard.config import plain
from regard.config.ranges import Amount, Batch, Count, Range, Share, Small
from regard.config.resuming import Free, Warned
from regard.data.examples import Examples
from regard.tasks.vision import glyphs
from regard.tasks.vision.glyphs import BRIGHT, Glyphs

DIGITS = 10
PARTS = ("train", "valid")
Ink = Float[np.ndarray, "height width"]
SHARPEST = 2.0  # how fast, at least, ink ends at the edge of a stroke
LARGEST = 1024  # pixels on a side
TRIES = 12  # ways that are tried for a digit before it stays away
SCRAP = 7  # pixels on each side of a scrap
FAINT = 0.05  # where the ink of a drawn digit is taken to begin


@dataclass(frozen=True, kw_only=True)
class DrawnConfig:
    """What all drawn pictures share."""

    digits: Free[str | None] = None
    """Folder with MNIST's four idx files, gzipped or not; null: four hands that come with Regard."""
    size: Annotated[int, Range(SCRAP, LARGEST)]
    """Pixels on each side of a picture."""
    smallest: Annotated[int, Range(5, LARGEST)]
    """Height of the smallest digit in pixels."""
    largest: Annotated[int, Range(5, LARGEST)]
    """Height of the largest digit in pixels."""
    noise: Amount = 0.15
    """Standard deviation of what is added to every pixel, where ink is at most 1."""
    batch: Warned[Batch] = 64
    """Examples in a row."""
    valid: Count = 500
    """Validation examples; none of them is trained on."""
    seed: Annotated[int, Range(0, 2**63 - 1)] = 0
    """Random seed."""

    def __post_init__(self) -> None:
        if not self.smallest <= self.largest <= self.size:
            raise ValueError(
                f"digits of {self.smallest} to {self.largest} pixels do not fit pictures of {self.size}: "
                "smallest must not exceed largest, nor largest size"
            )


@dataclass(frozen=True, kw_only=True)
class PictureConfig(DrawnConfig):
    """Single pictures with a digit somewhere."""

    size: Annotated[int, Range(SCRAP, LARGEST)] = 48
    """Pixels on each side of a picture."""
    smallest: Annotated[int, Range(5, LARGEST)] = 14
    """Height of the smallest digit in pixels."""
    largest: Annotated[int, Range(5, LARGEST)] = 32
    """Height of the largest digit in pixels."""
    clutter: Annotated[int, Range(0, 1000)] = 6
    """Scraps of another digit in a picture."""


@dataclass(frozen=True, kw_only=True)
class FramesConfig(DrawnConfig):
    """Frames that follow one another, in which digits come, wander and hide."""

    size: Annotated[int, Range(SCRAP, LARGEST)] = 32
    """Pixels on each side of a frame."""
    smallest: Annotated[int, Range(5, LARGEST)] = 8
    """Height of the smallest digit in pixels."""
    largest: Annotated[int, Range(5, LARGEST)] = 11
    """Height of the largest digit in pixels."""
    batch: Warned[Batch] = 32
    """Sequences of frames in a row."""
    frames: Small = 8
    """Frames of a sequence."""
    most: Small = 4
    """Most digits of a sequence."""
    hidden: Share = 0.4
    """Share of the frames after its first in which a digit is there but not seen."""
    pace: Amount = 1.5
    """Fastest way of a digit from one frame to the next, in pixels along each side."""


class Located(NamedTuple):
    """One picture with a digit somewhere."""

    picture: Ink
    label: int
    box: Float[np.ndarray, "4"]


class Frames(NamedTuple):
    """Pictures that follow one another, and how many digits are there in each, seen or hidden."""

    pictures: Float[np.ndarray, "frames height width"]
    counts: Int[np.ndarray, "frames"]
    seen: Int[np.ndarray, "frames"]
    """How many of them can be seen."""


@dataclass(frozen=True)
class Album:
    """All pictures of one kind to learn from, or to measure on; they are drawn when asked for."""

    config: DrawnConfig
    glyphs: Glyphs
    part: str
    draw: Callable[[Any, Glyphs, np.random.Generator], Any]

    def __getitem__(self, number: int) -> Any:
        chance = np.random.default_rng([self.config.seed, PARTS.index(self.part), number])
        return self.draw(self.config, self.glyphs, chance)

    def examples(self, numbers: Sequence[int]) -> Examples:
        """These pictures, each of their parts stacked."""
        drawn = [self[number] for number in numbers]
        return Examples(numbers, tuple(torch.from_numpy(np.stack(part)) for part in zip(*drawn, strict=True)))

    @property
    def report(self) -> dict[str, Any]:
        """What is drawn, for the run folder; two albums of the same fingerprint hold the same pictures."""
        settings = {name: value for name, value in plain(self.config).items() if name not in ("digits", "batch")}
        known = repr(sorted(settings.items())) + self.glyphs.fingerprint + self.draw.__name__ + self.part
        return {"glyphs": len(self.glyphs.labels), "fingerprint": hashlib.sha256(known.encode()).hexdigest()}


def album(config: DrawnConfig, part: str) -> Album:
    """The pictures of a recipe to learn from (`train`) or to measure on (`valid`)."""
    draw = frames if isinstance(config, FramesConfig) else located
    return Album(config, glyphs.load(config.digits, part), part, draw)


def located(config: PictureConfig, digits: Glyphs, chance: np.random.Generator) -> Located:
    """One digit somewhere, among scraps of another."""
    canvas = np.zeros((config.size, config.size), np.float32)
    _, torn = _digit(config, digits, chance)
    for _ in range(config.clutter):
        row, column = (int(chance.integers(max(1, side - SCRAP + 1))) for side in torn.shape)
        _put(canvas, torn[row : row + SCRAP, column : column + SCRAP], *_place(config, (SCRAP, SCRAP), chance))
    label, ink = _digit(config, digits, chance)
    top, left = _place(config, ink.shape, chance)
    where = slice(top, top + ink.shape[0]), slice(left, left + ink.shape[1])
    canvas[where] = ink  # scraps lie beneath its box
    box = np.array([left, top, left + ink.shape[1], top + ink.shape[0]], np.float32) / config.size
    return Located(_noisy(config, canvas, chance), label, box)


def frames(config: FramesConfig, digits: Glyphs, chance: np.random.Generator) -> Frames:
    """Digits that come one after another, wander and stay, though hidden in some frames; their boxes never overlap."""
    shape = (config.frames, config.size, config.size)
    pictures, counts, seen = np.zeros(shape, np.float32), np.zeros(shape[0], np.int64), np.zeros(shape[0], np.int64)
    taken = np.zeros(shape, bool)
    for _ in range(int(chance.integers(config.most + 1))):
        _, ink = _digit(config, digits, chance)
        first = int(chance.integers(config.frames))
        visible = chance.random(config.frames) >= config.hidden
        visible[first] = True
        way = _way(config, ink.shape, taken, chance)
        for frame, (top, left) in enumerate(way if way is not None else []):
            where = frame, slice(top, top + ink.shape[0]), slice(left, left + ink.shape[1])
            taken[where] = True
            if frame >= first:
                counts[frame] += 1
                seen[frame] += visible[frame]
                pictures[where] += ink * visible[frame]
    return Frames(_noisy(config, pictures, chance), counts, seen)


def _digit(config: DrawnConfig, digits: Glyphs, chance: np.random.Generator) -> tuple[int, Ink]:
    """A glyph at random, drawn at random, cut to its ink."""
    number = int(chance.integers(len(digits.labels)))
    high = chance.uniform(config.smallest, config.largest)
    broad, slant, stroke = chance.uniform(0.8, 1.2), chance.uniform(-0.35, 0.35), chance.uniform(0.3, 0.6)
    strength = chance.uniform(0.6, 1.0)
    ink = drawn(digits.pictures[number], high, broad=broad, slant=slant, stroke=stroke)
    return int(digits.labels[number]), (strength * ink[: config.size, : config.size]).astype(np.float32)


def drawn(glyph: np.ndarray, high: float, *, broad: float = 1.0, slant: float = 0.0, stroke: float = 0.5) -> np.ndarray:
    """A glyph as ink between 0 and 1: sampled between its cells, and cut off where it is paler than `stroke`.

    Its ink is at most `high` pixels high; a lower `stroke` makes it bolder, a slant leans it to the right.
    """
    ink = glyph[_inked(glyph > BRIGHT)] / 255.0
    cells = np.pad(_coarser(ink, int(len(ink) // high)), 2)
    rows, columns = (size - 4 + 1 for size in cells.shape)  # strokes swell by half a cell on either side
    scale = high / rows
    across = int(np.ceil(scale * broad * columns + abs(slant) * high)) + 2
    down, over = np.arange(np.ceil(high))[:, None] + 0.5, np.arange(across) + 0.5
    column = (over - across / 2 + slant * (down - high / 2)) / (scale * broad) + (cells.shape[1] - 1) / 2
    shades = _between(cells, 1 + down[:, 0] / scale, column)
    stroke = min(stroke, float(shades.max()) / 2)  # of a hair something is left, however small it is drawn
    ink = np.clip((shades - stroke) * max(scale, SHARPEST) + 0.5, 0.0, 1.0)
    return ink[_inked(ink > FAINT)]


def _coarser(ink: np.ndarray, factor: int) -> np.ndarray:
    """Means over squares of so many cells, so that none is missed where far fewer pixels are drawn."""
    if factor < 2:
        return ink
    filled = np.pad(ink, [(0, -side % factor) for side in ink.shape])
    return filled.reshape(len(filled) // factor, factor, -1, factor).mean((1, 3))


def _inked(there: np.ndarray) -> tuple[slice, slice]:
    """The smallest rectangle around what is there."""
    rows, columns = np.flatnonzero(there.any(1)), np.flatnonzero(there.any(0))
    return slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)


def _between(cells: np.ndarray, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Values between the centres of cells, bilinear, where each row of places has its own columns."""
    row, column = (np.clip(at, 0, size - 1.001) for at, size in zip((row, column), cells.shape, strict=True))
    up, left = row.astype(int), column.astype(int)
    low, far = (row - up)[:, None], column - left
    lines = cells[up] * (1 - low) + cells[up + 1] * low
    return np.take_along_axis(lines, left, 1) * (1 - far) + np.take_along_axis(lines, left + 1, 1) * far


def _place(config: DrawnConfig, shape: tuple[int, ...], chance: np.random.Generator) -> tuple[int, int]:
    """Where a piece of this shape lies, all of it inside."""
    top, left = (int(chance.integers(config.size - side + 1)) for side in shape)
    return top, left


def _put(canvas: np.ndarray, ink: np.ndarray, top: int, left: int) -> None:
    spot = canvas[top : top + ink.shape[0], left : left + ink.shape[1]]
    np.maximum(spot, ink, out=spot)


def _way(
    config: FramesConfig, shape: tuple[int, ...], taken: np.ndarray, chance: np.random.Generator
) -> list[tuple[int, int]] | None:
    """Where a digit is in every frame, thrown back by the edges and free of the others; None where no way was found."""
    rooms = np.array([config.size - side for side in shape])
    for _ in range(TRIES):
        start, pace = chance.uniform(0, rooms + 1e-9), chance.uniform(-config.pace, config.pace, 2)
        run = start + pace * np.arange(config.frames)[:, None]
        places = np.rint(rooms - np.abs(run % np.maximum(2 * rooms, 1e-9) - rooms)).astype(int)
        spots = (taken[frame, top : top + shape[0], left : left + shape[1]] for frame, (top, left) in enumerate(places))
        if not any(spot.any() for spot in spots):
            return [(int(top), int(left)) for top, left in places]
    return None


def _noisy(config: DrawnConfig, canvas: np.ndarray, chance: np.random.Generator) -> np.ndarray:
    """The same with noise, as a picture in 256 shades holds it."""
    noise = chance.standard_normal(canvas.shape, np.float32) * config.noise
    return np.rint(np.clip(canvas + noise, 0, 1) * 255).astype(np.float32) / 255
