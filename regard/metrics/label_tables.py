"""Labels told right and wrong, as tables: each by itself, and what is taken for what."""

from __future__ import annotations

from regard.metrics.labels import Labels
from regard.metrics.scores import Table

SHOWN = 12  # labels and mistakes listed


def tables(labels: Labels, judged: str) -> list[Table]:
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


def each(labels: Labels) -> dict[str, dict[str, float | int]]:
    """The same of all labels, as JSON."""
    return {
        one.name: {"count": one.count, "precision": one.precision, "recall": one.recall, "f1": one.f1}
        for one in labels.labels
    }
