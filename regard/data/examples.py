"""Examples side by side, as tensors whose first axis counts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Examples:
    """The numbers of some examples and what they consist of, in the order in which a task knows it."""

    numbers: Sequence[int]
    parts: tuple[Tensor, ...]

    def __len__(self) -> int:
        return len(self.numbers)

    def to(self, device: torch.device) -> Examples:
        """The same on a device."""
        return Examples(self.numbers, tuple(part.to(device, non_blocking=True) for part in self.parts))

    def halves(self) -> list[Examples]:
        """Two of half the size; only itself when it is one example."""
        half = len(self) // 2
        if not half:
            return [self]
        spans = slice(None, half), slice(half, None)
        return [Examples(self.numbers[span], tuple(part[span] for part in self.parts)) for span in spans]
