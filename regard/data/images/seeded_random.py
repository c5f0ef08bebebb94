"""Random numbers that are functions of a seed and of places: the same on any device, in any batch, in any order.

A hash of 32 bits (Wellons' lowbias32) instead of a generator, so that nothing needs a state, and a step of fixed shape
can be compiled and recorded.
"""

from __future__ import annotations

from itertools import count

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

WORD = 0xFFFFFFFF
STRIDE = 0x9E3779B9  # from one number of a place to the next
POINTS = 512  # of a table, on either side of its middle


class Draws:
    """Numbers for some places, one column after the other; who draws in the same order gets the same."""

    def __init__(self, seed: int, places: Int[Tensor, "batch"]) -> None:
        start = _hash_words([seed & WORD, (seed >> 32) & WORD])
        self.state = hash_tensor(hash_tensor((places & WORD) ^ start) ^ ((places >> 32) & WORD))
        self.turns = count(1)

    def uniform(self, low: float = 0.0, high: float = 1.0) -> Float[Tensor, "batch"]:
        """Numbers from low to below high, one for each place."""
        bits = hash_tensor(self.state ^ (next(self.turns) * STRIDE & WORD))
        return low + (high - low) * ((bits >> 8).float() / (1 << 24))

    def whole(self, below: int) -> Int[Tensor, "batch"]:
        """Whole numbers from 0 to below that."""
        return (self.uniform() * below).long().clamp(max=below - 1)

    def sign(self) -> Float[Tensor, "batch"]:
        """1 or -1."""
        return torch.where(self.uniform() < 0.5, -1.0, 1.0)

    def beta(self, quantiles: Float[Tensor, "points"]) -> Float[Tensor, "batch"]:
        """Numbers of a distribution whose quantiles are given at even steps."""
        at = self.uniform() * (len(quantiles) - 1)
        below = at.long().clamp(max=len(quantiles) - 2)
        low, high = quantiles[below], quantiles[below + 1]
        return low + (high - low) * (at - below)


def hash_tensor(x: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
    """A hash of 32 bits, held in 64: products that are too long wrap, and what is cut off does not matter."""
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & WORD
    x = ((x ^ (x >> 15)) * 0x846CA68B) & WORD
    return x ^ (x >> 16)


def _hash_words(words: list[int]) -> int:
    """The same of numbers on the host, one after the other."""
    state = 0
    for word in words:
        x = state ^ word
        x = ((x ^ (x >> 16)) * 0x7FEB352D) & WORD
        x = ((x ^ (x >> 15)) * 0x846CA68B) & WORD
        state = x ^ (x >> 16)
    return state


def beta_quantiles(alpha: float) -> Float[np.ndarray, "points"]:
    """Quantiles of Beta(alpha, alpha) at even steps from 0 to 1.

    Below its middle x = s ** (1 / alpha) takes away the pole of the density, above it lies the mirror image.
    """
    s = np.linspace(0, 0.5**alpha, 8 * POINTS + 1)
    x = s ** (1 / alpha)
    density = (1 - x) ** (alpha - 1)
    steps = np.diff(s) * (density[1:] + density[:-1]) / 2
    share = np.concatenate([[0.0], np.cumsum(steps)])
    low = np.interp(np.linspace(0, 0.5, POINTS + 1), share / share[-1] / 2, x)
    return np.concatenate([low, 1 - low[-2::-1]]).astype(np.float32)
