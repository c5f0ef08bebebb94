"""Questions about texts, with answers that stand in them, as they stand in files.

SQuAD's JSON (articles, paragraphs, questions; the second version says which have no answer), or a question in each line
of JSON lines. A text is kept character by character, since answers are told by their places in it. What cannot be used
is refused, counted and remembered by its place.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any, ClassVar, NamedTuple

import numpy as np

from regard.config.ranges import Length, Whole
from regard.config.resuming import Free, Warned
from regard.config.words import quantity
from regard.data.holdout import count_to_hold_out, hold_out, sentence, text_keys
from regard.data.line_report import file_list
from regard.data.readers import SURROGATES, Refusal, lines, suffix
from regard.data.source_file import SourceFile, Unit
from regard.data.training_sample import warn_of_shared
from regard.tasks.labels.files import ExamplesConfig

REMEMBERED = 5  # places named of many
SHOWN = 60  # characters of a text in a message
WHOLE = 1 << 31  # bytes of a file that is one line
FORMS = (
    'an object with "question", "context" and "answers": {"text": [...], "answer_start": [...]} in each line, or the '
    'JSON of SQuAD, {"data": [{"paragraphs": [...]}]}'
)


class Marked(NamedTuple):
    """An answer, and where it begins in its context; an empty one says that there is none."""

    text: str
    start: int

    @property
    def end(self) -> int:
        """The character after its last one."""
        return self.start + len(self.text)


class Question(NamedTuple):
    """A question about a text, with what people answered; None where nobody said."""

    question: str
    context: str
    answers: tuple[Marked, ...] | None
    place: str
    """Where it stands: `file.jsonl:7`, or `squad.json, article 1, paragraph 2, question 3`."""

    @property
    def right(self) -> list[str]:
        """All answers that count as right; one without any has the empty one."""
        return [answer.text for answer in self.answers or ()] or [""]

    @property
    def wanted(self) -> Marked:
        """The answer that is learnt: the first."""
        return (self.answers or (Marked("", 0),))[0]


@dataclass(frozen=True, kw_only=True)
class QuestionFile(SourceFile):
    """A file of questions with their contexts and answers, maybe gzipped."""

    KIND: ClassVar[str] = "questions"
    example_unit: ClassVar[Unit] = "lines"

    path: Free[str]
    """SQuAD's JSON, or JSON lines with a question, its context and its answers in each."""

    def like(self) -> dict[str, Any]:
        """The settings by which another file of the same kind is read."""
        return {}


@dataclass(frozen=True, kw_only=True)
class QuestionsConfig(ExamplesConfig):
    """Where questions come from, and how their contexts are read."""

    train: tuple[QuestionFile, ...]
    """Files to train on; a single one may be written without a list."""
    valid: tuple[QuestionFile, ...] = ()
    """Validation files; none: the questions about a share of the contexts are held out."""
    window: Warned[Length] = 384
    """Most tokens that are read at a time: the question, and as much of its context as fits beside it. A longer context
    is read in several windows."""
    stride: Whole = 128
    """Tokens of the context that a window shares with the one before it (SQuAD's document stride)."""
    answer: Free[Length | None] = None
    """Most tokens of an answer; null: as many as the longest one in training."""
    first_occurrence: bool = False
    """Whether an answer without answer_start that its context has several times is taken where it first stands; false:
    such an answer is refused."""

    names: ClassVar[dict[str, str]] = {}  # type: ignore[misc]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stride >= self.window:
            raise ValueError(f"stride must be below window, {self.window}, not {self.stride}: windows overlap in part")


