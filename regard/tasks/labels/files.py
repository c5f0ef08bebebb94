"""Texts with a label, and sentences whose words have tags, as they stand in files.

Labels: JSON lines, columns between tabs or commas, or one file per label. Tags: `word/tag` with a sentence in each
line, or a word and its tag in each line with an empty one between sentences (CoNLL). A bad line is refused, counted and
remembered by its place.
"""

from __future__ import annotations

import csv
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, NamedTuple

from regard.config.ranges import Batch, Column, Part, Some
from regard.config.resuming import Free, Warned
from regard.data.holdout import sentence
from regard.data.line_report import LineReport
from regard.data.readers import JSON_SUFFIXES, Refusal, cleaned, parsed, records, suffix, text_at, value_at

COLUMNS = (".conll", ".conllu", ".tsv")  # how files are named that have a word in each line


@dataclass(frozen=True, kw_only=True)
class LabelledFile:
    """A file with a text and its label in each line; it may be gzipped."""

    SHORT: ClassVar[str] = "path"

    path: Free[str]
    """JSON lines if named .jsonl, .json or .ndjson; columns between commas if named .csv, else between tabs."""
    fields: tuple[str, str] = ("text", "label")
    """Names of text and label in JSON lines; a dot reaches inside. A label may be a text or a whole number."""
    columns: tuple[Column, Column] = (1, 2)
    """Columns of text and label in a table, counted from 1; others are ignored."""
    heading: bool = False
    """Whether the first line of a table names its columns."""
    label: str | None = None
    """The label of every line, for a file that holds the texts of one class and nothing else."""

    def __post_init__(self) -> None:
        if self.columns[0] == self.columns[1]:
            raise ValueError(f"columns must be two different numbers counted from 1, not {list(self.columns)}")

    def examples(self, number: int, tally: LineReport) -> Iterator[Example]:
        """What is in it; `number` is that of the file."""
        for line, (text, label) in records(self.path, tally, self._taker()):
            if not (self.heading and line == 1 and suffix(self.path) not in JSON_SUFFIXES):
                yield Example((text,), (label,), (number, line))

    def _taker(self) -> Callable[[str], tuple[str, str]]:
        """The function that takes a line apart into text and label."""
        if suffix(self.path) in JSON_SUFFIXES:
            return self._from_json
        if self.label is not None:
            return lambda line: (cleaned(line), str(self.label))
        return self._from_columns

    def _from_json(self, line: str) -> tuple[str, str]:
        record, (text, label) = parsed(line), self.fields
        found = self.label if self.label is not None else value_at(record, label)
        if isinstance(found, bool | int):
            found = str(found).lower()  # true and false as JSON writes them
        if not isinstance(found, str) or not found.strip():
            raise Refusal(f"without a label named {label}")
        return cleaned(text_at(record, text)), cleaned(found)

    def _from_columns(self, line: str) -> tuple[str, str]:
        if suffix(self.path) == ".csv":
            try:
                [cells] = csv.reader([line], strict=True)
            except (csv.Error, ValueError):
                raise Refusal("with a quotation mark that is never closed") from None
        else:
            cells = line.split("\t")
        if len(cells) < max(self.columns):
            raise Refusal(f"fewer than {max(self.columns)} columns")
        text, label = (cleaned(cells[column - 1]) for column in self.columns)
        return text, label


@dataclass(frozen=True, kw_only=True)
class TaggedFile:
    """A file of sentences whose words have tags; it may be gzipped."""

    SHORT: ClassVar[str] = "path"

    path: Free[str]
    """A sentence in each line, as the/DET cat/NOUN; or a word in each line if named .conll, .conllu or .tsv."""
    form: Literal["auto", "lines", "columns"] = "auto"
    """A sentence in each line, or a word in each; auto goes by the file's name."""
    separator: str = "/"
    """Separator of a word and its tag where a line is a sentence; the last one in a word counts."""
    columns: tuple[Column, Column] = (1, 2)
    """Columns of word and tag, between tabs, where a line is a word; 2 and 4 in CoNLL-U."""
    blank: str = "_"
    """Tag of a word that is read but not scored."""

    def __post_init__(self) -> None:
        if not self.separator or self.separator.isspace():
            raise ValueError("separator must be a sign such as /, not a blank")

    def examples(self, number: int, tally: LineReport) -> Iterator[Example]:
        """What is in it; `number` is that of the file."""
        form = self.form if self.form != "auto" else "columns" if suffix(self.path) in COLUMNS else "lines"
        if form == "columns":
            yield from self._by_word(number, tally)
            return
        for line, pairs in records(self.path, tally, self._sentence):
            if pairs:
                yield self._example(pairs, (number, line))

    def _sentence(self, line: str) -> list[tuple[str, str]]:
        pairs = []
        for cell in unicodedata.normalize("NFC", line).split():
            word, found, tag = cell.rpartition(self.separator)
            if not (found and word and tag):
                raise Refusal(f"with a word without {self.separator} and a tag")
            pairs.append((word, tag))
        return pairs

    def _by_word(self, number: int, tally: LineReport) -> Iterator[Example]:
        """A bad line spoils its sentence, which is left out."""
        refused, first, words = 0, 1, list[tuple[str, str]]()
        line = 0
        for line, cells in records(self.path, tally, self._word):
            bad = sum(found.count for found in tally.refused.values())
            if cells is not None:
                words.append(cells)
                continue
            if words and bad == refused:
                yield self._example(words, (number, first))
            refused, first, words = bad, line + 1, []
        if words and sum(found.count for found in tally.refused.values()) == refused:
            yield self._example(words, (number, first))

    def _word(self, line: str) -> tuple[str, str] | None:
        """A word and its tag; None between sentences and for comments."""
        if not line.strip() or (line.startswith("#") and "\t" not in line):
            return None
        cells = line.split("\t")
        if len(cells) < max(self.columns):
            raise Refusal(f"fewer than {max(self.columns)} columns")
        word, tag = ("".join(cleaned(cells[column - 1]).split()) for column in self.columns)
        return word, tag

    def _example(self, pairs: Sequence[tuple[str, str]], place: tuple[int, int]) -> Example:
        words, tags = zip(*pairs, strict=True)
        return Example(words, tuple(None if tag == self.blank else tag for tag in tags), place)


