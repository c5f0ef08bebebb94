"""Packing of examples into rows: a pure function of (seed, row number), without a stored order of the corpus.

Examples are in length buckets; a row takes its examples from one bucket, as many as fit the token budget: for long
examples as many as certainly fit, for short ones as many as practically always do, since sums of many lengths hardly
vary. The rows of an epoch and the examples of a bucket are shuffled by keyed permutations, which are computed: constant
time, nothing to store, the same for any number of processes.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int

GROWTH = 1.2  # ratio of consecutive bucket bounds
SHORTEST = 8  # the first bound
FULL = 4  # rows that a bucket must fill, or it is merged with the next
MANY = 16  # examples per row from which the sum of their lengths is assumed to be close to its mean
SURELY = 5.0  # standard deviations left free above the mean: one row in three million exceeds them
ROUNDS = 6


def buckets(longest: int) -> list[int]:
    """Return increasing bounds up to `longest`."""
    bounds = [min(SHORTEST, longest)]
    while bounds[-1] < longest:
        bounds.append(min(longest, math.ceil(bounds[-1] * GROWTH)))
    return bounds


def number(*parts: int) -> int:
    """Return a 64-bit key that depends on every part."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "little")


def permute(places: Int[np.ndarray, "places"], size: int, key: int) -> Int[np.ndarray, "places"]:
    """Apply a keyed permutation of range(size) to these places.

    A Feistel network on a rectangle barely larger than `size`: each round shifts one coordinate by a hash of the other.
    Values outside the range are permuted again until they are inside (Black and Rogaway, "Ciphers with arbitrary finite
    domains", 2002).
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
            row = (row + _mix_bits(column + salt) % height) % height
        else:
            column = (column + _mix_bits(row + salt) % width) % width
    return row * width + column


def _mix_bits(x: np.ndarray) -> np.ndarray:
    """Mix bits with the finalizer of SplitMix64, so that every bit depends on every bit."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@dataclass(frozen=True)
class Group:
    """One or more adjacent buckets that share their rows."""

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

    @property
    def most(self) -> int:
        """Return the number of examples in the fullest row."""
        return -(-int(self.shown.sum()) // self.rows)


@dataclass(frozen=True)
class Packing:
    """The order of a corpus: the number of rows per epoch, and the examples of any row."""

    groups: tuple[Group, ...]
    tokens: int
    seed: int

    @cached_property
    def _ends(self) -> Int[np.ndarray, "groups"]:
        return np.cumsum([group.rows for group in self.groups])

    @property
    def rows(self) -> int:
        """Return the number of rows per epoch."""
        return int(self._ends[-1])

    @property
    def segments(self) -> int:
        """Return a number of segments that is enough for any row, with its tail split into pieces up to the bound."""
        fewest = (max(self.tokens // group.bound, group.most) for group in self.groups)
        return max(n + -(-self.tokens // group.bound) for n, group in zip(fewest, self.groups, strict=True))

    @cached_property
    def most(self) -> dict[int, int]:
        """Return the number of examples in the fullest row of each bound."""
        return {group.bound: group.most for group in self.groups}

    def row(self, row: int) -> tuple[Int[np.ndarray, "examples"], int]:
        """Return the indices in the sorted corpus of a row's examples, and their bound; rows count on across epochs."""
        epoch, place = divmod(row, self.rows)
        place = int(permute(np.array([place]), self.rows, number(self.seed, epoch))[0])
        index = int(np.searchsorted(self._ends, place, side="right"))
        group = self.groups[index]
        within = place - int(self._ends[index]) + group.rows
        shown = int(group.shown.sum())
        turns = np.arange(within * shown // group.rows, (within + 1) * shown // group.rows)
        turns = permute(turns, shown, number(self.seed, epoch, index))
        return self._examples(group, turns, (self.seed, epoch, index)), group.bound

    def _examples(
        self, group: Group, turns: Int[np.ndarray, "examples"], key: tuple[int, ...]
    ) -> Int[np.ndarray, "examples"]:
        """Return the example of each turn; in a cell shown 1.5 times, a permutation decides which half repeats."""
        ends = np.cumsum(group.shown)
        cells = np.searchsorted(ends, turns, side="right")
        places = (turns - (ends - group.shown)[cells]) % group.sizes[cells]
        for cell in np.unique(cells):
            if group.shown[cell] % group.sizes[cell]:
                chosen = cells == cell
                places[chosen] = permute(places[chosen], int(group.sizes[cell]), number(*key, int(cell)))
        return group.starts[cells] + places


@dataclass(frozen=True)
class Cell:
    """The examples of one bucket and corpus."""

    size: int
    """How many there are."""
    total: tuple[float, ...] = ()
    """The sum of their lengths on each side; none if nothing is known of them but the bound."""
    squares: tuple[float, ...] = ()
    """The sum of the squares of those."""


def pack(
    cells: Sequence[Sequence[Cell | int]], bounds: Sequence[int], *, weights: Sequence[float], tokens: int, seed: int
) -> Packing:
    """Return the packing of a corpus with these examples per bucket (outer) and source corpus (inner)."""
    assert bounds[-1] <= tokens, f"sequences of {bounds[-1]} do not fit rows of {tokens}"
    groups: list[Group] = []
    waiting: list[tuple[int, Cell, int]] = []  # start, the cell, how often its examples are shown in total
    bound = start = 0
    for bucket, of_bucket in zip(bounds, cells, strict=True):
        for entry, weight in zip(of_bucket, weights, strict=True):
            cell = Cell(entry) if isinstance(entry, int) else entry
            if cell.size:
                # Rounded up, so that in every epoch each example can be chosen.
                waiting.append((start, cell, math.ceil(cell.size * weight - 1e-9)))
                start += cell.size
                bound = bucket
        if sum(shown for _, _, shown in waiting) >= FULL * (tokens // max(bound, 1)):
            groups.append(_group(waiting, bound, tokens))
            waiting = []
    if waiting:
        groups.append(_group(waiting, bound, tokens))
    return Packing(tuple(groups), tokens, seed)


def _group(waiting: list[tuple[int, Cell, int]], bound: int, tokens: int) -> Group:
    columns = zip(*((start, cell.size, shown) for start, cell, shown in waiting), strict=True)
    starts, sizes, shown = (np.array(column, np.int64) for column in columns)
    fit = max(tokens // bound, _fit([(cell, times) for _, cell, times in waiting], tokens))
    return Group(bound, starts, sizes, shown, rows=-(-int(shown.sum()) // fit))


def _fit(cells: Sequence[tuple[Cell, int]], tokens: int) -> int:
    """Return how many examples of these cells practically always fit a row on every side; 0 if there are too few."""
    if not all(cell.total for cell, _ in cells):
        return 0
    shown = sum(times for _, times in cells)
    fits = []
    for side in range(len(cells[0][0].total)):
        mean = sum(cell.total[side] / cell.size * times for cell, times in cells) / shown
        square = sum(cell.squares[side] / cell.size * times for cell, times in cells) / shown
        spread = SURELY * math.sqrt(max(0.0, square - mean**2))
        # The largest n with n * mean + spread * sqrt(n) <= tokens.
        fits.append(int(((math.sqrt(spread**2 + 4 * mean * tokens) - spread) / (2 * mean)) ** 2))
    return min(fits) if min(fits) >= MANY else 0
