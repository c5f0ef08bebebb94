"""Scores of an image classifier, in the format shared by all tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from regard.data.images.labelled_images import LabelledImages
from regard.metrics.scores import Scores
from regard.metrics.significance import mean_statistics
from regard.tasks.supervised.calibration import describe_calibration, measure_calibration
from regard.tasks.supervised.evaluation import ClassifierResults, score_classifier

TOP_CLASSES = 5
MIN_CLASSES_FOR_TOP = 20  # fewest classes for which top-5 accuracy is measured


@dataclass(frozen=True)
class ImageClassifierResults(ClassifierResults):
    """Logits of all images, compared with their labels."""

    @property
    def in_top(self) -> np.ndarray:
        """True where the label is among the five likeliest."""
        true_logits = self.logits[np.arange(len(self.truth)), self.truth]
        return (self.logits > true_logits[:, None]).sum(1) < TOP_CLASSES

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics by name, as they are logged."""
        top = {"top5": float(self.in_top.mean())} if len(self.labels.names) >= MIN_CLASSES_FOR_TOP else {}
        return {**super().metrics, **top}


def evaluate_logits(
    images: LabelledImages, classes: Sequence[str], parts: Sequence[Sequence[Sequence[float]]]
) -> ImageClassifierResults:
    """Compare logits with the labels; `parts` has the logits of one chunk of images after another."""
    logits = np.array([image_logits for part in parts for image_logits in part])
    return ImageClassifierResults.compare(logits, images.labels, classes)


def classification_scores(
    name: str,
    task: str,
    images: LabelledImages,
    results: ImageClassifierResults,
    temperature: float,
    *,
    notes: Sequence[str] = (),
) -> Scores:
    """Return accuracy by image, scores of every label, the confusion matrix and the calibration."""
    places = [images.place(number) for number in range(len(images))]
    scored = score_classifier(name, task, results, places, unit="picture", temperature=temperature)
    many = len(results.labels.names) >= MIN_CLASSES_FOR_TOP
    top = {"top-5 accuracy, %": mean_statistics(100.0 * results.in_top)} if many else {}
    calibration = measure_calibration(results.logits, results.truth, temperature)
    confusion = results.labels.confusion.tolist()
    return replace(
        scored,
        statistics={**scored.statistics, **top},
        measures={**scored.measures, **describe_calibration(calibration)},
        notes=[*images.album.summary, *notes],
        details={**scored.details, "confusion": confusion, "calibration": calibration},
    )
