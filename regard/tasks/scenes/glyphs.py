"""Glyphs of single digits to draw with: four styles that come with Regard, or files in MNIST's format."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, UInt8

from regard.data.images import idx

PLAIN = """
.###. ..#.. .###. .###. ...#. ##### .###. ##### .###. .###.
#...# .##.. #...# #...# ..##. #.... #...# ....# #...# #...#
#...# ..#.. ....# ....# .#.#. ####. #.... ...#. #...# #...#
#...# ..#.. ...#. ..##. #..#. ....# ####. ..#.. .###. .####
#...# ..#.. ..#.. ....# ##### ....# #...# ..#.. #...# ....#
#...# ..#.. .#... #...# ...#. #...# #...# ..#.. #...# #...#
.###. .###. ##### .###. ...#. .###. .###. ..#.. .###. .###.
"""
SEGMENTS = """
##### ....# ##### ##### #...# ##### ##### ##### ##### #####
#...# ....# ....# ....# #...# #.... #.... ....# #...# #...#
#...# ....# ....# ....# #...# #.... #.... ....# #...# #...#
#...# ....# ##### ##### ##### ##### ##### ....# ##### #####
#...# ....# #.... ....# ....# ....# #...# ....# #...# ....#
#...# ....# #.... ....# ....# ....# #...# ....# #...# ....#
##### ....# ##### ##### ....# ##### ##### ....# ##### #####
"""
HANDWRITTEN = """
..#.. ...#. .##.. ####. #.... ..### ..##. ##### ..##. .###.
.#.#. ..##. #..#. ...#. #..#. .#... .#... ....# .#..# #..#.
#...# .#.#. ...#. ..#.. #..#. .##.. #.... ...#. .#.#. #..#.
#...# #..#. ...#. .###. #..#. ...#. ####. .#### ..#.. .####
#...# ...#. ..#.. ....# ##### ....# #...# ..#.. .#.#. ...#.
.#.#. ...#. .#... #...# ...#. #...# #...# ..#.. #...# ..#..
..#.. ...#. ##### .###. ...#. .###. .###. .#... .###. .#...
"""
TYPED = """
.###. ..#.. .###. ##### ...## ####. ..##. ##### .###. .###.
#..## .##.. #...# ...#. ..#.# #.... .#... #...# #...# #...#
#.#.# #.#.. ....# ..#.. .#..# #.... #.... ....# #...# #...#
##..# ..#.. ..##. .###. #...# ####. #.##. ...#. .###. .##.#
#...# ..#.. .#... ....# ##### ....# ##..# ..#.. #...# ....#
#...# ..#.. #...# #...# ....# #...# #...# ..#.. #...# ...#.
.###. ##### ##### .###. ..### .###. .###. .###. .###. .##..
"""
STYLES = (PLAIN, SEGMENTS, HANDWRITTEN, TYPED)
MNIST_NAMES = {"train": "train", "valid": "t10k"}  # names of the splits in MNIST's files
INK_LEVEL = 127  # pixels above this are ink


@dataclass(frozen=True)
class Glyphs:
    """Images of digits, bright on black, and their labels."""

    images: UInt8[np.ndarray, "glyphs height width"]
    labels: Int[np.ndarray, "glyphs"]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the images and labels."""
        return hashlib.sha256(self.images.tobytes() + self.labels.tobytes()).hexdigest()


def built_in_glyphs() -> Glyphs:
    """Return every digit in four styles, seven cells high and five wide."""
    rows = [[line.split() for line in style.split("\n") if line] for style in STYLES]
    cells = np.array([[[[cell == "#" for cell in digit] for digit in line] for line in style] for style in rows])
    images = cells.transpose(0, 2, 1, 3).reshape(-1, 7, 5)  # (style, line, digit, cell) -> (image, line, cell)
    return Glyphs(images.astype(np.uint8) * 255, np.tile(np.arange(10), len(STYLES)))


def load_glyphs(folder: str | None, part: str) -> Glyphs:
    """Return the digits to draw with for `train` or `valid`: from a folder of idx files, or the built-in ones."""
    if folder is None:
        return built_in_glyphs()
    images = idx.read_idx(folder, f"{MNIST_NAMES[part]}-images-idx3-ubyte", idx.PICTURES)
    labels = idx.read_idx(folder, f"{MNIST_NAMES[part]}-labels-idx1-ubyte", idx.LABELS)
    if len(images) != len(labels) or not len(images):
        raise ValueError(
            f"{folder}: {len(images)} pictures but {len(labels)} labels for {part}: fetch both files again"
        )
    if labels.max() > 9:
        raise ValueError(f"{folder}: the label {labels.max()} is no digit: give MNIST's files or others of 0 to 9")
    if len(blank := np.flatnonzero((images <= INK_LEVEL).all((1, 2)))):
        raise ValueError(f"{folder}: picture {blank[0]} of {part} is blank: leave it out of both files")
    return Glyphs(images, labels.astype(np.int64))
