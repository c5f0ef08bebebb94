"""Edit distance: error rates of whole answers and of their units, with several references allowed.

An edit replaces, deletes or inserts a unit (Levenshtein 1966). Of several references the nearest counts, as is usual
for pronunciations (Bisani and Ney 2008, Yao and Zweig 2015).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Edits(NamedTuple):
    """The fewest edits that turn an answer into a reference; of equally few, those with the fewest replacements."""

    total: int = 0
    replaced: int = 0
    surplus: int = 0
    """Units of the answer that the reference has not."""
    missing: int = 0
    """Units of the reference that the answer has not."""


@dataclass(frozen=True)
class Errors:
    """The summed errors of many answers."""

    answers: int
    wrong: int
    """Answers that are not equal to any of their references."""
    units: int
    """Units of the references that the answers were held against."""
    edits: Edits

    @property
    def answer_rate(self) -> float:
        """Wrong answers in percent; for words, the word error rate."""
        return 100 * self.wrong / self.answers

    @property
    def unit_rate(self) -> float:
        """Edits in percent of the reference units; for sounds, the phoneme error rate. It may exceed 100."""
        return 100 * self.edits.total / self.units if self.units else 0.0 if not self.edits.total else float("inf")


def edits(answer: Sequence[Hashable], reference: Sequence[Hashable]) -> Edits:
    """Return the fewest edits between two sequences, by kind."""
    row = [Edits(column, 0, 0, column) for column in range(len(reference) + 1)]
    for number, answer_unit in enumerate(answer, start=1):
        corner, row[0] = row[0], Edits(number, 0, number, 0)
        for column, reference_unit in enumerate(reference, start=1):
            same = answer_unit == reference_unit
            cheapest = min(
                corner if same else corner._replace(total=corner.total + 1, replaced=corner.replaced + 1),
                row[column]._replace(total=row[column].total + 1, surplus=row[column].surplus + 1),
                row[column - 1]._replace(total=row[column - 1].total + 1, missing=row[column - 1].missing + 1),
            )
            corner, row[column] = row[column], cheapest
    return row[-1]


def nearest_reference(answer: Sequence[Hashable], references: Sequence[Sequence[Hashable]]) -> tuple[Edits, int]:
    """Return the edits to the nearest reference and its number of units; the first of equally near ones."""
    if not references:
        raise ValueError("an answer without a reference cannot be judged: give it at least one")
    return min(
        ((edits(answer, reference), len(reference)) for reference in references),
        key=lambda candidate: candidate[0].total,
    )


def errors(answers: Sequence[str], references: Sequence[Sequence[str]]) -> Errors:
    """Return the errors of answers with one or more references each; units are separated by whitespace."""
    if len(answers) != len(references):
        raise ValueError(f"{len(answers)} answers but references for {len(references)}: there must be as many")
    if not answers:
        raise ValueError("no answers to judge: give at least one")
    nearest_edits = [
        nearest_reference(answer.split(), [reference.split() for reference in alternatives])
        for answer, alternatives in zip(answers, references, strict=True)
    ]
    sums = Edits(*(sum(kind) for kind in zip(*(counts for counts, _ in nearest_edits), strict=True)))
    return Errors(
        len(nearest_edits),
        sum(counts.total > 0 for counts, _ in nearest_edits),
        sum(units for _, units in nearest_edits),
        sums,
    )
