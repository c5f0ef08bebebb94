"""Pictures of single digits to draw with: four hands that come with Regard, or files in MNIST's format."""

from __future__ import annotations

import gzip
import hashlib
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int, UInt8

from regard.data.encodings import locate

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
IMAGES, LABELS = 0x00000803, 0x00000801  # first bytes of an idx file: bytes in three dimensions, or in one
BRIGHT = 127  # where ink begins
LARGEST = 1 << 30  # bytes of a file that is still believed to hold digits


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
    images = _idx(folder, f"{FILES[part]}-images-idx3-ubyte", IMAGES)
    labels = _idx(folder, f"{FILES[part]}-labels-idx1-ubyte", LABELS)
    if len(images) != len(labels) or not len(images):
        raise ValueError(
            f"{folder}: {len(images)} pictures but {len(labels)} labels for {part}: fetch both files again"
        )
    if labels.max() > 9:
        raise ValueError(f"{folder}: the label {labels.max()} is no digit: give MNIST's files or others of 0 to 9")
    if len(blank := np.flatnonzero((images <= BRIGHT).all((1, 2)))):
        raise ValueError(f"{folder}: picture {blank[0]} of {part} is blank: leave it out of both files")
    return Glyphs(images, labels.astype(np.int64))


def _idx(folder: str, name: str, kind: int) -> np.ndarray:
    """The array in an idx file, gzipped or not."""
    path = _found(folder, name)
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = zlib.decompressobj(31).decompress(data, LARGEST)
    except (OSError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} cannot be read ({error}): fetch it again") from None
    axes = kind & 0xFF
    head = 4 + 4 * axes
    if len(data) < head or struct.unpack(">I", data[:4])[0] != kind:
        raise ValueError(f"{path} is no idx file of {'pictures' if kind == IMAGES else 'labels'}: give MNIST's files")
    shape = struct.unpack(f">{axes}I", data[4:head])
    if len(data) != head + int(np.prod(shape, dtype=np.int64)):
        raise ValueError(f"{path} should hold {' x '.join(map(str, shape))} bytes and is cut short: fetch it again")
    return np.frombuffer(data, np.uint8, offset=head).reshape(shape)


def _found(folder: str, name: str) -> Path:
    """The file of this name in a folder, gzipped or not; the folder may lie under REGARD_DATA."""
    try:
        return locate(f"{folder}/{name}")
    except ValueError as missing:
        try:
            return locate(f"{folder}/{name}.gz")
        except ValueError:
            raise missing from None
