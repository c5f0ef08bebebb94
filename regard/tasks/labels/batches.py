"""Labelled examples as tokens in memory, and rows of them: texts of about the same length, padded to the longest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from regard.data import cache
from regard.data.packing import Packing, buckets, pack
from regard.data.readers import digest
from regard.data.tokenizers import Tokenizer
from regard.tasks.labels import files as labels
from regard.tasks.labels import reading
from regard.tasks.labels.files import Example, Found, LabelsConfig, TagsConfig
from regard.tasks.labels.reading import ReadingConfig

IGNORE = -100  # the label of a token that is not judged
BLOCK = 4096  # texts tokenised at a time


@dataclass(frozen=True)
class LabelBatch:
    """Texts of a row with their labels: one for each, or one for each token."""

    examples: Int[Tensor, "batch"]
    tokens: Int[Tensor, "batch time"]
    lengths: Int[Tensor, "batch"]
    labels: Int[Tensor, "batch"] | Int[Tensor, "batch time"]

    def to(self, device: torch.device | str) -> LabelBatch:
        """The same on a device."""
        tokens, lengths, labels = (
            each.to(device, non_blocking=True) for each in (self.tokens, self.lengths, self.labels)
        )
        return LabelBatch(self.examples, tokens, lengths, labels)

    def halves(self) -> list[LabelBatch]:
        """Two batches of half the texts; itself when it is one text."""
        half = len(self.examples) // 2
        return [self._some(slice(half)), self._some(slice(half, None))] if half else [self]

    def _some(self, lines: slice) -> LabelBatch:
        return LabelBatch(self.examples[lines], self.tokens[lines], self.lengths[lines], self.labels[lines])


@dataclass(frozen=True)
class Labelled:
    """Texts as tokens, the shortest first, with a label for each text or for each token."""

    tokens: Int[np.ndarray, "token"]
    starts: Int[np.ndarray, "bound"]
    labels: Int[np.ndarray, "label"]
    examples: list[Example]
    """What was read; an example that was too long for one text stands here several times."""
    found: Found
    filler: int = 0
    """The token that fills up a batch."""

    @property
    def per_token(self) -> bool:
        """Whether each token has a label, if only that it is not judged."""
        return self.found.per_token

    def __len__(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def lengths(self) -> Int[np.ndarray, "text"]:
        """Tokens of each text."""
        return np.diff(self.starts)

    def packing(self, tokens: int, seed: int) -> Packing:
        """Which texts are in which row of at most so many tokens."""
        bounds = buckets(int(self.lengths[-1]))
        counts = np.diff(np.searchsorted(self.lengths, [0, *bounds], side="right"))
        return pack(
            [[int(count)] for count in counts], bounds, weights=[1.0], tokens=max(tokens, bounds[-1]), seed=seed
        )

    def batch(self, chosen: Int[np.ndarray, "batch"]) -> LabelBatch:
        """These texts, padded to the longest of them."""
        lengths = self.lengths[chosen]
        columns = np.arange(int(lengths.max()))
        filled = columns < lengths[:, None]
        cells = np.where(filled, self.starts[chosen][:, None] + columns, 0)
        tokens = np.where(filled, self.tokens[cells], self.filler)
        marked = np.where(filled, self.labels[cells], IGNORE) if self.per_token else self.labels[chosen]
        parts = (torch.from_numpy(part.astype(np.int64)) for part in (chosen, tokens, lengths, marked))
        return LabelBatch(*parts)

    def every(self, tokens: int) -> Iterator[LabelBatch]:
        """All texts in order, as many at a time as make so many tokens with their padding."""
        first = 0
        while first < len(self):
            last = first + 1
            while last < len(self) and int(self.lengths[last]) * (last + 1 - first) <= tokens:
                last += 1
            yield self.batch(np.arange(first, last))
            first = last

    def counts(self, classes: int) -> Int[np.ndarray, "class"]:
        """How often each label occurs."""
        return np.bincount(self.labels[self.labels != IGNORE], minlength=classes)

    def place(self, number: int) -> str:
        """Where a text stands, as file:line."""
        return self.found.place(self.examples[number])


@dataclass(frozen=True)
class Prepared:
    """What is learnt from and measured on."""

    tokenizer: Tokenizer
    classes: list[str]
    train: Labelled
    valid: Labelled
    report: dict[str, Any]
    summary: list[str]
    fresh: bool = True
    """Whether its tokens were chosen here, not taken over from a model."""


def prepare(
    config: LabelsConfig | TagsConfig,
    how: ReadingConfig,
    known: Tokenizer | None = None,
    told: list[str] | None = None,
) -> Prepared:
    """Read and tokenise the files; tokens that are `known` and labels that are `told` are used as they are."""
    found = labels.read(config.train, config.names, config.reject)
    if config.valid:
        train, valid = found, labels.read(config.valid, config.names, config.reject)
    else:
        train, valid = labels.hold(found, config.held)
    own, classes = known or _learnt(train, how), told or labels.classes(found)
    sides = {"train": index(train, own, classes), "valid": index(valid, own, classes)}
    files = {"train": found, **({"valid": valid} if config.valid else {})}
    held = "named" if config.valid else config.held
    report: dict[str, Any] = {name: _report(each, held) for name, each in files.items()}
    report |= {"vocab": own.vocab, "labels": classes, "texts": {name: len(side) for name, side in sides.items()}}
    summary = [line for each in files.values() for line in each.summary]
    summary.append(
        f"{len(sides['train']):,} texts to train on, {len(sides['valid']):,} held out, "
        f"{len(classes)} labels, {own.vocab:,} tokens"
    )
    return Prepared(own, classes, sides["train"], sides["valid"], report, summary, fresh=known is None)


def index(found: Found, own: Tokenizer, classes: Sequence[str]) -> Labelled:
    """Examples as tokens, in order of their length."""
    numbers = labels.numbered(found, classes)
    pieces = list(_pieces(found, numbers, own) if found.per_token else _whole(found, numbers, own))
    order = sorted(range(len(pieces)), key=lambda place: len(pieces[place][0]))
    tokens, marks, examples = zip(*(pieces[place] for place in order), strict=True)
    return Labelled(
        np.concatenate([np.array(ids, np.int32) for ids in tokens]),
        np.cumsum([0, *map(len, tokens)]),
        np.concatenate([np.array(mark, np.int32) for mark in marks]),
        list(examples),
        found,
        own.filler,
    )


Piece = tuple[list[int], list[int], Example]  # tokens, a label for all or for each, and what they were read from


def _whole(found: Found, numbers: list[list[int | None]], own: Tokenizer) -> Iterator[Piece]:
    """Texts that have one label."""
    both = iter(zip(found.examples, numbers, strict=True))
    while block := list(islice(both, BLOCK)):
        tokens = reading.read(own, [example.words[0] for example, _ in block])
        for (example, (label,)), ids in zip(block, tokens, strict=True):
            assert label is not None
            yield ids, [label], example


def _pieces(found: Found, numbers: list[list[int | None]], own: Tokenizer) -> Iterator[Piece]:
    """Sentences whose words have labels, in pieces that are not too long."""
    both = iter(zip(found.examples, numbers, strict=True))
    while block := list(islice(both, BLOCK)):
        pieces = cut(own, [example.words for example, _ in block])
        for (example, of_words), sentence in zip(block, pieces, strict=True):
            for words, ids in sentence:
                marks = [IGNORE] * len(ids)
                for word, last in words:
                    label = of_words[word]
                    marks[last] = IGNORE if label is None else label
                yield ids, marks, example


Part = tuple[list[tuple[int, int]], list[int]]  # (number of a word, place of its last token) of some words; all tokens


def cut(own: Tokenizer, sentences: Sequence[Sequence[str]]) -> list[list[Part]]:
    """The tokens of each sentence in pieces that are not too long, each with its words.

    What a word is, is told at its last token, when all of it has been read.
    """
    longest = reading.settings(own).longest
    found = []
    for sentence in reading.read_words(own, sentences):
        pieces: list[Part] = [([], [])] if sentence else []
        for number, tokens in enumerate(sentence):
            if len(pieces[-1][1]) + len(tokens) > longest:
                pieces.append(([], []))
            pieces[-1][1].extend(tokens)
            pieces[-1][0].append((number, len(pieces[-1][1]) - 1))
        found.append(pieces)
    return found


def _learnt(train: Found, how: ReadingConfig) -> Tokenizer:
    """The tokens of the texts to learn from."""
    if not train.per_token:
        return reading.learn((how.normal(example.words[0]) for example in train.examples), how)
    return reading.learn((" ".join(map(how.normal_word, example.words)) for example in train.examples), how)


def _report(found: Found, held: float | str) -> dict[str, Any]:
    """What is known of some files, for data.json."""
    digests = [digest(name) for name in found.files]
    both = zip(found.files, found.tallies, digests, strict=True)
    corpora = [{**tally.report([name]), "sha256": [one]} for name, tally, one in both]
    return {"fingerprint": cache.key(labels=1, files=digests, held=held), "corpora": corpora}
