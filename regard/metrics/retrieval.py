"""Retrieval of the right text among many: recall at 1 and at 10, and the mean reciprocal rank."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int, UInt64

BLOCK = 1024  # queries compared at a time


def ranks(
    queries: Float[np.ndarray, "pair width"],
    candidates: Float[np.ndarray, "pair width"],
    alike: UInt64[np.ndarray, "pair 2"],
) -> Int[np.ndarray, "pair"]:
    """Return the rank, from 1, of each query's best right candidate by the product of their vectors.

    The candidate in the same row is right, and so are those of rows that share a text with it: `alike` has a number for
    the text of either side, the same for equal texts. A wrong candidate as near as the right one ranks before it.
    """
    positions = np.empty(len(queries), np.int64)
    for start in range(0, len(queries), BLOCK):
        block_texts = alike[start : start + BLOCK]
        scores = queries[start : start + BLOCK] @ candidates.T
        matches = (block_texts[:, None, 0] == alike[None, :, 0]) | (block_texts[:, None, 1] == alike[None, :, 1])
        best = np.where(matches, scores, -np.inf).max(axis=1, keepdims=True)
        positions[start : start + BLOCK] = 1 + ((scores >= best) & ~matches).sum(axis=1)
    return positions


def retrieval(positions: Int[np.ndarray, "pair"]) -> dict[str, float]:
    """Return the share of queries whose right text is first, or among the first ten, and the mean reciprocal rank."""
    return {
        "recall_1": float((positions <= 1).mean()),
        "recall_10": float((positions <= 10).mean()),
        "mrr": float((1.0 / positions).mean()),
    }
