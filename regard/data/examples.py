"""Batches of tensors, the order of training, and training and validation splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from regard.data.packing import number, permute

Batch = TypeVar("Batch", bound="TensorBatch")
Train = TypeVar("Train")
Valid = TypeVar("Valid")
Thing = TypeVar("Thing")
READABLE = (4, 16)  # fewest and most words of a text that is read at a glance


@dataclass(frozen=True)
class TensorBatch:
    """Base of frozen dataclasses whose fields are tensors with the examples along the first axis, or None."""

    group: ClassVar[int] = 1
    """Neighbours that are never divided, where examples are mixed in groups."""

    def __len__(self) -> int:
        return len(next(iter(vars(self).values())))

    def to(self: Batch, device: torch.device | str) -> Batch:
        """Return the same batch on a device."""
        moved = {name: value.to(device, non_blocking=True) for name, value in self._tensors().items()}
        return replace(self, **moved)

    def halves(self: Batch) -> list[Batch]:
        """Split into two batches of half the size, or return the batch alone if it has one group only."""
        half = len(self) // (2 * self.group) * self.group
        if not half:
            return [self]
        spans, tensors = (slice(half), slice(half, None)), self._tensors()
        return [replace(self, **{name: value[span] for name, value in tensors.items()}) for span in spans]

    def _tensors(self) -> dict[str, Tensor]:
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}


@dataclass(frozen=True)
class Examples(TensorBatch):
    """The numbers of some examples and their tensors, in an order that the task defines."""

    numbers: Sequence[int]
    parts: tuple[Tensor, ...]

    def to(self, device: torch.device | str) -> Examples:
        """Return the same batch on a device."""
        return Examples(self.numbers, tuple(part.to(device, non_blocking=True) for part in self.parts))

    def halves(self) -> list[Examples]:
        """Split into two batches of half the size, or return the batch alone if it has one example only."""
        half = len(self) // 2
        if not half:
            return [self]
        spans = slice(None, half), slice(half, None)
        return [Examples(self.numbers[span], tuple(part[span] for part in self.parts)) for span in spans]


def order_examples(places: Int[np.ndarray, "place"], total: int, *, seed: int) -> Int[np.ndarray, "place"]:
    """Return the examples at these positions of the training order: a new permutation of all examples in every epoch.

    A pure function of seed and position, without a stored order.
    """
    epochs, turns = np.divmod(places, total)
    parts = [permute(turns[epochs == epoch], total, number(seed, int(epoch))) for epoch in np.unique(epochs)]
    return np.concatenate(parts)


@dataclass(frozen=True, kw_only=True)
class Splits(Generic[Train, Valid]):
    """Training and validation examples."""

    train: Train
    valid: Valid
    classes: list[str] = field(default_factory=list)
    """Labels in their order, where examples have some."""
    report: dict[str, Any]
    """Counts and fingerprints, as JSON: a run is resumed with the same examples only."""
    summary: list[str]
    """How many examples there are of what, and what was left out, in lines for a person."""
    fresh: bool = True
    """Whether nothing was taken over from a model to start from."""


def sample_evenly(things: Sequence[Thing], count: int) -> Sequence[Thing]:
    """Return `count` items, always the same, spread evenly over the list."""
    if count >= len(things):
        return things
    return [things[(2 * place + 1) * len(things) // (2 * count)] for place in range(count)]


def sample_readable(texts: Sequence[str], count: int) -> list[int]:
    """Return the indices of `count` texts, always the same, spread evenly over those that are read at a glance."""
    lengths = [len(text.split()) for text in texts]
    readable = [number for number, length in enumerate(lengths) if READABLE[0] <= length <= READABLE[1]]
    shortest = sorted(range(len(texts)), key=lambda number: (lengths[number] == 0, lengths[number]))
    return list(sample_evenly(readable, count) if len(readable) >= count else shortest[:count])


def spread_over_classes(labels: Sequence[int], count: int) -> list[int]:
    """Return the indices of `count` examples, always the same: from all classes in turn, or from some spread evenly."""
    class_counts: dict[int, int] = {}
    turns = []
    for place, label in enumerate(labels):
        turns.append((class_counts.setdefault(int(label), 0), int(label), place))
        class_counts[int(label)] += 1
    in_turn = [place for _, _, place in sorted(turns)]
    return list(sample_evenly(in_turn[: len(class_counts)], count)) if count < len(class_counts) else in_turn[:count]
