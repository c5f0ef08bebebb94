"""How many answers of a translator are wrong, and by how much, where a source may have several right answers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.metrics.edits import Errors, errors, nearest

if TYPE_CHECKING:
    from regard.tasks.translation.translator import Translator


class Question(NamedTuple):
    """One source with everything that is right for it."""

    source: str
    references: tuple[str, ...]


class Mistake(NamedTuple):
    """An answer that is not right."""

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
        """Wrong answers, and edits to the nearest reference."""
        return errors(self.answers, [question.references for question in self.questions])

    def worst(self, count: int = 5) -> list[Mistake]:
        """The answers with most edits for their length, the worst first."""
        found = []
        for question, answer in zip(self.questions, self.answers, strict=True):
            wrong, units = edits(answer, question)
            if wrong:
                found.append(Mistake(*question, answer, wrong, units))
        return sorted(found, key=lambda each: (-each.edits / max(each.units, 1), each.source))[:count]

    def plain(self, *, worst: int = 5) -> dict[str, Any]:
        """As JSON."""
        own = self.errors
        told: dict[str, Any] = {"name": self.name, "sources": own.answers, "wrong": own.wrong}
        told |= {"answer_error_rate": own.answer_rate, "unit_error_rate": own.unit_rate, "units": own.units}
        told["edits"] = own.edits._asdict()
        if self.seconds is not None:
            told["seconds"] = self.seconds
        told["worst"] = [each._asdict() for each in self.worst(worst)]
        return told

    def lines(self) -> list[tuple[str, str]]:
        """A two-column table: what is measured, and the measure."""
        own, kinds = self.errors, self.errors.edits
        several = sum(len(question.references) > 1 for question in self.questions)
        told = [("system", self.name)]
        told.append(("sources", f"{own.answers:,}, of which {several:,} have several right answers"))
        told.append(("wrong answers", f"{own.answer_rate:.2f} %  ({own.wrong:,})"))
        told.append(("wrong units", f"{own.unit_rate:.2f} %  ({kinds.total:,} of {own.units:,})"))
        told.append(("", f"{kinds.replaced:,} replaced, {kinds.surplus:,} too many, {kinds.missing:,} missing"))
        if self.seconds is not None:
            told.append(("time", f"{self.seconds:.1f} s, {own.answers / max(self.seconds, 1e-9):,.1f} a second"))
        return told


def edits(answer: str, question: Question) -> tuple[int, int]:
    """How many units of an answer are to be changed to be right, and of how many."""
    own, units = nearest(answer.split(), [reference.split() for reference in question.references])
    return own.total, units


def questions(pairs: Sequence[tuple[str, str]]) -> list[Question]:
    """Sources in the order of a test set, each once, with the references of all lines that have it."""
    if not pairs:
        raise ValueError("no pairs to evaluate on: give at least one")
    found: dict[str, dict[str, None]] = {}
    for source, reference in pairs:
        found.setdefault(source, {})[reference] = None
    return [Question(source, tuple(references)) for source, references in found.items()]


def evaluate(
    translator: Translator, pairs: Sequence[tuple[str, str]], *, to: str | None = None, name: str, **settings: Any
) -> Judgement:
    """Translate every source once and count errors; settings are those of `translate`."""
    asked = questions(pairs)
    began = time.perf_counter()
    answers = [one.text for one in translator.answers([question.source for question in asked], to=to, **settings)]
    return Judgement(name, asked, answers, time.perf_counter() - began)


def judge(name: str, answers: Sequence[str], pairs: Sequence[tuple[str, str]]) -> Judgement:
    """Count the errors of answers to every line that somebody else gave; of a source's lines the first counts."""
    own: dict[str, str] = {}
    for (source, _), answer in zip(pairs, answers, strict=True):
        own.setdefault(source, answer)
    return Judgement(name, questions(pairs), list(own.values()))
