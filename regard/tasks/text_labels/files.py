"""Files of rated pairs, and the data settings of the tasks that label texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from regard.data.column_content import is_number
from regard.data.column_names import DEGREES, LABELS
from regard.data.line_report import LineReport
from regard.tasks.text_encoders.examples import Example, ExamplesConfig
from regard.tasks.text_encoders.labelled_file import LabelledFile
from regard.tasks.text_labels.choice_file import ChoiceFile
from regard.tasks.text_labels.tagged_file import TaggedFile


@dataclass(frozen=True, kw_only=True)
class RatedFile(LabelledFile):
    """A file of pairs of texts with a similarity rating; it may be gzipped."""

    KIND: ClassVar[str] = "rated"
    has_ratings: ClassVar[bool] = True
    USUAL_LABELS: ClassVar[tuple[str, ...]] = (*DEGREES, *LABELS)

    def examples(self, number: int, tally: LineReport) -> Iterator[Example]:
        """Yield the rated pairs of the file; a pair without a number is refused."""
        for example in super().examples(number, tally):
            if len(example.texts) != 2:
                raise ValueError(
                    f"{self.path} has one text in each line, and two are compared: "
                    "name their columns, as text: [first, second]"
                )
            if is_number(str(example.labels[0])):
                yield example
            else:
                tally.refuse("with a score that is no number", 0, example.place[1])


@dataclass(frozen=True, kw_only=True)
class LabelsConfig(ExamplesConfig):
    """Settings of labelled texts and batches."""

    train: tuple[LabelledFile, ...]
    """Files to train on; a single one may be written without a list."""
    valid: tuple[LabelledFile, ...] = ()
    """Validation files; none: a share of the training texts is held out."""


@dataclass(frozen=True, kw_only=True)
class RatingsConfig(ExamplesConfig):
    """Settings of rated pairs and batches."""

    train: tuple[RatedFile, ...]
    """Files to train on; a single one may be written without a list."""
    valid: tuple[RatedFile, ...] = ()
    """Validation files; none: a share of the training texts is held out."""


@dataclass(frozen=True, kw_only=True)
class TagsConfig(ExamplesConfig):
    """Settings of tagged sentences and batches."""

    train: tuple[TaggedFile, ...]
    """Files to train on; a single one may be written without a list."""
    valid: tuple[TaggedFile, ...] = ()
    """Validation files; none: a share of the training texts is held out."""


@dataclass(frozen=True, kw_only=True)
class ChoicesConfig(ExamplesConfig):
    """Settings of multiple-choice questions and batches."""

    train: tuple[ChoiceFile, ...]
    """Files to train on; a single one may be written without a list."""
    valid: tuple[ChoiceFile, ...] = ()
    """Validation files; none: a share of the training questions is held out, by what is given in them."""
    names: dict[str, str] = field(default_factory=dict)
    """Not to be set: choices are called by their texts."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.names:
            raise ValueError("names are for labels, and choices are called by their texts: leave names out")