@dataclass
class Tally:
    """The fate of every question of a file."""

    file: str
    read: int = 0
    refused: int = 0
    guessed: int = 0
    """Questions with an answer that its context has several times, of which the first was taken."""
    ambiguous: int = 0
    """Questions refused for such an answer."""
    first: list[str] = field(default_factory=list)
    """What is wrong with the first ones, and where."""

    def refuse(self, place: str, reason: str) -> None:
        """A question that cannot be used."""
        self.refused += 1
        if len(self.first) < REMEMBERED:
            self.first.append(f"{place}: {reason}")

    def check(self, share: float, first: str) -> None:
        """Stop when nothing can be used or more than this share of the questions is bad; `first` takes first places."""
        if not self.read:
            raise ValueError(f"{self.file} has no question in it: give {FORMS}")
        if self.refused > share * self.read or self.refused == self.read:
            allowed = f", more than the allowed {share:.2%}" if share else ""
            remedies = ["mend them"]
            remedies += [f"set {first} to take answers where they first stand"] if self.ambiguous else []
            remedies += ["raise data.reject"] if share else []
            raise ValueError(
                f"{self.refused:,} of {self.read:,} questions of {self.file} are refused{allowed}: {self.told}; "
                f"{', '.join(remedies[:-1])}{' or ' * (len(remedies) > 1)}{remedies[-1]}"
            )

    @property
    def told(self) -> str:
        """What was refused, in words."""
        return "; ".join(self.first) + "; ..." * (self.refused > len(self.first))

    @property
    def lines(self) -> list[str]:
        """In words, one line a matter."""
        kept = f"{self.file}: {self.read - self.refused:,} of {quantity(self.read, 'question')} kept"
        return [kept, *([f"  refused: {self.told}"] if self.refused else []), *(f"  {note}" for note in self.notes)]

    @property
    def notes(self) -> list[str]:
        """What was decided without being told."""
        if not self.guessed:
            return []
        return [f"{self.guessed:,} with an answer that its context has several times: the first of them is taken"]


@dataclass(frozen=True)
class Found:
    """The questions of some files, and what became of them."""

    files: tuple[str, ...]
    questions: list[Question]
    tallies: list[Tally]

    @property
    def summary(self) -> list[str]:
        """In words, one line a matter."""
        return [line for tally in self.tallies for line in tally.lines]


def read(
    files: Sequence[QuestionFile],
    reject: float,
    *,
    told: bool = True,
    first_occurrence: bool = False,
    setting: str = "data.first_occurrence",
) -> Found:
    """All questions of these files, with what people `told` as answers; too many bad ones are an error.

    With `first_occurrence`, an answer that has no place is taken where it first stands; `setting` is what asks for it.
    """
    questions, tallies = list[Question](), list[Tally]()
    for file in files:
        tally = Tally(file.path)
        for place, record in _records(file.path, tally):
            tally.read += 1
            try:
                record, guessed = _placed(record) if told and first_occurrence else (record, False)
                questions.append(_question(record, place, told=told))
                tally.guessed += guessed
            except Refusal as refusal:
                tally.refuse(place, refusal.reason)
                tally.ambiguous += isinstance(refusal, _Ambiguous)
        tally.check(reject, f"{setting}=true")
        tallies.append(tally)
    return Found(tuple(file.path for file in files), questions, tallies)


def hold(found: Found, share: float) -> tuple[Found, Found]:
    """Questions to learn from and to measure on: which is which depends on their contexts alone, none is on both."""
    keys = text_keys([question.context for question in found.questions])
    contexts = len(np.unique(keys))
    held = hold_out(keys, count_to_hold_out(share, contexts), by_group=True)
    if held.all():
        raise ValueError(
            f"{file_list(found.files)}: {quantity(contexts, 'context')} cannot be divided into some "
            "to learn from and some to measure on: give more, or name a validation file (data.valid)"
        )
    train, valid = (list(compress(found.questions, mask)) for mask in (~held, held))
    return replace(found, questions=train), replace(found, questions=valid)


def shared(train: Found, valid: Found) -> list[str]:
    """A warning where questions that are measured on are about contexts that are also learnt from."""
    met = {sentence(question.context) for question in train.questions}
    both = [question.place for question in valid.questions if sentence(question.context) in met]
    what = "questions measured on are about contexts that are also trained on"
    return warn_of_shared(len(both), both[:REMEMBERED], what)


