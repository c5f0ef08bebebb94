"""Rows for span corruption (T5; Raffel et al. 2020).

Of a piece of a document 15 % are left out, in spans of 3 tokens on average. The source has a sentinel in place of each
span and ends with the end token; the target is every sentinel with its span, and the end token. The lengths of both
follow from the length of the piece alone. The decoder starts with the pad token, as T5's does.
"""

from __future__ import annotations

from collections.abc import Callable
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
from regard.metrics.likelihood import IGNORE
from regard.tasks.pretraining.corpus import Corpus
from regard.tasks.pretraining.masking import text_bounds
from regard.tasks.pretraining.rows import Windows, halve_row

SENTINELS = 100
COMPARED = 1 << 13  # piece lengths among which the worst split is searched


@dataclass(frozen=True, kw_only=True)
class SpansConfig:
    """The share of tokens left out, and the length of the spans."""

    share: Some = 0.15
    """Share of the tokens that are left out."""
    mean_span_length: Annotated[float, Range(1)] = 3.0
    """Tokens of a span in the mean."""

    def counts(self, length: int) -> tuple[int, int]:
        """Return how many tokens of a piece are left out, and in how many spans; (0, 0) for a single token."""
        if length < 2:
            return 0, 0
        tokens = min(max(round(length * self.share), 1), length - 1)
        return tokens, min(max(round(tokens / self.mean_span_length), 1), tokens, length - tokens)

    def source(self, length: int) -> int:
        """Return the source length of a piece: the remaining tokens, a sentinel for each span, and the end."""
        tokens, spans = self.counts(length)
        return length - tokens + spans + 1

    def target(self, length: int) -> int:
        """Return its target length: the tokens left out, a sentinel before each span, and the end."""
        return sum(self.counts(length)) + 1

    def length(self, context: int) -> int:
        """Return the longest piece whose source and target have at most `context` tokens."""
        length = 1
        while max(self.source(length + 1), self.target(length + 1)) <= context:
            length += 1
        return length


def sentinel_names(how: SpansConfig, context: int) -> list[str]:
    """Return the names of the sentinels that a new tokenizer needs."""
    return [f"<extra_id_{number}>" for number in range(max(SENTINELS, how.counts(how.length(context))[1]))]


@dataclass(frozen=True)
class SpanBatch:
    """Sources and targets, each concatenated in one row; sequence n of one belongs to sequence n of the other."""

    source: Int[Tensor, "source"]
    target: Int[Tensor, "target"]
    """What the decoder reads: pad, then what it should have said before."""
    labels: Int[Tensor, "target"]
    """What it should say; -100 on the tail."""
    rows: tuple[Row, Row]
    documents: Int[Tensor, "piece"]
    """The numbers of the documents, to name their places."""

    def to(self, device: torch.device | str) -> SpanBatch:
        """Return the batch on a device; the numbers of the documents stay."""
        source, target, labels = (
            tensor.to(device, non_blocking=True) for tensor in (self.source, self.target, self.labels)
        )
        return SpanBatch(source, target, labels, (self.rows[0].to(device), self.rows[1].to(device)), self.documents)

    def halves(self) -> list[SpanBatch]:
        """Split a batch into two without a fixed shape, or return it alone if it has only one sequence."""
        source, target = self.rows
        middle = [sequences for sequences, _, _ in halve_row(source)]
        return [
            SpanBatch(
                self.source[_tokens(source, sequences)],
                self.target[_tokens(target, sequences)],
                self.labels[_tokens(target, sequences)],
                (_part(source, sequences), _part(target, sequences)),
                self.documents[sequences],
            )
            for sequences in middle
        ] or [self]


