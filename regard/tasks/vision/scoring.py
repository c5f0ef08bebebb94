"""A picture classifier's scores, as every task tells them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from regard.metrics.scores import Scores
from regard.metrics.significance import mean_statistics
from regard.tasks.supervised.calibration import describe_calibration, measure_calibration
from regard.tasks.supervised.evaluation import ClassifierResults, score_classifier
from regard.tasks.vision.preparing import Side

TOP = 5
MANY = 20  # classes from which on it counts whether a label is among the likeliest


@dataclass(frozen=True)
class Measured(ClassifierResults):
    """Logits of all pictures of a side, compared with their labels."""

    @property
    def among(self) -> np.ndarray:
        """Whether each label is among the five likeliest."""
        own = self.logits[np.arange(len(self.truth)), self.truth]
        return (self.logits > own[:, None]).sum(1) < TOP

    @property
    def metrics(self) -> dict[str, float]:
        """By name, as they are logged."""
        top = {"top5": float(self.among.mean())} if len(self.labels.names) >= MANY else {}
        return {**super().metrics, **top}


def measured(side: Side, classes: Sequence[str], parts: Sequence[Sequence[Sequence[float]]]) -> Measured:
    """Logits, chunk after chunk, as they are told by one process or several."""
    return Measured.compare(np.array([line for part in parts for line in part]), side.labels, classes)


def scores(
    name: str, task: str, side: Side, found: Measured, temperature: float, *, notes: Sequence[str] = ()
) -> Scores:
    """Accuracy by picture, every label by itself, what is taken for what, and what probabilities are worth."""
    places = [side.place(number) for number in range(len(side))]
    scored = score_classifier(name, task, found, places, unit="picture", temperature=temperature)
    top = {"top-5 accuracy, %": mean_statistics(100.0 * found.among)} if len(found.labels.names) >= MANY else {}
    calibration = measure_calibration(found.logits, found.truth, temperature)
    confusion = found.labels.confusion.tolist()
    return replace(
        scored,
        statistics={**scored.statistics, **top},
        measures={**scored.measures, **describe_calibration(calibration)},
        notes=[*side.album.summary, *notes],
        details={**scored.details, "confusion": confusion, "calibration": calibration},
    )