def asked(record: Any, place: str) -> Question:
    """A question that somebody asks, answered or not."""
    try:
        return _question(record, place, told=False)
    except Refusal as refusal:
        raise ValueError(f"{place}: {refusal.reason}") from None


def _records(name: str, tally: Tally) -> Iterator[tuple[str, Any]]:
    """(place, question) of all questions of a file; what is not even JSON is refused."""
    if suffix(name) == ".json" and (whole := _whole(name)) is not None:
        yield from _nested(name, whole)
        return
    for number, line in enumerate(lines(name, longest=WHOLE), start=1):
        if not (line or b"").strip():
            continue
        place = f"{name}:{number}"
        try:
            record = json.loads((line or b"").decode("utf-8"))
        except UnicodeDecodeError:
            tally.read += 1
            tally.refuse(place, "invalid UTF-8")
        except (ValueError, RecursionError):
            tally.read += 1
            tally.refuse(place, "invalid JSON")
        else:
            yield from _nested(place, record)


def _whole(name: str) -> Any:
    """What a file of JSON holds as a whole; None for one of several objects, a line each."""
    text = b"\n".join(line or b"" for line in lines(name, longest=WHOLE))
    try:
        return json.loads(text)
    except UnicodeDecodeError:
        raise ValueError(f"{name}: invalid UTF-8: convert the file first") from None
    except json.JSONDecodeError as error:
        if text.count(b"\n") and text.lstrip()[:1] == b"{" and error.msg == "Extra data":
            return None
        raise ValueError(f"{name}:{error.lineno}: invalid JSON ({error.msg}): mend it, or fetch it again") from None
    except RecursionError:
        raise ValueError(f"{name}: JSON nested too deep: give {FORMS}") from None


LEVELS = (("data", "article"), ("paragraphs", "paragraph"), ("qas", "question"))


def _nested(place: str, record: Any, context: Any = None) -> Iterator[tuple[str, Any]]:
    """The questions below a record: itself, or those of its articles and paragraphs, with the text they are about."""
    if isinstance(record, list):
        for number, each in enumerate(record, start=1):
            yield from _nested(f"{place}, record {number}", each)
        return
    inner = next(((key, kind) for key, kind in LEVELS if isinstance(record, Mapping) and key in record), None)
    if inner is None:
        yield place, record if context is None or not isinstance(record, Mapping) else {**record, "context": context}
        return
    key, kind = inner
    below = record[key]
    if not isinstance(below, list):
        raise ValueError(f"{place}: {key} is no list: give {FORMS}")
    for number, each in enumerate(below, start=1):
        own = record.get("context", "") if key == "qas" else None
        yield from _nested(f"{place}, {kind} {number}", each, own)


class _Ambiguous(Refusal):
    """An answer without a place that its context has several times."""


def _placed(record: Any) -> tuple[Any, bool]:
    """A question whose answers without a place stand where they first occur, and whether that was a guess."""
    if not isinstance(record, Mapping) or not isinstance(context := record.get("context"), str):
        return record, False
    answers = _listed(record)
    if not isinstance(answers, list):
        return record, False
    placed, guessed = [], False
    for answer in answers:
        text = answer.get("text") if isinstance(answer, Mapping) else None
        if isinstance(text, str) and answer.get("answer_start") is None and context.count(text) > 1 and text.strip():
            answer, guessed = {**answer, "answer_start": context.index(text)}, True
        placed.append(answer)
    return {**record, "answers": placed}, guessed


def _question(record: Any, place: str, *, told: bool) -> Question:
    if not isinstance(record, Mapping):
        raise Refusal(f"no question but {json.dumps(record)[:SHOWN]}: give {FORMS}")
    question, context = (_text(record, name) for name in ("question", "context"))
    if not question.strip():
        raise Refusal("an empty question: ask something")
    if not context.strip():
        raise Refusal("an empty context: give the text that the question is about")
    return Question(question, context, _answers(record, context) if told else None, place)


