"""Random numbers as functions of a seed and of positions: the same on any device, in any batch, in any order.

A 32-bit hash (Wellons' lowbias32) instead of a generator, so that there is no state, and a step of fixed shape can be
compiled and captured.
"""

from __future__ import annotations

from itertools import count

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

WORD = 0xFFFFFFFF
STRIDE = 0x9E3779B9  # between successive numbers of a position
POINTS = 512  # of a table, on either side of its middle


class Draws:
    """Random numbers for some positions, one column per call; the same order of calls gives the same numbers."""

    def __init__(self, seed: int, places: Int[Tensor, "batch"]) -> None:
        start = _hash_words([seed & WORD, (seed >> 32) & WORD])
        self.state = hash_tensor(hash_tensor((places & WORD) ^ start) ^ ((places >> 32) & WORD))
        self.turns = count(1)

    def uniform(self, low: float = 0.0, high: float = 1.0) -> Float[Tensor, "batch"]:
        """Return numbers in [low, high), one for each position."""
        bits = hash_tensor(self.state ^ (next(self.turns) * STRIDE & WORD))
        return low + (high - low) * ((bits >> 8).float() / (1 << 24))

    def whole(self, below: int) -> Int[Tensor, "batch"]:
        """Return whole numbers in [0, below)."""
        return (self.uniform() * below).long().clamp(max=below - 1)

    def sign(self) -> Float[Tensor, "batch"]:
        """Return 1 or -1."""
        return torch.where(self.uniform() < 0.5, -1.0, 1.0)

    def beta(self, quantiles: Float[Tensor, "points"]) -> Float[Tensor, "batch"]:
        """Sample from a distribution by its quantiles at even steps."""
        at = self.uniform() * (len(quantiles) - 1)
        below = at.long().clamp(max=len(quantiles) - 2)
        low, high = quantiles[below], quantiles[below + 1]
        return low + (high - low) * (at - below)


def hash_tensor(x: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
    """Return a 32-bit hash, computed in 64 bits: overflowing products wrap, and the bits cut off do not matter."""
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & WORD
    x = ((x ^ (x >> 15)) * 0x846CA68B) & WORD
    return x ^ (x >> 16)


def _hash_words(words: list[int]) -> int:
    """Return the hash of several 32-bit words, on the host."""
    state = 0
    for word in words:
        x = state ^ word
        x = ((x ^ (x >> 16)) * 0x7FEB352D) & WORD
        x = ((x ^ (x >> 15)) * 0x846CA68B) & WORD
        state = x ^ (x >> 16)
    return state


def beta_quantiles(alpha: float) -> Float[np.ndarray, "points"]:
    """Return quantiles of Beta(alpha, alpha) at even steps from 0 to 1.

    Below the middle, x = s ** (1 / alpha) removes the pole of the density; above it is the mirror image.
    """
    s = np.linspace(0, 0.5**alpha, 8 * POINTS + 1)
    x = s ** (1 / alpha)
    density = (1 - x) ** (alpha - 1)
    steps = np.diff(s) * (density[1:] + density[:-1]) / 2
    share = np.concatenate([[0.0], np.cumsum(steps)])
    low = np.interp(np.linspace(0, 0.5, POINTS + 1), share / share[-1] / 2, x)
    return np.concatenate([low, 1 - low[-2::-1]]).astype(np.float32)
