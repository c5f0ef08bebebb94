"""Files of questions about texts, with answers that are parts of these texts.

Formats are SQuAD's JSON (articles, paragraphs, questions; version 2 marks those without an answer), and JSON lines with
a question in each. Texts are not normalised, since the positions of answers count characters. Unusable questions are
refused, counted and reported with their place.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from regard.config.ranges import Length, Whole
from regard.config.resuming import Free, Warned
from regard.config.words import quantity
from regard.data.holdout import sentence, split_by_keys, text_keys
from regard.data.line_report import file_list
from regard.data.readers import Refusal, lines, suffix
from regard.data.source_file import SourceFile, Unit
from regard.data.training_sample import warn_of_shared
from regard.tasks.answering.questions import FORMATS, AmbiguousAnswer, Question, parse_record, place_first_occurrences
from regard.tasks.text_encoders.examples import ExamplesConfig

MAX_PLACES = 5  # places named in a message
MAX_LINE_BYTES = 1 << 31  # longest line, as a JSON file may be a single line
LEVELS = (("data", "article"), ("paragraphs", "paragraph"), ("qas", "question"))


@dataclass(frozen=True, kw_only=True)
class QuestionFile(SourceFile):
    """A file of questions with their contexts and answers, maybe gzipped."""

    KIND: ClassVar[str] = "questions"
    example_unit: ClassVar[Unit] = "lines"

    path: Free[str]
    """SQuAD's JSON, or JSON lines with a question, its context and its answers in each."""


@dataclass(frozen=True, kw_only=True)
class QuestionsConfig(ExamplesConfig):
    """Settings of the questions, and of the windows of their contexts."""

    train: tuple[QuestionFile, ...]
    """Files to train on; a single one may be written without a list."""
    valid: tuple[QuestionFile, ...] = ()
    """Validation files; none: the questions about a share of the contexts are held out."""
    window: Warned[Length] = 384
    """Most tokens that are read at a time: the question, and as much of its context as fits beside it. A longer context
    is read in several windows."""
    stride: Whole = 128
    """Tokens of the context that a window shares with the one before it (SQuAD's document stride)."""
    max_answer_length: Free[Length | None] = None
    """Most tokens of an answer; null: as many as the longest one in training."""
    first_occurrence: bool = False
    """Whether an answer without answer_start that occurs several times in its context is taken at its first occurrence;
    false: such an answer is refused."""

    names: ClassVar[dict[str, str]] = {}  # type: ignore[misc]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stride >= self.window:
            raise ValueError(f"stride must be below window, {self.window}, not {self.stride}: windows overlap in part")


@dataclass
class QuestionReport:
    """Counts of the questions of a file that were read, refused, and read with a guessed position."""

    file: str
    read: int = 0
    refused: int = 0
    guessed: int = 0
    """Number of questions whose answer occurs several times in the context; the first occurrence was taken."""
    ambiguous: int = 0
    """Number of questions refused because their answer occurs several times."""
    first: list[str] = field(default_factory=list)
    """Places of the first refused questions, with the reasons."""

    def refuse(self, place: str, reason: str) -> None:
        """Count a question that cannot be used."""
        self.refused += 1
        if len(self.first) < MAX_PLACES:
            self.first.append(f"{place}: {reason}")

    def check(self, share: float, first_occurrence_setting: str) -> None:
        """Raise an error if no question is usable or more than this share is refused, and name the remedies."""
        if not self.read:
            raise ValueError(f"{self.file} has no question in it: give {FORMATS}")
        if self.refused > share * self.read or self.refused == self.read:
            allowed = f", more than the allowed {share:.2%}" if share else ""
            remedies = ["mend them"]
            remedies += (
                [f"set {first_occurrence_setting} to take answers where they first stand"] if self.ambiguous else []
            )
            remedies += ["raise data.reject"] if share else []
            raise ValueError(
                f"{self.refused:,} of {self.read:,} questions of {self.file} are refused{allowed}: {self.refusals}; "
                f"{', '.join(remedies[:-1])}{' or ' * (len(remedies) > 1)}{remedies[-1]}"
            )

    @property
    def refusals(self) -> str:
        """The first refusals, as text."""
        return "; ".join(self.first) + "; ..." * (self.refused > len(self.first))

    @property
    def lines(self) -> list[str]:
        """The report, as lines for the log."""
        counts = f"{self.file}: {self.read - self.refused:,} of {quantity(self.read, 'question')} kept"
        return [
            counts,
            *([f"  refused: {self.refusals}"] if self.refused else []),
            *(f"  {note}" for note in self.notes),
        ]

    @property
    def notes(self) -> list[str]:
        """Notes on guessed positions."""
        if not self.guessed:
            return []
        return [f"{self.guessed:,} with an answer that its context has several times: the first of them is taken"]


