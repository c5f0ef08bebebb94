"""The error rate of a translator for sources with one or several correct answers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.metrics.edits import Errors, errors, nearest_reference

if TYPE_CHECKING:
    from regard.tasks.translation.sentence_translator import SentenceTranslator


class Question(NamedTuple):
    """A source with all its correct answers."""

    source: str
    references: tuple[str, ...]


class Mistake(NamedTuple):
    """A wrong answer."""

    source: str
    references: tuple[str, ...]
    answer: str
    edits: int
    units: int


@dataclass(frozen=True)
class Judgement:
    """The answers of one system, and their errors."""

    name: str
    questions: Sequence[Question]
    answers: Sequence[str]
    seconds: float | None = None

    @cached_property
    def errors(self) -> Errors:
        """Return the number of wrong answers, and the edits to the nearest references."""
        return errors(self.answers, [question.references for question in self.questions])

    def worst(self, count: int = 5) -> list[Mistake]:
        """Return the answers with the most edits for their length, the worst first."""
        mistakes = []
        for question, answer in zip(self.questions, self.answers, strict=True):
            wrong, units = count_edits(answer, question)
            if wrong:
                mistakes.append(Mistake(*question, answer, wrong, units))
        return sorted(mistakes, key=lambda mistake: (-mistake.edits / max(mistake.units, 1), mistake.source))[:count]

    def plain(self, *, worst: int = 5) -> dict[str, Any]:
        """Return the results as JSON."""
        error_counts = self.errors
        record: dict[str, Any] = {"name": self.name, "sources": error_counts.answers, "wrong": error_counts.wrong}
        record |= {
            "answer_error_rate": error_counts.answer_rate,
            "unit_error_rate": error_counts.unit_rate,
            "units": error_counts.units,
        }
        record["edits"] = error_counts.edits._asdict()
        if self.seconds is not None:
            record["seconds"] = self.seconds
        record["worst"] = [mistake._asdict() for mistake in self.worst(worst)]
        return record

    def lines(self) -> list[tuple[str, str]]:
        """Return the results as a two-column table."""
        error_counts, kinds = self.errors, self.errors.edits
        several = sum(len(question.references) > 1 for question in self.questions)
        rows = [("system", self.name)]
        rows.append(("sources", f"{error_counts.answers:,}, of which {several:,} have several right answers"))
        rows.append(("wrong answers", f"{error_counts.answer_rate:.2f} %  ({error_counts.wrong:,})"))
        rows.append(("wrong units", f"{error_counts.unit_rate:.2f} %  ({kinds.total:,} of {error_counts.units:,})"))
        rows.append(("", f"{kinds.replaced:,} replaced, {kinds.surplus:,} too many, {kinds.missing:,} missing"))
        if self.seconds is not None:
            rows.append(
                ("time", f"{self.seconds:.1f} s, {error_counts.answers / max(self.seconds, 1e-9):,.1f} a second")
            )
        return rows


def count_edits(answer: str, question: Question) -> tuple[int, int]:
    """Return the edits from an answer to the nearest reference, and the length of that reference."""
    distance, units = nearest_reference(answer.split(), [reference.split() for reference in question.references])
    return distance.total, units


def group_questions(pairs: Sequence[tuple[str, str]]) -> list[Question]:
    """Return the distinct sources of a test set in order, each with the references of all its lines."""
    if not pairs:
        raise ValueError("no pairs to evaluate on: give at least one")
    references_by_source: dict[str, dict[str, None]] = {}
    for source, reference in pairs:
        references_by_source.setdefault(source, {})[reference] = None
    return [Question(source, tuple(references)) for source, references in references_by_source.items()]


def evaluate(
    translator: SentenceTranslator,
    pairs: Sequence[tuple[str, str]],
    *,
    to: str | None = None,
    name: str,
    **settings: Any,
) -> Judgement:
    """Translate every source once and count errors; settings are those of `translate`."""
    test_questions = group_questions(pairs)
    began = time.perf_counter()
    answers = [
        answer.text
        for answer in translator.answers([question.source for question in test_questions], to=to, **settings)
    ]
    return Judgement(name, test_questions, answers, time.perf_counter() - began)


def judge(name: str, answers: Sequence[str], pairs: Sequence[tuple[str, str]]) -> Judgement:
    """Count the errors of given answers; for a repeated source, the first answer counts."""
    first_answers: dict[str, str] = {}
    for (source, _), answer in zip(pairs, answers, strict=True):
        first_answers.setdefault(source, answer)
    return Judgement(name, group_questions(pairs), list(first_answers.values()))
