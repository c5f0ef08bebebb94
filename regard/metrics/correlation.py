"""Pearson's and Spearman's correlation with the truth, as statistics from which intervals follow."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from regard.metrics.significance import Statistics


def pearson(answers: ArrayLike, truth: ArrayLike) -> Statistics:
    """Return the linear correlation as sums over examples."""
    x, y = (np.asarray(values, dtype=np.float64) for values in (answers, truth))
    x, y = x - x.mean(), y - y.mean()  # otherwise sums of squares would lose digits
    return Statistics("correlation", np.column_stack([np.ones(len(x)), x, y, x * x, y * y, x * y]))


def spearman(answers: ArrayLike, truth: ArrayLike) -> Statistics:
    """Return the correlation of ranks; resamples use the ranks of the whole set."""
    return pearson(ranks(answers), ranks(truth))


def ranks(values: ArrayLike) -> np.ndarray:
    """Return the rank of each number; equal numbers share the mean of their ranks."""
    numbers = np.asarray(values, dtype=np.float64)
    _, inverse, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[inverse]
