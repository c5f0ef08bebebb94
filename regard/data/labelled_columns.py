"""Which columns of a table or fields of JSON lines hold texts and labels, and whether the first line names them.

What a recipe names is taken as it says; the rest is recognised from the first lines, and what was recognised is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from regard.config.words import suggest
from regard.data.column_names import LABELS, TEXTS, VERDICTS, can_be_heading, find_name, find_pair
from regard.data.readers import Refusal, lines, parse_json_line, value_at
from regard.data.table_records import DELIMITERS
from regard.data.tables import TableFormat, detect_format, read_sample

SAMPLE = 2000  # records from which columns are recognised
FEW = 20  # texts below which nothing can be said of how their labels are spread
LONG = 8  # words of a mean label that is none


class ColumnRequest(NamedTuple):
    """What a recipe says of a file: names or numbers of its columns, and the rest where it is not to be recognised."""

    texts: tuple[str | int, ...] = ()
    label: str | int | None = None
    heading: bool | None = None
    delimiter: str | None = None
    usual: tuple[str, ...] = (*VERDICTS, *LABELS)


class LabelledColumns(NamedTuple):
    """Where text and label stand in every record of a table."""

    form: TableFormat
    heading: tuple[str, ...]
    """The names in the first line; none if it is a text like the others."""
    columns: tuple[int, ...]
    """Numbers of text, or both texts of a pair, and label, counted from 1."""

    @property
    def note(self) -> str:
        """What there is to say of it; nothing of the plainest kind."""
        usual = self.form.delimiter in "\t,"
        if usual and not self.heading and self.columns == (1, 2):
            return ""
        words = f"{self.roles}, between {DELIMITERS.get(self.form.delimiter, self.form.delimiter)}"
        return f"{words}, the first line is a heading" if self.heading else words

    @property
    def roles(self) -> str:
        """Which columns are text and label, in words."""
        names = [self.heading[column - 1] if self.heading else f"column {column}" for column in self.columns]
        texts = f"text is {names[0]}" if len(names) == 2 else f"texts are {names[0]} and {names[1]}"
        return f"{texts}, label is {names[-1]}"


def find_labelled_columns(path: str, request: ColumnRequest) -> LabelledColumns:
    """Find the columns of text and label in a table; what was named and is not there is an error."""
    form = detect_format(path, request.delimiter)
    sample = read_sample(path, form, SAMPLE)
    first, rows = (tuple(cell.strip() for cell in sample[0]), sample[1:]) if sample else ((), [])
    requested_names = [name for name in (*request.texts, request.label) if isinstance(name, str)]
    for name in requested_names:
        if name not in first:
            raise ValueError(
                f"{path} has no column named {name!r}{suggest(name, first)}: its first line is {_line(first)}"
            )
    columns = _columns(first, rows, request)
    heading = request.heading
    if heading is None:
        heading = bool(requested_names) or _is_heading(first, rows, columns[-1])
    return LabelledColumns(form, first if heading else (), columns)


def find_labelled_fields(path: str, fields: tuple[str, ...], usual_labels: Sequence[str] = ()) -> tuple[str, ...]:
    """Return what text and label are called in JSON lines: as asked, or as the first record calls them."""
    record = first_record(path)
    names = [name for name in record if isinstance(name, str)] if isinstance(record, dict) else []
    if not names or all(value_at(record, name) is not None for name in fields):
        return fields
    if fields == ("text", "label") and (pair := find_pair(names)) is not None:
        label = find_name(names, usual_labels or (*VERDICTS, *LABELS))
        return (names[pair[0]], names[pair[1]], names[label]) if label is not None else fields
    found = [next((name for name in names if name.lower() in usual), None) for usual in (TEXTS, LABELS)]
    return (found[0], found[1]) if fields == ("text", "label") and found[0] and found[1] else fields


def first_record(path: str) -> Any:
    """What the first line of a file of JSON lines holds; None if it cannot be read."""
    for line in lines(path):
        try:
            return parse_json_line((line or b"").decode("utf-8"))
        except (Refusal, UnicodeDecodeError):
            return None
    return None


def suspicion(labels: Sequence[str]) -> str | None:
    """Why these labels cannot be labels, in a few words: nearly every text has its own, or they are sentences."""
    if len(labels) < FEW:
        return None
    different = len(set(labels))
    if different > len(labels) / 2:
        return f"{different:,} different labels for {len(labels):,} texts"
    words = sum(len(label.split()) for label in labels) / len(labels)
    return f"labels of {words:.0f} words" if words > LONG and different > FEW else None


def _columns(first: tuple[str, ...], rows: list[list[str]], request: ColumnRequest) -> tuple[int, ...]:
    """Numbers of texts and label: as named, by the names in the first line, or the first two that can be it."""
    *texts, label = (
        first.index(column) + 1 if isinstance(column, str) else column for column in (*request.texts, request.label)
    )
    text = texts[0] if texts else None
    pair = None if texts else find_pair(first)
    if pair is not None and label is None:
        label_index = find_name(first, request.usual)
        label = None if label_index is None else label_index + 1
    if pair is not None and label is not None:
        return pair[0] + 1, pair[1] + 1, label
    if len(texts) == 2:
        others = [number for number in range(1, max(len(first), 3) + 1) if number not in texts]
        return *(int(column or 0) for column in texts), label or others[0]
    if text is None and label is None:
        text_column, label_column = (
            0 if (index := find_name(first, usual)) is None else index + 1 for usual in (TEXTS, LABELS)
        )
        if len(first) == 2 and (text_column or label_column):
            text_column, label_column = text_column or 3 - label_column, label_column or 3 - text_column
        return (
            (text_column, label_column)
            if text_column and label_column and text_column != label_column
            else _likely(rows) or (1, 2)
        )
    others = [number for number in range(1, max(len(first), 2) + 1) if number not in (text, label)]
    return text or others[0], label or others[0]


def _likely(rows: list[list[str]]) -> tuple[int, int] | None:
    """Of columns without names one that can be a label, and the longest other; nothing if the second can be."""
    width = min((len(row) for row in rows), default=0)
    if width < 2:
        return None
    columns = [[row[number].strip() for row in rows] for number in range(width)]
    odd = [suspicion(column) is not None or len(set(column)) < 2 for column in columns]
    if not odd[1] or all(odd):
        return None
    label = odd.index(False)
    length = [sum(map(len, column)) if number != label else -1 for number, column in enumerate(columns)]
    return length.index(max(length)) + 1, label + 1


def _is_heading(first: tuple[str, ...], rows: list[list[str]], label: int) -> bool:
    """Whether a first line names columns: by usual names, or short cells with a label that never comes again."""
    if len(first) < max(2, label) or not first[label - 1] or not can_be_heading(first):
        return False
    below = Counter(row[label - 1].strip() for row in rows if len(row) >= label)
    if below[first[label - 1]]:
        return False
    if any(name.lower() in TEXTS + LABELS for name in first) or find_pair(first) is not None:
        return True
    repeated = len(rows) >= FEW and len(below) <= len(rows) / 5 and min(below.values()) > 1
    length = sorted(max(map(len, row)) for row in rows)[len(rows) // 2] if rows else 0
    return repeated and max(map(len, first)) < length / 3


def _line(first: Sequence[str]) -> str:
    shown = ", ".join(first)
    return f"{shown[:100]}..." if len(shown) > 100 else shown or "empty"
