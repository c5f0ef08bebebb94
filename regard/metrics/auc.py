"""The area under the ROC curve: the probability that a positive sample is ranked above a negative one."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int


def auc(scores: Float[np.ndarray, "samples"], truths: np.ndarray) -> float:
    """Return the share of pairs, one positive and one negative, in which the positive scores higher; ties count half.

    It is NaN if one of the two kinds is missing.
    """
    positive = np.asarray(truths, bool)
    pairs = int(positive.sum()) * int((~positive).sum())
    if not pairs:
        return float("nan")
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]  # from 1, ties share their mean
    count = int(positive.sum())
    return float((ranks[positive].sum() - count * (count + 1) / 2) / pairs)


def mean_auc(probabilities: Float[np.ndarray, "samples classes"], truths: Int[np.ndarray, "samples"]) -> float:
    """Return the AUC of the second of two classes; of several, the mean AUC of each that occurs against the rest."""
    if probabilities.shape[1] == 2:
        return auc(probabilities[:, 1], truths == 1)
    aucs = [auc(column, truths == label) for label, column in enumerate(probabilities.T)]
    defined = [value for value in aucs if value == value]
    return float(np.mean(defined)) if defined else float("nan")