@dataclass(frozen=True)
class QuestionSet:
    """The questions of some files, and a report on each."""

    files: tuple[str, ...]
    questions: list[Question]
    reports: list[QuestionReport]

    @property
    def summary(self) -> list[str]:
        """The reports on all files, as lines for the log."""
        return [line for report in self.reports for line in report.lines]


def read_questions(
    files: Sequence[QuestionFile],
    reject: float,
    *,
    with_answers: bool = True,
    first_occurrence: bool = False,
    setting: str = "data.first_occurrence",
) -> QuestionSet:
    """Read all questions of these files; too many bad ones are an error.

    With `first_occurrence`, an answer without a position is placed at its first occurrence; `setting` is the name of
    this setting in error messages. Without `with_answers`, answers are not read.
    """
    questions, tallies = list[Question](), list[QuestionReport]()
    for file in files:
        report = QuestionReport(file.path)
        for place, record in _read_records(file.path, report):
            report.read += 1
            try:
                record, is_guess = (
                    place_first_occurrences(record) if with_answers and first_occurrence else (record, False)
                )
                questions.append(parse_record(record, place, with_answers=with_answers))
                report.guessed += is_guess
            except Refusal as refusal:
                report.refuse(place, refusal.reason)
                report.ambiguous += isinstance(refusal, AmbiguousAnswer)
        report.check(reject, f"{setting}=true")
        tallies.append(report)
    return QuestionSet(tuple(file.path for file in files), questions, tallies)


def split_questions(questions: QuestionSet, share: float) -> tuple[QuestionSet, QuestionSet]:
    """Split questions into training and validation questions without common contexts."""
    keys = text_keys([question.context for question in questions.questions])
    train, valid = split_by_keys(questions.questions, keys, share, by_group=True)
    if not train:
        raise ValueError(
            f"{file_list(questions.files)}: {quantity(len(np.unique(keys)), 'context')} cannot be divided into some "
            "to learn from and some to measure on: give more, or name a validation file (data.valid)"
        )
    return replace(questions, questions=train), replace(questions, questions=valid)


def warn_of_shared_contexts(train: QuestionSet, valid: QuestionSet) -> list[str]:
    """Return a warning if validation questions have the same contexts as training questions."""
    train_contexts = {sentence(question.context) for question in train.questions}
    shared_places = [question.place for question in valid.questions if sentence(question.context) in train_contexts]
    warning = "questions measured on are about contexts that are also trained on"
    return warn_of_shared(len(shared_places), shared_places[:MAX_PLACES], warning)


def _read_records(name: str, report: QuestionReport) -> Iterator[tuple[str, Any]]:
    """Yield (place, record) of all questions of a file; invalid JSON is refused."""
    if suffix(name) == ".json" and (content := _parse_whole_file(name)) is not None:
        yield from _flatten_record(name, content)
        return
    for number, line in enumerate(lines(name, longest=MAX_LINE_BYTES), start=1):
        if not (line or b"").strip():
            continue
        place = f"{name}:{number}"
        try:
            record = json.loads((line or b"").decode("utf-8"))
        except UnicodeDecodeError:
            report.read += 1
            report.refuse(place, "invalid UTF-8")
        except (ValueError, RecursionError):
            report.read += 1
            report.refuse(place, "invalid JSON")
        else:
            yield from _flatten_record(place, record)


def _parse_whole_file(name: str) -> Any:
    """Parse a JSON file; return None if it has several objects, one per line."""
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
    """Yield the questions of a record with their contexts: itself, or those of its articles and paragraphs."""
    if isinstance(record, list):
        for number, part in enumerate(record, start=1):
            yield from _flatten_record(f"{place}, record {number}", part)
        return
    level = next(((key, kind) for key, kind in LEVELS if isinstance(record, Mapping) and key in record), None)
    if level is None:
        yield place, record if context is None or not isinstance(record, Mapping) else {**record, "context": context}
        return
    key, kind = level
    parts = record[key]
    if not isinstance(parts, list):
        raise ValueError(f"{place}: {key} is no list: give {FORMATS}")
    for number, part in enumerate(parts, start=1):
        paragraph_context = record.get("context", "") if key == "qas" else None
        yield from _flatten_record(f"{place}, {kind} {number}", part, paragraph_context)
