"""Threads of a CPU: how many a decoding step is worth, and batches computed side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

Item = TypeVar("Item")
Answer = TypeVar("Answer")
LITTLE = 1 << 25  # products in a step up to which threads would wait for one another longer than they work


def multiplications_per_row(model: Any) -> int | None:
    """About how many numbers a step multiplies for one row: the model's weights; None unless they are on a CPU."""
    weights = list(model.parameters()) if hasattr(model, "parameters") else []
    return sum(weight.numel() for weight in weights) if weights and weights[0].device.type == "cpu" else None


@contextmanager
def limit_threads(work: int | None) -> Iterator[None]:
    """One thread for so few products, all of them for more: a small step would be a hundred short waits."""
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
    """Yield what a function makes of each item, in order; as many at a time as torch has threads, with one each.

    Threads that share the products of one item wait for one another, and where other processes run, most of the time.
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
