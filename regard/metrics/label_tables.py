"""Tables of classification results: scores by label, and the most frequent confusions."""

from __future__ import annotations

from regard.metrics.labels import Labels
from regard.metrics.scores import Table

SHOWN = 12  # labels and mistakes listed


def tables(labels: Labels, judged: str) -> list[Table]:
    """Return tables of the most frequent labels and the most frequent mistakes."""
    ranked = sorted(labels.labels, key=lambda label: -label.count)[:SHOWN]
    rows = [
        (
            row_label.name,
            f"{row_label.count:,}",
            f"{row_label.precision:.1%}",
            f"{row_label.recall:.1%}",
            f"{row_label.f1:.1%}",
        )
        for row_label in ranked
    ]
    tables = [Table("By label", ("label", judged, "precision", "recall", "F1"), rows)]
    if mistakes := labels.mistakes[:SHOWN]:
        wrong = [(truth, answer, f"{count:,}") for truth, answer, count in mistakes]
        tables.append(Table("Mistakes", ("truth", "taken for", "times"), wrong))
    return tables


def scores_by_label(labels: Labels) -> dict[str, dict[str, float | int]]:
    """Return the scores of all labels as plain data for JSON."""
    return {
        label.name: {"count": label.count, "precision": label.precision, "recall": label.recall, "f1": label.f1}
        for label in labels.labels
    }
