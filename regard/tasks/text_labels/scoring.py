"""Scores of a classifier or tagger on labelled files."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.metrics import label_tables
from regard.metrics.likelihood import IGNORE
from regard.metrics.scores import Judged, Scores, Table
from regard.metrics.significance import Statistics, mean_statistics
from regard.tasks.supervised.calibration import describe_calibration, measure_calibration
from regard.tasks.text_encoders.dataset import LabelledDataset
from regard.tasks.text_labels.evaluation import LabelResults

MAX_ENTITY_TYPES = 12  # most types in a table
MAX_MATTHEWS_LABELS = 20  # most labels for which Matthews' correlation is computed
MAX_SHOWN_CHARACTERS = 300  # characters of a text shown in a report


def score_labels(
    name: str,
    task: str,
    dataset: LabelledDataset,
    results: LabelResults,
    classes: Sequence[str],
    temperature: float = 1.0,
) -> Scores:
    """Return accuracy by example, scores by label, the confusion matrix and the calibration of probabilities."""
    right, judged, examples = [], [], []
    for number in range(len(dataset)):
        truth = dataset.labels_of(number)
        pairs = [
            (int(true_label), int(answer))
            for true_label, answer in zip(truth, results.answers[number], strict=False)
            if int(true_label) != IGNORE
        ]
        right.append(sum(true_label == answer for true_label, answer in pairs))
        judged.append(len(pairs))
        truths, answers = (" ".join(classes[true_and_answer[column]] for true_and_answer in pairs) for column in (0, 1))
        text = " ".join(dataset.texts[number])[:MAX_SHOWN_CHARACTERS]
        examples.append(Judged(number + 1, text, truths, answers, right[-1] / max(len(pairs), 1)))
    unit = "text" if results.sentence_accuracy is None else "sentence"
    measures = {"macro F1": f"{results.labels.f1:.2%}", "loss": f"{results.loss:.4f}"}
    if results.sentence_accuracy is not None:
        measures["sentences all right"] = f"{results.sentence_accuracy:.2%}"
    calibration_errors = label_calibration(dataset, results, temperature)
    measures |= describe_calibration(calibration_errors)
    return Scores(
        name,
        task,
        {
            "accuracy, %": mean_statistics([100.0 * count for count in right], [float(count) for count in judged]),
            **_further_scores(dataset, results, classes),
        },
        examples,
        measures=measures,
        tables=[
            *_entity_tables(results),
            *label_tables.tables(results.labels, "texts" if results.sentence_accuracy is None else "words"),
        ],
        details={
            **results.metrics,
            "labels": label_tables.scores_by_label(results.labels),
            "confusion": results.labels.confusion.tolist(),
            **({"calibration": calibration_errors} if calibration_errors else {}),
        },
        unit=unit,
        counted="accuracy",
    )


def _further_scores(dataset: LabelledDataset, results: LabelResults, classes: Sequence[str]) -> dict[str, Statistics]:
    """Return F1 of entities for tags, or Matthews' correlation if there are few labels."""
    if results.entity_scores is not None:
        return {"entity F1, %": results.entity_scores[0]}
    if dataset.per_token or len(classes) > MAX_MATTHEWS_LABELS:
        return {}
    cells = dataset.labels.astype(np.int64) * len(classes) + np.array([int(answer[0]) for answer in results.answers])
    return {"Matthews": Statistics("matthews", np.eye(len(classes) ** 2)[cells])}


def label_calibration(dataset: LabelledDataset, results: LabelResults, temperature: float) -> dict[str, float]:
    """Return the calibration errors at temperature 1 and at the temperature of answers."""
    return {} if results.logits is None else measure_calibration(results.logits, dataset.labels, temperature)


def _entity_tables(results: LabelResults) -> list[Table]:
    """Return a table of entities by type."""
    if results.entity_scores is None:
        return []
    rows = [
        (
            counts.type,
            f"{counts.there:,}",
            f"{counts.said:,}",
            f"{counts.precision:.1%}",
            f"{counts.recall:.1%}",
            f"{counts.f1:.1%}",
        )
        for counts in results.entity_scores[1][:MAX_ENTITY_TYPES]
    ]
    return [Table("By type", ("entities", "there", "said", "precision", "recall", "F1"), rows)]
