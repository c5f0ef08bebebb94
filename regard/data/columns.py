"""Choose which column of a table, or field of JSON lines, plays which role: the text, its label, a path, a number.

A column is the one that somebody names, else the one that has the name of training, else one with a usual name, else
the one whose cells look like it, else the one at its usual position. How it was chosen and which columns are left out
are part of the answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from regard.config.words import suggest_name
from regard.data.column_content import Column, Content, is_number
from regard.data.column_names import PAIRS

SHOWN = 4  # columns that a message names
LONGEST_NAME = 30  # characters of a name that a message shows
PAIR_ROLES = ("first text", "second text")
Reason = Literal["named", "numbered", "training", "usual", "content", "position"]


@dataclass(frozen=True, kw_only=True)
class Role:
    """A role that a column plays, and how its column is known."""

    name: str
    """What messages call it, such as text, label or paths of pictures."""
    column: str | int | None = None
    """The column that somebody named: its name, or its number counted from 1."""
    trained: Sequence[str] = ()
    """What the column was called in training."""
    usual: Sequence[str] = ()
    """What such columns are usually called, the likeliest first."""
    content: Content | None = None
    """What such columns hold."""
    position: int | None = None
    """Where such a column stands if nothing else tells, counted from 1."""
    needs_content: bool = False
    """True if a usual name counts only where the cells fit the content, as where the kind of a file is guessed."""
    required: bool = True
    setting: str = ""
    """What names the column by hand, as the end of an error; {column} stands for one that may be meant."""


@dataclass(frozen=True)
class ColumnSample:
    """The names of the columns of a table, as far as it has some, and its first rows."""

    path: str
    names: tuple[str, ...] = ()
    rows: Sequence[Sequence[str]] = ()

    @classmethod
    def of_records(cls, path: str, records: Sequence[Mapping[str, Any]], *, texts: bool = False) -> ColumnSample:
        """Return the fields that all JSON objects have and that hold a text, a number or a truth value.

        With `texts`, those that hold a text, and those of objects inside them too, by names with dots.
        """
        flat = [dict(_flatten_texts(record) if texts else _list_values(record)) for record in records]
        names = tuple(name for name in (flat[0] if flat else {}) if all(name in record for record in flat))
        return cls(path, names, [[record[name] for name in names] for record in flat])

    @cached_property
    def columns(self) -> list[Column]:
        """The cells of the columns; a row that is too short has none in the last ones."""
        return [
            Column(tuple(row[place].strip() for row in self.rows if len(row) > place)) for place in range(self.width)
        ]

    @cached_property
    def width(self) -> int:
        """Number of columns that have names, or that most rows have."""
        return len(self.names) or max(Counter(map(len, self.rows)).most_common(1), default=(0, 0))[0]


@dataclass(frozen=True)
class ColumnChoice:
    """Which column plays which role, and why."""

    sample: ColumnSample
    places: dict[str, int] = field(default_factory=dict)
    """The place of the column of each role, counted from 0; a role that no column plays is not there."""
    reasons: dict[str, Reason] = field(default_factory=dict)

    def take(self, role: Role, place: int | None, reason: Reason) -> None:
        """Give a role to the column at a place; None leaves the role open."""
        if place is not None:
            self.places[role.name] = place
            self.reasons[role.name] = reason

    @property
    def by_name(self) -> bool:
        """True if the name of any column decided."""
        return not {"named", "training", "usual"}.isdisjoint(self.reasons.values())

    def column_name(self, role: str) -> str:
        """The name of the column of a role, or its number in words."""
        return name_column(self.sample.names, self.places[role])

    @property
    def left_out(self) -> list[str]:
        """The columns that play no role."""
        others = (place for place in range(self.sample.width) if place not in self.places.values())
        return [name for place in others if (name := name_column(self.sample.names, place))]

    def describe(self, layout: str = "") -> str:
        """Say which column plays which role and what is left out, such as `text is review; id is left out`."""
        roles = ", ".join(f"{role} is {self.column_name(role)}" for role in self.places)
        return f"{roles}{layout}{describe_left_out(self.left_out)}"


def choose_columns(sample: ColumnSample, roles: Sequence[Role]) -> ColumnChoice:
    """Choose a column for every role; one that is required and cannot be told is an error that says how to name it."""
    choice = ColumnChoice(sample)
    for role in roles:
        if role.column is not None:
            place = locate_column(sample.path, sample.names, role.column, remedy=_describe_setting(role, sample))
            is_name = isinstance(role.column, str) and find_name(sample.names, [role.column]) is not None
            choice.take(role, place, "named" if is_name else "numbered")
    for role in _open_roles(roles, choice):
        choice.take(role, find_name(sample.names, role.trained, choice.places.values()), "training")
    for role in _open_roles(roles, choice):
        unsuitable = _unsuitable_places(role, sample) if role.needs_content else []
        choice.take(role, find_name(sample.names, role.usual, [*choice.places.values(), *unsuitable]), "usual")
    if not all(_is_in_position(role, choice) for role in roles):
        choice = _choose_by_content(_open_roles(roles, choice), choice)
    for role in _open_roles(roles, choice):
        if role.position is not None:
            free = (place for place in range(len(roles)) if place not in choice.places.values())
            place = role.position - 1
            choice.take(role, next(free) if place in choice.places.values() else place, "position")
        elif role.required:
            raise unclear_column_error(role, sample)
    places = {role.name: choice.places[role.name] for role in roles if role.name in choice.places}
    return ColumnChoice(sample, places, choice.reasons)


def locate_column(path: str, names: Sequence[str], column: str | int, *, remedy: str = "") -> int:
    """Return the place of a column that somebody named or numbered; one that is not there is an error."""
    if isinstance(column, int):
        return column - 1
    if column in names:
        return list(names).index(column)
    place = find_name(names, [column])
    if place is None and column.isdecimal() and 1 <= int(column) <= len(names):
        return int(column) - 1
    if place is None:
        raise missing_column_error(path, names, column, remedy=remedy)
    return place


def check_columns(path: str, names: Sequence[str], columns: Sequence[str], *, remedy: str = "") -> None:
    """Stop at a column that a table does not have by exactly this name."""
    for column in columns:
        if column not in names:
            raise missing_column_error(path, names, column, remedy=remedy or "add it, or name one that is there")


def missing_column_error(path: str, names: Sequence[str], column: str | int, *, remedy: str = "") -> ValueError:
    """Return the error of a column that is named and not there: what was probably meant, and what to do."""
    close = suggest_name(str(column), names)
    colon = ":" if remedy and not close.endswith("?") else ""
    return ValueError(f"{path} has no column {column!r}{close}{colon}{remedy and f' {remedy}'}")


def unclear_column_error(role: Role, sample: ColumnSample) -> ValueError:
    """Return the error of a column that cannot be told: which there are, and how to name one."""
    columns = [name_column(sample.names, place) for place in range(sample.width)]
    trained = f", and none is called {role.trained[0]!r} as in training" if role.trained else ""
    shown = list_columns(columns) or "there is none"
    remedy = _describe_setting(role, sample) or "name it"
    return ValueError(f"{sample.path}: cannot tell which column holds the {role.name} ({shown}){trained}: {remedy}")


def pair_roles(names: Sequence[str], trained: Sequence[str] = ()) -> list[Role]:
    """Return the roles of two texts that belong together, if columns have their names of training or usual ones."""
    pair = choose_pair(names, trained) or ()
    return [Role(name=name, usual=(names[place],)) for name, place in zip(PAIR_ROLES, pair, strict=False)]


def choose_pair(names: Sequence[str], trained: Sequence[str] = ()) -> tuple[int, int] | None:
    """Return the places of two texts that belong together, by their names in training or by usual ones."""
    for pair in (trained, *PAIRS):
        places = find_names(names, pair)
        if len(places) == 2:
            return places[0], places[1]
    return None


def find_name(names: Sequence[str], usual: Sequence[str], excluded: Iterable[int] = ()) -> int | None:
    """Return the place of the first of some usual names that is there, whatever its capitals."""
    folded = [name.strip().casefold() for name in names]
    for place in excluded:
        folded[place : place + 1] = [""]
    candidates = (name.strip().casefold() for name in usual)
    return next((folded.index(name) for name in candidates if name and name in folded), None)


def find_names(names: Sequence[str], required: Sequence[str]) -> tuple[int, ...]:
    """Return the places of all of these names, whatever their capitals; none unless all of them are there."""
    places = tuple(find_name(names, [name]) for name in required)
    return tuple(place for place in places if place is not None) if None not in places else ()


def can_be_heading(cells: Sequence[str]) -> bool:
    """True if cells can name columns: all there, all different, no numbers; a spreadsheet may leave the last blank."""
    names = list(cells)
    while names and not names[-1]:
        names.pop()
    return all(names) and len(set(names)) == len(names) and not any(is_number(name.replace(",", ".")) for name in names)


def list_columns(names: Sequence[str]) -> str:
    """Return the first names of columns, shortened, as a message has room for."""
    shortened = (name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 3]}..." for name in names[:SHOWN])
    shown = ", ".join(shortened)
    return f"{shown}, ..." if len(names) > SHOWN else shown


def describe_left_out(names: Sequence[str]) -> str:
    """Say which columns are left out, as the end of a sentence; nothing where none is."""
    return f"; {list_columns(names)} {'is' if len(names) == 1 else 'are'} left out" if names else ""


def suggest_column(sample: ColumnSample) -> str:
    """Return the column of the longest texts as it might be asked for: by its name if that is one, else by number."""
    if not sample.width:
        return "NAME"
    lengths = [sum(map(len, column.cells)) for column in sample.columns]
    lengths = lengths if any(lengths) else list(map(len, sample.names))
    place = next(place for place, length in enumerate(lengths) if length >= max(lengths) / 2)
    name = sample.names[place] if place < len(sample.names) else ""
    return name if name.isidentifier() and can_be_heading(sample.names) else str(place + 1)


def name_column(names: Sequence[str], place: int) -> str:
    """Return the name of a column, or its number in words where no column has a name."""
    return names[place] if place < len(names) else f"column {place + 1}"


def _open_roles(roles: Sequence[Role], choice: ColumnChoice) -> list[Role]:
    return [role for role in roles if role.name not in choice.places]


def _is_in_position(role: Role, choice: ColumnChoice) -> bool:
    """True if the column of a role stands at its usual position, or the one that does can be it."""
    place, columns = (role.position or 0) - 1, choice.sample.columns
    if role.name in choice.places:
        return role.position is None or choice.places[role.name] == place
    if place in choice.places.values() or not 0 <= place < len(columns):
        return False
    return role.content is None or role.content.is_possible(columns[place])


def _choose_by_content(roles: Sequence[Role], choice: ColumnChoice) -> ColumnChoice:
    """Choose columns by what they hold; where that leaves a role with a usual position open, positions count alone."""
    by_content = ColumnChoice(choice.sample, dict(choice.places), dict(choice.reasons))
    for role in reversed(roles):  # a text is what is no label, and stands before it
        by_content.take(role, _find_content(role, by_content), "content")
    is_complete = all(role.name in by_content.places or role.position is None for role in roles)
    return by_content if is_complete else choice


def _find_content(role: Role, choice: ColumnChoice) -> int | None:
    """Return the place of the column that is likeliest to hold what a role wants; None where none does."""
    if role.content is None:
        return None
    columns = choice.sample.columns
    places = [place for place in range(len(columns)) if place not in choice.places.values()]
    fitting = [place for place in places if role.content.fits(columns[place])]
    if not fitting and role.position is not None:  # somewhere it must be
        fitting = [place for place in places if role.content.is_possible(columns[place])]
    preference, position = role.content.preference, role.position
    return max(fitting, key=lambda place: (preference(columns[place]), place + 1 == position), default=None)


def _unsuitable_places(role: Role, sample: ColumnSample) -> list[int]:
    """The places of columns that do not hold what a role wants."""
    return [place for place, column in enumerate(sample.columns) if role.content and not role.content.fits(column)]


def _describe_setting(role: Role, sample: ColumnSample) -> str:
    """Say how the column of a role is named by hand, as the end of an error."""
    return role.setting.format(column=suggest_column(sample)) if role.setting else ""


def _list_values(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the names and values of a JSON object that a table could hold, as JSON writes them."""
    for name, value in record.items():
        if isinstance(value, bool | int | float | str):
            yield name, value if isinstance(value, str) else str(value).lower()


def _flatten_texts(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the names and texts of a JSON object, then those of objects inside it."""
    yield from ((f"{prefix}{name}", value) for name, value in record.items() if isinstance(value, str))
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from _flatten_texts(value, f"{prefix}{name}.")
