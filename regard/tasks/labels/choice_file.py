"""Questions with a few answers to choose from, as they stand in files and as somebody asks them.

What is given (a premise, a story, a question) stands in one column or in several, which are joined; the answers in one
column each, or in a list of JSON. The label names the right one by its number, its letter or its text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from regard.config.ranges import Column
from regard.config.resuming import Free
from regard.config.words import suggest_name
from regard.data.labelled_columns import SAMPLE
from regard.data.line_report import LineReport
from regard.data.normalise import remove_invisible
from regard.data.readers import SURROGATES, Refusal, clean_text, parse_json_line, records, suffix, value_at
from regard.data.source_file import SourceFile, Unit
from regard.data.tables import detect_format, is_json, parse_object, read_objects, read_rows
from regard.tasks.labels.examples import Example
from regard.tasks.labels.xml_records import read_xml_records

QUESTION_REMEDY = (
    'write "what is given | one answer | another", with tabs or bars, or {"premise": "...", "choices": [...]}'
)
GIVEN_COLUMNS = (
    *("article", "passage", "context", "ctx", "story", "premise", "p", "startphrase", "sentence", "goal", "prompt"),
    *("question", "question_stem", "stem", "asks-for"),
)
"""What columns are called that hold what is given, in the order in which they are joined."""
STORY_COLUMN = re.compile(r"inputsentence\d+", re.IGNORECASE)  # Story Cloze has a column for each sentence
LIST_COLUMNS = ("choices", "endings", "options", "answers", "alternatives", "candidates")
NUMBERED_COLUMN = re.compile(
    r"(choice|ending|option|answer|alternative|candidate|solution|sol|randomfifthsentencequiz)[ _-]?(\d+|[a-h])"
    r"|(a)(\d+)|()([a-h])",
    re.IGNORECASE,
)
LABEL_COLUMNS = (
    "label",
    "answer",
    "answerkey",
    "answerrightending",
    "most-plausible-alternative",
    "gold",
    "gold_label",
)
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
Numbering = Literal["zero", "one", "letters", "texts"]
ColumnName = str | int
Record = Mapping[Any, Any]
Question = tuple[str, ...]  # what is given, then the choices


class ChoiceColumns(NamedTuple):
    """Where everything stands in a record: a name, or of a table the number of a column."""

    given: tuple[ColumnName, ...]
    choices: tuple[ColumnName, ...]
    label: ColumnName | None

    @property
    def note(self) -> str:
        """In words."""
        choices = (
            f"choices are {_join_names(self.choices)}" if len(self.choices) > 1 else f"choices are in {self.choices[0]}"
        )
        return f"given is {_join_names(self.given)}, {choices}, label is {self.label}"


@dataclass(frozen=True, kw_only=True)
class ChoiceFile(SourceFile):
    """A file of questions with answers to choose from, maybe gzipped; columns that nobody names go by usual names."""

    example_unit: ClassVar[Unit] = "lines"

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
        named = [each for each in (*self.given, *self.choices, self.label) if each is not None]
        if twice := next((each for each, count in Counter(named).items() if count > 1), None):
            raise ValueError(f"{twice!r} is named twice among given, choices and label: name different columns")
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise ValueError(f"delimiter must be one character, not {self.delimiter!r}")

    def like(self) -> dict[str, Any]:
        """The settings by which another file of the same kind is read."""
        kept = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "path"}
        given, choices, label = self.columns
        return {**kept, "given": given, "choices": choices, "label": label, "numbering": self.resolved_numbering}

    def examples(self, number: int, tally: LineReport) -> Iterator[Example]:
        """What is in it; `number` is that of the file."""
        size, numbering = self.choice_count, self.resolved_numbering
        for line, record in self.records(tally):
            try:
                given, *choices = extract_question(record, self.columns)
                if len(choices) != size:
                    raise Refusal(f"with {len(choices)} choices where others have {size}")
                right = choice_index(_label_in(record, self.columns.label), choices, numbering)
                if right is None:
                    raise Refusal("with a label that is none of its choices")
            except Refusal as refusal:
                tally.refuse(refusal.reason, 0, line)
            else:
                yield Example((given, *choices), (str(right + 1),), (number, line))

    def questions(self) -> Iterator[Question]:
        """Every question, whether or not something says which answer is right; a bad one is an error."""
        tally, columns = LineReport(), self._find_columns(labelled=False)
        for line, record in self.records(tally):
            try:
                yield extract_question(record, columns)
            except Refusal as refusal:
                raise ValueError(f"{self.path}:{line}: a question {refusal.reason}: {QUESTION_REMEDY}") from None
        tally.check(0.0, [self.path], unit="question")

    def records(self, tally: LineReport) -> Iterator[tuple[int, Record]]:
        """(line, cells by their names and numbers) of every record."""
        if is_json(self.path):
            yield from read_objects(self.path, tally)
        elif suffix(self.path) == ".xml":
            yield from read_xml_records(self.path, tally)
        else:
            rows = read_rows(self.path, tally, detect_format(self.path, self.delimiter))
            head: list[str] = []
            if self.has_heading and (first := next(rows, None)) is not None:
                head = [cell.strip() for cell in first[1]]
                tally.read -= 1  # it is no question
            for line, row in rows:
                yield line, {**dict(enumerate(row, start=1)), **dict(zip(head, row, strict=False))}

    @property
    def has_heading(self) -> bool:
        """Whether the first line names columns."""
        named = (*self.given, *self.choices, *(() if self.label is None else (self.label,)))
        numbers = bool(self.given and self.choices) and all(isinstance(each, int) for each in named)
        return not numbers if self.heading is None else self.heading

    @cached_property
    def columns(self) -> ChoiceColumns:
        """Where everything stands: as named, or as it is usually called; what is not there is an error."""
        return self._find_columns(labelled=True)

    @cached_property
    def resolved_numbering(self) -> Numbering | None:
        """What labels are: as named, or what most of the first ones can be."""
        if self.numbering is not None or not self._labelled_sample:
            return self.numbering
        kinds: tuple[Numbering, ...] = ("texts", "letters", "zero", "one")
        fits = {
            kind: [choice_index(label, choices, kind) for choices, label in self._labelled_sample] for kind in kinds
        }
        counts = {kind: sum(each is not None for each in found) for kind, found in fits.items()}
        best = max(kinds, key=counts.__getitem__)  # of equal ones the first
        if best == "zero" and counts["one"] == counts["zero"] and fits["one"] != fits["zero"]:
            raise ValueError(
                f"{self.path}: labels may count from zero or from one: say which with numbering: zero or numbering: one"
            )
        return best

    @cached_property
    def choice_count(self) -> int:
        """How many choices most questions have."""
        return (
            Counter(len(choices) for choices, _ in self._labelled_sample).most_common(1)[0][0]
            if self._labelled_sample
            else 0
        )

    @property
    def note(self) -> str:
        """How it is read, in words."""
        words = {"zero": ", counted from 0", "one": ", counted from 1", "letters": ", a letter", "texts": ", a text"}
        return f"{self.columns.note}{words[self.resolved_numbering] if self.resolved_numbering else ''}"

    @cached_property
    def first_values(self) -> Record:
        """What there is in the first records, by its names."""
        found: dict[Any, Any] = {}
        for _, record in islice(self.records(LineReport()), SAMPLE):
            found |= {name: value for name, value in record.items() if found.get(name) is None}
        return found

    @cached_property
    def _labelled_sample(self) -> list[tuple[list[str], str]]:
        """(choices, label) of the first good records."""
        found = []
        for _, record in islice(self.records(LineReport()), SAMPLE):
            try:
                _, *choices = extract_question(record, self.columns)
                found.append((choices, _label_in(record, self.columns.label)))
            except Refusal:
                continue
        return found

    def _find_columns(self, *, labelled: bool) -> ChoiceColumns:
        there = self.first_values
        known = [name for name in there if isinstance(name, str)]
        for each in (*self.given, *self.choices, *((self.label,) if labelled and self.label is not None else ())):
            if there and _lookup(there, each) is None:
                remedy = "name others in given, choices and label"
                raise ValueError(f"{self.path} has no column {each!r}{suggest_name(str(each), known)}: {remedy}")
        usual = usual_columns(there)
        found = ChoiceColumns(self.given or usual.given, self.choices or usual.choices, self.label or usual.label)
        wanted = found._asdict() if labelled else {"given": found.given, "choices": found.choices}
        lacking = [name for name, value in wanted.items() if not value]
        if there and lacking:
            shown = f"there are {', '.join(known)[:100]}" if known else "they have no names"
            raise ValueError(
                f"{self.path}: no column is called as {lacking[0]} usually is ({shown}): "
                f"name it, as {lacking[0]}={'[...]' if lacking[0] != 'label' else '...'}"
            )
        return found


def usual_columns(record: Record) -> ChoiceColumns:
    """Columns that are called as usual; none where there are no such."""
    names = [name for name in record if isinstance(name, str)]
    lower = {name.lower(): name for name in names}
    story = tuple(name for name in names if STORY_COLUMN.fullmatch(name))
    given = tuple(lower[name] for name in GIVEN_COLUMNS if name in lower and isinstance(record[lower[name]], str))
    right = next((lower[name] for name in LABEL_COLUMNS if name in lower), None)
    return ChoiceColumns(story or given, _find_choice_columns(record, [name for name in names if name != right]), right)


def _find_choice_columns(record: Record, names: Sequence[str]) -> tuple[str, ...]:
    """Columns of choices, by their names: a list, or some that are numbered, in the order of their numbers."""
    for name in (each for each in names if each.lower() in LIST_COLUMNS):
        if isinstance(record[name], list) or str(record[name]).startswith("["):
            return (name,)
        if isinstance(value_at(record, f"{name}.text"), list):
            return (f"{name}.text",)
    groups: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        if match := NUMBERED_COLUMN.fullmatch(name):
            stem, number = (part for part in match.groups() if part is not None)
            rank = int(number) if number.isdigit() else LETTERS.index(number.upper())
            groups.setdefault(stem.lower(), []).append((rank, name))
    several = max(groups.values(), key=len, default=[])
    return tuple(name for _, name in sorted(several)) if len(several) > 1 else ()


def extract_question(record: Record, columns: ChoiceColumns) -> Question:
    """What is given, and the choices, none of them empty."""
    texts = [_text_in(record, name).strip() for name in columns.given]
    listed = _parse_list(_lookup(record, columns.choices[0])) if len(columns.choices) == 1 else None
    if listed is None:
        found = [_text_in(record, name) for name in columns.choices]
    else:
        written = [_as_text(each) for each in listed] if isinstance(listed, list) else [None]
        found = [each for each in written if each is not None]
        if len(found) < len(written):
            raise Refusal(f"without a list of texts named {columns.choices[0]}")
    return clean_question(" ".join(text for text in texts if text), found)


def clean_question(given: str, choices: Sequence[str]) -> Question:
    """A question without blanks around its texts; one that has nothing to choose from, or an empty text, is refused."""
    if not remove_invisible(given).strip():
        raise Refusal("with nothing given")
    if len(choices) < 2:
        raise Refusal("with fewer than two choices")
    if not all(remove_invisible(each).strip() for each in choices):
        raise Refusal("with an empty choice")
    return clean_text(given), *map(clean_text, choices)


def pair_with_choices(question: Question) -> list[Question]:
    """What is read of a question: what is given, with each of its choices."""
    given, *choices = question
    return [(given, choice) for choice in choices]


def sort_choices(question: Question) -> Question:
    """What makes it the same question, in whatever order its choices stand."""
    given, *choices = question
    return given, *sorted(choices)


def choice_index(label: str, choices: Sequence[str], numbering: Numbering | None) -> int | None:
    """Which choice a label means, counted from 0; None where it means none of them."""
    if numbering == "texts":
        return choices.index(label) if label in choices else None
    if numbering == "letters":
        number = LETTERS.find(label.upper()) if len(label) == 1 else -1
    else:
        number = int(label) - (numbering == "one") if label.isdecimal() else -1
    return number if 0 <= number < len(choices) else None


def parse_question(text: str, known: ChoiceColumns, *, where: str = "") -> Question:
    """A question as somebody types it: with tabs or bars between, or an object of JSON named as in training."""
    try:
        if text.lstrip().startswith("{"):
            record = parse_object(text)
            found = _known_or_usual_columns(record, known)
            if not found.given or not found.choices:
                raise Refusal("without a premise and choices")
            return extract_question(record, found)
        given, *choices = text.split("\t" if "\t" in text else " | ")
        return clean_question(given, choices)
    except Refusal as refusal:
        place = where or repr(text.strip()[:60])
        raise ValueError(f"{place}: a question {refusal.reason}: {QUESTION_REMEDY}") from None


def read_questions(path: Path, known: ChoiceColumns) -> list[Question]:
    """The questions of a file: its columns named as in training or as usual, or lines as somebody types them."""
    name = str(path)
    columns = _known_or_usual_columns(ChoiceFile(path=name).first_values, known)
    if is_json(name) or suffix(name) == ".xml" or (columns.given and columns.choices):
        return list(ChoiceFile(path=name, given=columns.given, choices=columns.choices).questions())
    tally = LineReport()
    lined = [(line, text) for line, text in records(name, tally, str) if text.strip()]
    tally.check(0.0, [name], unit="question")
    return [parse_question(text, known, where=f"{name}:{line}") for line, text in lined]


def settings_for_file(settings: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Settings by which training files were read, without the names of columns where this file has others."""
    names = ("given", "choices", "label", "numbering")
    kept = {name: value for name, value in settings.items() if name not in names}
    there = ChoiceFile(path=path, **kept).first_values
    known = (*settings["given"], *settings["choices"], settings["label"])
    return dict(settings) if all(_lookup(there, each) is not None for each in known) else kept


