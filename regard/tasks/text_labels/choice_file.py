"""Multiple-choice questions: their files, and their notation for users.

The question's text (a premise, a story, a question) is in one column, or in several that are joined; the answers are in
one column each, or in a list of JSON. The label names the right one by its number, its letter or its text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Literal

from regard.config.ranges import Column
from regard.config.resuming import Free
from regard.data.columns import ColumnSample, Role, describe_left_out, missing_column_error, unclear_column_error
from regard.data.labelled_columns import SAMPLE
from regard.data.line_report import LineReport
from regard.data.normalise import remove_invisible
from regard.data.readers import SURROGATES, Refusal, clean_text, parse_json_line, records, suffix
from regard.data.source_file import Unit
from regard.data.tables import detect_format, is_json, parse_object, read_objects, read_rows
from regard.tasks.text_encoders.examples import Example, ExampleFile
from regard.tasks.text_labels.choice_columns import (
    LETTERS,
    ChoiceColumns,
    ColumnName,
    Record,
    lookup_column,
    usual_columns,
)
from regard.tasks.text_labels.xml_records import read_xml_records

QUESTION_REMEDY = (
    'write "what is given | one answer | another", with tabs or bars, or {"premise": "...", "choices": [...]}'
)
ROLES = {"given": "text that choices are made for", "choices": "choices", "label": "label"}
Numbering = Literal["zero", "one", "letters", "texts"]
Question = tuple[str, ...]  # the question's text, then the choices


@dataclass(frozen=True, kw_only=True)
class ChoiceFile(ExampleFile):
    """A file of multiple-choice questions, maybe gzipped; columns that are not set are found by usual names."""

    example_unit: ClassVar[Unit] = "lines"
    has_choices: ClassVar[bool] = True

    path: Free[str]
    """JSON lines if named .jsonl, .json or .ndjson, XML if named .xml; else a table whose first line names its
    columns."""
    given: tuple[str | Column, ...] = ()
    """Columns of what is given, by name or number (counted from 1), joined with blanks."""
    choices: tuple[str | Column, ...] = ()
    """Columns of the answers to choose from; in JSON lines maybe a single one, which holds a list."""
    label: str | Column | None = None
    """Column that says which choice is right."""
    numbering: Numbering | None = None
    """What a label is: the number of the choice, counted from zero or from one, its letter (A, B ...) or its text;
    null: recognised."""
    heading: bool | None = None
    """Whether the first line of a table names its columns; null: unless all columns are given as numbers."""
    delimiter: str | None = None
    """Separator of columns, such as ';'; null: recognised among commas, semicolons, tabs and bars."""

    def __post_init__(self) -> None:
        named_columns = [name for name in (*self.given, *self.choices, self.label) if name is not None]
        if repeated := next((name for name, count in Counter(named_columns).items() if count > 1), None):
            raise ValueError(f"{repeated!r} is named twice among given, choices and label: name different columns")
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise ValueError(f"delimiter must be one character, not {self.delimiter!r}")

    def shared_settings(self) -> dict[str, Any]:
        """Return the settings with which other files of the same kind are read."""
        settings = {setting.name: getattr(self, setting.name) for setting in fields(self) if setting.name != "path"}
        given, choices, label = self.columns
        return {**settings, "given": given, "choices": choices, "label": label, "numbering": self.resolved_numbering}

    def examples(self, number: int, tally: LineReport) -> Iterator[Example]:
        """Yield the examples of this file, which is number `number`."""
        choice_count, numbering = self.choice_count, self.resolved_numbering
        for line, record in self.records(tally):
            try:
                premise, *choices = extract_question(record, self.columns)
                if len(choices) != choice_count:
                    raise Refusal(f"with {len(choices)} choices where others have {choice_count}")
                index = choice_index(_label_in(record, self.columns.label), choices, numbering)
                if index is None:
                    raise Refusal("with a label that is none of its choices")
            except Refusal as refusal:
                tally.refuse(refusal.reason, 0, line)
            else:
                yield Example((premise, *choices), (str(index + 1),), (number, line))

    def questions(self) -> Iterator[Question]:
        """Yield every question, with or without a label; an unusable one is an error."""
        tally, columns = LineReport(), self._find_columns(labelled=False)
        for line, record in self.records(tally):
            try:
                yield extract_question(record, columns)
            except Refusal as refusal:
                raise ValueError(f"{self.path}:{line}: a question {refusal.reason}: {QUESTION_REMEDY}") from None
        tally.check(0.0, [self.path], unit="question")

    def records(self, tally: LineReport) -> Iterator[tuple[int, Record]]:
        """Yield (line, cells by name and number) of every record."""
        if is_json(self.path):
            yield from read_objects(self.path, tally)
        elif suffix(self.path) == ".xml":
            yield from read_xml_records(self.path, tally)
        else:
            rows = read_rows(self.path, tally, detect_format(self.path, self.delimiter))
            heading: list[str] = []
            if self.has_heading and (first := next(rows, None)) is not None:
                heading = [cell.strip() for cell in first[1]]
                tally.read -= 1  # the heading is not a question
            for line, row in rows:
                yield line, {**dict(enumerate(row, start=1)), **dict(zip(heading, row, strict=False))}

    @property
    def has_heading(self) -> bool:
        """True if the first line names columns."""
        named_columns = (*self.given, *self.choices, *(() if self.label is None else (self.label,)))
        only_numbers = bool(self.given and self.choices) and all(isinstance(column, int) for column in named_columns)
        return not only_numbers if self.heading is None else self.heading

    @cached_property
    def columns(self) -> ChoiceColumns:
        """The columns that are set or have usual names; a missing one is an error."""
        return self._find_columns(labelled=True)

    @cached_property
    def resolved_numbering(self) -> Numbering | None:
        """The numbering that is set, or the one that fits most of the first labels."""
        if self.numbering is not None or not self._labelled_sample:
            return self.numbering
        kinds: tuple[Numbering, ...] = ("texts", "letters", "zero", "one")
        indices_by_kind = {
            kind: [choice_index(label, choices, kind) for choices, label in self._labelled_sample] for kind in kinds
        }
        counts = {kind: sum(index is not None for index in indices) for kind, indices in indices_by_kind.items()}
        best = max(kinds, key=counts.__getitem__)  # ties go to the first
        if best == "zero" and counts["one"] == counts["zero"] and indices_by_kind["one"] != indices_by_kind["zero"]:
            raise ValueError(
                f"{self.path}: labels may count from zero or from one: say which with numbering: zero or numbering: one"
            )
        return best

    @cached_property
    def choice_count(self) -> int:
        """The most frequent number of choices."""
        return (
            Counter(len(choices) for choices, _ in self._labelled_sample).most_common(1)[0][0]
            if self._labelled_sample
            else 0
        )

    def describe_layout(self, examples: Sequence[Example]) -> str:
        """Return a note on the layout of the file."""
        numbering_notes = {
            "zero": ", counted from 0",
            "one": ", counted from 1",
            "letters": ", a letter",
            "texts": ", a text",
        }
        numbering = numbering_notes[self.resolved_numbering] if self.resolved_numbering else ""
        left_out = describe_left_out(self.columns.list_others(self.first_values))
        return f"{self.columns.note}{numbering}{left_out}"

    @cached_property
    def first_values(self) -> Record:
        """The values of the first records, by column."""
        values: dict[Any, Any] = {}
        for _, record in islice(self.records(LineReport()), SAMPLE):
            values |= {name: value for name, value in record.items() if values.get(name) is None}
        return values

    @cached_property
    def _labelled_sample(self) -> list[tuple[list[str], str]]:
        """Pairs (choices, label) of the first usable records."""
        sample = []
        for _, record in islice(self.records(LineReport()), SAMPLE):
            try:
                _, *choices = extract_question(record, self.columns)
                sample.append((choices, _label_in(record, self.columns.label)))
            except Refusal:
                continue
        return sample

    def _find_columns(self, *, labelled: bool) -> ChoiceColumns:
        record = self.first_values
        record_names = [name for name in record if isinstance(name, str)]
        for column in (*self.given, *self.choices, *((self.label,) if labelled and self.label is not None else ())):
            if record and lookup_column(record, column) is None:
                remedy = "name others in given, choices and label"
                raise missing_column_error(self.path, record_names, column, remedy=remedy)
        usual = usual_columns(record)
        columns = ChoiceColumns(self.given or usual.given, self.choices or usual.choices, self.label or usual.label)
        required = columns._asdict() if labelled else {"given": columns.given, "choices": columns.choices}
        missing = [name for name, value in required.items() if not value]
        if record and missing:
            setting = f"name it, as {missing[0]}={'[...]' if missing[0] != 'label' else '...'}"
            names = tuple(record_names) or tuple(f"column {number}" for number in record)
            raise unclear_column_error(Role(name=ROLES[missing[0]], setting=setting), ColumnSample(self.path, names))
        return columns


def extract_question(record: Record, columns: ChoiceColumns) -> Question:
    """Return the question's text and the choices of a record; an empty one is refused."""
    texts = [_text_in(record, name).strip() for name in columns.given]
    choice_list = _parse_list(lookup_column(record, columns.choices[0])) if len(columns.choices) == 1 else None
    if choice_list is None:
        choices = [_text_in(record, name) for name in columns.choices]
    else:
        items = [_as_text(item) for item in choice_list] if isinstance(choice_list, list) else [None]
        choices = [item for item in items if item is not None]
        if len(choices) < len(items):
            raise Refusal(f"without a list of texts named {columns.choices[0]}")
    return clean_question(" ".join(text for text in texts if text), choices)


