"""A classifier's logits on labelled examples, and the scores computed from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from jaxtyping import Float, Int

from regard.metrics import label_tables
from regard.metrics.calibration import negative_log_likelihood, probabilities
from regard.metrics.labels import Labels, judge
from regard.metrics.scores import Judged, Scores
from regard.metrics.significance import mean_statistics

Results = TypeVar("Results", bound="ClassifierResults")


@dataclass(frozen=True)
class ClassifierResults:
    """Logits of some examples, compared with their labels."""

    labels: Labels
    logits: Float[np.ndarray, "example label"]
    truth: Int[np.ndarray, "example"]

    @classmethod
    def compare(cls: type[Results], logits: np.ndarray, truth: np.ndarray, classes: Sequence[str]) -> Results:
        """Compare the most probable labels with the true ones."""
        return cls(judge(truth, logits.argmax(-1), classes), logits, truth)

    @property
    def metrics(self) -> dict[str, float]:
        """Loss, accuracy and macro F1, by the names in the log."""
        loss = negative_log_likelihood(self.logits, self.truth, 1.0)
        return {"loss": loss, "accuracy": self.labels.accuracy, "f1": self.labels.f1}


def judge_examples(
    places: Sequence[str],
    truth: Int[np.ndarray, "example"],
    answers: Int[np.ndarray, "example"],
    probabilities: Float[np.ndarray, "example label"],
    classes: Sequence[str],
) -> list[Judged]:
    """Return every example with its label, the predicted label, and the probability of the true label."""
    rows = zip(places, truth.tolist(), answers.tolist(), probabilities, strict=True)
    return [
        Judged(number, place, classes[label], classes[answer], float(row[label]))
        for number, (place, label, answer, row) in enumerate(rows, start=1)
    ]


def score_classifier(
    name: str, task: str, results: ClassifierResults, places: Sequence[str], *, unit: str, temperature: float = 1.0
) -> Scores:
    """Return accuracy by example, scores of each label, and confused labels."""
    answers, truth, classes = results.logits.argmax(-1), results.truth, results.labels.names
    metrics = results.metrics
    return Scores(
        name,
        task,
        {"accuracy, %": mean_statistics(100.0 * (answers == truth))},
        judge_examples(places, truth, answers, probabilities(results.logits, temperature), classes),
        measures={"macro F1": f"{results.labels.f1:.2%}", "loss": f"{metrics['loss']:.4f}"},
        tables=label_tables.tables(results.labels, f"{unit}s"),
        details={**metrics, "labels": label_tables.scores_by_label(results.labels)},
        unit=unit,
        counted="probability of the truth",
    )