def _known_or_usual_columns(record: Record, known: ChoiceColumns) -> ChoiceColumns:
    """Columns called as in training where a record has them, or as usual."""
    usual = usual_columns(record)
    own, other = (
        names if all(_lookup(record, each) is not None for each in names) else ()
        for names in (known.given, known.choices)
    )
    return ChoiceColumns(own or usual.given, other or usual.choices, None)


def _join_names(names: Sequence[ColumnName]) -> str:
    *others, last = map(str, names)
    return f"{', '.join(others)} and {last}" if others else last


def _lookup(record: Record, name: ColumnName) -> Any:
    """What is called so in a record, or stands in the column of that number; None where nothing does."""
    return record.get(name) if isinstance(name, int) else value_at(record, name)


def _parse_list(value: Any) -> Any:
    """What is in a cell: a list may be written there as JSON."""
    return parse_json_line(value) if isinstance(value, str) and value.startswith("[") else value


def _text_in(record: Record, name: ColumnName) -> str:
    found = _as_text(_lookup(record, name))
    if found is None:
        raise Refusal(f"without a text named {name}")
    return found


def _label_in(record: Record, name: ColumnName | None) -> str:
    found = None if name is None else _as_text(_lookup(record, name))
    if found is None or not found.strip():
        raise Refusal(f"without a label named {name}")
    return clean_text(found).removesuffix(".0")


def _as_text(value: Any) -> str | None:
    """A text, or a number as it is written; None of anything else."""
    if isinstance(value, str):
        if SURROGATES.search(value):
            raise Refusal("with a lone surrogate")
        return value
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
