"""Which examples are in which row: a pure function of (seed, row number), without a table of the corpus's order.

Examples lie in length buckets; a row takes its examples from one of them, as many as surely fit the token budget. The
rows of an epoch and the examples of a bucket are shuffled by keyed permutations, which are formulas: constant time,
nothing to store, the same for any number of processes.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int

GROWTH = 1.2  # of one bucket's bound over the last: a row is on average about 90 % full
SHORTEST = 8  # the first bound
FULL = 4  # rows' worth of examples below which a bucket is joined with the next
ROUNDS = 6


def buckets(longest: int) -> list[int]:
    """Growing bounds, the last of which is `longest`."""
    bounds = [min(SHORTEST, longest)]
    while bounds[-1] < longest:
        bounds.append(min(longest, math.ceil(bounds[-1] * GROWTH)))
    return bounds


def number(*parts: int) -> int:
    """A 64-bit key that depends on every part."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "little")


def shuffled(places: Int[np.ndarray, "places"], size: int, key: int) -> Int[np.ndarray, "places"]:
    """Where a keyed permutation of range(size) sends these places.

    A Feistel network on a rectangle barely larger than `size`: each round moves one coordinate by a hash of the other.
    What falls outside walks on until it is inside (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002).
    """
    width = math.isqrt(size - 1) + 1
    height = -(-size // width)
    result = places.astype(np.uint64)
    outside = np.arange(len(result))
    while len(outside):
        walked = _feistel(result[outside], np.uint64(width), np.uint64(height), key)
        result[outside] = walked
        outside = outside[walked >= size]
    return result.astype(np.int64)


def _feistel(places: np.ndarray, width: np.uint64, height: np.uint64, key: int) -> np.ndarray:
    column: np.ndarray = places % width
    row: np.ndarray = places // width
    for turn in range(ROUNDS):
        salt = np.uint64((key + turn * 0x9E3779B97F4A7C15) % 2**64)
        if turn % 2:
            row = (row + _mixed(column + salt) % height) % height
        else:
            column = (column + _mixed(row + salt) % width) % width
    return row * width + column


def _mixed(x: np.ndarray) -> np.ndarray:
    """The finalizer of SplitMix64: every bit depends on every bit."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@dataclass(frozen=True)
class Group:
    """One or more neighbouring buckets that share their rows."""

    bound: int
    """No sequence is longer."""
    starts: Int[np.ndarray, "cells"]
    """Where each cell (the examples of one bucket and corpus) begins in the sorted corpus."""
    sizes: Int[np.ndarray, "cells"]
    """Examples in each cell."""
    shown: Int[np.ndarray, "cells"]
    """Of them, how many are shown in an epoch, repetitions counted."""
    rows: int
    """Rows an epoch takes from this group."""


@dataclass(frozen=True)
class Packing:
    """The order of a corpus: `rows` in an epoch, and what lies in any row."""

    groups: tuple[Group, ...]
    tokens: int
    seed: int

    @cached_property
    def _ends(self) -> Int[np.ndarray, "groups"]:
        return np.cumsum([group.rows for group in self.groups])

    @property
    def rows(self) -> int:
        """Rows in an epoch."""
        return int(self._ends[-1])

    @property
    def segments(self) -> int:
        """Enough segments for any row and its tail cut into pieces no longer than the bound."""
        return max(self.tokens // group.bound + -(-self.tokens // group.bound) for group in self.groups)

    def row(self, row: int) -> tuple[Int[np.ndarray, "examples"], int]:
        """Places in the sorted corpus of the examples in this row, counted on across epochs, and their bound."""
        epoch, place = divmod(row, self.rows)
        place = int(shuffled(np.array([place]), self.rows, number(self.seed, epoch))[0])
        index = int(np.searchsorted(self._ends, place, side="right"))
        group = self.groups[index]
        within = place - int(self._ends[index]) + group.rows
        shown = int(group.shown.sum())
        turns = np.arange(within * shown // group.rows, (within + 1) * shown // group.rows)
        turns = shuffled(turns, shown, number(self.seed, epoch, index))
        return self._examples(group, turns, (self.seed, epoch, index)), group.bound

    def _examples(
        self, group: Group, turns: Int[np.ndarray, "examples"], key: tuple[int, ...]
    ) -> Int[np.ndarray, "examples"]:
        """The example behind each turn; a cell shown one and a half times permutes which half comes twice."""
        ends = np.cumsum(group.shown)
        cells = np.searchsorted(ends, turns, side="right")
        places = (turns - (ends - group.shown)[cells]) % group.sizes[cells]
        for cell in np.unique(cells):
            if group.shown[cell] % group.sizes[cell]:
                chosen = cells == cell
                places[chosen] = shuffled(places[chosen], int(group.sizes[cell]), number(*key, int(cell)))
        return group.starts[cells] + places


def pack(
    cells: Sequence[Sequence[int]], bounds: Sequence[int], *, weights: Sequence[float], tokens: int, seed: int
) -> Packing:
    """The order of a corpus with this many examples of each bucket (outer) and source corpus (inner)."""
    assert bounds[-1] <= tokens, f"sequences of {bounds[-1]} do not fit rows of {tokens}"
    groups: list[Group] = []
    waiting: list[tuple[int, int, int]] = []  # start, size, shown
    bound = start = 0
    for bucket, counts in zip(bounds, cells, strict=True):
        for count, weight in zip(counts, weights, strict=True):
            if count:
                # Rounded up, so that in every epoch each example has its chance.
                waiting.append((start, count, math.ceil(count * weight - 1e-9)))
                start += count
                bound = bucket
        if sum(shown for _, _, shown in waiting) >= FULL * (tokens // max(bound, 1)):
            groups.append(_group(waiting, bound, tokens))
            waiting = []
    if waiting:
        groups.append(_group(waiting, bound, tokens))
    return Packing(tuple(groups), tokens, seed)


def _group(waiting: list[tuple[int, int, int]], bound: int, tokens: int) -> Group:
    starts, sizes, shown = (np.array(column, np.int64) for column in zip(*waiting, strict=True))
    return Group(bound, starts, sizes, shown, rows=-(-int(shown.sum()) // (tokens // bound)))
