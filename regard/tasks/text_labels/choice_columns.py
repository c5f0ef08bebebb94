"""The columns of multiple-choice questions: question text, choices and label."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from regard.data.column_names import CHOICE_LISTS, PREMISES, RIGHT_CHOICES
from regard.data.columns import find_name
from regard.data.readers import value_at

STORY_COLUMN = re.compile(r"inputsentence\d+", re.IGNORECASE)  # Story Cloze has a column for each sentence
NUMBERED_COLUMN = re.compile(
    r"(choice|choix|ending|option|answer|réponse|reponse|alternative|candidate|solution|sol|randomfifthsentencequiz)"
    r"[ _-]?(\d+|[a-h])|(a)(\d+)|()([a-h])",
    re.IGNORECASE,
)
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
ColumnName = str | int
Record = Mapping[Any, Any]


class ChoiceColumns(NamedTuple):
    """The columns of question text, choices and label, by name, or by number in a table."""

    given: tuple[ColumnName, ...]
    choices: tuple[ColumnName, ...]
    label: ColumnName | None

    def list_others(self, record: Record) -> list[str]:
        """Return the names of the other columns of a record."""
        chosen = {str(column).partition(".")[0] for column in (*self.given, *self.choices, self.label)}
        names = [name for name in record if isinstance(name, str)]
        numbers = {name: str(number) for number, name in enumerate(names, start=1)}
        return [name for name in names if name and name.partition(".")[0] not in chosen and numbers[name] not in chosen]

    @property
    def note(self) -> str:
        """Description of the columns."""
        choices = (
            f"choices are {_join_names(self.choices)}" if len(self.choices) > 1 else f"choices are in {self.choices[0]}"
        )
        return f"given is {_join_names(self.given)}, {choices}, label is {self.label}"


def usual_columns(record: Record) -> ChoiceColumns:
    """Return the columns of a record that have usual names, if any."""
    names = [name for name in record if isinstance(name, str)]
    story_columns = tuple(name for name in names if STORY_COLUMN.fullmatch(name))
    premise_places = (find_name(names, [name]) for name in PREMISES)
    premise_columns = (names[place] for place in premise_places if place is not None)
    label_place = find_name(names, RIGHT_CHOICES)
    label_column = None if label_place is None else names[label_place]
    return ChoiceColumns(
        story_columns or tuple(name for name in premise_columns if isinstance(record[name], str)),
        _find_choice_columns(record, [name for name in names if name != label_column]),
        label_column,
    )


def _find_choice_columns(record: Record, names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of choices: a list, or numbered columns in the order of their numbers."""
    for name in (candidate for candidate in names if find_name([candidate], CHOICE_LISTS) is not None):
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
    largest_group = max(groups.values(), key=len, default=[])
    return tuple(name for _, name in sorted(largest_group)) if len(largest_group) > 1 else ()


def lookup_column(record: Record, name: ColumnName) -> Any:
    """Return the value of a column, by its name or number, or None."""
    return record.get(name) if isinstance(name, int) else value_at(record, name)


def _join_names(names: Sequence[ColumnName]) -> str:
    *others, last = map(str, names)
    return f"{', '.join(others)} and {last}" if others else last
