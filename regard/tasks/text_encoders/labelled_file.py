"""Files of labelled texts or pairs: JSON lines, columns of a table, or one file per label.

Unusable lines are refused, counted and reported with their place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from regard.config.ranges import Column
from regard.config.resuming import Free
from regard.data.column_content import explain_no_labels
from regard.data.column_names import LABELS, VERDICTS
from regard.data.labelled_columns import (
    ColumnRequest,
    LabelledColumns,
    find_labelled_columns,
    find_labelled_fields,
    first_record,
)
from regard.data.line_report import LineReport
from regard.data.readers import Refusal, clean_text, parse_json_line, records, text_at, value_at
from regard.data.source_file import Unit
from regard.data.tables import is_json, read_rows
from regard.tasks.text_encoders.examples import Example, ExampleFile


@dataclass(frozen=True, kw_only=True)
class LabelledFile(ExampleFile):
    """A file of labelled texts, maybe gzipped; settings that are null are recognised from its first lines."""

    KIND: ClassVar[str] = "labels"
    example_unit: ClassVar[Unit] = "lines"
    USUAL_LABELS: ClassVar[tuple[str, ...]] = (*VERDICTS, *LABELS)
    """What the label of a pair is usually called."""

    path: Free[str]
    """JSON lines if named .jsonl, .json or .ndjson; else columns, quoted as spreadsheets do if named .csv."""
    text: str | Column | tuple[str | Column, str | Column] | None = None
    """Column of the text: its name in the heading or in JSON lines, or its number, counted from 1; two for pairs."""
    label: str | Column | None = None
    """Column of the label, with `text` or as a number; a name alone is the label of every line of the file."""
    fields: tuple[str, ...] = ("text", "label")
    """Names of text, or both texts of a pair, and label in JSON lines; a dot reaches inside. A label may be a text or
    a number."""
    columns: tuple[Column, ...] | None = None
    """Numbers of the columns of text, or both texts of a pair, and label in a table, counted from 1; others are
    ignored."""
    heading: bool | None = None
    """Whether the first line of a table names its columns; null: recognised."""
    delimiter: str | None = None
    """Separator of columns, such as ';'; null: recognised among commas, semicolons, tabs and bars."""

    def __post_init__(self) -> None:
        if self.columns is not None and not 2 <= len(self.columns) == len(set(self.columns)) <= 3:
            raise ValueError(
                f"columns must be two different numbers counted from 1, or three for pairs, not {list(self.columns)}"
            )
        if not 2 <= len(self.fields) == len(set(self.fields)) <= 3:
            raise ValueError(f"fields must be two different names, or three for pairs, not {list(self.fields)}")
        if self.columns is not None and (self.text is not None or isinstance(self.label, int)):
            raise ValueError("columns and text or label name the same columns: leave one of them out")
        column_settings = [("text", column) for column in self.text_columns] + [("label", self.label)]
        for name, number in column_settings:
            if isinstance(number, int) and number < 1:
                raise ValueError(f"{name} is counted from 1, not {number}")
        for column in self.text_columns:
            if column == self.label:
                raise ValueError(f"text and label are both {column!r}: name two different columns")
        if len(set(self.text_columns)) < len(self.text_columns):
            raise ValueError(f"both texts of a pair are {self.text_columns[0]!r}: name two different columns")
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise ValueError(f"delimiter must be one character, not {self.delimiter!r}")

    @property
    def text_columns(self) -> tuple[str | int, ...]:
        """The columns of the text, or of both texts of a pair, if they are set."""
        return () if self.text is None else self.text if isinstance(self.text, tuple) else (self.text,)

    @property
    def constant_label(self) -> str | None:
        """The label of every line, for a file with the texts of a single class."""
        return self.label if isinstance(self.label, str) and self.text is None else None

    def examples(self, number: int, tally: LineReport) -> Iterator[Example]:
        """Yield the examples of this file, which is number `number`."""
        for line, (*texts, label) in self._read_records(tally):
            yield Example(tuple(texts), (label,), (number, line))

    def layout(self) -> LabelledColumns | None:
        """Return the columns of texts and label if the file is a table."""
        if is_json(self.path) or self.constant_label is not None:
            return None
        named_columns: tuple[Any, ...] = self.columns or (*self.text_columns, self.label)
        *texts, label = named_columns
        return find_labelled_columns(
            self.path, ColumnRequest(tuple(texts), label, self.heading, self.delimiter, self.USUAL_LABELS)
        )

    def shared_settings(self) -> dict[str, Any]:
        """Return the settings with which other files of the same kind are read."""
        settings = {
            name: value
            for name, value in vars(self).items()
            if name not in ("path", "label" * bool(self.constant_label))
        }
        layout = self.layout() if self.text is None and self.label is None else None
        return settings if layout is None else {**settings, "columns": layout.columns}

    def describe_layout(self, examples: Sequence[Example]) -> str:
        """Return a note on the layout; implausible labels are an error that names the columns."""
        if self.constant_label is not None:
            return ""
        labels = [] if self.has_ratings else [str(example.labels[0]) for example in examples]
        problem = explain_no_labels(labels)
        if problem is not None:
            first_label = str(examples[0].labels[0])
            raise ValueError(f"{self.path}: {problem}, such as {first_label[:60]!r}: {self.suggest_columns()}")
        layout = self.layout()
        return "" if layout is None else layout.note

    def suggest_columns(self) -> str:
        """Return the remedy for a column that was taken for labels by mistake."""
        layout = self.layout()
        if layout is None:
            return (
                f"{self.field_names()[-1]} does not look like a label: name other fields, as text: ... and label: ..."
            )
        *texts, label = layout.columns
        column_name = f" ({layout.heading[label - 1]})" if layout.heading else ""
        remedy = f"set columns=[{label}, {texts[0]}] if it holds the texts"
        return f"column {label}{column_name} does not look like labels: {remedy}"

    def field_names(self) -> tuple[str, ...]:
        """Return the names of texts and label in JSON lines."""
        if self.constant_label is not None:
            return self.fields
        texts = tuple(map(str, self.text_columns)) or self.fields[:-1]
        return find_labelled_fields(self.path, (*texts, str(self.label or self.fields[-1])), self.USUAL_LABELS)

    def _read_records(self, tally: LineReport) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yield (line, (text, label)) of every usable record, or (line, (text, text, label)) of pairs."""
        if is_json(self.path):
            yield from self._read_json_records(tally)
        elif self.constant_label is not None:
            yield from records(self.path, tally, lambda line: (clean_text(line), str(self.label)))
        elif layout := self.layout():
            rows = read_rows(self.path, tally, layout.form)
            if layout.heading and next(rows, None) is not None:
                tally.read -= 1  # the heading is not an example
            for line, record in rows:
                try:
                    cells = _select_columns(record, layout.columns)
                except Refusal as refusal:
                    tally.refuse(refusal.reason, refusal.file, line)
                else:
                    yield line, cells

    def _read_json_records(self, tally: LineReport) -> Iterator[tuple[int, tuple[str, ...]]]:
        *texts, label = self.field_names()
        if self.constant_label is not None and self.constant_label in (first_record(self.path) or ()):
            raise ValueError(
                f"{self.path}: label: {self.constant_label} would be the label of every line, "
                "and there is such a field: "
                "name the field of the text too, as text: ..."
            )

        def parse_record(line: str) -> tuple[str, ...]:
            record = parse_json_line(line)
            label_value = self.constant_label if self.constant_label is not None else value_at(record, label)
            if isinstance(label_value, bool | int | float):
                label_value = str(label_value).lower()  # `true` and `false`, as in JSON
            if not isinstance(label_value, str) or not label_value.strip():
                raise Refusal(f"without a label named {label}")
            return (*_clean_texts([text_at(record, text) for text in texts]), clean_text(label_value))

        yield from records(self.path, tally, parse_record)


def _select_columns(record: list[str], columns: tuple[int, ...]) -> tuple[str, ...]:
    if len(record) < max(columns):
        raise Refusal(f"fewer than {max(columns)} columns")
    *texts, label = (record[column - 1] for column in columns)
    return (*_clean_texts(texts), clean_text(label))


def _clean_texts(texts: Sequence[str]) -> list[str]:
    """Clean the text of a record, or both texts of a pair; an empty text is refused."""
    if len(texts) > 1 and sum(not text.strip() for text in texts) == 1:
        raise Refusal(f"a pair without its {'first' if not texts[0].strip() else 'second'} text")
    return [clean_text(text) for text in texts]
