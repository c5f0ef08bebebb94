"""Detection of duplicate texts in large corpora in bounded memory: keys are partitioned by value and kept on disk.

A text is known by 64 bits of its hash. Lines are numbered `place(corpus, line)`, so that places sort in reading order.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
from jaxtyping import UInt64

from regard.data.cache import UNFINISHED

ROWS = 1 << 17  # held in memory; beyond that, rows are written to disk
PARTS = 256
LINES = 48  # bits of a place for the line number; the others are for the corpus


def key(*texts: str) -> int:
    """Return 64 bits of a hash of these texts, which must not contain NUL."""
    return int.from_bytes(hashlib.blake2b("\0".join(texts).encode(), digest_size=8).digest(), "little")


def place(corpus: int, line: int) -> int:
    """Return one number for a line of a corpus."""
    return corpus << LINES | line


def origin(place: int) -> tuple[int, int]:
    """Return corpus and line of a place."""
    return int(place) >> LINES, int(place) & (1 << LINES) - 1


class Marks:
    """A bit set over the lines of all corpora; line numbers count from 1."""

    def __init__(self, lines: Sequence[int]) -> None:
        self._bits = [bytearray(count // 8 + 1) for count in lines]

    def add(self, places: UInt64[np.ndarray, "places"]) -> None:
        """Mark these places; places may repeat."""
        corpora, lines = places >> np.uint64(LINES), places & np.uint64((1 << LINES) - 1)
        for number in np.unique(corpora):
            chosen = lines[corpora == number]
            bits = np.left_shift(1, chosen % np.uint64(8), dtype=np.uint64).astype(np.uint8)
            np.bitwise_or.at(np.frombuffer(self._bits[int(number)], np.uint8), chosen // np.uint64(8), bits)

    def has(self, corpus: int, line: int) -> bool:
        """True if this line is marked."""
        return bool(self._bits[corpus][line >> 3] >> (line & 7) & 1)

    def __len__(self) -> int:
        """Return the number of marked lines."""
        return sum(int.from_bytes(bits, "little").bit_count() for bits in self._bits)

    def first(self, most: int) -> list[tuple[int, int]]:
        """Return the first marked lines as (corpus, line)."""
        marked: list[tuple[int, int]] = []
        for corpus, bits in enumerate(self._bits):
            for byte in np.flatnonzero(np.frombuffer(bits, np.uint8))[:most].tolist():
                marked += [(corpus, byte * 8 + bit) for bit in range(8) if bits[byte] >> bit & 1]
            if len(marked) >= most:
                break
        return marked[:most]


class Keys:
    """Rows of numbers that start with a key, returned in parts such that all rows of a key are in the same part.

    Within a part, rows are in the order in which they were added.
    """

    def __init__(self, scratch: Path, columns: int) -> None:
        self.scratch, self.columns = scratch, columns
        self._waiting = array("Q")
        self._folder: Path | None = None

    def __enter__(self) -> Keys:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, *row: int) -> None:
        """Add a row; its first number is the key."""
        self._waiting.extend(row)
        if len(self._waiting) >= ROWS * self.columns:
            self._spill()

    def parts(self) -> Iterator[UInt64[np.ndarray, "rows columns"]]:
        """Yield all rows, part by part."""
        if self._folder is None:
            yield np.array(self._waiting, np.uint64).reshape(-1, self.columns)
            return
        self._spill()
        for path in sorted(self._folder.iterdir()):
            yield np.fromfile(path, np.uint64).reshape(-1, self.columns)

    def _spill(self) -> None:
        rows = np.array(self._waiting, np.uint64).reshape(-1, self.columns)
        self._waiting = array("Q")
        part = rows[:, 0] % np.uint64(PARTS)
        rows = rows[np.argsort(part, kind="stable")]
        ends = np.cumsum(np.bincount(part.astype(np.int64), minlength=PARTS))
        try:
            if self._folder is None:
                self.scratch.mkdir(parents=True, exist_ok=True)
                self._folder = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=self.scratch))
            for number, chunk in enumerate(np.split(rows, ends[:-1])):
                with (self._folder / f"{number:03}").open("ab") as file:
                    file.write(chunk.tobytes())
        except OSError as error:
            reason = error.strerror or error
            raise ValueError(f"cannot write to {self.scratch} ({reason}): set REGARD_CACHE to another folder") from None


def find_repeats(keys: UInt64[np.ndarray, "rows"]) -> np.ndarray:
    """Return the indices of rows whose key an earlier row has."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    return order[1:][ordered[1:] == ordered[:-1]]


def find_conflicts(keys: UInt64[np.ndarray, "rows"], values: UInt64[np.ndarray, "rows"]) -> np.ndarray:
    """Return, for each key with several values, the first row whose value differs from that of the key's first row."""
    order = np.argsort(keys, kind="stable")
    ordered, ordered_values = keys[order], values[order]
    begins = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(order) else order
    group = np.repeat(np.arange(len(begins)), np.diff(np.r_[begins, len(order)]))
    other = np.flatnonzero(ordered_values != ordered_values[begins][group])
    return order[other[np.unique(group[other], return_index=True)[1]]]
