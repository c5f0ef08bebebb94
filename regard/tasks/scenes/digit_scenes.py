"""Images of digits, drawn on demand: one digit to find, or frames to count in.

Each is a pure function of a seed and its number. A digit is a glyph of random size, breadth, slant and stroke; its box
is the smallest rectangle around its ink. Coordinates are shares of the image's side: left, top, right, bottom.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from regard.config import plain, restore_former_names
from regard.config.former_python_names import look_up_former_name, warn_of_former_name
from regard.config.ranges import Amount, Batch, Count, Range, Share, Small
from regard.config.resuming import Free, Warned
from regard.data.examples import Examples
from regard.tasks.scenes import glyphs
from regard.tasks.scenes.glyphs import INK_LEVEL, Glyphs

DIGITS = 10
SPLITS = ("train", "valid")
Ink = Float[np.ndarray, "height width"]
MIN_SHARPNESS = 2.0  # least slope of the ink at the edge of a stroke
LARGEST = 1024  # pixels on a side
PATH_TRIES = 12  # random paths tried for a digit before it is left out
SCRAP_SIZE = 7  # pixels on each side of a scrap
IMAGE_KIND, FRAMES_KIND = "located", "frames"  # names in the fingerprints of run folders
INK_THRESHOLD = 0.05  # ink above this belongs to the digit's box
FORMER_NAMES = {"PictureConfig": "DigitImageConfig", "FramesConfig": "DigitFramesConfig", "album": "scene_dataset"}


def __getattr__(name: str) -> Any:
    return look_up_former_name(__name__, name, FORMER_NAMES)


@dataclass(frozen=True, kw_only=True)
class SceneConfig:
    """Settings shared by all drawn images."""

    digits: Free[str | None] = None
    """Folder with MNIST's four idx files, gzipped or not; null: digits in four handwritings that come with Regard."""
    size: Annotated[int, Range(SCRAP_SIZE, LARGEST)]
    """Pixels on each side of a picture."""
    smallest: Annotated[int, Range(5, LARGEST)]
    """Height of the smallest digit in pixels."""
    largest: Annotated[int, Range(5, LARGEST)]
    """Height of the largest digit in pixels."""
    noise: Amount = 0.15
    """Standard deviation of what is added to every pixel, where ink is at most 1."""
    batch_size: Warned[Batch] = 64
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
class DigitImageConfig(SceneConfig):
    """Settings of single images with one digit."""

    size: Annotated[int, Range(SCRAP_SIZE, LARGEST)] = 48
    """Pixels on each side of a picture."""
    smallest: Annotated[int, Range(5, LARGEST)] = 14
    """Height of the smallest digit in pixels."""
    largest: Annotated[int, Range(5, LARGEST)] = 32
    """Height of the largest digit in pixels."""
    clutter: Annotated[int, Range(0, 1000)] = 6
    """Scraps of another digit in a picture."""


@dataclass(frozen=True, kw_only=True)
class DigitFramesConfig(SceneConfig):
    """Settings of sequences of frames in which digits appear, move and hide."""

    size: Annotated[int, Range(SCRAP_SIZE, LARGEST)] = 32
    """Pixels on each side of a frame."""
    smallest: Annotated[int, Range(5, LARGEST)] = 8
    """Height of the smallest digit in pixels."""
    largest: Annotated[int, Range(5, LARGEST)] = 11
    """Height of the largest digit in pixels."""
    batch_size: Warned[Batch] = 32
    """Sequences of frames in a row."""
    frames: Small = 8
    """Frames of a sequence."""
    max_digits: Small = 4
    """Most digits of a sequence."""
    hidden: Share = 0.4
    """Share of frames, after its first, in which a digit is hidden."""
    pace: Amount = 1.5
    """Largest displacement of a digit from one frame to the next, in pixels along each axis."""


class DigitImage(NamedTuple):
    """One image with a digit somewhere."""

    image: Ink
    label: int
    box: Float[np.ndarray, "4"]

    @property
    def picture(self) -> Ink:
        """The former name of `image`."""
        warn_of_former_name("DigitImage.picture", "DigitImage.image", stacklevel=2)
        return self.image


class DigitFrames(NamedTuple):
    """Consecutive frames, with the number of digits in each, visible or hidden."""

    images: Float[np.ndarray, "frames height width"]
    counts: Int[np.ndarray, "frames"]
    visible_counts: Int[np.ndarray, "frames"]
    """Number of visible digits in each frame."""

    @property
    def pictures(self) -> Float[np.ndarray, "frames height width"]:
        """The former name of `images`."""
        warn_of_former_name("DigitFrames.pictures", "DigitFrames.images", stacklevel=2)
        return self.images

    @property
    def seen(self) -> Int[np.ndarray, "frames"]:
        """The former name of `visible_counts`."""
        warn_of_former_name("DigitFrames.seen", "DigitFrames.visible_counts", stacklevel=2)
        return self.visible_counts


