"""Datasets of tokenised texts with labels, and their packed batches."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Int, Num
from torch import Tensor

from regard.attention.masks import Row
from regard.data.packing import Cell, Packing, buckets, pack
from regard.metrics.likelihood import IGNORE

TextModel = Any  # a module that returns logits per text or per token
ComputeLogits = Callable[..., Tensor]  # such a module, or its runner
ROW_SIZE_STEP = 256  # rows larger than planned are padded to a multiple of this


@dataclass(frozen=True)
class LabelBatch:
    """A packed row of texts with labels, one per text or one per token."""

    examples: Int[Tensor, "text"]
    """Numbers of the texts, used in error messages."""
    tokens: Int[Tensor, "token"]
    row: Row
    labels: Num[Tensor, "label"]
    """Labels of texts or tokens; -100, or NaN for ratings, in the padding of a row of fixed shape."""
    segments: Int[Tensor, "token"] | None = None
    """0 for tokens of the first text of a pair and 1 for those of the second, for models with segment embeddings."""
    num_choices: int = 0
    """Number of consecutive sequences that are the choices of one question; 0 if each sequence is scored alone."""

    def to(self, device: torch.device | str) -> LabelBatch:
        """Return the same batch on a device; the numbers of the texts stay on the CPU."""
        tokens, labels = (tensor.to(device, non_blocking=True) for tensor in (self.tokens, self.labels))
        segments = None if self.segments is None else self.segments.to(device, non_blocking=True)
        return LabelBatch(self.examples, tokens, self.row.to(device), labels, segments, self.num_choices)

    def forward(self, model: ComputeLogits) -> Tensor:
        """Return the logits of a model, or of its runner, per sequence, per token, or per choice."""
        logits = model(self.tokens, self.row, *(() if self.segments is None else (self.segments,)))
        return logits.reshape(-1, self.num_choices) if self.num_choices else logits


@dataclass(frozen=True)
class LabelledDataset:
    """Tokenised texts with one label each, the shortest first.

    An example may consist of several consecutive sequences: a pair in both orders, or a question with each of its
    choices.
    """

    tokens: Int[np.ndarray, "token"]
    starts: Int[np.ndarray, "bound"]
    labels: Num[np.ndarray, "label"]
    origins: Int[np.ndarray, "text 2"]
    """File and line of each text; a sentence split into several chunks occurs several times."""
    files: tuple[str, ...]
    texts_source: np.ndarray | list[tuple[str, ...]]
    """The original texts, or a line of JSON for each as bytes."""
    filler: int = 0
    """The padding token at the end of a row."""
    second_starts: Int[np.ndarray, "sequence"] | None = None
    """Start of the second text of each pair, for models with segment embeddings."""
    sequences_per_example: int = 1

    per_token: ClassVar[bool] = False
    """True if each token has a label, rather than the whole text."""

    def __len__(self) -> int:
        return (len(self.starts) - 1) // self.sequences_per_example

    @cached_property
    def bounds(self) -> Int[np.ndarray, "bound"]:
        """Offsets of the tokens of each example, and the end of the last."""
        return self.starts[:: self.sequences_per_example]

    @cached_property
    def lengths(self) -> Int[np.ndarray, "text"]:
        """Number of tokens of each example, over all its sequences."""
        return np.diff(self.bounds)

    @cached_property
    def sequence_lengths(self) -> Int[np.ndarray, "text sequence"]:
        """Number of tokens of each sequence of each example."""
        return np.diff(self.starts).reshape(-1, self.sequences_per_example)

    @cached_property
    def longest(self) -> int:
        """Number of tokens of the longest sequence."""
        return int(self.sequence_lengths.max())

    @property
    def num_choices(self) -> int:
        """Number of choices per question; 0 if examples are not multiple-choice questions."""
        return 0

    @cached_property
    def texts(self) -> list[tuple[str, ...]]:
        """The original texts of each example; for a tagged sentence its words."""
        if isinstance(self.texts_source, list):
            return self.texts_source
        return [tuple(json.loads(line)) for line in self.texts_source.tobytes().splitlines()]

    def packing(self, tokens: int, seed: int, *, padded: bool = False) -> Packing:
        """Pack the texts into rows of at most `tokens` tokens; `padded` counts each text at its bucket's bound."""
        bounds = buckets(int(self.lengths[-1]))
        ends = np.searchsorted(self.lengths, bounds, side="right")
        sums = [np.concatenate([[0], np.cumsum(self.lengths.astype(float) ** power)]) for power in (1, 2)]
        cells: list[list[Cell | int]] = []
        for first, last in zip([0, *ends[:-1]], ends, strict=True):
            total, squares = ((float(cumulative[last] - cumulative[first]),) for cumulative in sums)
            cells.append([int(last - first) if padded else Cell(int(last - first), total, squares)])
        return pack(cells, bounds, weights=[1.0], tokens=max(tokens, bounds[-1]), seed=seed)

    def batch(
        self, numbers: Int[np.ndarray, "text"], longest: int | None = None, *, fixed: Packing | None = None
    ) -> LabelBatch:
        """Collate examples of at most `longest` tokens into a row; `fixed` pads it to the shape of all rows.

        The bound is that of the longest sequence in the dataset, so that no token, not even of the padding, has a
        position beyond those of the model.
        """
        token_indices = self._token_indices(numbers)
        tokens = self.tokens[token_indices].astype(np.int64)
        labels = self._gather_labels(numbers, token_indices)
        sequence_lengths = self.sequence_lengths[numbers].ravel()
        segments = self._segment_ids(numbers, sequence_lengths)
        shape: dict[str, int] = {}
        if fixed is not None:
            assert longest is not None, "a row of fixed shape needs a bound"
            shape = self._fixed_shape(len(tokens), fixed.most[longest], fixed)
            num_labels = self._num_labels(shape["size"], fixed.most[longest])
            tokens = _pad(tokens, shape["size"], self.filler)
            labels = _pad(labels, num_labels, IGNORE if labels.dtype.kind == "i" else np.nan)
            segments = None if segments is None else _pad(segments, shape["size"], 0)
        bound = None if longest is None else min(longest, self.longest)
        return LabelBatch(
            torch.from_numpy(np.asarray(numbers, np.int64)),
            torch.from_numpy(tokens),
            Row.of(torch.from_numpy(sequence_lengths), longest=bound, **shape),
            torch.from_numpy(labels),
            None if segments is None else torch.from_numpy(segments),
            self.num_choices,
        )

    def _token_indices(self, numbers: Int[np.ndarray, "text"]) -> Int[np.ndarray, "token"]:
        """Return the indices of the tokens of these examples, in their order."""
        lengths = self.lengths[numbers]
        ends = np.cumsum(lengths)
        return np.arange(int(ends[-1])) + np.repeat(self.bounds[numbers] - ends + lengths, lengths)

    def _gather_labels(
        self, numbers: Int[np.ndarray, "text"], token_indices: Int[np.ndarray, "token"]
    ) -> Num[np.ndarray, "label"]:
        return _widen_labels(self.labels[numbers])

    def _num_labels(self, row_size: int, num_examples: int) -> int:
        """Return the number of labels in a row of fixed shape."""
        return num_examples

    def _segment_ids(
        self, numbers: Int[np.ndarray, "text"], sequence_lengths: Int[np.ndarray, "sequence"]
    ) -> Int[np.ndarray, "token"] | None:
        """Return 1 for each token of the second text of its pair and 0 for others, or None without segments."""
        if self.second_starts is None:
            return None
        sequence_starts = np.cumsum(sequence_lengths) - sequence_lengths
        positions = np.arange(int(sequence_lengths.sum())) - np.repeat(sequence_starts, sequence_lengths)
        second_starts = self.second_starts.reshape(-1, self.sequences_per_example)[numbers].ravel()
        return (positions >= np.repeat(second_starts, sequence_lengths)).astype(np.int64)

    def _fixed_shape(self, num_tokens: int, num_examples: int, packing: Packing) -> dict[str, int]:
        """Return the shape of a row, which is the same for all rows except the rare ones larger than planned."""
        overfull = num_tokens > packing.tokens
        size = -(-num_tokens // ROW_SIZE_STEP) * ROW_SIZE_STEP if overfull else packing.tokens
        additional_per_example = max(packing.most.values()) + -(-size // self.longest)
        additional = (self.sequences_per_example - 1) * additional_per_example
        return {
            "size": size,
            "segments": packing.segments + additional,
            "most": num_examples * self.sequences_per_example,
        }

    def split_batch(self, batch: LabelBatch) -> list[LabelBatch]:
        """Split a batch into halves; a batch of one text is returned as it is."""
        numbers, longest = batch.examples.numpy(), batch.row.longest
        half = len(numbers) // 2
        return [self.batch(part, longest) for part in (numbers[:half], numbers[half:])] if half else [batch]

    def labels_of(self, number: int) -> Num[np.ndarray, "label"]:
        """Return the label of a text, or the labels of its tokens."""
        return self.labels[number : number + 1]

    def count_labels(self, num_classes: int) -> Int[np.ndarray, "class"]:
        """Return the number of occurrences of each label."""
        return np.bincount(self.labels[self.labels != IGNORE], minlength=num_classes)

    def place(self, number: int) -> str:
        """Return the source of a text, as file:line."""
        file, line = self.origins[number].tolist()
        return f"{self.files[file]}:{line}"


@dataclass(frozen=True)
class TokenLabelledDataset(LabelledDataset):
    """Tokenised texts with a label for each token; some tokens may be left out of the loss."""

    per_token: ClassVar[bool] = True

    def _gather_labels(
        self, numbers: Int[np.ndarray, "text"], token_indices: Int[np.ndarray, "token"]
    ) -> Num[np.ndarray, "label"]:
        return _widen_labels(self.labels[token_indices])

    def _num_labels(self, row_size: int, num_examples: int) -> int:
        return row_size

    def labels_of(self, number: int) -> Num[np.ndarray, "label"]:
        """Return the labels of the tokens of a text."""
        return self.labels[self.starts[number] : self.starts[number + 1]]


@dataclass(frozen=True)
class ChoiceDataset(LabelledDataset):
    """Tokenised multiple-choice questions, one sequence per choice; the label is the number of the right choice."""

    @property
    def num_choices(self) -> int:
        """Number of choices per question."""
        return self.sequences_per_example


def _widen_labels(labels: Num[np.ndarray, "label"]) -> Num[np.ndarray, "label"]:
    """Return labels in the dtype that losses need: int64, or float32 for ratings."""
    return labels.astype(np.float32 if labels.dtype.kind == "f" else np.int64)


def _pad(values: Num[np.ndarray, "value"], length: int, fill: int | float) -> Num[np.ndarray, "length"]:
    return np.concatenate([values, np.full(length - len(values), fill, values.dtype)])
