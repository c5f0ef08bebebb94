"""Arrays in idx files, the format of MNIST, gzipped or not."""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path

import numpy as np

from regard.data.encodings import find_file

PICTURES, LABELS = 0x00000803, 0x00000801  # magic numbers of idx files: bytes in three dimensions, or in one
LARGEST = 1 << 30  # maximum bytes of a file


def read_idx(folder: str, name: str, kind: int) -> np.ndarray:
    """Read an idx file of this folder, which may be under REGARD_DATA."""
    path = _find_file(folder, name)
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = zlib.decompressobj(31).decompress(data, LARGEST)
    except (OSError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} cannot be read ({error}): fetch it again") from None
    axes = kind & 0xFF
    head = 4 + 4 * axes
    if len(data) < head or struct.unpack(">I", data[:4])[0] != kind:
        raise ValueError(f"{path} is no idx file of {'pictures' if kind == PICTURES else 'labels'}: give MNIST's files")
    shape = struct.unpack(f">{axes}I", data[4:head])
    if len(data) != head + int(np.prod(shape, dtype=np.int64)):
        raise ValueError(f"{path} should hold {' x '.join(map(str, shape))} bytes and is cut short: fetch it again")
    return np.frombuffer(data, np.uint8, offset=head).reshape(shape)


def _find_file(folder: str, name: str) -> Path:
    """Return the file of this name in a folder, gzipped or not."""
    try:
        return find_file(f"{folder}/{name}")
    except ValueError as missing:
        try:
            return find_file(f"{folder}/{name}.gz")
        except ValueError:
            raise missing from None
