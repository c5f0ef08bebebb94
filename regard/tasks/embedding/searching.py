"""Exact semantic search: the lines of a file are embedded in an index beside it and compared with a query by cosine.

Lines are embedded in blocks, and every block is written to disk at once: an interrupted index is resumed, and after a
change of the file only new lines are embedded. Vectors are compared block by block; beside them, memory grows by some
60 bytes a line.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from jaxtyping import Float, Int, UInt64

from regard import config
from regard.checkpoint import fingerprint
from regard.config.words import quantity
from regard.data.cache import hold_lock
from regard.data.dedup import key
from regard.data.encodings import hint
from regard.tasks.embedding.embedder import Embedder, Progress
from regard.tasks.embedding.index_file import FORMAT, IndexFile, read_identity, read_index, write_index
from regard.tasks.embedding.vector_store import KnownVectors, VectorJournal

SUFFIX = ".index.safetensors"
UNFINISHED_SUFFIX = ".unfinished"  # suffix of the vectors of an unfinished index
BLOCK_LINES = 1 << 13  # lines embedded between two writes to disk, the most that can be lost
COMPARED_LINES = 1 << 16  # vectors compared at a time

Report = Callable[[str], None]


@dataclass(frozen=True)
class Hit:
    """A line of the search results."""

    line: int
    score: float
    text: str

    def __str__(self) -> str:
        return f"{self.score:.4f}\t{self.line}\t{self.text}"

    def plain(self) -> dict[str, Any]:
        """Return everything as JSON."""
        return {"line": self.line, "score": round(self.score, 6), "text": self.text}


@dataclass(frozen=True)
class Index:
    """The memory-mapped vectors of a file's lines."""

    file: Path
    place: Path
    vectors: Float[np.ndarray, "line width"]
    places: Int[np.ndarray, "line 2"]
    """The number of each line, from 1, and the offset of its first byte."""
    embedded: int = 0
    """Number of lines embedded by this call."""
    is_new: bool = False
    """True if the index was built by this call."""

    def search(self, query: Float[np.ndarray, "width"], count: int) -> list[Hit]:
        """Return the `count` lines with the largest cosine with a query; ties are in the order of the file."""
        with self.file.open("rb") as file:
            return [self._hit(file, row, score) for row, score in _rank_vectors(self.vectors, query, count)]

    def _hit(self, file: BinaryIO, row: int, score: float) -> Hit:
        line, begin = (int(number) for number in self.places[row])
        return Hit(line, score, _read_line(file, begin))


def search_texts(
    texts: Sequence[str], vectors: Float[np.ndarray, "text width"], query: Float[np.ndarray, "width"], count: int
) -> list[Hit]:
    """Return the `count` texts whose vectors have the largest cosine with a query, numbered from 1 as lines are."""
    ranked = _rank_vectors(_normalise(vectors), query, count)
    return [Hit(row + 1, score, texts[row]) for row, score in ranked]


def _rank_vectors(
    vectors: Float[np.ndarray, "line width"], query: Float[np.ndarray, "width"], count: int
) -> list[tuple[int, float]]:
    """Return the rows of unit vectors with the largest cosine with a query, and the cosines; ties are in order."""
    unit = query / max(float(np.linalg.norm(query)), np.finfo(np.float32).tiny)
    best: list[tuple[float, int]] = []
    for start in range(0, len(vectors), COMPARED_LINES):
        scores = vectors[start : start + COMPARED_LINES] @ unit
        top = np.argsort(-scores, kind="stable")[:count]
        best = heapq.nsmallest(count, [*best, *((-float(scores[n]), start + int(n)) for n in top)])
    return [(row, -negative_score) for negative_score, row in best]


@dataclass(frozen=True)
class Lines:
    """The non-blank lines of a file: the hash, number and byte offset of each."""

    keys: UInt64[np.ndarray, "line"]
    places: Int[np.ndarray, "line 2"]


def open_index(
    file: Path,
    embedder: Embedder,
    model: str,
    *,
    index: Path | None = None,
    report: Report = lambda message: None,
    progress: Progress = lambda completed, total: None,
    **options: Any,
) -> Index:
    """Return the index of a file; build it unless there is one for this file, this model and these settings.

    `model` is the digest of the model. `report` is called with messages for the user, and `progress` with the number of
    embedded lines and the total to embed.
    """
    place = index or file.with_name(file.name + SUFFIX)
    embedder_settings = config.plain(embedder.resolve_options(options))
    settings = fingerprint(config.restore_former_names(embedder_settings, where="embedding"))
    identity = {"format": FORMAT, "file": _digest_file(file), "model": model, "settings": settings}
    if (ready := _read_matching(place, identity, report)) is not None:
        return Index(file, place, ready.vectors, ready.places)
    lines = _scan_lines(file, identity["file"])
    try:
        with hold_lock(place.with_name(f".{place.name}.lock")):
            if (ready := _read_matching(place, identity, lambda message: None)) is not None:
                return Index(file, place, ready.vectors, ready.places)  # another process has built it
            builder = _Builder(file, place, embedder, options, identity)
            embedded = builder.build(lines, report, progress)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ValueError(f"{place}: not written, {reason}: name another place by --index") from None
    written = read_index(place)
    if written is None or written.identity != identity:
        raise ValueError(f"{place} was changed while it was made: search again")
    return Index(file, place, written.vectors, written.places, embedded, is_new=True)