@dataclass(frozen=True)
class SceneDataset:
    """All training or validation scenes of one kind, drawn on demand."""

    config: SceneConfig
    glyphs: Glyphs
    part: str

    def __getitem__(self, number: int) -> Any:
        generator = np.random.default_rng([self.config.seed, SPLITS.index(self.part), number])
        if isinstance(self.config, DigitFramesConfig):
            return draw_digit_frames(self.config, self.glyphs, generator)
        assert isinstance(self.config, DigitImageConfig)
        return draw_digit_image(self.config, self.glyphs, generator)

    def examples(self, numbers: Sequence[int]) -> Examples:
        """Return these scenes as a batch, each of their parts stacked."""
        scenes = [self[number] for number in numbers]
        return Examples(numbers, tuple(torch.from_numpy(np.stack(part)) for part in zip(*scenes, strict=True)))

    @property
    def report(self) -> dict[str, Any]:
        """Description of the dataset for the run folder; the same fingerprint means the same images."""
        settings = restore_former_names(plain(self.config), where="data")  # keeps older fingerprints valid
        settings = {name: value for name, value in settings.items() if name not in ("digits", "batch")}
        kind = FRAMES_KIND if isinstance(self.config, DigitFramesConfig) else IMAGE_KIND
        contents = repr(sorted(settings.items())) + self.glyphs.fingerprint + kind + self.part
        return {"glyphs": len(self.glyphs.labels), "fingerprint": hashlib.sha256(contents.encode()).hexdigest()}


def scene_dataset(config: SceneConfig, part: str) -> SceneDataset:
    """Return the training (`train`) or validation (`valid`) scenes of a recipe."""
    return SceneDataset(config, glyphs.load_glyphs(config.digits, part), part)


def draw_digit_image(config: DigitImageConfig, glyph_set: Glyphs, generator: np.random.Generator) -> DigitImage:
    """Draw a digit at a random position, with scraps of another glyph as clutter."""
    canvas = np.zeros((config.size, config.size), np.float32)
    _, torn_glyph = _draw_glyph(config, glyph_set, generator)
    for _ in range(config.clutter):
        row, column = (int(generator.integers(max(1, extent - SCRAP_SIZE + 1))) for extent in torn_glyph.shape)
        scrap = torn_glyph[row : row + SCRAP_SIZE, column : column + SCRAP_SIZE]
        _paste_brightest(canvas, scrap, *_draw_position(config, (SCRAP_SIZE, SCRAP_SIZE), generator))
    label, ink = _draw_glyph(config, glyph_set, generator)
    top, left = _draw_position(config, ink.shape, generator)
    bottom, right = top + ink.shape[0], left + ink.shape[1]
    canvas[top:bottom, left:right] = ink  # covers the scraps
    box = np.array([left, top, right, bottom], np.float32) / config.size
    return DigitImage(_add_noise(config, canvas, generator), label, box)


def draw_digit_frames(config: DigitFramesConfig, glyph_set: Glyphs, generator: np.random.Generator) -> DigitFrames:
    """Draw moving digits that stay after their first frame but are hidden in some; their boxes never overlap."""
    shape = (config.frames, config.size, config.size)
    images, is_taken = np.zeros(shape, np.float32), np.zeros(shape, bool)
    counts, visible_counts = np.zeros(config.frames, np.int64), np.zeros(config.frames, np.int64)
    for _ in range(int(generator.integers(config.max_digits + 1))):
        _, ink = _draw_glyph(config, glyph_set, generator)
        first_frame = int(generator.integers(config.frames))
        visible = generator.random(config.frames) >= config.hidden
        visible[first_frame] = True
        path = _draw_path(config, ink.shape, is_taken, generator)
        for frame, (row_start, column_start) in enumerate(path if path is not None else []):
            region = frame, slice(row_start, row_start + ink.shape[0]), slice(column_start, column_start + ink.shape[1])
            is_taken[region] = True
            if frame >= first_frame:
                counts[frame] += 1
                visible_counts[frame] += visible[frame]
                images[region] += ink * visible[frame]
    return DigitFrames(_add_noise(config, images, generator), counts, visible_counts)


def _draw_glyph(config: SceneConfig, glyph_set: Glyphs, generator: np.random.Generator) -> tuple[int, Ink]:
    """Draw a random glyph with random size, breadth, slant and stroke, cut to its ink."""
    number = int(generator.integers(len(glyph_set.labels)))
    height = generator.uniform(config.smallest, config.largest)
    breadth, slant, stroke = generator.uniform(0.8, 1.2), generator.uniform(-0.35, 0.35), generator.uniform(0.3, 0.6)
    strength = generator.uniform(0.6, 1.0)
    ink = render_glyph(glyph_set.images[number], height, breadth=breadth, slant=slant, stroke=stroke)
    return int(glyph_set.labels[number]), (strength * ink[: config.size, : config.size]).astype(np.float32)


