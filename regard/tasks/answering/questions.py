"""Questions about texts with their answers, and their parsing from JSON records."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from regard.data.readers import SURROGATES, Refusal

MAX_SHOWN = 60  # characters of a text shown in a message
FORMATS = (
    'an object with "question", "context" and "answers": {"text": [...], "answer_start": [...]} in each line, or the '
    'JSON of SQuAD, {"data": [{"paragraphs": [...]}]}'
)


class AnswerSpan(NamedTuple):
    """An answer and its start in the context; an empty text means no answer."""

    text: str
    start: int

    @property
    def end(self) -> int:
        """The position after its last character."""
        return self.start + len(self.text)


class Question(NamedTuple):
    """A question about a text, with the human answers, or None if they are unknown."""

    question: str
    context: str
    answers: tuple[AnswerSpan, ...] | None
    place: str
    """Place in the file: `file.jsonl:7`, or `squad.json, article 1, paragraph 2, question 3`."""

    @property
    def accepted_answers(self) -> list[str]:
        """All answers that count as right; the empty text if there are none."""
        return [answer.text for answer in self.answers or ()] or [""]

    @property
    def training_answer(self) -> AnswerSpan:
        """The answer used for training, the first."""
        return (self.answers or (AnswerSpan("", 0),))[0]


def parse_question(record: Any, place: str) -> Question:
    """Parse a question without its answers; an unusable one is an error with its place."""
    try:
        return parse_record(record, place, with_answers=False)
    except Refusal as refusal:
        raise ValueError(f"{place}: {refusal.reason}") from None


class AmbiguousAnswer(Refusal):
    """Refusal of an answer without a position that occurs several times in its context."""


def place_first_occurrences(record: Any) -> tuple[Any, bool]:
    """Set missing positions of ambiguous answers to the first occurrence; return the record and True if any was set."""
    if not isinstance(record, Mapping) or not isinstance(context := record.get("context"), str):
        return record, False
    answers = _list_answers(record)
    if not isinstance(answers, list):
        return record, False
    placed_answers, has_guess = [], False
    for answer in answers:
        text = answer.get("text") if isinstance(answer, Mapping) else None
        if isinstance(text, str) and answer.get("answer_start") is None and context.count(text) > 1 and text.strip():
            answer, has_guess = {**answer, "answer_start": context.index(text)}, True
        placed_answers.append(answer)
    return {**record, "answers": placed_answers}, has_guess


def parse_record(record: Any, place: str, *, with_answers: bool) -> Question:
    """Parse the question in a record, with its answers if requested; raise `Refusal` for an unusable one."""
    if not isinstance(record, Mapping):
        raise Refusal(f"no question but {json.dumps(record)[:MAX_SHOWN]}: give {FORMATS}")
    question, context = (_text_in(record, name) for name in ("question", "context"))
    if not question.strip():
        raise Refusal("an empty question: ask something")
    if not context.strip():
        raise Refusal("an empty context: give the text that the question is about")
    return Question(question, context, _parse_answers(record, context) if with_answers else None, place)


def _text_in(record: Mapping[str, Any], name: str) -> str:
    value = record.get(name)
    if not isinstance(value, str):
        problem = (
            f"it is {json.dumps(value)[:MAX_SHOWN]}" if name in record else f"there is {', '.join(record) or 'nothing'}"
        )
        raise Refusal(f"without a text named {name} ({problem})")
    if SURROGATES.search(value):
        raise Refusal(f"with a lone surrogate in its {name}")
    return value


def _parse_answers(record: Mapping[str, Any], context: str) -> tuple[AnswerSpan, ...]:
    """Parse the answers of a record with their positions; none if the question has no answer."""
    impossible, answer_list = record.get("is_impossible") is True, record.get("answers", record.get("answer"))
    if "answers" not in record and "answer" not in record and not impossible:
        raise Refusal("without answers: name them in answers, an empty list where there are none")
    answer_list = _list_answers(record)
    if answer_list is not None and not isinstance(answer_list, list):
        raise Refusal(f"answers that are {json.dumps(answer_list)[:MAX_SHOWN]}: give a list of text and answer_start")
    answers = tuple(_locate_answer(answer, context) for answer in answer_list or ())
    if impossible and any(answer.text for answer in answers):
        raise Refusal(f"is_impossible, and yet the answer {answers[0].text[:MAX_SHOWN]!r}: leave out one of them")
    return answers


def _list_answers(record: Mapping[str, Any]) -> Any:
    """Return the answers as a list of records; they may be a list, a single answer, or lists of texts and starts."""
    answers = record.get("answers", record.get("answer"))
    if "answers" not in record and answers is not None:
        return [{"text": answers, "answer_start": record.get("start", record.get("answer_start"))}]
    if isinstance(answers, Mapping):  # columns of texts and starts
        texts = answers.get("text")
        starts = answers.get("answer_start", [None] * len(texts) if isinstance(texts, list) else None)
        if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
            raise Refusal("answers with other numbers of text and answer_start: give a list of each, equally long")
        return [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]
    return answers


def _locate_answer(answer: Any, context: str) -> AnswerSpan:
    """Parse an answer and check that the context has it at its position."""
    text = answer.get("text") if isinstance(answer, Mapping) else None
    if not isinstance(text, str):
        raise Refusal(f"an answer without a text: {json.dumps(answer)[:MAX_SHOWN]}")
    if not text:
        return AnswerSpan("", 0)
    if not text.strip():
        raise Refusal("an answer of blanks alone: leave it out, or give an empty one for no answer")
    start = answer.get("answer_start")
    if start is None:
        if text not in context:
            raise Refusal(f"the answer {text[:MAX_SHOWN]!r} is not in its context: give one that is, word for word")
        if (occurrences := context.count(text)) > 1:
            raise AmbiguousAnswer(
                f"the answer {text[:MAX_SHOWN]!r} stands {occurrences} times in its context: say where, in answer_start"
            )
        start = context.index(text)
    if not isinstance(start, int) or isinstance(start, bool):
        raise Refusal(f"the answer {text[:MAX_SHOWN]!r} begins at {json.dumps(start)[:MAX_SHOWN]}: give a whole number")
    if start < 0 or context[start : start + len(text)] != text:
        raise Refusal(_explain_misplaced(text, start, context))
    return AnswerSpan(text, start)


def _explain_misplaced(text: str, start: int, context: str) -> str:
    """Explain which text is at an answer's position, and the nearest place where the answer occurs."""
    text_there = context[start : start + len(text)] if start >= 0 else ""
    instead = (
        f"where {text_there[:MAX_SHOWN]!r} stands"
        if text_there
        else f"outside its context of {len(context):,} characters"
    )
    problem = f"the answer {text[:MAX_SHOWN]!r} does not stand at character {start}, {instead}"
    occurrences = [occurrence for occurrence in range(len(context)) if context.startswith(text, occurrence)]
    if not occurrences:
        return f"{problem}: it is nowhere in the context"
    nearest = min(occurrences, key=lambda occurrence: abs(occurrence - start))
    is_byte_offset = len(context[:nearest].encode()) == start != nearest
    offset_note = ", offsets are counted in characters, not in bytes" if is_byte_offset else ""
    return f"{problem}: it stands at {nearest}{offset_note}"
