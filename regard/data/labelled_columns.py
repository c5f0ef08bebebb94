"""Which columns of a table or fields of JSON lines hold texts and labels, and whether the first line names them.

What a recipe names is taken as it says; the rest is recognised from the first lines, and what was recognised is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from regard.data.column_content import CLASS, MIN_LABELS, TEXT
from regard.data.column_names import LABELS, TEXTS, VERDICTS
from regard.data.columns import (
    PAIR_ROLES,
    ColumnChoice,
    ColumnSample,
    Role,
    can_be_heading,
    choose_columns,
    choose_pair,
    find_name,
    pair_roles,
)
from regard.data.readers import Refusal, lines, parse_json_line, value_at
from regard.data.table_records import DELIMITERS
from regard.data.tables import TableFormat, detect_format, read_sample

SAMPLE = 2000  # records from which columns are recognised


class ColumnRequest(NamedTuple):
    """What a recipe says of a file: names or numbers of its columns, and the rest where it is not to be recognised."""

    texts: tuple[str | int, ...] = ()
    label: str | int | None = None
    heading: bool | None = None
    delimiter: str | None = None
    usual: tuple[str, ...] = (*VERDICTS, *LABELS)


class LabelledColumns(NamedTuple):
    """The columns of text and label in a table."""

    form: TableFormat
    choice: ColumnChoice
    """The columns of text, or both texts of a pair, and label; without names if the first line is a text."""

    @property
    def heading(self) -> tuple[str, ...]:
        """The names in the first line; none if it is a text like the others."""
        return self.choice.sample.names

    @property
    def columns(self) -> tuple[int, ...]:
        """The numbers of the columns, counted from 1."""
        return tuple(place + 1 for place in self.choice.places.values())

    @property
    def note(self) -> str:
        """Return a note on the columns; empty for the default layout."""
        if self.form.delimiter in "\t," and not self.heading and self.columns == (1, 2) and not self.choice.left_out:
            return ""
        heading = ", the first line is a heading" if self.heading else ""
        return self.choice.describe(f", between {DELIMITERS.get(self.form.delimiter, self.form.delimiter)}{heading}")


def find_labelled_columns(path: str, request: ColumnRequest) -> LabelledColumns:
    """Find the columns of text and label in a table; a named column that is missing is an error."""
    form = detect_format(path, request.delimiter)
    rows = read_sample(path, form, SAMPLE)
    first = tuple(cell.strip() for cell in rows[0]) if rows else ()
    sample = ColumnSample(path, first, rows[1:])
    choice = choose_labelled_columns(sample, request.texts, request.label, usual_labels=request.usual)
    heading = request.heading
    if heading is None:
        heading = "named" in choice.reasons.values() or _is_heading(first, rows[1:], choice.places["label"] + 1)
    return LabelledColumns(form, choice if heading else replace(choice, sample=ColumnSample(path, rows=rows)))


def choose_labelled_columns(
    sample: ColumnSample,
    texts: Sequence[str | int] = (),
    label: str | int | None = None,
    *,
    usual_labels: Sequence[str] = (),
    guess: bool = True,
) -> ColumnChoice:
    """Choose the columns of text, or of both texts of a pair, and label, in this order.

    Without a `guess`, roles that neither names nor cells tell stay open.
    """
    settings: dict[str, Any] = {"required": False, "setting": "name it, as text: COLUMN and label: COLUMN"}
    label_role = Role(name="label", column=label, usual=usual_labels, content=CLASS, **settings)
    if len(texts) == 2:
        pair = [Role(name=name, column=text, **settings) for name, text in zip(PAIR_ROLES, texts, strict=True)]
        return choose_columns(sample, [*pair, replace(label_role, position=3)])
    if not texts and (pair := pair_roles(sample.names)):
        choice = choose_columns(sample, [*pair, label_role])
        if label_role.name in choice.places:
            return choice
    text, (first, second) = next(iter(texts), None), (1, 2) if guess else (None, None)
    text_role = Role(name="text", column=text, usual=TEXTS, content=TEXT, position=first, **settings)
    return choose_columns(sample, [text_role, replace(label_role, usual=LABELS, position=second)])


def find_labelled_fields(path: str, fields: tuple[str, ...], usual_labels: Sequence[str] = ()) -> tuple[str, ...]:
    """Return what text and label are called in JSON lines: as asked, or as the first record calls them."""
    record = first_record(path)
    names = tuple(name for name in record if isinstance(name, str)) if isinstance(record, dict) else ()
    if fields != ("text", "label") or all(value_at(record, name) is not None for name in fields):
        return fields
    choice = choose_labelled_columns(
        ColumnSample(path, names), usual_labels=usual_labels or (*VERDICTS, *LABELS), guess=False
    )
    return tuple(names[place] for place in choice.places.values()) if len(choice.places) > 1 else fields


def first_record(path: str) -> Any:
    """Return the first record of a JSON-lines file; None if it cannot be parsed."""
    for line in lines(path):
        try:
            return parse_json_line((line or b"").decode("utf-8"))
        except (Refusal, UnicodeDecodeError):
            return None
    return None


def _is_heading(first: tuple[str, ...], rows: list[list[str]], label: int) -> bool:
    """True if the first line names columns: by usual names, or by short cells with a label that never recurs."""
    if len(first) < max(2, label) or not first[label - 1] or not can_be_heading(first):
        return False
    below = Counter(row[label - 1].strip() for row in rows if len(row) >= label)
    if below[first[label - 1]]:
        return False
    if find_name(first, (*TEXTS, *LABELS)) is not None or choose_pair(first) is not None:
        return True
    repeated = len(rows) >= MIN_LABELS and len(below) <= len(rows) / 5 and min(below.values()) > 1
    length = sorted(max(map(len, row)) for row in rows)[len(rows) // 2] if rows else 0
    return repeated and max(map(len, first)) < length / 3
