"""Texts with their labels or references as they stand in files to measure on: no line is left out or cleaned.

JSON lines by their names, or columns of a table by those of its heading or by their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from regard.config.words import quantity, suggest
from regard.data.column_names import FIRST_TEXTS, REFERENCES, SECOND_TEXTS, find_name
from regard.data.readers import value_at
from regard.data.tables import StrictReport, is_json, read_objects, read_rows
from regard.tasks.prompting.template import Template, Texts


class Example(NamedTuple):
    """A text to measure on, what is right, and where it stands as file:line."""

    texts: Texts
    right: str
    place: str


def read(name: str, template: Template) -> tuple[list[Example], int]:
    """The examples of a file, and how many texts were left out because their label has no answer."""
    examples, skipped = [], 0
    for line, texts, label in _iterate_records(name, template):
        right = template.label(label) if template.kind == "choose" else label
        if right is not None:
            examples.append(Example(texts, right, f"{name}:{line}"))
        elif template.others == "leave":
            skipped += 1
        else:
            raise ValueError(
                f"{name}:{line}: the label {label!r} has no answer: name one of {', '.join(template.labels)} for it "
                f"(names.{label}=...), or leave such texts out (others=leave)"
            )
    if not examples:
        raise ValueError(f"{name}: no text with a label that has an answer: give at least one")
    return examples, skipped


def _iterate_records(name: str, template: Template) -> Iterator[tuple[int, Texts, str]]:
    """(line, texts, label) of everything in a file."""
    report = StrictReport(path=name)
    rows: Iterator[tuple[int, Any]] = read_objects(name, report) if is_json(name) else read_rows(name, report)
    columns: list[Any] | None = None
    for line, row in rows:
        if columns is None:
            columns, heading = _find_columns(name, row, template)
            if heading:
                continue
        texts = [_read_cell(name, line, row, column) for column in columns]
        yield line, Texts(*texts[:-1]), texts[-1]
    if columns is None:
        raise ValueError(f"{name} is empty: give a file with at least one text and its label")


def _find_columns(name: str, first: Any, template: Template) -> tuple[list[Any], bool]:
    """Where texts and label stand, and whether the first record is a heading."""
    requested = [template.columns.x, *([template.columns.y] if template.pair else []), template.columns.label]
    usual = [FIRST_TEXTS, *([SECOND_TEXTS] if template.pair else []), REFERENCES]
    headings = [str(column).strip() for column in first]
    columns = [
        _find_column(name, headings, column, usual_names) for column, usual_names in zip(requested, usual, strict=True)
    ]
    if isinstance(first, dict):
        missing = [
            usual_names[0] for column, usual_names in zip(columns, usual, strict=True) if not isinstance(column, str)
        ]
        if missing:
            fields = ", ".join(headings)
            raise ValueError(f"{name}: which field is the {missing[0]}? name it, as columns.x=... (there are {fields})")
        return columns, False
    heading = any(isinstance(column, str) for column in columns)
    if heading and not all(column is not None for column in columns):
        missing = [
            f"columns.{key}" for key, column in zip(_column_keys(template), columns, strict=True) if column is None
        ]
        raise ValueError(f"{name}: its heading is {', '.join(headings)}: name what is meant, as {missing[0]}=...")
    places = [headings.index(column) + 1 if isinstance(column, str) else column for column in columns]
    default_numbers = [*range(1, len(places)), len(headings)]  # texts first, the label last
    return [column or usual for column, usual in zip(places, default_numbers, strict=True)], heading


def _column_keys(template: Template) -> Sequence[str]:
    return ("x", "y", "label") if template.pair else ("x", "label")


def _find_column(
    name: str, headings: Sequence[str], requested: str | int | None, usual: Sequence[str]
) -> str | int | None:
    """A column as somebody named it, or as it is usually called."""
    if isinstance(requested, str) and requested not in headings:
        raise ValueError(
            f"{name} has no column named {requested!r}{suggest(requested, headings)}: it has {', '.join(headings)}"
        )
    if requested is not None:
        return requested
    place = find_name(headings, usual)
    return None if place is None else headings[place]


def _read_cell(name: str, line: int, row: Any, column: Any) -> str:
    if isinstance(row, dict):
        cell = value_at(row, column)
        if isinstance(cell, (bool, int)):
            return str(cell).lower()  # as JSON writes them
        if not isinstance(cell, str):
            raise ValueError(f"{name}:{line}: no text named {column}")
        return cell
    if len(row) < column:
        raise ValueError(f"{name}:{line}: {quantity(len(row), 'column')}, wanted column {column}")
    return row[column - 1].strip()
