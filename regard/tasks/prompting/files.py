"""Texts with their labels or references as they stand in files to measure on: no line is left out or cleaned.

JSON lines by their names, or columns of a table by those of its heading or by their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from regard.config.words import quantity
from regard.data.column_names import FIRST_TEXTS, REFERENCES, SECOND_TEXTS
from regard.data.columns import ColumnChoice, ColumnSample, Role, choose_columns
from regard.data.readers import value_at
from regard.data.tables import StrictReport, is_json, read_objects, read_rows
from regard.tasks.prompting.template import Template, Texts


class Example(NamedTuple):
    """A text to measure on, what is right, and where it stands as file:line."""

    texts: Texts
    right: str
    place: str


def read(name: str, template: Template) -> tuple[list[Example], list[str]]:
    """Return the examples of a file, and notes on the columns and texts that are left out."""
    examples, skipped, notes = [], 0, list[str]()
    for line, texts, label in _iterate_records(name, template, notes):
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
    if skipped:
        whose = "its label" if skipped == 1 else "their labels"
        notes.append(f"{name}: {quantity(skipped, 'text')} left out: no answer for {whose}")
    return examples, notes


def _iterate_records(name: str, template: Template, notes: list[str]) -> Iterator[tuple[int, Texts, str]]:
    """Yield (line, texts, label) of everything in a file, and note which columns are left out."""
    report = StrictReport(path=name)
    rows: Iterator[tuple[int, Any]] = read_objects(name, report) if is_json(name) else read_rows(name, report)
    choice: ColumnChoice | None = None
    columns: list[str | int] = []
    for line, row in rows:
        if choice is None:
            choice = _choose_columns(name, row, template)
            notes += [f"{name}: {choice.describe()}"] if choice.left_out else []
            is_record = isinstance(row, dict)
            columns = [choice.column_name(role) if is_record else place + 1 for role, place in choice.places.items()]
            if choice.by_name and not is_record:
                continue
        texts = [_read_cell(name, line, row, column) for column in columns]
        yield line, Texts(*texts[:-1]), texts[-1]
    if choice is None:
        raise ValueError(f"{name} is empty: give a file with at least one text and its label")


def _choose_columns(name: str, first: Any, template: Template) -> ColumnChoice:
    """Choose the columns of texts and label: by names in JSON and in a heading, else texts first and the label last."""
    columns, pair = template.columns, template.pair
    names = tuple(str(column).strip() for column in first)
    settings = {
        "x": Role(name="first text" if pair else "text", column=columns.x, usual=FIRST_TEXTS),
        **({"y": Role(name="second text", column=columns.y, usual=SECOND_TEXTS)} if pair else {}),
        "label": Role(name="label", column=columns.label, usual=REFERENCES),
    }
    roles = [
        replace(role, required=False, setting=f"name it, as columns.{key}=COLUMN") for key, role in settings.items()
    ]
    choice = choose_columns(ColumnSample(name, names), roles)
    if isinstance(first, dict) or choice.by_name:
        return choose_columns(choice.sample, [replace(role, required=True) for role in roles])
    positions = [*range(1, len(roles)), len(names)]
    bare = ColumnSample(name, rows=[first])
    return choose_columns(bare, [replace(role, position=n) for role, n in zip(roles, positions, strict=True)])


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