def clean_question(premise: str, choices: Sequence[str]) -> Question:
    """Return a question without surrounding spaces; one with an empty text or fewer than two choices is refused."""
    if not remove_invisible(premise).strip():
        raise Refusal("with nothing given")
    if len(choices) < 2:
        raise Refusal("with fewer than two choices")
    if not all(remove_invisible(choice).strip() for choice in choices):
        raise Refusal("with an empty choice")
    return clean_text(premise), *map(clean_text, choices)


def pair_with_choices(question: Question) -> list[Question]:
    """Return the question's text paired with each choice."""
    premise, *choices = question
    return [(premise, choice) for choice in choices]


def sort_choices(question: Question) -> Question:
    """Return a question with its choices in alphabetical order, for comparing questions."""
    premise, *choices = question
    return premise, *sorted(choices)


def choice_index(label: str, choices: Sequence[str], numbering: Numbering | None) -> int | None:
    """Return the number of the choice that a label means, from 0; None if it means none of them."""
    if numbering == "texts":
        return choices.index(label) if label in choices else None
    if numbering == "letters":
        number = LETTERS.find(label.upper()) if len(label) == 1 else -1
    else:
        number = int(label) - (numbering == "one") if label.isdecimal() else -1
    return number if 0 <= number < len(choices) else None


