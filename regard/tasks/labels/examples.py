"""Labelled examples as they were read from files: split into two sides, and their labels as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, NamedTuple

from regard.data.holdout import count_to_hold_out, hold_out, text_keys
from regard.data.line_report import LineReport


class Example(NamedTuple):
    """A text with its label, as tuples of one; or the words of a sentence with a tag for each that is judged."""

    texts: tuple[str, ...]
    labels: tuple[str | None, ...]
    place: tuple[int, int]
    """Number of its file, and line."""


@dataclass(frozen=True)
class LabelledExamples:
    """The examples of some files, and what became of every line."""

    files: tuple[str, ...]
    examples: list[Example]
    reports: list[LineReport]
    per_token: bool
    """Whether each word has a label, not the text as a whole."""
    notes: tuple[str, ...] = ()
    """How each file is laid out, where that was recognised; an empty line where there is nothing to say."""
    has_ratings: bool = False
    """Whether labels are numbers."""
    num_choices: int = 0
    """How many answers there are to choose from, where a label is the number of one of them."""
    word_files: frozenset[str] = frozenset()
    """Files in which a line is a word."""

    @property
    def pairs(self) -> bool:
        """Whether its texts come in pairs; what is given and an answer are one."""
        return not self.per_token and any(len(example.texts) > 1 for example in self.examples)

    def place(self, example: Example) -> str:
        """Where an example stands, as file:line."""
        number, line = example.place
        return f"{self.files[number]}:{line}"

    @property
    def summary(self) -> list[str]:
        """In words, one line a matter."""
        lines: list[str] = []
        for name, tally, note in zip(self.files, self.reports, self.notes or [""] * len(self.files), strict=True):
            lines += tally.lines([name], unit="sentence" if name in self.word_files else "line")
            lines += [f"  {note}"] if note else []
        return lines


def split_examples(found: LabelledExamples, share: float) -> tuple[LabelledExamples, LabelledExamples]:
    """Examples to learn from and to measure on; their texts say which is which, of questions what is given."""
    most, total = 1 if found.num_choices else None, len(found.examples)
    keys = text_keys([" ".join(example.texts[:most]) for example in found.examples])
    held = hold_out(keys, count_to_hold_out(share, total))
    if held.all():
        raise ValueError(
            f"{' and '.join(found.files)}: {total} texts are too few, or too much alike, to hold {share:.0%} of "
            "them out: give more, or name a validation file (data.valid)"
        )
    train, valid = (list(compress(found.examples, mask)) for mask in (~held, held))
    return replace(found, examples=train), replace(found, examples=valid)


def label_names(found: LabelledExamples, told: list[str] | None = None) -> list[str]:
    """The labels there are, sorted; or those that a model was `told` of, if there are no others; numbers are none."""
    if found.has_ratings:
        return []
    if found.num_choices:
        return [str(number + 1) for number in range(found.num_choices)]
    known = sorted({label for example in found.examples for label in example.labels if label is not None})
    if told is not None and set(known) <= set(told):
        return told
    if len(known) < 2:
        raise ValueError(
            f"{' and '.join(found.files)}: all texts have the label {' '.join(known) or 'that is not judged'}: "
            "there must be two labels at least to tell apart"
        )
    return known


def label_numbers(found: LabelledExamples, known: Sequence[str]) -> list[list[Any]]:
    """The numbers of the labels of every example, or those that are its labels; one that is not known is an error."""
    if found.has_ratings:
        return [[float(str(example.labels[0]))] for example in found.examples]
    numbers = {label: number for number, label in enumerate(known)}
    for example in found.examples:
        if found.num_choices and len(example.texts) - 1 != len(known):
            said = f"{len(example.texts) - 1} choices where others have {len(known)}"
            raise ValueError(f"{found.place(example)}: {said}: give files whose questions have the same number")
        for label in example.labels:
            if label is not None and label not in numbers:
                some = ", ".join(known[:8]) + ", ..." * (len(known) > 8)
                raise ValueError(f"{found.place(example)}: the label {label!r} is none of the training labels ({some})")
    return [[None if label is None else numbers[label] for label in example.labels] for example in found.examples]
