"""Rows for learning spans that are left out of a text (T5; Raffel et al. 2020).

Of a piece of a document 15 % are left out, in spans of 3 tokens in the mean. The source has a sentinel in place of each
span and ends with the end token; the target is every sentinel with the span it stands for, and the end token. How long
both are follows from the length of the piece alone. The decoder begins with the pad token, as T5's does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.masks import Row
from regard.config.ranges import Range, Some
from regard.data.packing import number
from regard.data.tokenizers import Tokenizer
from regard.tasks.pretraining.corpus import Corpus
from regard.tasks.pretraining.masking import text_bounds
from regard.tasks.pretraining.rows import IGNORE, Windows, halved

SENTINELS = 100
COMPARED = 1 << 13  # lengths of pieces among which the worst way to cut is looked for


@dataclass(frozen=True, kw_only=True)
class SpansConfig:
    """How much of a text is left out, and in spans of which length."""

    share: Some = 0.15
    """Share of the tokens that are left out."""
    mean: Annotated[float, Range(1)] = 3.0
    """Tokens of a span in the mean."""

    def counts(self, length: int) -> tuple[int, int]:
        """How many tokens of a piece are left out, and in how many spans; nothing of a single token."""
        if length < 2:
            return 0, 0
        tokens = min(max(round(length * self.share), 1), length - 1)
        return tokens, min(max(round(tokens / self.mean), 1), tokens, length - tokens)

    def source(self, length: int) -> int:
        """How long the source of a piece is: what is left, a sentinel for each span, and the end."""
        tokens, spans = self.counts(length)
        return length - tokens + spans + 1

    def target(self, length: int) -> int:
        """How long its target is: what was left out, a sentinel before each span, and the end."""
        return sum(self.counts(length)) + 1

    def length(self, context: int) -> int:
        """The longest piece whose source and target have at most `context` tokens."""
        length = 1
        while max(self.source(length + 1), self.target(length + 1)) <= context:
            length += 1
        return length


def special(how: SpansConfig, context: int) -> list[str]:
    """The names of the sentinels that a new tokenizer needs."""
    return [f"<extra_id_{number}>" for number in range(max(SENTINELS, how.counts(how.length(context))[1]))]


@dataclass(frozen=True)
class SpanBatch:
    """Sources and targets, each end to end in one row; sequence n of one belongs to sequence n of the other."""

    source: Int[Tensor, "source"]
    target: Int[Tensor, "target"]
    """What the decoder reads: pad, then what it should have said before."""
    labels: Int[Tensor, "target"]
    """What it should say; -100 on the tail."""
    rows: tuple[Row, Row]
    documents: Int[Tensor, "piece"]
    """The numbers of the documents, to name their places."""

    def to(self, device: torch.device | str) -> SpanBatch:
        """The same on a device; the numbers of the documents stay."""
        source, target, labels = (
            each.to(device, non_blocking=True) for each in (self.source, self.target, self.labels)
        )
        return SpanBatch(source, target, labels, (self.rows[0].to(device), self.rows[1].to(device)), self.documents)

    def halves(self) -> list[SpanBatch]:
        """The same sequences as two batches of no fixed shape; the batch itself when it has only one."""
        source, target = self.rows
        middle = [some for some, _, _ in halved(source)]
        return [
            SpanBatch(
                self.source[_tokens(source, some)],
                self.target[_tokens(target, some)],
                self.labels[_tokens(target, some)],
                (_part(source, some), _part(target, some)),
                self.documents[some],
            )
            for some in middle
        ] or [self]


class SpanRows:
    """Rows of training on spans that were left out; row g is a pure function of (seed, g).

    `context` bounds source and target. `fixed` gives all rows the same number of tokens and segments, so that a
    compiled step fits all.
    """

    def __init__(
        self,
        corpus: Corpus,
        own: Tokenizer,
        context: int,
        windows: int,
        seed: int,
        *,
        how: SpansConfig | None = None,
        fixed: bool = False,
    ) -> None:
        self.corpus, self.seed, self.fixed = corpus, seed, fixed
        self.how = how or SpansConfig()
        self.end, self.begin, self.filler = own.role("end"), own.role("pad"), own.filler
        size = self.how.length(context)
        if size < 2:
            raise ValueError(f"a context of {context} has no room for a text with a gap: give data.context more")
        self.sentinels = _sentinels(own, self.how.counts(size)[1], context)
        self.windows = Windows(text_bounds(corpus), size, windows, seed)

    @property
    def rows(self) -> int:
        """Rows in an epoch."""
        return self.windows.rows

    @cached_property
    def sizes(self) -> tuple[int, int]:
        """Tokens of source and target of a row of fixed shape."""
        full, more = self.windows.fullest, self.windows.pieces - self.windows.fullest
        lengths = (self.how.source, self.how.target)
        source, target = (full * of(self.windows.size) + more * _worst(of, self.windows.size) for of in lengths)
        return source, target

    def batch(self, row: int) -> SpanBatch:
        """The sequences of this row, counted on across epochs."""
        spans = self.windows.row(row)
        random = np.random.default_rng(number(self.seed, row, 3))
        sources, targets = [], []
        for first, last, document in zip(*(each.tolist() for each in spans), strict=True):
            text = self.corpus.tokens[first + document : last + document].astype(np.int64)
            source, target = corrupted(text, left_out(len(text), self.how, random), self.sentinels)
            sources.append(np.append(source, self.end))
            targets.append(np.append(target, self.end))
        labels, source = np.concatenate(targets), np.concatenate(sources)
        ends = np.cumsum([len(each) for each in targets])
        target = np.concatenate([[self.begin], labels[:-1]])
        target[ends[:-1]] = self.begin
        rows = (self._row(sources, self.how.source, 0), self._row(targets, self.how.target, 1))
        if self.fixed:
            source = np.pad(source, (0, self.sizes[0] - len(source)), constant_values=self.filler)
            rest = (0, self.sizes[1] - len(target))
            target = np.pad(target, rest, constant_values=self.filler)
            labels = np.pad(labels, rest, constant_values=IGNORE)
        read, begun, said, numbers = map(torch.from_numpy, (source, target, labels, spans.document))
        return SpanBatch(read, begun, said, rows, numbers)

    def _row(self, texts: Sequence[np.ndarray], of: Callable[[int], int], side: int) -> Row:
        longest = of(self.windows.size)
        lengths = [len(text) for text in texts]
        if not self.fixed:
            return Row.of(lengths, longest=longest)
        most = self.windows.pieces
        tails = [
            -(-size // of(self.windows.size))
            for size, of in zip(self.sizes, (self.how.source, self.how.target), strict=True)
        ]
        return Row.of(lengths, longest=longest, size=self.sizes[side], segments=most + max(tails), most=most)


def left_out(length: int, how: SpansConfig, random: np.random.Generator) -> Bool[np.ndarray, "token"]:
    """Which tokens of a piece are left out: it begins with a part that stays and ends with one that does not."""
    tokens, spans = how.counts(length)
    if not spans:
        return np.zeros(length, bool)
    lengths = np.stack([_parts(length - tokens, spans, random), _parts(tokens, spans, random)], 1).ravel()
    return np.repeat(np.arange(2 * spans) % 2 == 1, lengths)


def corrupted(
    text: Int[np.ndarray, "token"], gone: Bool[np.ndarray, "token"], sentinels: Int[np.ndarray, "sentinel"]
) -> tuple[Int[np.ndarray, "source"], Int[np.ndarray, "target"]]:
    """The text with a sentinel for each span that is gone, and each sentinel with its span."""
    begins = gone & ~np.r_[False, gone[:-1]]
    marks = sentinels[: int(begins.sum())]
    source = text.copy()
    source[begins] = marks
    return source[~gone | begins], np.insert(text[gone], np.flatnonzero(begins[gone]), marks)


def _parts(total: int, count: int, random: np.random.Generator) -> Int[np.ndarray, "part"]:
    """So many parts of at least one that make up the total, every way equally likely."""
    order = np.argsort(random.random(total - 1), kind="stable")
    return np.diff(np.r_[0, np.sort(order[: count - 1]) + 1, total])


def _sentinels(own: Tokenizer, count: int, context: int) -> Int[np.ndarray, "sentinel"]:
    found = [own.named(f"<extra_id_{place}>") for place in range(count)]
    known = [token for token in found if token is not None]
    if len(known) < count:
        raise ValueError(
            f"a context of {context} needs {count} sentinels, <extra_id_0> and so on, and this tokenizer has "
            f"{len(known)}: lower data.context or train a new tokenizer"
        )
    return np.array(known, np.int64)


def _worst(of: Callable[[int], int], size: int) -> int:
    """By how much a sequence grows at most when its piece is cut in two."""
    lengths = np.array([of(length) for length in range(1, min(size, COMPARED) + 1)])
    return max(
        (
            int((lengths[: len(lengths) - cut] + lengths[cut - 1] - lengths[cut:]).max())
            for cut in range(1, len(lengths))
        ),
        default=0,
    )


def _tokens(row: Row, some: slice) -> slice:
    return slice(int(row.offsets[some.start]), int(row.offsets[some.stop]))


def _part(row: Row, some: slice) -> Row:
    return Row.of(row.lengths[some], longest=row.longest)
