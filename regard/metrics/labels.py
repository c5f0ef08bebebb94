"""Classification metrics: accuracy, precision, recall, F1, and the confusion matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int


@dataclass(frozen=True)
class Label:
    """The scores of one label."""

    name: str
    count: int
    """Times it was right to say it."""
    precision: float
    """Share of the times it was said in which it was right; 0 where it never was said."""
    recall: float
    """Share of the times it was right in which it was said; 0 where it never was right."""

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return 2 * self.precision * self.recall / total if (total := self.precision + self.recall) else 0.0


@dataclass(frozen=True)
class Labels:
    """The confusion matrix of answers: `confusion[i, j]` counts how often label i was answered as label j."""

    names: Sequence[str]
    confusion: Int[np.ndarray, "truth answer"]

    @property
    def accuracy(self) -> float:
        """The share of right answers."""
        return float(np.trace(self.confusion) / max(self.confusion.sum(), 1))

    @property
    def f1(self) -> float:
        """The macro F1: the unweighted mean over labels that occur in the truth or in the answers."""
        occurring = (self.confusion.sum(0) + self.confusion.sum(1)) > 0
        return float(
            np.mean([label.f1 for label, occurs in zip(self.labels, occurring, strict=True) if occurs] or [0.0])
        )

    @property
    def labels(self) -> list[Label]:
        """The scores of each label."""
        right = np.diag(self.confusion)
        predicted, true = self.confusion.sum(0), self.confusion.sum(1)
        columns = zip(
            self.names, true.tolist(), right / np.maximum(predicted, 1), right / np.maximum(true, 1), strict=True
        )
        return [Label(name, count, float(precision), float(recall)) for name, count, precision, recall in columns]

    @property
    def mistakes(self) -> list[tuple[str, str, int]]:
        """(truth, answer, count) of all confusions, the most frequent first."""
        wrong = self.confusion - np.diag(np.diag(self.confusion))
        pairs = [(self.names[i], self.names[j], int(wrong[i, j])) for i, j in np.argwhere(wrong).tolist()]
        return sorted(pairs, key=lambda pair: (-pair[2], pair[0], pair[1]))


def judge(truth: Int[np.ndarray, "answer"], answers: Int[np.ndarray, "answer"], names: Sequence[str]) -> Labels:
    """Count how often each label was answered as each other."""
    size = len(names)
    counts = np.bincount(truth.astype(np.int64) * size + answers, minlength=size * size)
    return Labels(names, counts.reshape(size, size))
