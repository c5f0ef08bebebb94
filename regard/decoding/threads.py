"""How many threads a decoding step is worth."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

LITTLE = 1 << 25  # products in a step up to which threads would wait for one another longer than they work


def products(model: Any) -> int | None:
    """About how many numbers a step multiplies for one row: the model's weights; None unless they are on a CPU."""
    weights = list(model.parameters()) if hasattr(model, "parameters") else []
    return sum(weight.numel() for weight in weights) if weights and weights[0].device.type == "cpu" else None


@contextmanager
def worth(work: int | None) -> Iterator[None]:
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
