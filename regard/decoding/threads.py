"""CPU threads: how many to use for a decoding step, and batches computed in parallel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

Item = TypeVar("Item")
Answer = TypeVar("Answer")
LITTLE = 1 << 25  # multiplications in a step up to which threads would wait for one another longer than they work


def multiplications_per_row(model: Any) -> int | None:
    """Return about how many multiplications a step takes per row (the model's weights); None if not on a CPU."""
    weights = list(model.parameters()) if hasattr(model, "parameters") else []
    return sum(weight.numel() for weight in weights) if weights and weights[0].device.type == "cpu" else None


@contextmanager
def limit_threads(work: int | None) -> Iterator[None]:
    """Use one thread inside the block if there is little work, since threads would mostly wait for one another."""
    threads = torch.get_num_threads()
    if work is None or work > LITTLE or threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def map_in_threads(function: Callable[[Item], Answer], items: Iterable[Item]) -> Iterator[Answer]:
    """Yield the result of a function for each item, in order, running as many items at once as torch has threads.

    Each item uses one thread: threads that share the work of one item wait for one another, and most of the time where
    other processes run.
    """
    threads = torch.get_num_threads()
    if threads == 1:
        yield from map(function, items)
        return
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads) as pool:
            yield from pool.map(function, items)
    finally:
        torch.set_num_threads(threads)