class SpanRows:
    """Training rows for span corruption; row g is a pure function of (seed, g).

    `context` bounds source and target. `fixed` gives all rows the same number of tokens and segments, so that a
    compiled step fits all.
    """

    def __init__(
        self,
        corpus: Corpus,
        tokenizer: Tokenizer,
        context: int,
        windows: int,
        seed: int,
        *,
        how: SpansConfig | None = None,
        fixed: bool = False,
    ) -> None:
        self.corpus, self.seed, self.fixed = corpus, seed, fixed
        self.how = how or SpansConfig()
        self.end, self.begin, self.filler = tokenizer.role("end"), tokenizer.role("pad"), tokenizer.filler
        size = self.how.length(context)
        if size < 2:
            raise ValueError(f"a context of {context} has no room for a text with a gap: give data.context more")
        self.sentinels = _sentinels(tokenizer, self.how.counts(size)[1], context)
        self.windows = Windows(text_bounds(corpus), size, windows, seed)

    @property
    def rows(self) -> int:
        """Return the number of rows per epoch."""
        return self.windows.rows

    @cached_property
    def sizes(self) -> tuple[int, int]:
        """Return the numbers of source and target tokens of a row of fixed shape."""
        full, more = self.windows.fullest, self.windows.pieces - self.windows.fullest
        lengths = (self.how.source, self.how.target)
        source, target = (
            full * of(self.windows.size) + more * _largest_growth(of, self.windows.size) for of in lengths
        )
        return source, target

    def batch(self, row: int) -> SpanBatch:
        """Return the sequences of this row; rows count on across epochs."""
        spans = self.windows.row(row)
        lengths = spans.lengths
        text = self.corpus.tokens[spans.places() + np.repeat(spans.document, lengths)].astype(np.int64)
        removed = sample_spans(lengths, self.how, np.random.default_rng(number(self.seed, row, 3)))
        source, labels = corrupt_spans(text, removed, lengths, self.sentinels, self.end)
        sizes = [np.array([of(length) for length in lengths.tolist()]) for of in (self.how.source, self.how.target)]
        target = np.concatenate([[self.begin], labels[:-1]])
        target[np.cumsum(sizes[1])[:-1]] = self.begin
        rows = self._row(sizes[0], 0), self._row(sizes[1], 1)
        if self.fixed:
            source = np.pad(source, (0, self.sizes[0] - len(source)), constant_values=self.filler)
            rest = (0, self.sizes[1] - len(target))
            target = np.pad(target, rest, constant_values=self.filler)
            labels = np.pad(labels, rest, constant_values=IGNORE)
        source_tensor, target_tensor, label_tensor, documents = map(
            torch.from_numpy, (source, target, labels, spans.document)
        )
        return SpanBatch(source_tensor, target_tensor, label_tensor, rows, documents)

    def _row(self, lengths: Int[np.ndarray, "sequence"], side: int) -> Row:
        longest = [self.how.source(self.windows.size), self.how.target(self.windows.size)]
        if not self.fixed:
            return Row.of(torch.from_numpy(lengths), longest=longest[side])
        most = self.windows.pieces
        segments = most + max(-(-size // bound) for size, bound in zip(self.sizes, longest, strict=True))
        shape = {"size": self.sizes[side], "segments": segments, "most": most}
        return Row.of(torch.from_numpy(lengths), longest=longest[side], **shape)


def sample_spans(
    lengths: Int[np.ndarray, "piece"], how: SpansConfig, random: np.random.Generator
) -> Bool[np.ndarray, "token"]:
    """Sample which tokens of pieces of these lengths are left out.

    Every piece starts with a part that stays and ends with one that does not; all ways to split it are equally likely.
    """
    tokens, spans = np.array([how.counts(length) for length in lengths.tolist()]).T
    parts = np.maximum(spans, 1)  # for a single token: the token, and an empty gap
    both = [_random_partition(lengths - tokens, parts, random), _random_partition(tokens, parts, random)]
    return np.repeat(np.arange(2 * int(parts.sum())) % 2 == 1, np.stack(both, 1).ravel())


def corrupt_spans(
    text: Int[np.ndarray, "token"],
    removed: Bool[np.ndarray, "token"],
    lengths: Int[np.ndarray, "piece"],
    sentinels: Int[np.ndarray, "sentinel"],
    end: int,
) -> tuple[Int[np.ndarray, "source"], Int[np.ndarray, "target"]]:
    """Return the sources with a sentinel for each span, and the targets with each sentinel and its span."""
    piece = np.repeat(np.arange(len(lengths)), lengths)
    begins = removed & ~np.concatenate([[False], removed[:-1]])  # the first token of a piece always stays
    count = np.cumsum(begins)
    before = np.concatenate([[0], np.bincount(piece, begins).astype(np.int64).cumsum()])  # spans of earlier pieces
    mark = sentinels[(count - 1 - before[piece])[begins]]
    source = text.copy()
    source[begins] = mark
    remaining = ~removed | begins
    sources = np.full(int(remaining.sum()) + len(lengths), end)
    sources[np.arange(int(remaining.sum())) + piece[remaining]] = source[remaining]
    target = np.full(int(removed.sum()) + len(mark) + len(lengths), end)
    places = np.arange(int(removed.sum())) + count[removed] + piece[removed]
    target[places] = text[removed]
    target[places[begins[removed]] - 1] = mark
    return sources, target


def _random_partition(
    totals: Int[np.ndarray, "piece"], counts: Int[np.ndarray, "piece"], random: np.random.Generator
) -> Int[np.ndarray, "part"]:
    """Return random sizes of non-empty parts that sum to each total; a total of zero is one empty part."""
    piece = np.repeat(np.arange(len(totals)), totals)
    first = np.concatenate([[True], piece[1:] != piece[:-1]]) if len(piece) else np.zeros(0, bool)
    draw = np.where(first, -1.0, random.random(len(piece)))  # a piece starts with a part, the other starts are sampled
    order = np.lexsort((draw, piece))
    rank = np.arange(len(piece)) - np.repeat(np.cumsum(totals) - totals, totals)
    begins = np.zeros(len(piece), bool)
    begins[order] = rank < np.repeat(counts, totals)
    empty = np.cumsum(np.where(totals > 0, 0, counts))  # empty parts so far, which have no first token
    return np.bincount(np.cumsum(begins) - 1 + np.repeat(empty, totals), minlength=int(counts.sum()))


def _sentinels(tokenizer: Tokenizer, count: int, context: int) -> Int[np.ndarray, "sentinel"]:
    candidates = [tokenizer.find_special(f"<extra_id_{place}>") for place in range(count)]
    tokens = [token for token in candidates if token is not None]
    if len(tokens) < count:
        raise ValueError(
            f"a context of {context} needs {count} sentinels, <extra_id_0> and so on, and this tokenizer has "
            f"{len(tokens)}: lower data.context, or leave out --from to train a new tokenizer"
        )
    return np.array(tokens, np.int64)


def _largest_growth(of: Callable[[int], int], size: int) -> int:
    """Return the maximum by which a sequence grows when its piece is split in two."""
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
