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

    given: Texts
    right: str
    place: str


def read(name: str, template: Template) -> tuple[list[Example], int]:
    """The examples of a file, and how many texts were left out because their label has no answer."""
    found, left = [], 0
    for line, given, label in _records(name, template):
        right = template.label(label) if template.kind == "choose" else label
        if right is not None:
            found.append(Example(given, right, f"{name}:{line}"))
        elif template.others == "leave":
            left += 1
        else:
            raise ValueError(
                f"{name}:{line}: the label {label!r} has no answer: name one of {', '.join(template.labels)} for it "
                f"(names.{label}=...), or leave such texts out (others=leave)"
            )
    if not found:
        raise ValueError(f"{name}: no text with a label that has an answer: give at least one")
    return found, left


def _records(name: str, template: Template) -> Iterator[tuple[int, Texts, str]]:
    """(line, texts, label) of everything in a file."""
    report = StrictReport(path=name)
    rows: Iterator[tuple[int, Any]] = read_objects(name, report) if is_json(name) else read_rows(name, report)
    columns: list[Any] | None = None
    for line, row in rows:
        if columns is None:
            columns, heading = _columns(name, row, template)
            if heading:
                continue
        texts = [_value(name, line, row, column) for column in columns]
        yield line, Texts(*texts[:-1]), texts[-1]
    if columns is None:
        raise ValueError(f"{name} is empty: give a file with at least one text and its label")


def _columns(name: str, first: Any, template: Template) -> tuple[list[Any], bool]:
    """Where texts and label stand, and whether the first record is a heading."""
    wanted = [template.columns.x, *([template.columns.y] if template.pair else []), template.columns.label]
    usual = [FIRST_TEXTS, *([SECOND_TEXTS] if template.pair else []), REFERENCES]
    there = [str(each).strip() for each in first]
    found = [_named(name, there, each, some) for each, some in zip(wanted, usual, strict=True)]
    if isinstance(first, dict):
        missing = [some[0] for each, some in zip(found, usual, strict=True) if not isinstance(each, str)]
        if missing:
            fields = ", ".join(there)
            raise ValueError(f"{name}: which field is the {missing[0]}? name it, as columns.x=... (there are {fields})")
        return found, False
    heading = any(isinstance(each, str) for each in found)
    if heading and not all(each is not None for each in found):
        missing = [f"columns.{key}" for key, each in zip(_keys(template), found, strict=True) if each is None]
        raise ValueError(f"{name}: its heading is {', '.join(there)}: name what is meant, as {missing[0]}=...")
    places = [there.index(each) + 1 if isinstance(each, str) else each for each in found]
    standing = [*range(1, len(places)), len(there)]  # texts first, the label last
    return [each or usual for each, usual in zip(places, standing, strict=True)], heading


def _keys(template: Template) -> Sequence[str]:
    return ("x", "y", "label") if template.pair else ("x", "label")


def _named(name: str, there: Sequence[str], wanted: str | int | None, usual: Sequence[str]) -> str | int | None:
    """A column as somebody named it, or as it is usually called."""
    if isinstance(wanted, str) and wanted not in there:
        raise ValueError(f"{name} has no column named {wanted!r}{suggest(wanted, there)}: it has {', '.join(there)}")
    if wanted is not None:
        return wanted
    place = find_name(there, usual)
    return None if place is None else there[place]


def _value(name: str, line: int, row: Any, column: Any) -> str:
    if isinstance(row, dict):
        found = value_at(row, column)
        if isinstance(found, (bool, int)):
            return str(found).lower()  # as JSON writes them
        if not isinstance(found, str):
            raise ValueError(f"{name}:{line}: no text named {column}")
        return found
    if len(row) < column:
        raise ValueError(f"{name}:{line}: {quantity(len(row), 'column')}, wanted column {column}")
    return row[column - 1].strip()
