"""The index of a file's lines on disk: a safetensors file whose metadata identify the file, model and settings.

`vectors` has a unit vector for every line that is not blank, `places` the number of each line and its first byte,
`keys` a hash of its text. The metadata hold SHA-256 digests of the file, of the model, of the settings, and of the
arrays. The last is the digest of the digests of pieces of `piece` bytes, which are checked on all cores at every
search; without `piece`, as written by earlier versions, it is the digest of all arrays at once.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from jaxtyping import Float, Int, UInt64

FORMAT = "2"
HEADER_BYTES = 1 << 20
PIECE_BYTES = 1 << 23
BUFFER_BYTES = 1 << 20
UNKNOWN_DIGEST = "0" * 64  # placeholder in the header until the content is written


@dataclass(frozen=True)
class IndexFile:
    """The memory-mapped arrays of an index, and the digests of its file, model and settings."""

    identity: dict[str, str]
    keys: UInt64[np.ndarray, "line"]
    places: Int[np.ndarray, "line 2"]
    vectors: Float[np.ndarray, "line width"]


@dataclass(frozen=True)
class _Header:
    identity: dict[str, str]
    content: str
    lines: int
    width: int
    piece: int | None

    @property
    def size(self) -> int:
        """Size of all arrays in bytes."""
        return self.lines * (8 + 16 + 4 * self.width)

    def render(self) -> bytes:
        """Return the header of a safetensors file: the length of a JSON text, and that text."""
        keys, places = 8 * self.lines, 24 * self.lines
        pieces = {} if self.piece is None else {"piece": str(self.piece)}
        header = {
            "__metadata__": {**self.identity, "content": self.content, **pieces},
            "keys": {"dtype": "U64", "shape": [self.lines], "data_offsets": [0, keys]},
            "places": {"dtype": "I64", "shape": [self.lines, 2], "data_offsets": [keys, places]},
            "vectors": {"dtype": "F32", "shape": [self.lines, self.width], "data_offsets": [places, self.size]},
        }
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        return struct.pack("<Q", len(text)) + text


def read_identity(path: Path) -> dict[str, str] | None:
    """Return the identity of an index, or None without a file; a file that is not an index is an error."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return _read_header(file, path)[0]


def read_index(path: Path) -> IndexFile | None:
    """Map the arrays of an index into memory; return None if they are damaged."""
    with path.open("rb") as file:
        identity, plain = _read_header(file, path)
        header = _parse_header(identity, plain)
        if header is None:
            return None
        file.seek(0)
        rendered = header.render()
        whole = len(rendered) + header.size == os.fstat(file.fileno()).st_size
        if not whole or file.read(len(rendered)) != rendered:
            return None
    if _digest_content(path, len(rendered), header) != header.content:
        return None
    lines, first = header.lines, len(rendered)
    keys = np.memmap(path, "<u8", "r", first, (lines,))
    places = np.memmap(path, "<i8", "r", first + 8 * lines, (lines, 2))
    vectors = np.memmap(path, "<f4", "r", first + 24 * lines, (lines, header.width))
    return IndexFile(identity, keys, places, vectors)


def write_index(
    path: Path,
    identity: Mapping[str, str],
    keys: UInt64[np.ndarray, "line"],
    places: Int[np.ndarray, "line 2"],
    blocks: Iterable[Float[np.ndarray, "block width"]],
    width: int,
) -> None:
    """Write an index, with its vectors block by block, to a temporary file that is renamed at the end."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    header = _Header(dict(identity), UNKNOWN_DIGEST, len(keys), width, PIECE_BYTES)
    digest = _PiecewiseDigest()
    try:
        with temporary.open("wb") as file:
            file.write(header.render())
            for array in (keys.astype("<u8"), places.astype("<i8")):
                _write(file, digest, array)
            for block in blocks:
                _write(file, digest, block.astype("<f4", copy=False))
            file.seek(0)
            file.write(replace(header, content=digest.hexdigest()).render())
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


class _PiecewiseDigest:
    """SHA-256 of the SHA-256 digests of pieces of PIECE_BYTES."""

    def __init__(self) -> None:
        self._whole, self._piece, self._room = hashlib.sha256(), hashlib.sha256(), PIECE_BYTES

    def update(self, data: bytes) -> None:
        """Add content to the digest."""
        view = memoryview(data)
        while view:
            part, view = view[: self._room], view[self._room :]
            self._piece.update(part)
            self._room -= len(part)
            if not self._room:
                self._whole.update(self._piece.digest())
                self._piece, self._room = hashlib.sha256(), PIECE_BYTES

    def hexdigest(self) -> str:
        """Return the digest of all content."""
        if self._room < PIECE_BYTES:
            self._whole.update(self._piece.digest())
        return self._whole.hexdigest()


def _write(file: BinaryIO, digest: _PiecewiseDigest, array: np.ndarray) -> None:
    data = np.ascontiguousarray(array).tobytes()
    digest.update(data)
    file.write(data)


def _read_header(file: BinaryIO, path: Path) -> tuple[dict[str, str], dict[str, Any]]:
    size = int.from_bytes(file.read(8), "little")
    try:
        plain = json.loads(file.read(min(size, HEADER_BYTES)))
        metadata = plain["__metadata__"]
        identity = {name: str(metadata[name]) for name in ("format", "file", "model", "settings")}
        plain["content"], plain["piece"] = str(metadata["content"]), metadata.get("piece")
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(f"{path}: is no index that Regard wrote: remove it, or name another by --index") from None
    return identity, plain


def _parse_header(identity: dict[str, str], plain: dict[str, Any]) -> _Header | None:
    """Return the header with its sizes, or None if they are missing or invalid."""
    try:
        lines, width = (int(size) for size in plain["vectors"]["shape"])
        piece = None if plain["piece"] is None else int(plain["piece"])
    except (KeyError, TypeError, ValueError):
        return None
    valid = lines > 0 and width > 0 and piece in (None, PIECE_BYTES)
    return _Header(identity, plain["content"], lines, width, piece) if valid else None


def _digest_content(path: Path, first: int, header: _Header) -> str:
    """Return the digest of the content after a file's header, by pieces if the header has them."""
    if header.piece is None:
        return _digest_bytes(path, first, header.size).hex()
    starts = range(first, first + header.size, header.piece)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        digests = pool.map(partial(_digest_bytes, path, size=header.piece), starts)
        return hashlib.sha256(b"".join(digests)).hexdigest()


def _digest_bytes(path: Path, start: int, size: int) -> bytes:
    """Return the SHA-256 digest of up to `size` bytes of a file."""
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        file.seek(start)
        while size > 0 and (data := file.read(min(BUFFER_BYTES, size))):
            digest.update(data)
            size -= len(data)
    return digest.digest()