class Example(NamedTuple):
    """A text with its label, as tuples of one; or the words of a sentence with a tag for each that is judged."""

    words: tuple[str, ...]
    labels: tuple[str | None, ...]
    place: tuple[int, int]
    """Number of its file, and line."""


@dataclass(frozen=True, kw_only=True)
class ExamplesConfig:
    """How many examples are learnt from at a time, and which are measured on."""

    held: Some = 0.1
    """Share of the texts held out when valid names no file, chosen by content: like texts stay together."""
    tokens: Warned[Batch] = 8192
    """Tokens of a row, padding included; a row holds texts of about the same length."""
    names: dict[str, str] = field(default_factory=dict)
    """What labels are called, by what they are in the files, such as {'0': bad, '1': good}; others stay."""
    reject: Free[Part] = 0.01
    """Share of unusable lines above which nothing is trained."""

    def __post_init__(self) -> None:
        if not getattr(self, "train", ()):
            raise ValueError("train needs at least one file")


@dataclass(frozen=True, kw_only=True)
class LabelsConfig(ExamplesConfig):
    """Where labelled texts come from, and how many are learnt from at a time."""

    train: tuple[LabelledFile, ...]
    """Files to train on; a single one may be written without a list."""
    valid: tuple[LabelledFile, ...] = ()
    """Validation files; none: a share of the training texts is held out."""


@dataclass(frozen=True, kw_only=True)
class TagsConfig(ExamplesConfig):
    """Where tagged sentences come from, and how many are learnt from at a time."""

    train: tuple[TaggedFile, ...]
    """Files to train on; a single one may be written without a list."""
    valid: tuple[TaggedFile, ...] = ()
    """Validation files; none: a share of the training texts is held out."""


@dataclass(frozen=True)
class Found:
    """The examples of some files, and what became of every line."""

    files: tuple[str, ...]
    examples: list[Example]
    tallies: list[LineReport]
    per_token: bool
    """Whether each word has a label, not the text as a whole."""

    def place(self, example: Example) -> str:
        """Where an example stands, as file:line."""
        number, line = example.place
        return f"{self.files[number]}:{line}"

    @property
    def summary(self) -> list[str]:
        """In words, one line a matter."""
        both = zip(self.files, self.tallies, strict=True)
        return [line for name, tally in both for line in tally.lines([name], unit="line")]


def read(files: Sequence[LabelledFile | TaggedFile], names: dict[str, str], reject: float) -> Found:
    """All examples of these files, labels called by their names; too many bad lines are an error."""
    examples, tallies = [], []
    for number, file in enumerate(files):
        tally = LineReport()
        for example in file.examples(number, tally):
            tally.kept += 1
            called = tuple(names.get(label, label) if label is not None else None for label in example.labels)
            examples.append(example._replace(labels=called))
        tally.check(reject, [file.path], unit="text")
        tallies.append(tally)
    paths = tuple(file.path for file in files)
    if not examples:
        raise ValueError(f"{' and '.join(paths)}: no text in them: give at least one")
    return Found(paths, examples, tallies, isinstance(files[0], TaggedFile))


def hold(found: Found, share: float) -> tuple[Found, Found]:
    """Examples to learn from and examples to measure on; which is which depends on their texts alone."""
    numbers = [sentence(" ".join(example.words)) for example in found.examples]
    last = sorted(numbers)[max(1, round(share * len(numbers))) - 1]  # alike texts have the same number
    sides: tuple[list[Example], list[Example]] = [], []
    for example, number in zip(found.examples, numbers, strict=True):
        sides[number <= last].append(example)
    if not sides[0]:
        raise ValueError(
            f"{' and '.join(found.files)}: {len(numbers)} texts are too few, or too much alike, to hold {share:.0%} of "
            "them out: give more, or name a validation file (data.valid)"
        )
    return replace(found, examples=sides[0]), replace(found, examples=sides[1])


def classes(found: Found) -> list[str]:
    """The labels there are, sorted."""
    known = sorted({label for example in found.examples for label in example.labels if label is not None})
    if len(known) < 2:
        raise ValueError(
            f"{' and '.join(found.files)}: all texts have the label {' '.join(known) or 'that is not judged'}: "
            "there must be two labels at least to tell apart"
        )
    return known


def numbered(found: Found, known: Sequence[str]) -> list[list[int | None]]:
    """The numbers of the labels of every example; one that is not known is an error."""
    numbers = {label: number for number, label in enumerate(known)}
    for example in found.examples:
        for label in example.labels:
            if label is not None and label not in numbers:
                some = ", ".join(known[:8]) + ", ..." * (len(known) > 8)
                raise ValueError(f"{found.place(example)}: the label {label!r} is none of the training labels ({some})")
    return [[None if label is None else numbers[label] for label in example.labels] for example in found.examples]