def _text(record: Mapping[str, Any], name: str) -> str:
    value = record.get(name)
    if not isinstance(value, str):
        there = f"it is {json.dumps(value)[:SHOWN]}" if name in record else f"there is {', '.join(record) or 'nothing'}"
        raise Refusal(f"without a text named {name} ({there})")
    if SURROGATES.search(value):
        raise Refusal(f"with a lone surrogate in its {name}")
    return value


def _answers(record: Mapping[str, Any], context: str) -> tuple[Marked, ...]:
    """The answers to a question, each where it stands; none where it is said that there is none."""
    impossible, given = record.get("is_impossible") is True, record.get("answers", record.get("answer"))
    if "answers" not in record and "answer" not in record and not impossible:
        raise Refusal("without answers: name them in answers, an empty list where there are none")
    given = _listed(record)
    if given is not None and not isinstance(given, list):
        raise Refusal(f"answers that are {json.dumps(given)[:SHOWN]}: give a list of text and answer_start")
    found = tuple(_marked(answer, context) for answer in given or ())
    if impossible and any(answer.text for answer in found):
        raise Refusal(f"is_impossible, and yet the answer {found[0].text[:SHOWN]!r}: leave out one of them")
    return found


def _listed(record: Mapping[str, Any]) -> Any:
    """The answers of a question as a list, whether they are a list, one alone or lists of texts and of starts."""
    given = record.get("answers", record.get("answer"))
    if "answers" not in record and given is not None:
        return [{"text": given, "answer_start": record.get("start", record.get("answer_start"))}]
    if isinstance(given, Mapping):  # as tables of columns have it
        texts = given.get("text")
        starts = given.get("answer_start", [None] * len(texts) if isinstance(texts, list) else None)
        if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
            raise Refusal("answers with other numbers of text and answer_start: give a list of each, equally long")
        return [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]
    return given


def _marked(answer: Any, context: str) -> Marked:
    """One answer, which must stand where it is said to."""
    text = answer.get("text") if isinstance(answer, Mapping) else None
    if not isinstance(text, str):
        raise Refusal(f"an answer without a text: {json.dumps(answer)[:SHOWN]}")
    if not text:
        return Marked("", 0)
    if not text.strip():
        raise Refusal("an answer of blanks alone: leave it out, or give an empty one for no answer")
    start = answer.get("answer_start")
    if start is None:
        if text not in context:
            raise Refusal(f"the answer {text[:SHOWN]!r} is not in its context: give one that is, word for word")
        if (times := context.count(text)) > 1:
            raise _Ambiguous(
                f"the answer {text[:SHOWN]!r} stands {times} times in its context: say where, in answer_start"
            )
        start = context.index(text)
    if not isinstance(start, int) or isinstance(start, bool):
        raise Refusal(f"the answer {text[:SHOWN]!r} begins at {json.dumps(start)[:SHOWN]}: give a whole number")
    if start < 0 or context[start : start + len(text)] != text:
        raise Refusal(_misplaced(text, start, context))
    return Marked(text, start)


def _misplaced(text: str, start: int, context: str) -> str:
    """What stands where an answer should, and where that stands instead."""
    there = context[start : start + len(text)] if start >= 0 else ""
    instead = f"where {there[:SHOWN]!r} stands" if there else f"outside its context of {len(context):,} characters"
    problem = f"the answer {text[:SHOWN]!r} does not stand at character {start}, {instead}"
    places = [place for place in range(len(context)) if context.startswith(text, place)]
    if not places:
        return f"{problem}: it is nowhere in the context"
    nearest = min(places, key=lambda place: abs(place - start))
    bytewise = len(context[:nearest].encode()) == start != nearest
    counted = ", offsets are counted in characters, not in bytes" if bytewise else ""
    return f"{problem}: it stands at {nearest}{counted}"
