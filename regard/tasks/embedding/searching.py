"""Exact search by meaning: the lines of a file as vectors in an index beside it, compared with a query by cosine.

The index is one safetensors file: the unit vectors of all lines that are not blank, the number of each line and where
it begins in the file. Its header names the file, the model and the settings that it was made with by their digests. It
is written as lines are read and compared block by block, so that memory does not grow with the file.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from regard import config
from regard.checkpoint import fingerprint
from regard.data.encodings import hint
from regard.tasks.embedding.embedder import Embedder

FORMAT = "1"
ENDING = ".index.safetensors"
TOGETHER = 2048  # lines embedded at a time
BLOCK = 1 << 16  # vectors compared at a time
HEAD = 1 << 20  # bytes of a header at most
BLANK = "0" * 64  # where the digest of the content will stand


@dataclass(frozen=True)
class Hit:
    """A line that was found."""

    line: int
    score: float
    text: str

    def __str__(self) -> str:
        return f"{self.score:.4f}\t{self.line}\t{self.text}"

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {"line": self.line, "score": round(self.score, 6), "text": self.text}


@dataclass(frozen=True)
class Index:
    """The vectors of a file's lines, mapped from the disk."""

    file: Path
    vectors: Float[np.ndarray, "line width"]
    places: Int[np.ndarray, "line 2"]
    """The number of each line, counted from 1, and the byte that it begins at."""

    def search(self, query: Float[np.ndarray, "width"], count: int) -> list[Hit]:
        """The lines whose cosine with a query is largest, the first of equals first."""
        unit = query / max(float(np.linalg.norm(query)), np.finfo(np.float32).tiny)
        best: list[tuple[float, int]] = []
        for start in range(0, len(self.vectors), BLOCK):
            scores = self.vectors[start : start + BLOCK] @ unit
            top = np.argsort(-scores, kind="stable")[:count]
            best = heapq.nsmallest(count, [*best, *((-float(scores[n]), start + int(n)) for n in top)])
        with self.file.open("rb") as file:
            return [self._hit(file, place, -lacking) for lacking, place in best]

    def _hit(self, file: Any, place: int, score: float) -> Hit:
        line, begin = (int(each) for each in self.places[place])
        file.seek(begin)
        return Hit(line, score, _ended(file.readline()).decode("utf-8"))


def opened(
    file: Path, embedder: Embedder, model: str, *, index: Path | None = None, **options: Any
) -> tuple[Index, bool]:
    """The index of a file, made anew if the file, the model or the settings are others; and whether it was.

    `model` is the digest of the model.
    """
    place = index or file.with_name(file.name + ENDING)
    how = config.plain(embedder.chosen(options))
    digest, lines = _counted(file)
    if not lines:
        raise ValueError(f"{file} has no line that is not blank: there is nothing to search")
    identity = {"format": FORMAT, "file": digest, "model": model, "settings": fingerprint(how)}
    width = embedder.width
    if (found := _read(place, identity, lines, width)) is not None:
        return Index(file, *found), False
    _write(place, file, embedder, options, identity, (lines, width))
    found = _read(place, identity, lines, width)
    if found is None:
        raise ValueError(f"{place} was changed while it was made: search again")
    return Index(file, *found), True


def _counted(file: Path) -> tuple[str, int]:
    """The digest of a file, and how many of its lines are not blank."""
    digest, lines = hashlib.sha256(), 0
    with file.open("rb") as source:
        for line in source:
            digest.update(line)
            lines += bool(line.strip())
    return digest.hexdigest(), lines


def _lines(file: Path, digest: Any) -> Iterator[tuple[int, int, str]]:
    """Number, first byte and text of every line that is not blank; the digest hears all of them."""
    begin = 0
    with file.open("rb") as source:
        for number, line in enumerate(source, start=1):
            digest.update(line)
            try:
                text = _ended(line).decode("utf-8")
            except UnicodeDecodeError:
                told = hint(line, str(file))
                raise ValueError(f"{file}:{number}: not UTF-8, convert it first{told and f' ({told})'}") from None
            if line.strip():
                yield number, begin, text
            begin += len(line)


def _digest(file: Any) -> str:
    """SHA-256 of the rest of a file."""
    found = hashlib.sha256()
    while piece := file.read(1 << 20):
        found.update(piece)
    return found.hexdigest()


def _ended(line: bytes) -> bytes:
    return line.removesuffix(b"\n").removesuffix(b"\r")


def _header(identity: dict[str, str], content: str, lines: int, width: int) -> bytes:
    """The beginning of a safetensors file: the length of a JSON text, and that text."""
    first, both = 16 * lines, 16 * lines + 4 * lines * width
    told = {
        "__metadata__": {**identity, "content": content},
        "places": {"dtype": "I64", "shape": [lines, 2], "data_offsets": [0, first]},
        "vectors": {"dtype": "F32", "shape": [lines, width], "data_offsets": [first, both]},
    }
    text = json.dumps(told, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def _write(
    place: Path,
    file: Path,
    embedder: Embedder,
    options: dict[str, Any],
    identity: dict[str, str],
    shape: tuple[int, int],
) -> None:
    """Embed all lines into a file beside the place, which it takes when it is whole."""
    lines, width = shape
    aside = place.with_name(f".{place.name}.{os.getpid()}.part")
    head = _header(identity, BLANK, lines, width)
    heard, done = hashlib.sha256(), 0
    try:
        with aside.open("w+b") as target:
            target.write(head)
            target.truncate(len(head) + 16 * lines + 4 * lines * width)
            source = _lines(file, heard)
            while block := list(islice(source, TOGETHER)):
                vectors = _units(embedder.embed([text for _, _, text in block], **options))
                if done + len(block) > lines:
                    break
                target.seek(len(head) + 16 * done)
                target.write(np.array([pair[:2] for pair in block], "<i8").tobytes())
                target.seek(len(head) + 16 * lines + 4 * width * done)
                target.write(vectors.astype("<f4").tobytes())
                done += len(block)
            if done != lines or heard.hexdigest() != identity["file"]:
                raise ValueError(f"{file} changed while it was read: search again")
            target.seek(len(head))
            content = _digest(target)
            target.seek(0)
            target.write(_header(identity, content, lines, width))
            target.flush()
            os.fsync(target.fileno())
        aside.replace(place)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ValueError(f"{place}: not written, {reason}: name another place by --index") from None
    finally:
        aside.unlink(missing_ok=True)


def _units(vectors: Float[np.ndarray, "line width"]) -> Float[np.ndarray, "line width"]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, np.finfo(np.float32).tiny)


def _read(place: Path, identity: dict[str, str], lines: int, width: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Vectors and places, if this is the index that `_write` would make; None if it is another's, or damaged."""
    if not place.is_file():
        return None
    with place.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        try:
            told = json.loads(file.read(min(size, HEAD)))["__metadata__"]
            content = str(told["content"])
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{place}: is no index that Regard wrote: remove it, or name another by --index") from None
        head = _header(identity, content, lines, width)
        file.seek(0)
        if file.read(len(head)) != head or os.fstat(file.fileno()).st_size != len(head) + lines * (16 + 4 * width):
            return None
        if _digest(file) != content:
            return None
    places = np.memmap(place, "<i8", "r", len(head), (lines, 2))
    vectors = np.memmap(place, "<f4", "r", len(head) + 16 * lines, (lines, width))
    return vectors, places