@dataclass(frozen=True)
class _Builder:
    """Builds the index of a file from stored vectors and newly embedded lines."""

    file: Path
    place: Path
    embedder: Embedder
    options: dict[str, Any]
    identity: dict[str, str]

    def build(self, lines: Lines, report: Report, progress: Progress) -> int:
        """Embed the new lines, write the index, and return the number of embedded lines."""
        stored = self._load_previous()
        vectors_of = {name: self.identity[name] for name in ("model", "settings")}
        unfinished = self.place.with_name(self.place.name + UNFINISHED_SUFFIX)
        journal = VectorJournal(unfinished, vectors_of, self.embedder.width)
        kept_before = sum(map(len, stored.keys))
        if journal.restore(stored):
            report(f"{unfinished} ended in a damaged block, which is embedded again")
        resumed = sum(map(len, stored.keys)) - kept_before
        if resumed:
            report(f"{self.place}: resuming after {quantity(resumed, 'line')}")
        distinct, first_lines = np.unique(lines.keys, return_index=True)
        missing = np.sort(first_lines[stored.find(distinct) < 0])
        if len(missing) > BLOCK_LINES:
            report(f"{self.place}: {len(missing):,} lines to embed; if it is interrupted, the same command resumes")
            progress(0, len(missing))
        self._embed(lines, missing, (journal, stored), progress)
        rows = stored.find(lines.keys)
        starts = range(0, len(rows), BLOCK_LINES)
        blocks = (stored.gather(rows[start : start + BLOCK_LINES]) for start in starts)
        write_index(self.place, self.identity, lines.keys, lines.places, blocks, self.embedder.width)
        journal.remove()
        return len(missing)

    def _load_previous(self) -> KnownVectors:
        """Return the vectors of an existing index with the same model and settings, even of an older file."""
        stored = KnownVectors(self.embedder.width)
        previous = read_identity(self.place)
        if previous is not None and {**previous, "file": self.identity["file"]} == self.identity:
            whole = read_index(self.place)
            if whole is not None and whole.vectors.shape[1] == stored.width:
                stored.add(np.asarray(whole.keys), whole.vectors)
        return stored

    def _embed(
        self,
        lines: Lines,
        missing: Int[np.ndarray, "missing"],
        store: tuple[VectorJournal, KnownVectors],
        progress: Progress,
    ) -> None:
        """Embed these lines, block by block."""
        journal, stored = store
        for start in range(0, len(missing), BLOCK_LINES):
            block = missing[start : start + BLOCK_LINES]
            texts = list(self._texts(lines, block))
            so_far = partial(_add_offset, progress, start, len(missing))
            vectors = _normalise(self.embedder.embed(texts, progress=so_far, **self.options))
            stored.add(lines.keys[block], journal.append(lines.keys[block], vectors))

    def _texts(self, lines: Lines, block: Int[np.ndarray, "block"]) -> Iterator[str]:
        with self.file.open("rb") as file:
            for row in block:
                text = _read_line(file, int(lines.places[row, 1])).strip()
                if key(text) != int(lines.keys[row]):
                    raise ValueError(f"{self.file} changed while it was read: search again")
                yield text


def _read_matching(place: Path, identity: dict[str, str], report: Report) -> IndexFile | None:
    """Return the index with this identity; None if there is none or it is damaged."""
    if read_identity(place) != identity:
        return None
    ready = read_index(place)
    if ready is None:
        report(f"{place} is damaged: making it anew")
    return ready


def _digest_file(file: Path) -> str:
    with file.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def _scan_lines(file: Path, digest: str) -> Lines:
    """Return the hash, number and offset of every non-blank line; all lines must be UTF-8."""
    keys, places, begin, hasher = list[int](), list[tuple[int, int]](), 0, hashlib.sha256()
    key_parts, place_parts = list[np.ndarray](), list[np.ndarray]()
    with file.open("rb") as source:
        for number, line in enumerate(source, start=1):
            hasher.update(line)
            try:
                text = line.decode("utf-8").strip()
            except UnicodeDecodeError:
                remark = hint(line, str(file))
                raise ValueError(f"{file}:{number}: not UTF-8, convert it first{remark and f' ({remark})'}") from None
            if text:
                keys.append(key(text))
                places.append((number, begin))
            begin += len(line)
            if len(keys) == COMPARED_LINES:
                key_parts.append(np.array(keys, np.uint64))
                place_parts.append(np.array(places, np.int64))
                keys, places = [], []
    if hasher.hexdigest() != digest:
        raise ValueError(f"{file} changed while it was read: search again")
    if not keys and not key_parts:
        raise ValueError(f"{file} has no line that is not blank: there is nothing to search")
    key_parts.append(np.array(keys, np.uint64))
    place_parts.append(np.array(places, np.int64).reshape(-1, 2))
    return Lines(np.concatenate(key_parts), np.concatenate(place_parts))


def _read_line(file: BinaryIO, begin: int) -> str:
    file.seek(begin)
    return file.readline().removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")


def _add_offset(progress: Progress, offset: int, total: int, completed: int, _: int) -> None:
    """Report progress within a block, counted from the first block."""
    progress(offset + completed, total)


def _normalise(vectors: Float[np.ndarray, "line width"]) -> Float[np.ndarray, "line width"]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
