"""The assignment of document windows to rows, and rows for next-token prediction.

The concatenated documents are split into windows of the same size; a window is split again where a document starts, so
that no sequence spans two. Every epoch shifts and permutes the windows anew: row g is a pure function of (seed, g), and
every token is a target once per epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from regard.attention.masks import Row
from regard.data.packing import number, permute
from regard.metrics.likelihood import IGNORE
from regard.tasks.pretraining.corpus import Corpus


class Spans(NamedTuple):
    """Non-empty pieces of documents, by their start and end positions."""

    first: Int[np.ndarray, "piece"]
    last: Int[np.ndarray, "piece"]
    document: Int[np.ndarray, "piece"]

    @property
    def lengths(self) -> Int[np.ndarray, "piece"]:
        """Return the length of each piece."""
        return self.last - self.first

    def places(self) -> Int[np.ndarray, "place"]:
        """Return the concatenated positions of all pieces."""
        lengths = self.lengths
        ends = np.cumsum(lengths)
        return np.arange(int(lengths.sum())) + np.repeat(self.first - ends + lengths, lengths)


@dataclass(frozen=True)
class Windows:
    """Documents with these bounds in windows of `size` positions, at most `most` of them in a row.

    Rows have as equal a number of windows as possible. Only shifts with the commoner number of windows are used, so
    that all epochs have the same number of rows; the first and the last window may be shorter than the others.
    """

    bounds: Int[np.ndarray, "bound"]
    size: int
    most: int
    seed: int

    @property
    def total(self) -> int:
        """Return the number of positions of all documents."""
        return int(self.bounds[-1])

    @property
    def shifts(self) -> range:
        """Return the possible shifts: numbers of positions of the first window before the first document."""
        free = -self.total % self.size
        return range(free + 1) if 2 * free >= self.size - 1 else range(free + 1, self.size)

    @property
    def count(self) -> int:
        """Return the number of windows per epoch."""
        return -(-(self.total + self.shifts[0]) // self.size)

    @property
    def rows(self) -> int:
        """Return the number of rows per epoch."""
        return -(-self.count // self.most)

    @property
    def fullest(self) -> int:
        """Return the number of windows in the fullest row."""
        return -(-self.count // self.rows)

    @cached_property
    def pieces(self) -> int:
        """Return an upper bound on the pieces of a row: one per window, and one per document that starts in one.

        Windows do not overlap, so the documents that start in a row are no more than those in the fullest blocks, twice
        as many as there are windows, when the text is split without a shift.
        """
        starts = np.asarray(self.bounds[:-1])
        within = np.searchsorted(starts, starts + self.size) - np.arange(len(starts))
        blocks = np.bincount(starts // self.size)
        fullest = np.sort(blocks)[::-1][: 2 * self.fullest]
        return self.fullest + int(min(self.fullest * within.max(), fullest.sum()))

    def shift(self, epoch: int) -> int:
        """Return the shift of this epoch."""
        return self.shifts[number(self.seed, epoch, 0) % len(self.shifts)]

    def row(self, row: int) -> Spans:
        """Return the pieces of this row, those of full windows first; rows count on across epochs."""
        epoch, place = divmod(row, self.rows)
        turns = np.arange(place * self.count // self.rows, (place + 1) * self.count // self.rows)
        windows = permute(turns, self.count, number(self.seed, epoch, 1))
        first = windows * self.size - self.shift(epoch)
        first, last = np.maximum(first, 0), np.minimum(first + self.size, self.total)
        order = np.argsort(last - first < self.size, kind="stable")
        return split_at_documents(self.bounds, first[order], last[order])


def split_at_documents(
    bounds: Int[np.ndarray, "bound"], first: Int[np.ndarray, "window"], last: Int[np.ndarray, "window"]
) -> Spans:
    """Split windows where documents start, without empty pieces."""
    first, last = first[first < last], last[first < last]
    first_document = np.searchsorted(bounds, first, side="right") - 1
    last_document = np.searchsorted(bounds, last, side="left") - 1
    counts = last_document - first_document + 1
    window = np.repeat(np.arange(len(first)), counts)
    document = np.arange(len(window)) - np.repeat(np.cumsum(counts) - counts - first_document, counts)
    begin, end = np.maximum(bounds[document], first[window]), np.minimum(bounds[document + 1], last[window])
    nonempty = begin < end  # a document may be empty
    return Spans(begin[nonempty], end[nonempty], document[nonempty])


@dataclass(frozen=True)
class CausalBatch:
    """Pieces of documents concatenated in one row, with the next token of each token."""

    tokens: Int[Tensor, "token"]
    labels: Int[Tensor, "token"]
    """The next token of the same document; -100 where none is to be predicted."""
    row: Row
    documents: Int[Tensor, "piece"]
    """The numbers of the documents, to name their places."""

    def to(self, device: torch.device | str) -> CausalBatch:
        """Return the batch on a device; the numbers of the documents stay."""
        tokens, labels = (tensor.to(device, non_blocking=True) for tensor in (self.tokens, self.labels))
        return CausalBatch(tokens, labels, self.row.to(device), self.documents)

    def halves(self) -> list[CausalBatch]:
        """Split a batch into two without a fixed shape, or return it alone if it has only one piece."""
        return [
            CausalBatch(self.tokens[tokens], self.labels[tokens], row, self.documents[sequences])
            for sequences, tokens, row in halve_row(self.row)
        ] or [self]


def split_batch(batch: CausalBatch, tokens: int) -> list[CausalBatch]:
    """Split a batch until each part has at most `tokens` tokens, or is a single piece of a document."""
    if len(batch.tokens) <= tokens or len(halves := batch.halves()) < 2:
        return [batch]
    return [part for half in halves for part in split_batch(half, tokens)]


def halve_row(row: Row) -> list[tuple[slice, slice, Row]]:
    """Return the sequences, the tokens and the layout of both halves of a row; empty if it has only one sequence."""
    count = int(row.count)
    if count < 2:
        return []
    offsets = row.offsets[: count + 1].tolist()
    middle = min(range(1, count), key=lambda cut: abs(2 * offsets[cut] - offsets[-1]))
    lengths = row.lengths[:count]
    return [
        (
            sequences,
            slice(offsets[sequences.start], offsets[sequences.stop]),
            Row.of(lengths[sequences], longest=row.longest),
        )
        for sequences in (slice(0, middle), slice(middle, count))
    ]


class Rows:
    """Training rows for next-token prediction; row g is a pure function of (seed, g).

    `fixed` gives all rows the same number of tokens and segments, so that a compiled step fits all.
    """

    def __init__(self, corpus: Corpus, context: int, windows: int, seed: int, *, fixed: bool = False) -> None:
        self.corpus, self.context, self.fixed = corpus, context, fixed
        self.windows = Windows(np.asarray(corpus.starts), context, windows, seed)

    @property
    def rows(self) -> int:
        """Return the number of rows per epoch."""
        return self.windows.rows

    @property
    def tokens(self) -> int:
        """Return the number of tokens of a full row."""
        return self.windows.fullest * self.context

    def batch(self, row: int) -> CausalBatch:
        """Return the windows of this row; rows count on across epochs."""
        spans = self.windows.row(row)
        if not self.fixed:
            return causal_batch(self.corpus, spans, longest=self.context)
        shape = {"size": self.tokens, "segments": self.windows.pieces + self.windows.fullest}
        return causal_batch(self.corpus, spans, longest=self.context, most=self.windows.pieces, **shape)


def causal_batch(
    corpus: Corpus, spans: Spans, *, longest: int | None = None, size: int | None = None, **shape: int
) -> CausalBatch:
    """Return these pieces as a row; each of their tokens is predicted from the one before it."""
    places = spans.places()
    labels = corpus.tokens[places].astype(np.int64)
    tokens = corpus.tokens[places - 1].astype(np.int64)
    begins = spans.first == corpus.starts[spans.document]
    tokens[(np.cumsum(spans.lengths) - spans.lengths)[begins]] = corpus.opening
    rest = 0 if size is None else size - len(places)
    tokens, labels = np.pad(tokens, (0, rest)), np.pad(labels, (0, rest), constant_values=IGNORE)
    row = Row.of(torch.from_numpy(spans.lengths), longest=longest, size=size, **shape)
    return CausalBatch(torch.from_numpy(tokens), torch.from_numpy(labels), row, torch.from_numpy(spans.document))


class EvaluationBatches(Sequence[CausalBatch]):
    """Batches of a whole corpus for evaluation, with every token predicted once.

    Each document is read in windows of `context` tokens without overlap; with a `stride` they do, and only the last
    `stride` tokens of a window count, with the others as their context.
    """

    def __init__(self, corpus: Corpus, context: int, windows: int, *, stride: int | None = None) -> None:
        self.corpus, self.context = corpus, context
        self.stride = context if stride is None else min(stride, context)
        starts = np.asarray(corpus.starts)
        counts = -(-np.diff(starts) // self.stride)
        document = np.repeat(np.arange(len(counts)), counts)
        block = np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts)
        self._counted = starts[document] + block * self.stride  # the first token that counts
        last = np.minimum(self._counted + self.stride, starts[document + 1])
        first = self._counted if stride is None else np.maximum(starts[document], last - context)
        self._spans = Spans(first, last, document)
        ends, budget = np.cumsum(self._spans.lengths), context * windows
        self._cuts = [0]
        while self._cuts[-1] < len(document):
            before = int(ends[self._cuts[-1] - 1]) if self._cuts[-1] else 0
            self._cuts.append(int(np.searchsorted(ends, before + budget, side="right")))

    def __len__(self) -> int:
        return len(self._cuts) - 1

    def __getitem__(self, number: int) -> CausalBatch:  # type: ignore[override]
        if not 0 <= number < len(self):
            raise IndexError(number)
        batch_spans = slice(self._cuts[number], self._cuts[number + 1])
        spans = Spans(*(column[batch_spans] for column in self._spans))
        batch = causal_batch(self.corpus, spans, longest=self.context)
        context_only = spans.places() < np.repeat(self._counted[batch_spans], spans.lengths)
        batch.labels[torch.from_numpy(context_only)] = IGNORE
        return batch
