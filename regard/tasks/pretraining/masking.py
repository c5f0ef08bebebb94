"""Rows for masked language modelling and next sentence prediction (BERT; Devlin et al. 2019).

A sequence is `<bos> text <sep>`, or `<bos> A <sep> B <sep>` for next sentence prediction: a piece of a document, split
at the end of a sentence, where B follows A or, half the time, is from another document and starts with a sentence as
well. Without sentence ends it is split at line ends, and without these at any token. A fixed share of a row's tokens is
masked, sampled from (seed, row), so anew in every epoch: tokens, whole words, or spans of words (SpanBERT; Joshi et al.
2020). Of these, 80 % are replaced by the mask, 10 % by random tokens, and 10 % stay. Special tokens are never masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.masks import Row
from regard.config.ranges import Some
from regard.data.mlm_masking import TokenMasking
from regard.data.packing import number
from regard.data.tokenizers import Tokenizer
from regard.metrics.likelihood import IGNORE
from regard.tasks.pretraining.corpus import Corpus
from regard.tasks.pretraining.rows import Spans, Windows, halve_row
from regard.tasks.pretraining.sentences import Sentences
from regard.tasks.pretraining.whole import WholeTexts, arrange_whole_texts

SPECIAL = ("<mask>", "<sep>")
"""What a new tokenizer must have."""
TRIES = 8  # documents sampled to find one that is long enough


@dataclass(frozen=True, kw_only=True)
class MaskingConfig:
    """The masking of tokens, and whether next sentence prediction is trained."""

    share: Some = 0.15
    """Share of the tokens that are hidden."""
    unit: Literal["tokens", "words", "spans"] = "tokens"
    """What is hidden together: single tokens, whole words, or spans of 1 to 10 words, 3.8 in the mean."""
    span_boundary: bool = False
    """Whether tokens of a masked span are also predicted from the two beside it alone (SpanBERT); needs unit: spans."""
    next_sentence: bool = False
    """Whether a sequence is two texts, of which the second follows the first half the time; RoBERTa goes without."""

    def __post_init__(self) -> None:
        if self.span_boundary and self.unit != "spans":
            raise ValueError("span_boundary is learnt of spans: set unit: spans")


@dataclass(frozen=True)
class MaskedBatch:
    """Sequences concatenated in one row, some tokens of which are masked."""

    tokens: Int[Tensor, "token"]
    """What is read: begin, text, separators, and masks."""
    row: Row
    segments: Int[Tensor, "token"] | None
    """0 in the first text of a sequence, 1 in the second; None where there is only one."""
    places: Int[Tensor, "hidden"]
    """Where tokens are to be guessed, in order."""
    labels: Int[Tensor, "hidden"]
    """What they were; -100 for places that a fixed row has room for."""
    following: Int[Tensor, "sequence"] | None
    """0 where the second text follows the first, 1 where it is another, as in BERT; -100 where there is none."""
    documents: Int[Tensor, "piece"]
    """The numbers of the documents, to name their places."""

    def to(self, device: torch.device | str) -> MaskedBatch:
        """Return the batch on a device; the numbers of the documents stay."""
        tensors = (self.tokens, self.segments, self.places, self.labels, self.following)
        moved = (None if tensor is None else tensor.to(device, non_blocking=True) for tensor in tensors)
        tokens, segments, places, labels, following = moved
        assert tokens is not None
        assert places is not None
        assert labels is not None
        return MaskedBatch(tokens, self.row.to(device), segments, places, labels, following, self.documents)

    def kinds(self, model: Any) -> Int[Tensor, "token"] | None:
        """Return the segments if the model has several."""
        return self.segments if model.config.segments > 1 else None

    def halves(self) -> list[MaskedBatch]:
        """Split a batch into two without a fixed shape, or return it alone if it has only one sequence."""
        batches = []
        for sequences, tokens, row in halve_row(self.row):
            inside = (self.places >= tokens.start) & (self.places < tokens.stop) & (self.labels != IGNORE)
            segments = None if self.segments is None else self.segments[tokens]
            following = None if self.following is None else self.following[sequences]
            places, labels = self.places[inside] - tokens.start, self.labels[inside]
            batches.append(
                MaskedBatch(self.tokens[tokens], row, segments, places, labels, following, self.documents[sequences])
            )
        return batches or [self]


class MaskedRows:
    """Training rows with masked tokens; row g is a pure function of (seed, g).

    `fixed` gives all rows the same number of tokens, segments and masked positions, so that a compiled step fits all.
    With `pairs` among the documents, each is read whole, its texts in either order.
    """

    def __init__(
        self,
        corpus: Corpus,
        tokenizer: Tokenizer,
        context: int,
        windows: int,
        seed: int,
        *,
        how: MaskingConfig | None = None,
        pairs: bool = False,
        fixed: bool = False,
    ) -> None:
        self.corpus, self.context, self.seed, self.fixed = corpus, context, seed, fixed
        self.how = how or MaskingConfig()
        self.begin, self.separator, self.filler = tokenizer.role("begin"), tokenizer.role("separator"), tokenizer.filler
        self._frame = 3 if self.how.next_sentence or pairs else 2  # special tokens of a sequence
        if context <= self._frame:
            raise ValueError(f"a context of {context} has no room for text: give data.context more than {self._frame}")
        self._bounds = text_bounds(corpus)
        if self.how.next_sentence and np.count_nonzero(np.diff(self._bounds)) < 2:
            raise ValueError("next_sentence needs at least two documents: say where they end (data.document)")
        self._masking = TokenMasking(tokenizer, self.how.share, self.how.unit)
        self._sentences = Sentences(tokenizer) if self.how.next_sentence else None
        self.windows = Windows(self._bounds, context - self._frame, windows, seed)
        self.whole: WholeTexts | None = None
        if pairs:
            self.whole = arrange_whole_texts(corpus, self._bounds, self.separator, context, windows, seed)

    @property
    def rows(self) -> int:
        """Return the number of rows per epoch."""
        return (self.whole or self.windows).rows

    @property
    def sequences(self) -> int:
        """Return the maximum number of sequences in a row."""
        return (self.whole or self.windows).pieces

    @property
    def tokens(self) -> int:
        """Return the number of tokens of a row of fixed shape: full windows, and the special tokens of all pieces.

        It is a multiple of the context: a row of full sequences only is a batch, for which there are faster kernels.
        """
        if self.whole is not None:
            return self.whole.tokens
        most = self.windows.fullest * self.windows.size + self.windows.pieces * self._frame
        return -(-most // self.context) * self.context

    @property
    def hidden(self) -> int:
        """Return the number of masked positions of a full row."""
        return self._masking.hidden_count(self.tokens if self.whole else self.windows.fullest * self.windows.size)

    def batch(self, row: int) -> MaskedBatch:
        """Return the sequences of this row; rows count on across epochs."""
        random = np.random.default_rng(number(self.seed, row, 2))
        following = None
        if self.whole is not None:
            texts, has_text = self._swap_pairs(*self.whole.row(row), random)
        elif self.how.next_sentence:
            first, second, following = self._make_sentence_pairs(self.windows.row(row), random)
            texts, has_text = [first, second], np.ones((2, len(following)), bool)
        else:
            texts = [self.windows.row(row)]
            has_text = np.ones((1, len(texts[0].document)), bool)
        tokens, segments, lengths = self._add_special_tokens(texts, has_text)
        documents = texts[0].document
        places, replacements = self._masking.sample(tokens, random)
        labels = tokens[places]
        tokens[places] = replacements
        shape: dict[str, int] = {}
        if self.fixed:
            tail = -(-self.tokens // self.context)
            shape = {"size": self.tokens, "segments": self.sequences + tail, "most": self.sequences}
            tokens = _pad_to(tokens, self.tokens, self.filler)
            segments = _pad_to(segments, self.tokens, 0)
            places, labels = _pad_to(places, self.hidden, 0), _pad_to(labels, self.hidden, IGNORE)
            following = None if following is None else _pad_to(following, self.sequences, IGNORE)
        layout = Row.of(torch.from_numpy(lengths), longest=self.context, **shape)
        ids, hidden, truth, numbers = map(torch.from_numpy, (tokens, places, labels, documents))
        kinds = torch.from_numpy(segments) if len(texts) > 1 else None
        follows = None if following is None else torch.from_numpy(following)
        return MaskedBatch(ids, layout, kinds, hidden, truth, follows, numbers)

    def _swap_pairs(
        self, first: Spans, second: Spans, random: np.random.Generator
    ) -> tuple[list[Spans], Bool[np.ndarray, "text sequence"]]:
        """Return the texts of pairs in random order, and a mask of texts: all first, and the second of pairs."""
        is_pair = second.document >= 0
        reversed_pair = (random.random(len(is_pair)) < 0.5) & is_pair
        swapped = [
            Spans(*(np.where(reversed_pair, partner, original) for original, partner in zip(text, other, strict=True)))
            for text, other in ((first, second), (second, first))
        ]
        return swapped, np.stack([np.ones_like(is_pair), is_pair])

    def _make_sentence_pairs(
        self, spans: Spans, random: np.random.Generator
    ) -> tuple[Spans, Spans, Int[np.ndarray, "sequence"]]:
        """Split every piece in two, and replace the second part of half of them by a piece of another document."""
        lengths = spans.lengths
        cut = spans.first + 1 + (random.random(len(lengths)) * (lengths - 1)).astype(np.int64)
        cut = np.minimum(cut, spans.last)  # a single token has nothing after it
        cut, at_sentence = self._snap_to_sentences(spans, cut)
        replaced = (random.random(len(lengths)) < 0.5) & (lengths > 1)
        following = np.where(lengths > 1, replaced, IGNORE).astype(np.int64)
        elsewhere = self._sample_other_documents(spans.document, spans.last - cut, at_sentence, random)
        first, last = np.where(replaced, elsewhere.first, cut), np.where(replaced, elsewhere.last, spans.last)
        document = np.where(replaced, elsewhere.document, spans.document)
        return Spans(spans.first, cut, spans.document), Spans(first, last, document), following

    def _sample_other_documents(
        self,
        documents: Int[np.ndarray, "sequence"],
        lengths: Int[np.ndarray, "sequence"],
        at_sentence: Bool[np.ndarray, "sequence"],
        random: np.random.Generator,
    ) -> Spans:
        """Sample for each sequence a piece of another document, of this length if one of several samples is that long.

        Where `at_sentence`, it starts a sentence or its document, so that its beginning does not give it away.
        """
        bounds = self._bounds
        begin, size = bounds[documents], np.diff(bounds)[documents]
        sampled = (random.random((TRIES, len(documents))) * (bounds[-1] - size)).astype(np.int64)
        sampled += np.where(sampled >= begin, size, 0)  # a position outside the document
        candidates = np.searchsorted(bounds, sampled, side="right") - 1
        enough = np.diff(bounds)[candidates] >= lengths
        other_documents = candidates[np.argmax(enough, axis=0), np.arange(len(documents))]
        room = np.diff(bounds)[other_documents] - lengths
        first = bounds[other_documents] + (random.random(len(other_documents)) * np.maximum(room + 1, 1)).astype(
            np.int64
        )
        first = np.where(room > 0, first, bounds[other_documents])
        around = np.maximum(bounds[other_documents], first - self.windows.size)
        until = np.minimum(bounds[other_documents] + np.maximum(room, 0), first + self.windows.size)
        near, there = self._snap_to_sentences(Spans(around, until + 1, other_documents), first)
        first = np.where(at_sentence, np.where(there, near, bounds[other_documents]), first)
        return Spans(first, np.minimum(first + lengths, bounds[other_documents + 1]), other_documents)

    def _snap_to_sentences(
        self, spans: Spans, cut: Int[np.ndarray, "piece"]
    ) -> tuple[Int[np.ndarray, "piece"], Bool[np.ndarray, "piece"]]:
        """Return for each position in a piece the nearest one between two sentences, and whether there is one."""
        assert self._sentences is not None
        near, there = self._sentences.nearest(self._gather_tokens(spans), spans.lengths, cut - spans.first)
        return spans.first + near, there

    def _gather_tokens(self, spans: Spans) -> Int[np.ndarray, "token"]:
        """Return the concatenated tokens of all pieces; earlier documents each have an end token."""
        return self.corpus.tokens[spans.places() + np.repeat(spans.document, spans.lengths)].astype(np.int64)

    def _add_special_tokens(
        self, texts: Sequence[Spans], has_text: Bool[np.ndarray, "text sequence"]
    ) -> tuple[Int[np.ndarray, "token"], Int[np.ndarray, "token"], Int[np.ndarray, "sequence"]]:
        """Add a begin token to every sequence and a separator after every text: tokens, segments, and lengths."""
        sizes = np.stack([text.lengths for text in texts])  # (text, sequence)
        lengths = sizes.sum(0) + has_text.sum(0) + 1
        starts = np.cumsum(lengths) - lengths
        tokens = np.full(int(lengths.sum()), self.separator, np.int64)
        segments = np.zeros_like(tokens)
        tokens[starts] = self.begin
        offsets = starts + 1
        for kind, (text, present) in enumerate(zip(texts, has_text, strict=True)):
            places = text.places() + np.repeat(offsets - text.first, text.lengths)
            tokens[places] = self._gather_tokens(text)
            segments[places] = kind
            offsets = offsets + text.lengths
            segments[offsets[present]] = kind  # its separator
            offsets = offsets + present
        return tokens, segments, lengths


def text_bounds(corpus: Corpus) -> Int[np.ndarray, "bound"]:
    """Return the document bounds without end tokens: position p of document n is token p + n of the corpus."""
    starts = np.asarray(corpus.starts)
    return starts - np.arange(len(starts))


def _pad_to(values: Int[np.ndarray, "some"], size: int, filler: int) -> Int[np.ndarray, "all"]:
    return np.pad(values, (0, size - len(values)), constant_values=filler)
