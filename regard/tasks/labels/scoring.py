"""A classifier's or tagger's scores on labelled files, as every task tells them."""

from __future__ import annotations

from collections.abc import Sequence

from regard.metrics.labels import Labels
from regard.metrics.likelihood import IGNORE
from regard.metrics.scores import Judged, Scores, Table
from regard.metrics.significance import averaged
from regard.tasks.labels.batches import Labelled
from regard.tasks.labels.task import Measured

SHOWN = 12  # labels and mistakes listed
LONG = 300  # characters of a text that are shown


def scores(name: str, task: str, side: Labelled, found: Measured, classes: Sequence[str]) -> Scores:
    """Accuracy by example, every label by itself, and what is taken for what."""
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
    return Scores(
        name,
        task,
        {"accuracy, %": averaged([100.0 * count for count in right], [float(count) for count in judged])},
        examples,
        measures=measures,
        tables=_tables(found.labels, "texts" if found.whole is None else "words"),
        details={**found.metrics, "labels": _each(found.labels), "confusion": found.labels.confusion.tolist()},
        unit=unit,
        counted="accuracy",
    )


def _tables(labels: Labels, judged: str) -> list[Table]:
    """The most frequent labels, each by itself, and the commonest mistakes."""
    ranked = sorted(labels.labels, key=lambda label: -label.count)[:SHOWN]
    rows = [
        (one.name, f"{one.count:,}", f"{one.precision:.1%}", f"{one.recall:.1%}", f"{one.f1:.1%}") for one in ranked
    ]
    tables = [Table("By label", ("label", judged, "precision", "recall", "F1"), rows)]
    if mistakes := labels.mistakes[:SHOWN]:
        wrong = [(truth, answer, f"{count:,}") for truth, answer, count in mistakes]
        tables.append(Table("Mistakes", ("truth", "taken for", "times"), wrong))
    return tables


def _each(labels: Labels) -> dict[str, dict[str, float | int]]:
    return {
        one.name: {"count": one.count, "precision": one.precision, "recall": one.recall, "f1": one.f1}
        for one in labels.labels
    }