def render_glyph(
    glyph: np.ndarray, height: float, *, breadth: float = 1.0, slant: float = 0.0, stroke: float = 0.5
) -> np.ndarray:
    """Return a glyph as ink between 0 and 1, interpolated between cells and thresholded at `stroke`.

    Its ink is at most `height` pixels high; a lower `stroke` makes it bolder, a positive slant leans it to the right.
    """
    ink = glyph[_ink_box(glyph > INK_LEVEL)] / 255.0
    cells = np.pad(_downsample(ink, int(len(ink) // height)), 2)
    rows, columns = (size - 4 + 1 for size in cells.shape)  # interpolation widens strokes by half a cell on each side
    scale = height / rows
    width = int(np.ceil(scale * breadth * columns + abs(slant) * height)) + 2
    row_centres, column_centres = np.arange(np.ceil(height))[:, None] + 0.5, np.arange(width) + 0.5
    leaning = column_centres - width / 2 + slant * (row_centres - height / 2)
    source_columns = leaning / (scale * breadth) + (cells.shape[1] - 1) / 2
    shades = _interpolate(cells, 1 + row_centres[:, 0] / scale, source_columns)
    stroke = min(stroke, float(shades.max()) / 2)  # keeps some ink of very thin strokes
    ink = np.clip((shades - stroke) * max(scale, MIN_SHARPNESS) + 0.5, 0.0, 1.0)
    return ink[_ink_box(ink > INK_THRESHOLD)]


def _downsample(ink: np.ndarray, factor: int) -> np.ndarray:
    """Return means over squares of `factor` x `factor` cells, so that no cell is skipped in much smaller glyphs."""
    if factor < 2:
        return ink
    padded = np.pad(ink, [(0, -side % factor) for side in ink.shape])
    return padded.reshape(len(padded) // factor, factor, -1, factor).mean((1, 3))


def _ink_box(is_ink: np.ndarray) -> tuple[slice, slice]:
    """Return the smallest rectangle around the ink."""
    rows, columns = np.flatnonzero(is_ink.any(1)), np.flatnonzero(is_ink.any(0))
    return slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)


def _interpolate(cells: np.ndarray, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Interpolate cells bilinearly at these rows, and at columns that may differ from row to row."""
    row, column = (
        np.clip(positions, 0, size - 1.001) for positions, size in zip((row, column), cells.shape, strict=True)
    )
    upper_row, left_column = row.astype(int), column.astype(int)
    row_share, column_share = (row - upper_row)[:, None], column - left_column
    interpolated_rows = cells[upper_row] * (1 - row_share) + cells[upper_row + 1] * row_share
    left_values = np.take_along_axis(interpolated_rows, left_column, 1)
    right_values = np.take_along_axis(interpolated_rows, left_column + 1, 1)
    return left_values * (1 - column_share) + right_values * column_share


def _draw_position(config: SceneConfig, shape: tuple[int, ...], generator: np.random.Generator) -> tuple[int, int]:
    """Draw a random position at which a patch of this shape lies inside the image."""
    row_start, column_start = (int(generator.integers(config.size - side + 1)) for side in shape)
    return row_start, column_start


def _paste_brightest(canvas: np.ndarray, ink: np.ndarray, row_start: int, column_start: int) -> None:
    region = canvas[row_start : row_start + ink.shape[0], column_start : column_start + ink.shape[1]]
    np.maximum(region, ink, out=region)


def _draw_path(
    config: DigitFramesConfig, shape: tuple[int, ...], is_taken: np.ndarray, generator: np.random.Generator
) -> list[tuple[int, int]] | None:
    """Draw a path that bounces off the edges and stays clear of other digits; return None if no try succeeds."""
    free_space = np.array([config.size - side for side in shape])
    for _ in range(PATH_TRIES):
        start, velocity = generator.uniform(0, free_space + 1e-9), generator.uniform(-config.pace, config.pace, 2)
        positions = start + velocity * np.arange(config.frames)[:, None]
        path = np.rint(free_space - np.abs(positions % np.maximum(2 * free_space, 1e-9) - free_space)).astype(int)
        regions = (
            is_taken[frame, row_start : row_start + shape[0], column_start : column_start + shape[1]]
            for frame, (row_start, column_start) in enumerate(path)
        )
        if not any(region.any() for region in regions):
            return [(int(row_start), int(column_start)) for row_start, column_start in path]
    return None


def _add_noise(config: SceneConfig, canvas: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Add noise, and round to 256 shades."""
    noise = generator.standard_normal(canvas.shape, np.float32) * config.noise
    return np.rint(np.clip(canvas + noise, 0, 1) * 255).astype(np.float32) / 255