def parse_question(text: str, trained_columns: ChoiceColumns, *, where: str = "") -> Question:
    """Parse a question typed by a user: separated by tabs or bars, or a JSON object with the names of training."""
    try:
        if text.lstrip().startswith("{"):
            record = parse_object(text)
            columns = _known_or_usual_columns(record, trained_columns)
            if not columns.given or not columns.choices:
                raise Refusal("without a premise and choices")
            return extract_question(record, columns)
        premise, *choices = text.split("\t" if "\t" in text else " | ")
        return clean_question(premise, choices)
    except Refusal as refusal:
        place = where or repr(text.strip()[:60])
        raise ValueError(f"{place}: a question {refusal.reason}: {QUESTION_REMEDY}") from None


def read_questions(path: Path, trained_columns: ChoiceColumns) -> list[Question]:
    """Read the questions of a file, with columns of training or of usual names, or in lines as typed by users."""
    name = str(path)
    columns = _known_or_usual_columns(ChoiceFile(path=name).first_values, trained_columns)
    if is_json(name) or suffix(name) == ".xml" or (columns.given and columns.choices):
        return list(ChoiceFile(path=name, given=columns.given, choices=columns.choices).questions())
    tally = LineReport()
    numbered_lines = [(line, text) for line, text in records(name, tally, str) if text.strip()]
    tally.check(0.0, [name], unit="question")
    return [parse_question(text, trained_columns, where=f"{name}:{line}") for line, text in numbered_lines]


def settings_for_file(settings: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return the settings of training files without column names that this file lacks."""
    names = ("given", "choices", "label", "numbering")
    other_settings = {name: value for name, value in settings.items() if name not in names}
    record = ChoiceFile(path=path, **other_settings).first_values
    trained_columns = (*settings["given"], *settings["choices"], settings["label"])
    return (
        dict(settings)
        if all(lookup_column(record, column) is not None for column in trained_columns)
        else other_settings
    )


def _known_or_usual_columns(record: Record, trained_columns: ChoiceColumns) -> ChoiceColumns:
    """Return the columns of training if a record has them, or else those with usual names."""
    usual = usual_columns(record)
    given_columns, choice_columns = (
        names if all(lookup_column(record, name) is not None for name in names) else ()
        for names in (trained_columns.given, trained_columns.choices)
    )
    return ChoiceColumns(given_columns or usual.given, choice_columns or usual.choices, None)


def _parse_list(value: Any) -> Any:
    """Return the value of a cell; a list may be written as JSON."""
    return parse_json_line(value) if isinstance(value, str) and value.startswith("[") else value


def _text_in(record: Record, name: ColumnName) -> str:
    text = _as_text(lookup_column(record, name))
    if text is None:
        raise Refusal(f"without a text named {name}")
    return text


def _label_in(record: Record, name: ColumnName | None) -> str:
    label = None if name is None else _as_text(lookup_column(record, name))
    if label is None or not label.strip():
        raise Refusal(f"without a label named {name}")
    return clean_text(label).removesuffix(".0")


def _as_text(value: Any) -> str | None:
    """Return a text, or a number as text; None for anything else."""
    if isinstance(value, str):
        if SURROGATES.search(value):
            raise Refusal("with a lone surrogate")
        return value
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
