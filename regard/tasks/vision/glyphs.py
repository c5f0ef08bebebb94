"""Pictures of single digits to draw with: four hands that come with Regard, or files in MNIST's format."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, UInt8

from regard.data.pictures import idx

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
HANDS = (PLAIN, SEGMENTS, HANDWRITTEN, TYPED)
FILES = {"train": "train", "valid": "t10k"}  # what MNIST calls them
BRIGHT = 127  # where ink begins


@dataclass(frozen=True)
class Glyphs:
    """Pictures of digits, strokes bright on black, and which digit each of them shows."""

    pictures: UInt8[np.ndarray, "glyphs height width"]
    labels: Int[np.ndarray, "glyphs"]

    @property
    def fingerprint(self) -> str:
        """What tells these glyphs from others."""
        return hashlib.sha256(self.pictures.tobytes() + self.labels.tobytes()).hexdigest()


def built_in() -> Glyphs:
    """Every digit in four hands, seven cells high and five wide."""
    rows = [[line.split() for line in hand.split("\n") if line] for hand in HANDS]
    cells = np.array([[[[cell == "#" for cell in part] for part in line] for line in hand] for hand in rows])
    pictures = cells.transpose(0, 2, 1, 3).reshape(-1, 7, 5)  # (hand, line, digit, cell) -> one picture after the other
    return Glyphs(pictures.astype(np.uint8) * 255, np.tile(np.arange(10), len(HANDS)))


def load(folder: str | None, part: str) -> Glyphs:
    """The digits to draw with for `train` or `valid`: those in a folder of idx files, or for None the built-in ones."""
    if folder is None:
        return built_in()
    images = idx.read_idx(folder, f"{FILES[part]}-images-idx3-ubyte", idx.PICTURES)
    labels = idx.read_idx(folder, f"{FILES[part]}-labels-idx1-ubyte", idx.LABELS)
    if len(images) != len(labels) or not len(images):
        raise ValueError(
            f"{folder}: {len(images)} pictures but {len(labels)} labels for {part}: fetch both files again"
        )
    if labels.max() > 9:
        raise ValueError(f"{folder}: the label {labels.max()} is no digit: give MNIST's files or others of 0 to 9")
    if len(blank := np.flatnonzero((images <= BRIGHT).all((1, 2)))):
        raise ValueError(f"{folder}: picture {blank[0]} of {part} is blank: leave it out of both files")
    return Glyphs(images, labels.astype(np.int64))
