"""A picture classifier's scores, as every task tells them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from regard.metrics import label_tables
from regard.metrics.calibration import calibration_error, describe_error, probabilities, surprise
from regard.metrics.labels import Labels, judge
from regard.metrics.scores import Judged, Scores
from regard.metrics.significance import averaged
from regard.tasks.vision.preparing import Side

TOP = 5
MANY = 20  # classes from which on it counts whether a label is among the likeliest


@dataclass(frozen=True)
class Measured:
    """Logits of all pictures of a side, held against the truth."""

    labels: Labels
    logits: Float[np.ndarray, "picture label"]
    truth: Int[np.ndarray, "picture"]

    @property
    def among(self) -> np.ndarray:
        """Whether each label is among the five likeliest."""
        own = self.logits[np.arange(len(self.truth)), self.truth]
        return (self.logits > own[:, None]).sum(1) < TOP

    @property
    def metrics(self) -> dict[str, float]:
        """By name, as they are logged."""
        found = {"loss": surprise(self.logits, self.truth, 1.0), "accuracy": self.labels.accuracy, "f1": self.labels.f1}
        return {**found, "top5": float(self.among.mean())} if len(self.labels.names) >= MANY else found


def measured(side: Side, classes: Sequence[str], parts: Sequence[Sequence[Sequence[float]]]) -> Measured:
    """Logits, chunk after chunk, as they are told by one process or several."""
    logits = np.array([line for part in parts for line in part])
    return Measured(judge(side.labels, logits.argmax(-1), classes), logits, side.labels)


def scores(
    name: str, task: str, side: Side, found: Measured, temperature: float, *, notes: Sequence[str] = ()
) -> Scores:
    """Accuracy by picture, every label by itself, what is taken for what, and what probabilities are worth."""
    names, answers = found.labels.names, found.logits.argmax(-1)
    chances = probabilities(found.logits, temperature)
    right = answers == found.truth
    examples = [
        Judged(n + 1, side.place(n), names[found.truth[n]], names[answers[n]], float(chances[n, found.truth[n]]))
        for n in range(len(side))
    ]
    metrics = {"accuracy, %": averaged(100.0 * right)}
    if len(names) >= MANY:
        metrics["top-5 accuracy, %"] = averaged(100.0 * found.among)
    before, after = (calibration_error(probabilities(found.logits, heat), found.truth) for heat in (1.0, temperature))
    return Scores(
        name,
        task,
        metrics,
        examples,
        measures={
            "macro F1": f"{found.labels.f1:.2%}",
            "loss": f"{found.metrics['loss']:.4f}",
            "calibration error": describe_error(before, after, temperature),
        },
        tables=label_tables.tables(found.labels, "pictures"),
        notes=[*side.album.summary, *notes],
        details={
            **found.metrics,
            "labels": label_tables.each(found.labels),
            "confusion": found.labels.confusion.tolist(),
            "calibration": {"before": before, "after": after, "temperature": temperature},
        },
        unit="picture",
        counted="probability of the truth",
    )
