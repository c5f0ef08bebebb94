"""A journal of text vectors by hash of the text, appended block by block so that an interrupted run can resume.

The file begins with one line of JSON that names the model and the settings. Each block has the number of texts, their
keys, their vectors, and the SHA-256 digest of all three: if the last block is incomplete, those before it are kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int, UInt64

MAGIC = "regard vectors"
HEADER_BYTES = 4096  # most bytes of the first line
BLOCK_TEXTS = 1 << 16  # most texts of a block; a larger number means a damaged file
DIGEST_BYTES = 32

Keys = UInt64[np.ndarray, "text"]
Vectors = Float[np.ndarray, "text width"]


@dataclass
class KnownVectors:
    """Stored vectors by key, in several arrays that may be memory-mapped."""

    width: int
    arrays: list[Vectors] = field(default_factory=list)
    keys: list[Keys] = field(default_factory=list)

    def add(self, keys: Keys, vectors: Vectors) -> None:
        """Add vectors with their keys."""
        assert vectors.shape == (len(keys), self.width), f"{vectors.shape} for {len(keys)} texts of {self.width}"
        self.arrays.append(vectors)
        self.keys.append(keys)

    def find(self, keys: Keys) -> Int[np.ndarray, "text"]:
        """Return the row of each key, counted over all arrays, or -1 for an unknown key."""
        known_keys = np.concatenate([np.zeros(0, np.uint64), *self.keys])
        order = np.argsort(known_keys, kind="stable")
        if not len(known_keys):
            return np.full(len(keys), -1)
        place = np.searchsorted(known_keys, keys, sorter=order).clip(max=len(known_keys) - 1)
        rows = order[place]
        return np.where(known_keys[rows] == keys, rows, -1)

    def gather(self, rows: Int[np.ndarray, "text"]) -> Vectors:
        """Return the vectors of these rows."""
        ends = np.cumsum([len(array) for array in self.arrays])
        array_of_row = np.searchsorted(ends, rows, side="right")
        vectors = np.empty((len(rows), self.width), np.float32)
        for number in np.unique(array_of_row):
            array, here = self.arrays[number], array_of_row == number
            vectors[here] = array[rows[here] - (ends[number] - len(array))]
        return vectors


class VectorJournal:
    """The file to which vectors are appended; it is created with the first block."""

    def __init__(self, path: Path, identity: Mapping[str, str], width: int) -> None:
        self.path, self.width = path, width
        self.header = json.dumps({"magic": MAGIC, "width": width, **identity}, sort_keys=True).encode() + b"\n"
        assert len(self.header) <= HEADER_BYTES, "the first line is read with a bound"

    def restore(self, stored: KnownVectors) -> bool:
        """Add all complete blocks to `stored`, cut off a damaged rest, and return True if there was one.

        A file of another model or other settings is emptied; a file that is not a journal is an error.
        """
        if not self.path.exists():
            return False
        with self.path.open("rb") as file:
            first = file.readline(HEADER_BYTES)
        if not _is_journal(first):
            raise ValueError(f"{self.path}: was not written by Regard: remove it, or name another place by --index")
        end = self._read_blocks(stored) if first == self.header else 0
        damaged = first == self.header and end < self.path.stat().st_size
        os.truncate(self.path, end)
        return damaged

    def append(self, keys: Keys, vectors: Vectors) -> Vectors:
        """Append a block, sync it to disk, and return its memory-mapped vectors."""
        content = _block_content(keys, vectors)
        with self.path.open("ab") as file:
            if not file.tell():
                file.write(self.header)
            begin = file.tell()
            file.write(content + hashlib.sha256(content).digest())
            file.flush()
            os.fsync(file.fileno())
        return self._map_vectors(begin + 8 + 8 * len(keys), len(keys))

    def remove(self) -> None:
        """Remove the file, if there is one."""
        self.path.unlink(missing_ok=True)

    def _read_blocks(self, stored: KnownVectors) -> int:
        """Add the vectors of all complete blocks to `stored`; return the offset at the end of the last one."""
        size, end = self.path.stat().st_size, len(self.header)
        with self.path.open("rb") as file:
            file.seek(end)
            while len(head := file.read(8)) == 8:
                [count] = struct.unpack("<Q", head)
                length = count * (8 + 4 * self.width)
                if not 0 < count <= BLOCK_TEXTS or end + 8 + length + DIGEST_BYTES > size:
                    break
                content = head + file.read(length)
                if file.read(DIGEST_BYTES) != hashlib.sha256(content).digest():
                    break
                keys = np.frombuffer(content, "<u8", count, offset=8).astype(np.uint64)
                stored.add(keys, self._map_vectors(end + 8 + 8 * count, count))
                end = file.tell()
        return end

    def _map_vectors(self, offset: int, count: int) -> Vectors:
        return np.memmap(self.path, "<f4", "r", offset, (count, self.width))


def _is_journal(line: bytes) -> bool:
    try:
        header = json.loads(line)
    except ValueError:
        return False
    return isinstance(header, dict) and header.get("magic") == MAGIC


def _block_content(keys: Keys, vectors: Vectors) -> bytes:
    assert 0 < len(keys) <= BLOCK_TEXTS, "a block is bounded"
    numbers = keys.astype("<u8").tobytes() + np.ascontiguousarray(vectors, "<f4").tobytes()
    return struct.pack("<Q", len(keys)) + numbers
