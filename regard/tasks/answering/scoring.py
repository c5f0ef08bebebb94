"""How good answers are: exact match and F1 over words, whether it is known when there is none, as every task tells."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.metrics.answers import exact_match, token_f1
from regard.metrics.scores import Judged, Scores, Table
from regard.metrics.significance import mean_statistics
from regard.tasks.answering.questions import Question

KINDS = {"with an answer": {True}, "without an answer": {False}, "both, as people say": {False, True}}
MAX_SHOWN_CHARACTERS = 300  # characters of a question that are shown
NOTE = "EM and F1 as SQuAD counts them: no case, no punctuation, no articles"


def answer_metrics(questions: Sequence[Question], answers: Sequence[str], losses: Sequence[float]) -> dict[str, float]:
    """By name, as they are logged; the loss is the surprise at the first answer."""
    both = list(zip(answers, (question.accepted_answers for question in questions), strict=True))
    return {
        "loss": float(np.mean(losses)),
        "exact": float(np.mean([exact_match(*each) for each in both])),
        "f1": float(np.mean([token_f1(*each) for each in both])),
    }


def score_replies(
    name: str, task: str, questions: Sequence[Question], answers: Sequence[str], losses: Sequence[float]
) -> Scores:
    """Exact match and F1 with what they are worth, and whether answers are given where there are some."""
    rows = list(zip(questions, answers, strict=True))
    shared = [token_f1(answer, question.accepted_answers) for question, answer in rows]
    examples = [
        Judged(
            number,
            f"{question.question} ({question.place})"[:MAX_SHOWN_CHARACTERS],
            " | ".join(dict.fromkeys(each or "(none)" for each in question.accepted_answers))[:MAX_SHOWN_CHARACTERS],
            (answer or "(none)")[:MAX_SHOWN_CHARACTERS],
            worth,
        )
        for number, ((question, answer), worth) in enumerate(zip(rows, shared, strict=True), start=1)
    ]
    return Scores(
        name,
        task,
        {
            "EM, %": mean_statistics(
                [100 * exact_match(answer, question.accepted_answers) for question, answer in rows]
            ),
            "F1, %": mean_statistics([100 * each for each in shared]),
        },
        examples,
        tables=[_table_by_kind(rows)],
        notes=[NOTE],
        details=answer_metrics(questions, answers, losses),
        unit="question",
        counted="F1",
    )


def _table_by_kind(rows: Sequence[tuple[Question, str]]) -> Table:
    """Questions with an answer, without one, and those on which people disagree: how many, and how good answers are."""
    found = list[tuple[str, ...]]()
    for name, kind in KINDS.items():
        own = [
            (answer, question.accepted_answers)
            for question, answer in rows
            if {bool(each) for each in question.accepted_answers} == kind
        ]
        if own:
            answered = [float(bool(answer)) for answer, _ in own]
            each = (answered, *([score(*one) for one in own] for score in (exact_match, token_f1)))
            found.append((name, f"{len(own):,}", *(f"{np.mean(values):.1%}" for values in each)))
    return Table("By kind", ("questions", "there", "answered", "EM", "F1"), found)
