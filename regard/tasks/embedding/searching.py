"""Exact search by meaning: the lines of a file as vectors in an index beside it, compared with a query by cosine.

Lines are embedded in blocks, and every block is kept on the disk as soon as it is done: an index that was stopped goes
on where it was, and of a file that changed only lines that are new are embedded. Vectors are compared block by block;
beside them, memory grows by some 60 bytes a line.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Iterator
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
UNFINISHED_SUFFIX = ".unfinished"  # of the vectors of an index that is being made
BLOCK_LINES = 1 << 13  # lines embedded between two writes to the disk: what a kill may lose
COMPARED_LINES = 1 << 16  # vectors compared at a time

Report = Callable[[str], None]


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
    place: Path
    vectors: Float[np.ndarray, "line width"]
    places: Int[np.ndarray, "line 2"]
    """The number of each line, counted from 1, and the byte that it begins at."""
    embedded: int = 0
    """How many lines were embedded just now."""
    is_new: bool = False
    """True if it was not there before."""

    def search(self, query: Float[np.ndarray, "width"], count: int) -> list[Hit]:
        """Return the lines whose cosine with a query is largest, the first of equals first."""
        unit = query / max(float(np.linalg.norm(query)), np.finfo(np.float32).tiny)
        best: list[tuple[float, int]] = []
        for start in range(0, len(self.vectors), COMPARED_LINES):
            scores = self.vectors[start : start + COMPARED_LINES] @ unit
            top = np.argsort(-scores, kind="stable")[:count]
            best = heapq.nsmallest(count, [*best, *((-float(scores[n]), start + int(n)) for n in top)])
        with self.file.open("rb") as file:
            return [self._hit(file, row, -negative_score) for negative_score, row in best]

    def _hit(self, file: BinaryIO, row: int, score: float) -> Hit:
        line, begin = (int(number) for number in self.places[row])
        return Hit(line, score, _read_line(file, begin))


@dataclass(frozen=True)
class Lines:
    """The lines of a file that are not blank: a hash of each, its number and where it begins."""

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
    """Return the index of a file, made now unless there is one of this file, this model and these settings.

    `model` is the digest of the model; `report` hears what a person should know, `progress` how many lines of how many
    that are new have been embedded.
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
                return Index(file, place, ready.vectors, ready.places)  # another process made it meanwhile
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
    """Makes the index of a file from what is known and what has to be embedded."""

    file: Path
    place: Path
    embedder: Embedder
    options: dict[str, Any]
    identity: dict[str, str]

    def build(self, lines: Lines, report: Report, progress: Progress) -> int:
        """Embed the lines that are new, write the index, and return how many were embedded."""
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
        """Return the vectors of an index by the same model and settings, whatever the file was then."""
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
    """Return the index that was made of exactly this; None where there is none, or a damaged one."""
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
    """Return the hash and the place of every line that is not blank; all must be UTF-8."""
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
    """Tell how many lines are done, so many of them in earlier blocks."""
    progress(offset + completed, total)


def _normalise(vectors: Float[np.ndarray, "line width"]) -> Float[np.ndarray, "line width"]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
