"""How well numbers go together with the truth: Pearson's and Spearman's correlation, with what intervals need."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from regard.metrics.significance import Statistics


def pearson(answers: ArrayLike, truth: ArrayLike) -> Statistics:
    """The linear correlation, from sums over examples."""
    x, y = (np.asarray(values, dtype=np.float64) for values in (answers, truth))
    x, y = x - x.mean(), y - y.mean()  # or sums of squares would lose digits
    return Statistics("correlation", np.column_stack([np.ones(len(x)), x, y, x * x, y * y, x * y]))


def spearman(answers: ArrayLike, truth: ArrayLike) -> Statistics:
    """The correlation of ranks, which are those of the whole set in resamples too."""
    return pearson(ranks(answers), ranks(truth))


def ranks(values: ArrayLike) -> np.ndarray:
    """The rank of each number; equal ones share the mean of theirs."""
    numbers = np.asarray(values, dtype=np.float64)
    _, inverse, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[inverse]
