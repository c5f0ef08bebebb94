"""Tokenised texts with their labels, and batches of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Int, Num
from torch import Tensor

from regard.attention.masks import Row
from regard.data.packing import Cell, Packing, buckets, pack
from regard.metrics.likelihood import IGNORE

TextModel = Any  # a network whose forward returns logits of every text, or of every token
ROW_SIZE_STEP = 256  # what the size of a row that is fuller than planned is rounded up to


@dataclass(frozen=True)
class LabelBatch:
    """One packed row of texts with their labels: one for each, or one for each token."""

    examples: Int[Tensor, "text"]
    """Numbers of the texts, to name their places."""
    tokens: Int[Tensor, "token"]
    row: Row
    labels: Num[Tensor, "label"]
    """Of every text or of every token; -100, or no number, on the tail and for texts that a fixed row has room for."""
    segments: Int[Tensor, "token"] | None = None
    """Of which text of a pair each token is, where the model is told."""
    choices: int = 0
    """How many sequences after one another are answers to choose from; 0 where each has labels of its own."""

    def to(self, device: torch.device | str) -> LabelBatch:
        """The same on a device; the numbers of the texts stay."""
        tokens, labels = (each.to(device, non_blocking=True) for each in (self.tokens, self.labels))
        segments = None if self.segments is None else self.segments.to(device, non_blocking=True)
        return LabelBatch(self.examples, tokens, self.row.to(device), labels, segments, self.choices)

    def read(self, model: Any) -> Tensor:
        """What a model says of it: logits for every sequence, for every token, or for the choices of every question."""
        found = model(self.tokens, self.row, *(() if self.segments is None else (self.segments,)))
        return found.reshape(-1, self.choices) if self.choices else found


@dataclass(frozen=True)
class LabelledDataset:
    """Texts as tokens, the shortest first, with a label for each text or for each token."""

    tokens: Int[np.ndarray, "token"]
    starts: Int[np.ndarray, "bound"]
    labels: Num[np.ndarray, "label"]
    origins: Int[np.ndarray, "text 2"]
    """File and line of each text; one that was too long for one row stands here several times."""
    files: tuple[str, ...]
    per_token: bool
    """Whether each token has a label, if only that it is not judged."""
    written: np.ndarray | list[tuple[str, ...]]
    """The texts as they were written, or the bytes of a line of JSON for each."""
    filler: int = 0
    """The token that fills up a row."""
    seconds: Int[np.ndarray, "sequence"] | None = None
    """Where the second text of each pair begins, if the model is told which text a token is of."""
    ways: int = 1
    """Sequences that are read of each example, one after the other."""
    chosen: bool = False
    """Whether these are answers to choose from, of which the label is one."""

    def __len__(self) -> int:
        return (len(self.starts) - 1) // self.ways

    @cached_property
    def bounds(self) -> Int[np.ndarray, "bound"]:
        """Where the tokens of each example begin, and where the last one ends."""
        return self.starts[:: self.ways]

    @cached_property
    def lengths(self) -> Int[np.ndarray, "text"]:
        """Tokens of each text, of all that is read of it."""
        return np.diff(self.bounds)

    @cached_property
    def sizes(self) -> Int[np.ndarray, "text way"]:
        """Tokens of each sequence that is read of a text."""
        return np.diff(self.starts).reshape(-1, self.ways)

    @cached_property
    def longest(self) -> int:
        """Tokens of the longest sequence."""
        return int(self.sizes.max())

    @cached_property
    def words(self) -> list[tuple[str, ...]]:
        """Each text as it was written: as a whole, or word by word."""
        if isinstance(self.written, list):
            return self.written
        return [tuple(json.loads(line)) for line in self.written.tobytes().splitlines()]

    def packing(self, tokens: int, seed: int, *, padded: bool = False) -> Packing:
        """Which texts are in which row of at most so many tokens; `padded` counts each as its bucket's longest."""
        bounds = buckets(int(self.lengths[-1]))
        ends = np.searchsorted(self.lengths, bounds, side="right")
        sums = [np.concatenate([[0], np.cumsum(self.lengths.astype(float) ** power)]) for power in (1, 2)]
        cells: list[list[Cell | int]] = []
        for first, last in zip([0, *ends[:-1]], ends, strict=True):
            total, squares = ((float(of[last] - of[first]),) for of in sums)
            cells.append([int(last - first) if padded else Cell(int(last - first), total, squares)])
        return pack(cells, bounds, weights=[1.0], tokens=max(tokens, bounds[-1]), seed=seed)

    def batch(
        self, chosen: Int[np.ndarray, "text"], longest: int | None = None, *, fixed: Packing | None = None
    ) -> LabelBatch:
        """These texts in a row, none of them over `longest` tokens; `fixed` fills it up to the shape of all rows.

        Where several sequences are read of a text, the bound of each is that of the longest one there is: no token, not
        even of the tail, stands beyond the places that a model knows.
        """
        lengths = self.lengths[chosen]
        ends = np.cumsum(lengths)
        places = np.arange(int(ends[-1])) + np.repeat(self.bounds[chosen] - ends + lengths, lengths)
        tokens = self.tokens[places].astype(np.int64)
        marks = self.labels[places] if self.per_token else self.labels[chosen]
        marks = marks.astype(np.float32 if marks.dtype.kind == "f" else np.int64)
        sizes = self.sizes[chosen].ravel()
        segments = self._segments(chosen, sizes)
        shape: dict[str, int] = {}
        bound = None if longest is None else min(longest, self.longest)
        if fixed is not None:
            assert longest is not None, "a row of fixed shape needs a bound"
            over = len(tokens) > fixed.tokens  # so rare that it may have a shape of its own
            size = -(-len(tokens) // ROW_SIZE_STEP) * ROW_SIZE_STEP if over else fixed.tokens
            most = fixed.most[longest]
            more = (self.ways - 1) * (max(fixed.most.values()) + -(-size // self.longest))
            shape = {"size": size, "segments": fixed.segments + more, "most": most * self.ways}
            room = (size if self.per_token else most) - len(marks)
            tokens = np.concatenate([tokens, np.full(size - len(tokens), self.filler)])
            nothing = IGNORE if marks.dtype.kind == "i" else np.nan
            marks = np.concatenate([marks, np.full(room, nothing, marks.dtype)])
            segments = None if segments is None else np.pad(segments, (0, size - len(segments)))
        row = Row.of(torch.from_numpy(sizes), longest=bound, **shape)
        numbers, ids, labels = (torch.from_numpy(part) for part in (np.asarray(chosen, np.int64), tokens, marks))
        parts = None if segments is None else torch.from_numpy(segments)
        return LabelBatch(numbers, ids, row, labels, parts, self.ways if self.chosen else 0)

    def _segments(
        self, chosen: Int[np.ndarray, "text"], sizes: Int[np.ndarray, "sequence"]
    ) -> Int[np.ndarray, "token"] | None:
        """Of which text of its pair each token of these examples is."""
        if self.seconds is None:
            return None
        within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        seconds = self.seconds.reshape(-1, self.ways)[chosen].ravel()
        return (within >= np.repeat(seconds, sizes)).astype(np.int64)

    def halves(self, batch: LabelBatch) -> list[LabelBatch]:
        """The same texts as two batches; the batch itself when it has only one."""
        chosen, longest = batch.examples.numpy(), batch.row.longest
        half = len(chosen) // 2
        return [self.batch(some, longest) for some in (chosen[:half], chosen[half:])] if half else [batch]

    def truth(self, number: int) -> Num[np.ndarray, "label"]:
        """The label of a text, or those of its tokens."""
        first, last = (self.starts[number], self.starts[number + 1]) if self.per_token else (number, number + 1)
        return self.labels[first:last]

    def counts(self, classes: int) -> Int[np.ndarray, "class"]:
        """How often each label occurs."""
        return np.bincount(self.labels[self.labels != IGNORE], minlength=classes)

    def place(self, number: int) -> str:
        """Where a text stands, as file:line."""
        file, line = self.origins[number].tolist()
        return f"{self.files[file]}:{line}"
