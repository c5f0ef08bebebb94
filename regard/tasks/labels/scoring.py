"""A classifier's or tagger's scores on labelled files, as every task tells them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.metrics import label_tables
from regard.metrics.likelihood import IGNORE
from regard.metrics.scores import Judged, Scores, Table
from regard.metrics.significance import Statistics, mean_statistics
from regard.tasks.labels.dataset import LabelledDataset
from regard.tasks.labels.evaluation import LabelResults
from regard.tasks.supervised.calibration import describe_calibration, measure_calibration

MAX_ENTITY_TYPES = 12  # types listed
MAX_MATTHEWS_LABELS = 20  # labels of which all mistakes are counted text by text
MAX_SHOWN_CHARACTERS = 300  # characters of a text that are shown


def score_labels(
    name: str, task: str, side: LabelledDataset, found: LabelResults, classes: Sequence[str], temperature: float = 1.0
) -> Scores:
    """Accuracy by example, every label by itself, what is taken for what, and what probabilities are worth."""
    right, judged, examples = [], [], []
    for number in range(len(side)):
        truth = side.labels_of(number)
        pairs = [(int(t), int(a)) for t, a in zip(truth, found.answers[number], strict=False) if int(t) != IGNORE]
        right.append(sum(t == a for t, a in pairs))
        judged.append(len(pairs))
        truths, answers = (" ".join(classes[pair[side_of]] for pair in pairs) for side_of in (0, 1))
        text = " ".join(side.texts[number])[:MAX_SHOWN_CHARACTERS]
        examples.append(Judged(number + 1, text, truths, answers, right[-1] / max(len(pairs), 1)))
    unit = "text" if found.sentence_accuracy is None else "sentence"
    measures = {"macro F1": f"{found.labels.f1:.2%}", "loss": f"{found.loss:.4f}"}
    if found.sentence_accuracy is not None:
        measures["sentences all right"] = f"{found.sentence_accuracy:.2%}"
    calibrated = label_calibration(side, found, temperature)
    measures |= describe_calibration(calibrated)
    return Scores(
        name,
        task,
        {
            "accuracy, %": mean_statistics([100.0 * count for count in right], [float(count) for count in judged]),
            **_further_scores(side, found, classes),
        },
        examples,
        measures=measures,
        tables=[
            *_entity_tables(found),
            *label_tables.tables(found.labels, "texts" if found.sentence_accuracy is None else "words"),
        ],
        details={
            **found.metrics,
            "labels": label_tables.scores_by_label(found.labels),
            "confusion": found.labels.confusion.tolist(),
            **({"calibration": calibrated} if calibrated else {}),
        },
        unit=unit,
        counted="accuracy",
    )


def _further_scores(side: LabelledDataset, found: LabelResults, classes: Sequence[str]) -> dict[str, Statistics]:
    """F1 over entities of tags; Matthews' correlation of a few labels."""
    if found.entity_scores is not None:
        return {"entity F1, %": found.entity_scores[0]}
    if side.per_token or len(classes) > MAX_MATTHEWS_LABELS:
        return {}
    cells = side.labels.astype(np.int64) * len(classes) + np.array([int(answer[0]) for answer in found.answers])
    return {"Matthews": Statistics("matthews", np.eye(len(classes) ** 2)[cells])}


def label_calibration(side: LabelledDataset, found: LabelResults, temperature: float) -> dict[str, float]:
    """How far probabilities lie from shares of right answers, as trained and as they are told."""
    return {} if found.logits is None else measure_calibration(found.logits, side.labels, temperature)


def _entity_tables(found: LabelResults) -> list[Table]:
    """Entities of every type."""
    if found.entity_scores is None:
        return []
    rows = [
        (one.type, f"{one.there:,}", f"{one.said:,}", f"{one.precision:.1%}", f"{one.recall:.1%}", f"{one.f1:.1%}")
        for one in found.entity_scores[1][:MAX_ENTITY_TYPES]
    ]
    return [Table("By type", ("entities", "there", "said", "precision", "recall", "F1"), rows)]
