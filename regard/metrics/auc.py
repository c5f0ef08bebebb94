"""The area under the ROC curve: how often a sample of a class is ranked above one of another."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int


def auc(scores: Float[np.ndarray, "samples"], truths: np.ndarray) -> float:
    """The share of pairs, one true and one not, in which the true one scores higher; ties count half.

    Not a number where one of the two kinds is missing.
    """
    positive = np.asarray(truths, bool)
    pairs = int(positive.sum()) * int((~positive).sum())
    if not pairs:
        return float("nan")
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]  # from 1, the mean of ties
    count = int(positive.sum())
    return float((ranks[positive].sum() - count * (count + 1) / 2) / pairs)


def mean_auc(probabilities: Float[np.ndarray, "samples classes"], truths: Int[np.ndarray, "samples"]) -> float:
    """Of two classes that of the second; of several the mean of each against all others, over those that occur."""
    if probabilities.shape[1] == 2:
        return auc(probabilities[:, 1], truths == 1)
    aucs = [auc(column, truths == label) for label, column in enumerate(probabilities.T)]
    defined = [value for value in aucs if value == value]
    return float(np.mean(defined)) if defined else float("nan")
