"""The selection of documents: for training, held out, or left out, and why.

Held-out documents are chosen by content alone, not by seed or order. Of fewer than 20 documents the end of the
text is held out instead. A document is a repetition if it is identical to an earlier one; it is also held out if it
differs from a held-out one at most in case, spaces and punctuation. Memory use does not grow with the text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, groupby
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import UInt64

from regard.data.dedup import Keys, Marks, find_repeats
from regard.data.holdout import count_to_hold_out, letters
from regard.data.line_report import HELD, LineReport
from regard.tasks.pretraining.documents import Documents, Piece

FEW = 20  # number of documents below which the end of the text is held out
MANY = 1 << 20  # number of documents above which the held-out share is exact enough without counting
REPEATED = "repeating an earlier one"
LEAKED = "also held out"
Side = Literal["train", "valid"]


@dataclass(frozen=True)
class Selection:
    """The assignment of every document to a side."""

    documents: int
    """How many there are in the training files."""
    characters: int
    """Of the text to learn from, the end of a document counting as one."""
    repeated: Marks
    leaked: Marks
    held: Marks
    cut: int | None = None
    """The place in the text, in characters, from which on it is held out; None where whole documents are."""
    duplicates: Literal["drop", "keep"] = "drop"
    tally: LineReport = field(default_factory=LineReport)
    """The same in numbers, with the first places; filled when the documents are dealt for the first time."""

    def assign_sides(self, pieces: Iterable[Piece]) -> Iterator[tuple[Side, Piece]]:
        """Yield the pieces that are trained on or held out, with their side."""
        tally = LineReport() if self.tally.read else self.tally
        before = 0  # in characters
        for number, group in groupby(pieces, key=lambda piece: piece.document):
            first = next(group)
            tally.read += 1
            reason = self._exclusion_reason(number)
            if reason is not None:
                tally.drop(reason, first.file, first.line)
                continue
            side: Side = "valid" if self.held.has(0, number + 1) else "train"
            if side == "valid":
                tally.drop(HELD, first.file, first.line)
            else:
                tally.kept += 1
            for piece in chain([first], group):
                yield from [(side, piece)] if self.cut is None else self._split_at_cut(piece, before)
                before += len(piece.text)
            before += 1

    def _exclusion_reason(self, number: int) -> str | None:
        if self.leaked.has(0, number + 1):
            return LEAKED
        return REPEATED if self.duplicates == "drop" and self.repeated.has(0, number + 1) else None

    def _split_at_cut(self, piece: Piece, before: int) -> Iterator[tuple[Side, Piece]]:
        """Yield the parts of a piece before and after the cut."""
        assert self.cut is not None
        train_length = max(self.cut - before, 0)
        if piece.text[:train_length]:
            yield "train", piece._replace(text=piece.text[:train_length])
        if piece.text[train_length:]:
            yield "valid", piece._replace(text=piece.text[train_length:])


def select(
    train: Documents,
    valid: Documents | None,
    *,
    held_share: float,
    duplicates: Literal["drop", "keep"],
    tallies: dict[Side, LineReport],
    scratch: Path,
) -> Selection:
    """Select documents in one pass; every line is counted in `tallies`."""
    held_out_prints = np.zeros(0, np.uint64)
    if valid is not None:
        held_out_prints = np.unique(
            np.array([alike for _, alike, _ in hash_documents(valid.pieces(tallies["valid"]))], np.uint64)
        )
    count, lengths = 0, list[int]()
    with Keys(scratch, 4) as keys:
        for exact, alike, characters in hash_documents(train.pieces(tallies["train"])):
            count += 1
            keys.add(exact, alike, count, characters)
            lengths += [characters] if count <= FEW else []
        repeated, leaked, held_out = Marks([count]), Marks([count]), Marks([count])
        kinds = [np.zeros(0, np.uint64)]  # of documents, while there are few enough to count
        total = 0
        for rows in keys.parts():
            repeats, leaks = np.zeros(len(rows), bool), np.isin(rows[:, 1], held_out_prints)
            repeats[find_repeats(rows[:, 0])] = True
            repeated.add(rows[repeats, 2])
            leaked.add(rows[leaks, 2])
            kinds += [np.unique(rows[~leaks, 1])] if valid is None and count <= MANY else []
            total += _total_characters(rows[~leaks & ~(repeats & (duplicates == "drop"))])
        cut, distinct = None, np.unique(np.concatenate(kinds))
        if valid is None and held_share and 0 < len(distinct) < FEW and count <= MANY:
            cut = int(total * (1 - held_share))
            total = cut
        elif valid is None and held_share:
            bound = _held_out_threshold(distinct, held_share)
            for rows in keys.parts():
                below = rows[rows[:, 1] <= bound]
                held_out.add(below[:, 2])
                total -= _total_characters(_drop_repeats(below, repeated, duplicates))
    return Selection(count, total, repeated, leaked, held_out, cut, duplicates)


def hash_documents(pieces: Iterable[Piece]) -> Iterator[tuple[int, int, int]]:
    """Yield for every document a 64-bit hash of its text, one of its letters alone, and its length with its end."""
    for _, group in groupby(pieces, key=lambda piece: piece.document):
        exact, alike, characters, bare = hashlib.blake2b(digest_size=8), hashlib.blake2b(digest_size=8), 1, True
        for piece in group:
            exact.update(piece.text.encode())
            bare_letters = letters(piece.text)
            alike.update(bare_letters)
            characters, bare = characters + len(piece.text), bare and not bare_letters
        first = int.from_bytes(exact.digest(), "little")
        yield first, first if bare else int.from_bytes(alike.digest(), "little"), characters


def _held_out_threshold(distinct: UInt64[np.ndarray, "document"], held_share: float) -> np.uint64:
    """Return the largest hash of a held-out document, such that at least one is held out and never all."""
    if not len(distinct):  # too many to have been counted
        return np.uint64(held_share * 2**64)
    return distinct[count_to_hold_out(held_share, len(distinct), leave=1) - 1]


def _drop_repeats(rows: UInt64[np.ndarray, "row 4"], repeated: Marks, duplicates: str) -> UInt64[np.ndarray, "kept 4"]:
    if duplicates == "keep":
        return rows
    return rows[[not repeated.has(0, int(document)) for document in rows[:, 2]]]


def _total_characters(rows: UInt64[np.ndarray, "row 4"]) -> int:
    return int(rows[:, 3].sum())
