"""Batching of inputs by length, with answers in the order of the inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from regard.decoding.batching import by_length, in_order
from regard.training.task import Spread, alone

Answer = TypeVar("Answer")


def answer_by_length(
    lengths: Sequence[int], answer: Callable[[list[int]], Sequence[Answer]], *, budget: int, spread: Spread = alone
) -> list[Answer]:
    """Answer inputs in batches of similar length and at most `budget` tokens, shared by processes.

    `answer` takes the numbers of the inputs of a batch.
    """
    batches = by_length(lengths, budget=budget)
    return in_order(batches, spread(answer, batches))
