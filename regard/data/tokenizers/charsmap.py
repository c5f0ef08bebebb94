"""Character maps of SentencePiece normalizers, validated before the library uses them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any

import numpy as np

DEEPEST = 128  # bytes of a replaced string
LONGEST = 128  # bytes of a replacement


def check_charsmaps(part: Any) -> None:
    """Raise ValueError for a damaged character map in a normalizer."""
    for charsmap in charsmaps(part):
        check_charsmap(charsmap)


def check_charsmap(data: bytes) -> None:
    """Raise ValueError for a character map that would make the library read out of bounds.

    It is a double array of 32-bit units (a trie over UTF-8), then replacements that end with a zero byte.
    """
    if not data:
        return
    size = int.from_bytes(data[:4], "little")
    if len(data) < 4 or size % 4 or not 0 < size <= len(data) - 4:
        raise ValueError("its map of characters is damaged: the size of the trie is wrong")
    units = np.frombuffer(data, "<u4", count=size // 4, offset=4).astype(np.int64)
    replacements = data[4 + size :]
    try:
        replacements.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("its map of characters is damaged: a replacement is not UTF-8") from None
    values = _leaves(units)
    starts = np.frombuffer(replacements, np.uint8)
    inside = bool(len(starts)) and starts[-1] == 0 and bool((values < len(starts)).all())
    if not inside or bool(((starts[values] & 0xC0) == 0x80).any()):
        raise ValueError("its map of characters is damaged: it points outside the replacements")
    if max(map(len, replacements.split(b"\0"))) > LONGEST:
        raise ValueError(f"its map of characters replaces a character by more than {LONGEST} bytes")


def _leaves(units: np.ndarray) -> np.ndarray:
    """Return the positions of all trie entries in the replacements; every walk through the trie must stay inside."""
    labels = units & 0x800000FF
    nodes = np.flatnonzero((labels > 0) & (labels < 256))
    parents = nodes ^ labels[nodes]
    order = np.argsort(parents, kind="stable")
    nodes, parents = nodes[order], parents[order]
    values: list[np.ndarray] = []
    front = np.zeros(1, np.int64)
    for _ in range(DEEPEST):
        bases = front ^ ((units[front] >> 10) << ((units[front] & 512) >> 6))
        if (bases | 255).max() >= len(units):
            raise ValueError("its map of characters is damaged: the trie points outside itself")
        values.append(units[bases[(units[front] & 256) != 0]] & 0x7FFFFFFF)
        bounds = zip(np.searchsorted(parents, bases), np.searchsorted(parents, bases, "right"), strict=True)
        front = np.unique(np.concatenate([nodes[first:last] for first, last in bounds]))
        if not len(front):
            return np.concatenate(values)
    raise ValueError("its map of characters is damaged: the trie has no end")


def charsmaps(part: Any) -> Iterator[bytes]:
    """Yield the character maps of a normaliser."""
    if isinstance(part, dict) and part.get("type") == "Precompiled":
        try:
            yield base64.b64decode(part.get("precompiled_charsmap") or "", validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise ValueError("its map of characters is not in base 64") from None
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from charsmaps(inner)
