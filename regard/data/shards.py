"""Tokenised pairs as flat memory-mapped files: tokens, offsets, line numbers, and an order by length."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int, Integer

from regard.data.packing import Cell

SIDES = ("source", "target")
CHUNK = 1 << 17  # examples per chunk while indexing


class Writer:
    """Writer of tokenised pairs, corpus after corpus; memory use does not grow."""

    def __init__(self, place: Path, vocabs: tuple[int, int]) -> None:
        place.mkdir(parents=True, exist_ok=True)
        self.place = place
        self.types = [np.dtype(np.uint16 if vocab <= 1 << 16 else np.uint32) for vocab in vocabs]
        self.starts: list[int] = []
        self.examples = 0
        self._ends = [0, 0]
        self._files = {name: (place / name).open("wb") for name in (*SIDES, *(f"{side}.offsets" for side in SIDES))}
        self._files["lines"] = (place / "lines").open("wb")
        for side in SIDES:
            self._files[f"{side}.offsets"].write(np.zeros(1, np.int64).tobytes())

    def begin(self) -> None:
        """Start the next corpus."""
        self.starts.append(self.examples)

    def add(
        self, *texts: tuple[Integer[np.ndarray, "_"], Int[np.ndarray, "texts"]], lines: Int[np.ndarray, "texts"]
    ) -> None:
        """Add examples of the current corpus: concatenated ids and lengths of each side, and line numbers."""
        for index, (side, (ids, lengths)) in enumerate(zip(SIDES, texts, strict=True)):
            ends = self._ends[index] + np.cumsum(lengths, dtype=np.int64)
            self._files[side].write(ids.astype(self.types[index], copy=False).tobytes())
            self._files[f"{side}.offsets"].write(ends.tobytes())
            self._ends[index] = int(ends[-1]) if len(ends) else self._ends[index]
        self._files["lines"].write(lines.astype(np.int64).tobytes())
        self.examples += len(lines)

    def close(self) -> None:
        """Stop writing; safe to call again."""
        for file in self._files.values():
            file.close()

    def finish(self, bounds: Sequence[int]) -> None:
        """Sort the examples into buckets and write the metadata."""
        self.close()
        kinds = [kind.name for kind in self.types]
        shape = {"examples": self.examples, "starts": self.starts, "types": kinds, "bounds": list(bounds)}
        fingerprint = _fingerprint(self.place, shape)
        cells, lengths = _write_order(self.place, self.starts, self.examples, np.asarray(bounds))
        meta = {**shape, "cells": cells, "lengths": lengths, "fingerprint": fingerprint}
        (self.place / "meta.json").write_text(json.dumps(meta), encoding="utf-8")


class Shards:
    """Tokenised pairs on disk, memory-mapped."""

    def __init__(self, place: Path) -> None:
        meta = json.loads((place / "meta.json").read_text(encoding="utf-8"))
        self.examples: int = meta["examples"]
        self.starts: list[int] = meta["starts"]
        self.bounds: list[int] = meta["bounds"]
        self.cells = [
            [Cell(size, tuple(sums[:2]), tuple(sums[2:])) for size, sums in zip(*bucket, strict=True)]
            for bucket in zip(meta["cells"], meta["lengths"], strict=True)
        ]
        self.fingerprint: str = meta["fingerprint"]
        """Of the examples and their order on disk, whichever lines of whichever files they were."""
        self.tokens = {side: _map_array(place / side, kind) for side, kind in zip(SIDES, meta["types"], strict=True)}
        self.offsets = {side: _map_array(place / f"{side}.offsets", "int64") for side in SIDES}
        self.lines = _map_array(place / "lines", "int64")
        self.order = _map_array(place / "order", "int64")

    def gather(
        self, side: str, examples: Int[np.ndarray, "examples"]
    ) -> tuple[Int[np.ndarray, "tokens"], Int[np.ndarray, "examples"]]:
        """Return the concatenated tokens of these examples, and the length of each."""
        starts = self.offsets[side][examples]
        lengths = self.offsets[side][examples + 1] - starts
        ends = np.cumsum(lengths)
        places = np.arange(int(ends[-1])) + np.repeat(starts - ends + lengths, lengths)
        return self.tokens[side][places].astype(np.int64), lengths

    def origin(self, example: int) -> tuple[int, int]:
        """Return corpus and line of an example."""
        corpus = int(np.searchsorted(self.starts, example, side="right")) - 1
        return corpus, int(self.lines[example])


def _map_array(path: Path, kind: str) -> np.ndarray:
    return np.asarray(np.memmap(path, dtype=np.dtype(kind), mode="r"))  # a plain array over the same pages


def _fingerprint(place: Path, shape: dict[str, Any]) -> str:
    """Return the SHA-256 of all examples, which does not depend on the format of the cache."""
    total = hashlib.sha256(json.dumps(shape, sort_keys=True).encode())
    for path in sorted(place.iterdir()):
        if path.name not in {"lines", "order", "meta.json"}:
            with path.open("rb") as file:
                total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()


def _write_order(
    place: Path, starts: list[int], examples: int, bounds: Int[np.ndarray, "buckets"]
) -> tuple[list, list]:
    """Write the examples sorted by bucket and corpus, stably; return the fields of each `Cell`."""
    counts = np.zeros(len(bounds) * len(starts), np.int64)
    sums = np.zeros((len(counts), 4))
    for _, cells, sizes in _cells(place, starts, examples, bounds):
        counts += np.bincount(cells, minlength=len(counts))
        for column, values in enumerate((*sizes, *(size.astype(float) ** 2 for size in sizes))):
            sums[:, column] += np.bincount(cells, values, minlength=len(counts))
    filled = np.cumsum(counts) - counts
    with (place / "order").open("wb") as file:  # written in parts: mapped pages would stay in memory
        for start, cells, _ in _cells(place, starts, examples, bounds):
            sorting = np.argsort(cells, kind="stable")
            here = np.bincount(cells, minlength=len(counts))
            for cell, numbers in enumerate(np.split(start + sorting, np.cumsum(here)[:-1])):
                file.seek(int(filled[cell]) * numbers.itemsize)
                file.write(numbers.tobytes())
            filled += here
    shape = len(bounds), len(starts)
    return counts.reshape(shape).tolist(), sums.reshape(*shape, 4).tolist()


def _cells(
    place: Path, starts: list[int], examples: int, bounds: Int[np.ndarray, "buckets"]
) -> Iterator[tuple[int, Int[np.ndarray, "examples"], list[Int[np.ndarray, "examples"]]]]:
    """Yield chunks: the first example, and each example's cell (bucket and, within that, corpus) and lengths."""
    for start in range(0, examples, CHUNK):
        stop = min(start + CHUNK, examples)
        sizes = [
            np.diff(np.fromfile(place / f"{side}.offsets", np.int64, count=stop - start + 1, offset=start * 8))
            for side in SIDES
        ]
        buckets = np.searchsorted(bounds, np.maximum(*sizes))
        corpora = np.searchsorted(starts, np.arange(start, stop), side="right") - 1
        yield start, buckets * len(starts) + corpora, sizes
