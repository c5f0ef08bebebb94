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
from typing import Any, ClassVar

import numpy as np

from regard.config.ranges import Length, Whole
from regard.config.resuming import Free, Warned
from regard.config.words import quantity
from regard.data.holdout import count_to_hold_out, hold_out, sentence, text_keys
from regard.data.line_report import file_list
from regard.data.readers import Refusal, lines, suffix
from regard.data.source_file import SourceFile, Unit
from regard.data.training_sample import warn_of_shared
from regard.tasks.answering.questions import FORMATS, AmbiguousAnswer, Question, parse_record, place_first_occurrences
from regard.tasks.labels.files import ExamplesConfig

MAX_PLACES = 5  # places named of many
MAX_LINE_BYTES = 1 << 31  # bytes of a file that is one line
LEVELS = (("data", "article"), ("paragraphs", "paragraph"), ("qas", "question"))


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
class QuestionReport:
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
        if len(self.first) < MAX_PLACES:
            self.first.append(f"{place}: {reason}")

    def check(self, share: float, first: str) -> None:
        """Stop when nothing can be used or more than this share of the questions is bad; `first` takes first places."""
        if not self.read:
            raise ValueError(f"{self.file} has no question in it: give {FORMATS}")
        if self.refused > share * self.read or self.refused == self.read:
            allowed = f", more than the allowed {share:.2%}" if share else ""
            remedies = ["mend them"]
            remedies += [f"set {first} to take answers where they first stand"] if self.ambiguous else []
            remedies += ["raise data.reject"] if share else []
            raise ValueError(
                f"{self.refused:,} of {self.read:,} questions of {self.file} are refused{allowed}: {self.refusals}; "
                f"{', '.join(remedies[:-1])}{' or ' * (len(remedies) > 1)}{remedies[-1]}"
            )

    @property
    def refusals(self) -> str:
        """What was refused, in words."""
        return "; ".join(self.first) + "; ..." * (self.refused > len(self.first))

    @property
    def lines(self) -> list[str]:
        """In words, one line a matter."""
        kept = f"{self.file}: {self.read - self.refused:,} of {quantity(self.read, 'question')} kept"
        return [kept, *([f"  refused: {self.refusals}"] if self.refused else []), *(f"  {note}" for note in self.notes)]

    @property
    def notes(self) -> list[str]:
        """What was decided without being told."""
        if not self.guessed:
            return []
        return [f"{self.guessed:,} with an answer that its context has several times: the first of them is taken"]


@dataclass(frozen=True)
class QuestionSet:
    """The questions of some files, and what became of them."""

    files: tuple[str, ...]
    questions: list[Question]
    reports: list[QuestionReport]

    @property
    def summary(self) -> list[str]:
        """In words, one line a matter."""
        return [line for tally in self.reports for line in tally.lines]


def read_questions(
    files: Sequence[QuestionFile],
    reject: float,
    *,
    told: bool = True,
    first_occurrence: bool = False,
    setting: str = "data.first_occurrence",
) -> QuestionSet:
    """All questions of these files, with what people `told` as answers; too many bad ones are an error.

    With `first_occurrence`, an answer that has no place is taken where it first stands; `setting` is what asks for it.
    """
    questions, tallies = list[Question](), list[QuestionReport]()
    for file in files:
        tally = QuestionReport(file.path)
        for place, record in _read_records(file.path, tally):
            tally.read += 1
            try:
                record, guessed = place_first_occurrences(record) if told and first_occurrence else (record, False)
                questions.append(parse_record(record, place, told=told))
                tally.guessed += guessed
            except Refusal as refusal:
                tally.refuse(place, refusal.reason)
                tally.ambiguous += isinstance(refusal, AmbiguousAnswer)
        tally.check(reject, f"{setting}=true")
        tallies.append(tally)
    return QuestionSet(tuple(file.path for file in files), questions, tallies)


def split_questions(found: QuestionSet, share: float) -> tuple[QuestionSet, QuestionSet]:
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


def warn_of_shared_contexts(train: QuestionSet, valid: QuestionSet) -> list[str]:
    """A warning where questions that are measured on are about contexts that are also learnt from."""
    met = {sentence(question.context) for question in train.questions}
    both = [question.place for question in valid.questions if sentence(question.context) in met]
    what = "questions measured on are about contexts that are also trained on"
    return warn_of_shared(len(both), both[:MAX_PLACES], what)


def _read_records(name: str, tally: QuestionReport) -> Iterator[tuple[str, Any]]:
    """(place, question) of all questions of a file; what is not even JSON is refused."""
    if suffix(name) == ".json" and (whole := _parse_whole_file(name)) is not None:
        yield from _flatten_record(name, whole)
        return
    for number, line in enumerate(lines(name, longest=MAX_LINE_BYTES), start=1):
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
            yield from _flatten_record(place, record)


def _parse_whole_file(name: str) -> Any:
    """What a file of JSON holds as a whole; None for one of several objects, a line each."""
    text = b"\n".join(line or b"" for line in lines(name, longest=MAX_LINE_BYTES))
    try:
        return json.loads(text)
    except UnicodeDecodeError:
        raise ValueError(f"{name}: invalid UTF-8: convert the file first") from None
    except json.JSONDecodeError as error:
        if text.count(b"\n") and text.lstrip()[:1] == b"{" and error.msg == "Extra data":
            return None
        raise ValueError(f"{name}:{error.lineno}: invalid JSON ({error.msg}): mend it, or fetch it again") from None
    except RecursionError:
        raise ValueError(f"{name}: JSON nested too deep: give {FORMATS}") from None


def _flatten_record(place: str, record: Any, context: Any = None) -> Iterator[tuple[str, Any]]:
    """The questions below a record: itself, or those of its articles and paragraphs, with the text they are about."""
    if isinstance(record, list):
        for number, each in enumerate(record, start=1):
            yield from _flatten_record(f"{place}, record {number}", each)
        return
    inner = next(((key, kind) for key, kind in LEVELS if isinstance(record, Mapping) and key in record), None)
    if inner is None:
        yield place, record if context is None or not isinstance(record, Mapping) else {**record, "context": context}
        return
    key, kind = inner
    below = record[key]
    if not isinstance(below, list):
        raise ValueError(f"{place}: {key} is no list: give {FORMATS}")
    for number, each in enumerate(below, start=1):
        own = record.get("context", "") if key == "qas" else None
        yield from _flatten_record(f"{place}, {kind} {number}", each, own)
