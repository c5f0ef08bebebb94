"""Rows of whole texts: documents that fit into a window are not split, and the two texts of a pair stay together.

Consecutive documents and pairs are grouped into bundles, as many as fit into a few windows, and every epoch permutes
the bundles anew: row g is a pure function of (seed, g). A pair that is too long is truncated.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Int

from regard.data.packing import number, permute
from regard.tasks.pretraining.corpus import Corpus
from regard.tasks.pretraining.rows import Spans

BUNDLE = 8  # windows that a bundle fills
BLOCK = 1 << 24  # tokens searched at a time


@dataclass(frozen=True)
class WholeTexts:
    """Texts of at most `context` tokens with begin and separators, in rows of at most `most` windows."""

    first: Spans
    """The text of every sequence, or the first of a pair."""
    second: Spans
    """The second of a pair, empty where there is none."""
    context: int
    most: int
    seed: int

    @property
    def is_pair(self) -> Bool[np.ndarray, "sequence"]:
        """Return which sequences are pairs."""
        return self.second.document >= 0

    @property
    def size(self) -> int:
        """Return the maximum number of tokens of a bundle."""
        return min(BUNDLE, self.most) * self.context

    @cached_property
    def edges(self) -> Int[np.ndarray, "edge"]:
        """Return the first sequence of each bundle, and the number of sequences at the end."""
        ends = np.cumsum(self.first.lengths + self.second.lengths + 2 + self.is_pair)
        edges = [0]
        while edges[-1] < len(ends):
            before = int(ends[edges[-1] - 1]) if edges[-1] else 0
            edges.append(int(np.searchsorted(ends, before + self.size, side="right")))
        return np.array(edges, np.int64)

    @property
    def count(self) -> int:
        """Return the number of bundles per epoch."""
        return len(self.edges) - 1

    @property
    def rows(self) -> int:
        """Return the number of rows per epoch."""
        return -(-self.count // (self.most * self.context // self.size))

    @property
    def fullest(self) -> int:
        """Return the number of bundles in the fullest row."""
        return -(-self.count // self.rows)

    @property
    def tokens(self) -> int:
        """Return the maximum number of tokens of a row."""
        return self.fullest * self.size

    @cached_property
    def pieces(self) -> int:
        """Return an upper bound on the number of sequences in a row."""
        return int(np.sort(np.diff(self.edges))[::-1][: self.fullest].sum())

    def row(self, row: int) -> tuple[Spans, Spans]:
        """Return the first and the second texts of this row; rows count on across epochs."""
        epoch, place = divmod(row, self.rows)
        turns = np.arange(place * self.count // self.rows, (place + 1) * self.count // self.rows)
        bundles = permute(turns, self.count, number(self.seed, epoch, 1))
        begin, end = self.edges[bundles], self.edges[bundles + 1]
        sequences = Spans(begin, end, bundles).places()
        return Spans(*(column[sequences] for column in self.first)), Spans(
            *(column[sequences] for column in self.second)
        )


def arrange_whole_texts(
    corpus: Corpus, bounds: Int[np.ndarray, "bound"], separator: int, context: int, most: int, seed: int
) -> WholeTexts:
    """Return all documents of a corpus, without their end tokens; long ones are split into parts."""
    begin, end = bounds[:-1], bounds[1:]
    middle = np.full(len(begin), -1)  # the separator between the texts of a pair
    separators = _find_separators(corpus, separator)
    owners = np.searchsorted(np.asarray(corpus.starts), separators, side="right") - 1
    middle[owners] = separators - owners
    pair = middle >= 0
    window, room = context - 2, context - 3
    parts = np.where(pair, 1, -(-(end - begin) // window))
    document = np.repeat(np.arange(len(begin)), parts)
    part = np.arange(len(document)) - np.repeat(np.cumsum(parts) - parts, parts)
    pair, middle = pair[document], middle[document]
    first = begin[document] + part * window
    last = np.minimum(first + window, end[document])
    first_length, second_length = _fit_pair(middle - first, end[document] - middle - 1, room)
    last = np.where(pair, first + first_length, last)
    second = np.where(pair, middle + 1, 0)
    more = Spans(second, second + np.where(pair, second_length, 0), np.where(pair, document, -1))
    return WholeTexts(Spans(first, last, document), more, context, most, seed)


def _fit_pair(
    first: Int[np.ndarray, "pair"], second: Int[np.ndarray, "pair"], room: int
) -> tuple[Int[np.ndarray, "pair"], Int[np.ndarray, "pair"]]:
    """Return how much of two texts fits: all, or half of the room each, or what the shorter one leaves."""
    half = room // 2
    first_length = np.minimum(first, np.maximum(room - second, room - half))
    return first_length, np.minimum(second, room - first_length)


def _find_separators(corpus: Corpus, separator: int) -> Int[np.ndarray, "pair"]:
    """Return the positions of separators in the corpus, which only pairs have."""
    tokens = corpus.tokens
    blocks = (
        start + np.flatnonzero(tokens[start : start + BLOCK] == separator) for start in range(0, len(tokens), BLOCK)
    )
    return np.concatenate([np.zeros(0, np.int64), *blocks])
