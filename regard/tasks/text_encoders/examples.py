"""Labelled examples: their files and settings, their split into training and validation, and label numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

from regard.config.ranges import Batch, Part, Some
from regard.config.resuming import Free, Warned
from regard.data.holdout import split_by_keys, text_keys
from regard.data.line_report import LineReport
from regard.data.source_file import SourceFile


class Example(NamedTuple):
    """A text or a pair with its label, a question and its choices, or the words of a sentence with their tags."""

    texts: tuple[str, ...]
    labels: tuple[str | None, ...]
    place: tuple[int, int]
    """Number of the file, and line."""


class ExampleFile(SourceFile):
    """A file of labelled examples, maybe gzipped."""

    path: str
    per_token: ClassVar[bool] = False
    """True if each word has a label, not the text as a whole."""
    has_ratings: ClassVar[bool] = False
    """True if labels are numbers."""
    has_choices: ClassVar[bool] = False
    """True if an example is a question with choices, and its label the number of one of them."""

    @property
    def word_per_line(self) -> bool:
        """True if a line is a word."""
        return False

    def examples(self, number: int, tally: LineReport) -> Iterator[Example]:
        """Yield the examples of this file, which is number `number`."""
        raise NotImplementedError

    def shared_settings(self) -> dict[str, Any]:
        """Return the settings with which other files of the same kind are read."""
        raise NotImplementedError

    def describe_layout(self, examples: Sequence[Example]) -> str:
        """Return a note on the layout that was recognised, if any; implausible examples are an error."""
        return ""


@dataclass(frozen=True, kw_only=True)
class ExamplesConfig:
    """Settings of labelled examples and batches; subclasses define the files."""

    train: tuple[SourceFile, ...]
    """Files to train on; a single one may be written without a list."""
    valid: tuple[SourceFile, ...] = ()
    """Validation files; none: a share of the training examples is held out."""
    validation_share: Some = 0.1
    """Share of the texts held out when valid names no file, chosen by content: like texts stay together."""
    batch_tokens: Warned[Batch] = 8192
    """Tokens of a row, padding included; a row holds texts of about the same length."""
    names: dict[str, str] = field(default_factory=dict)
    """What labels are called, by what they are in the files, such as {'0': bad, '1': good}; others stay."""
    reject: Free[Part] = 0.01
    """Share of unusable lines above which nothing is trained."""

    def __post_init__(self) -> None:
        if not self.train:
            raise ValueError("train needs at least one file")


@dataclass(frozen=True)
class LabelledExamples:
    """The examples of some files, with a report on their lines."""

    files: tuple[str, ...]
    examples: list[Example]
    reports: list[LineReport]
    per_token: bool
    """True if each word has a label, rather than the whole text."""
    notes: tuple[str, ...] = ()
    """Note on the layout of each file, if it was recognised; empty otherwise."""
    has_ratings: bool = False
    """True if labels are numbers."""
    num_choices: int = 0
    """Number of choices per question; 0 if examples are not multiple-choice questions."""
    word_files: frozenset[str] = frozenset()
    """Files with one word per line."""

    @property
    def pairs(self) -> bool:
        """True if examples are pairs of texts; a question with a choice counts as a pair."""
        return not self.per_token and any(len(example.texts) > 1 for example in self.examples)

    def place(self, example: Example) -> str:
        """Return the source of an example, as file:line."""
        number, line = example.place
        return f"{self.files[number]}:{line}"

    @property
    def summary(self) -> list[str]:
        """Summary of the lines that were read and refused, for the log."""
        lines: list[str] = []
        for name, report, note in zip(self.files, self.reports, self.notes or [""] * len(self.files), strict=True):
            lines += report.lines([name], unit="sentence" if name in self.word_files else "line")
            lines += [f"  {note}"] if note else []
        return lines


def read_examples(files: Sequence[ExampleFile], names: dict[str, str], reject: float) -> LabelledExamples:
    """Read all examples of these files, with labels renamed by `names`; too many bad lines are an error."""
    examples: list[Example] = []
    tallies, notes = [], []
    for number, file in enumerate(files):
        tally, num_before = LineReport(), len(examples)
        for example in file.examples(number, tally):
            tally.kept += 1
            labels = tuple(names.get(label, label) if label is not None else None for label in example.labels)
            examples.append(example._replace(labels=labels))
        tally.check(reject, [file.path], unit="text")
        tallies.append(tally)
        notes.append(file.describe_layout(examples[num_before:]))
    paths = tuple(file.path for file in files)
    if not examples:
        raise ValueError(f"{' and '.join(paths)}: no text in them: give at least one")
    first_file = files[0]
    return LabelledExamples(
        paths,
        examples,
        tallies,
        first_file.per_token,
        tuple(notes),
        first_file.has_ratings,
        len(examples[0].texts) - 1 if first_file.has_choices else 0,
        frozenset(file.path for file in files if file.word_per_line),
    )


def split_examples(examples: LabelledExamples, share: float) -> tuple[LabelledExamples, LabelledExamples]:
    """Split examples into training and validation by a hash of their texts; of questions, by the context."""
    num_key_texts, total = 1 if examples.num_choices else None, len(examples.examples)
    keys = text_keys([" ".join(example.texts[:num_key_texts]) for example in examples.examples])
    train, valid = split_by_keys(examples.examples, keys, share)
    if not train:
        raise ValueError(
            f"{' and '.join(examples.files)}: {total} texts are too few, or too much alike, to hold {share:.0%} of "
            "them out: give more, or name a validation file (data.valid)"
        )
    return replace(examples, examples=train), replace(examples, examples=valid)


def label_names(examples: LabelledExamples, parent_labels: list[str] | None = None) -> list[str]:
    """Return the labels in order: those of a parent model if they cover the examples; none for ratings."""
    if examples.has_ratings:
        return []
    if examples.num_choices:
        return [str(number + 1) for number in range(examples.num_choices)]
    labels = sorted({label for example in examples.examples for label in example.labels if label is not None})
    if parent_labels is not None and set(labels) <= set(parent_labels):
        return parent_labels
    if len(labels) < 2:
        raise ValueError(
            f"{' and '.join(examples.files)}: all texts have the label {' '.join(labels) or 'that is not judged'}: "
            "there must be two labels at least to tell apart"
        )
    return labels


def label_numbers(examples: LabelledExamples, classes: Sequence[str]) -> list[list[Any]]:
    """Return the label numbers, or the rating, of every example; an unknown label is an error."""
    if examples.has_ratings:
        return [[float(str(example.labels[0]))] for example in examples.examples]
    numbers = {label: number for number, label in enumerate(classes)}
    for example in examples.examples:
        if examples.num_choices and len(example.texts) - 1 != len(classes):
            problem = f"{len(example.texts) - 1} choices where others have {len(classes)}"
            raise ValueError(f"{examples.place(example)}: {problem}: give files whose questions have the same number")
        for label in example.labels:
            if label is not None and label not in numbers:
                known_labels = ", ".join(classes[:8]) + ", ..." * (len(classes) > 8)
                raise ValueError(
                    f"{examples.place(example)}: the label {label!r} is none of the training labels ({known_labels})"
                )
    return [[None if label is None else numbers[label] for label in example.labels] for example in examples.examples]
