"""Scores of answers: exact match and F1 over words, computed as in SQuAD."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.metrics.answers import exact_match, token_f1
from regard.metrics.scores import Judged, Scores, Table
from regard.metrics.significance import mean_statistics
from regard.tasks.answering.questions import Question

KINDS = {"with an answer": {True}, "without an answer": {False}, "both, as people say": {False, True}}
MAX_SHOWN_CHARACTERS = 300  # characters of a question shown in a report
NOTE = "EM and F1 as SQuAD counts them: no case, no punctuation, no articles"


def answer_metrics(questions: Sequence[Question], answers: Sequence[str], losses: Sequence[float]) -> dict[str, float]:
    """Return loss, exact match and F1, by the names in the log."""
    answers_and_truths = list(zip(answers, (question.accepted_answers for question in questions), strict=True))
    return {
        "loss": float(np.mean(losses)),
        "exact": float(np.mean([exact_match(*answer_and_truth) for answer_and_truth in answers_and_truths])),
        "f1": float(np.mean([token_f1(*answer_and_truth) for answer_and_truth in answers_and_truths])),
    }


def score_replies(
    name: str, task: str, questions: Sequence[Question], answers: Sequence[str], losses: Sequence[float]
) -> Scores:
    """Return exact match and F1 with statistics by question, and a table by kind of question."""
    rows = list(zip(questions, answers, strict=True))
    f1_scores = [token_f1(answer, question.accepted_answers) for question, answer in rows]
    examples = [
        Judged(
            number,
            f"{question.question} ({question.place})"[:MAX_SHOWN_CHARACTERS],
            " | ".join(dict.fromkeys(answer_text or "(none)" for answer_text in question.accepted_answers))[
                :MAX_SHOWN_CHARACTERS
            ],
            (answer or "(none)")[:MAX_SHOWN_CHARACTERS],
            f1_score,
        )
        for number, ((question, answer), f1_score) in enumerate(zip(rows, f1_scores, strict=True), start=1)
    ]
    return Scores(
        name,
        task,
        {
            "EM, %": mean_statistics(
                [100 * exact_match(answer, question.accepted_answers) for question, answer in rows]
            ),
            "F1, %": mean_statistics([100 * answer_text for answer_text in f1_scores]),
        },
        examples,
        tables=[_table_by_kind(rows)],
        notes=[NOTE],
        details=answer_metrics(questions, answers, losses),
        unit="question",
        counted="F1",
    )


def _table_by_kind(rows: Sequence[tuple[Question, str]]) -> Table:
    """Return a table of scores for questions with an answer, without one, and with disagreeing annotators."""
    table_rows = list[tuple[str, ...]]()
    for name, kind in KINDS.items():
        rows_of_kind = [
            (answer, question.accepted_answers)
            for question, answer in rows
            if {bool(columns) for columns in question.accepted_answers} == kind
        ]
        if rows_of_kind:
            answered = [float(bool(answer)) for answer, _ in rows_of_kind]
            columns = (answered, *([score(*pair) for pair in rows_of_kind] for score in (exact_match, token_f1)))
            table_rows.append((name, f"{len(rows_of_kind):,}", *(f"{np.mean(values):.1%}" for values in columns)))
    return Table("By kind", ("questions", "there", "answered", "EM", "F1"), table_rows)
