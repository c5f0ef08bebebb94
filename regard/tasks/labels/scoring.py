"""A classifier's or tagger's scores on labelled files, as every task tells them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from regard.metrics import label_tables
from regard.metrics.calibration import calibration_error, probabilities
from regard.metrics.likelihood import IGNORE
from regard.metrics.scores import Judged, Scores, Table
from regard.metrics.significance import Statistics, averaged
from regard.tasks.labels import files
from regard.tasks.labels.batches import Labelled
from regard.tasks.labels.files import AnyFile, Found, LabelledFile
from regard.tasks.labels.task import Measured

SHOWN = 12  # types listed
FEW = 20  # labels of which all mistakes are counted text by text
LONG = 300  # characters of a text that are shown


def scores(
    name: str, task: str, side: Labelled, found: Measured, classes: Sequence[str], temperature: float = 1.0
) -> Scores:
    """Accuracy by example, every label by itself, what is taken for what, and what probabilities are worth."""
    right, judged, examples = [], [], []
    for number in range(len(side)):
        truth = side.truth(number)
        pairs = [(int(t), int(a)) for t, a in zip(truth, found.answers[number], strict=False) if int(t) != IGNORE]
        right.append(sum(t == a for t, a in pairs))
        judged.append(len(pairs))
        truths, answers = (" ".join(classes[pair[side_of]] for pair in pairs) for side_of in (0, 1))
        text = " ".join(side.words[number])[:LONG]
        examples.append(Judged(number + 1, text, truths, answers, right[-1] / max(len(pairs), 1)))
    unit = "text" if found.whole is None else "sentence"
    measures = {"macro F1": f"{found.labels.f1:.2%}", "loss": f"{found.loss:.4f}"}
    if found.whole is not None:
        measures["sentences all right"] = f"{found.whole:.2%}"
    calibrated = calibration(side, found, temperature)
    if calibrated:
        before, after = calibrated["before"], calibrated["after"]
        measures["calibration error"] = f"{before:.2%} as trained, {after:.2%} at temperature {temperature:.3g}"
    return Scores(
        name,
        task,
        {
            "accuracy, %": averaged([100.0 * count for count in right], [float(count) for count in judged]),
            **_further(side, found, classes),
        },
        examples,
        measures=measures,
        tables=[*_types(found), *label_tables.tables(found.labels, "texts" if found.whole is None else "words")],
        details={
            **found.metrics,
            "labels": label_tables.each(found.labels),
            "confusion": found.labels.confusion.tolist(),
            **({"calibration": calibrated} if calibrated else {}),
        },
        unit=unit,
        counted="accuracy",
    )


def _further(side: Labelled, found: Measured, classes: Sequence[str]) -> dict[str, Statistics]:
    """F1 over entities of tags; Matthews' correlation of a few labels."""
    if found.entities is not None:
        return {"entity F1, %": found.entities[0]}
    if side.per_token or len(classes) > FEW:
        return {}
    cells = side.labels.astype(np.int64) * len(classes) + np.array([int(answer[0]) for answer in found.answers])
    return {"Matthews": Statistics("matthews", np.eye(len(classes) ** 2)[cells])}


def calibration(side: Labelled, found: Measured, temperature: float) -> dict[str, float]:
    """How far probabilities lie from shares of right answers, as trained and as they are told."""
    if found.logits is None:
        return {}
    before, after = (calibration_error(probabilities(found.logits, heat), side.labels) for heat in (1.0, temperature))
    return {"before": before, "after": after, "temperature": temperature}


def _types(found: Measured) -> list[Table]:
    """Entities of every type."""
    if found.entities is None:
        return []
    rows = [
        (one.type, f"{one.there:,}", f"{one.said:,}", f"{one.precision:.1%}", f"{one.recall:.1%}", f"{one.f1:.1%}")
        for one in found.entities[1][:SHOWN]
    ]
    return [Table("By type", ("entities", "there", "said", "precision", "recall", "F1"), rows)]


def read_test_files(test_files: Sequence[AnyFile], names: dict[str, str]) -> Found:
    """All examples of files to measure on, none of whose lines may be bad; one laid out otherwise has a remedy."""
    try:
        return files.read(test_files, names, reject=0.0)
    except ValueError as error:
        if "fewer than" not in str(error) or not isinstance(test_files[0], LabelledFile):
            raise
        where = "--columns 1 2, or -s text=NAME -s label=NAME; columns=(1, 2) in Python"
        raise ValueError(f"{error}, or say which columns hold the text and the label ({where})") from None


def without_columns(file: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The settings by which files are read, but for those that say where texts and labels stand if `changes` does."""
    where = ("columns", "text", "label", "heading", "delimiter")
    named = any(name in changes for name in ("columns", "text", "label"))
    return {name: value for name, value in file.items() if not (named and name in where)}
