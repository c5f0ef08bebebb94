"""Parsing of pairs of texts: separated by a tab, as JSON objects, or in files."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.data.columns import PAIR_ROLES, ColumnChoice, ColumnSample, Role, choose_columns, choose_pair, pair_roles
from regard.data.line_report import LineReport
from regard.data.readers import lines, suffix
from regard.data.tables import TABLE_SUFFIXES, is_json, read_rows

PAIR_REMEDY = 'write them with a tab between, or as {"text1": "...", "text2": "..."}'
Pair = tuple[str, str]


def parse_pair(text: str, names: Sequence[str] = (), *, where: str = "") -> Pair:
    """Parse a pair typed by a user, or a line of a file; `names` are those of the two texts in training."""
    place = f"{where}: " if where else ""
    if text.lstrip().startswith("{"):
        texts = _parse_json_pair(text, names, place)
    else:
        texts = [cell.strip() for cell in text.split("\t")]
        if len(texts) != 2:
            problem = "no second text" if len(texts) == 1 else f"{len(texts)} texts"
            raise ValueError(f"{place}{text.strip()[:60]!r} has {problem}, and this model reads pairs: {PAIR_REMEDY}")
    if not all(texts):
        raise ValueError(f"{place}one text of the pair {text.strip()[:60]!r} is empty: {PAIR_REMEDY}")
    return texts[0], texts[1]


def both_orders(pair: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return a pair in both orders."""
    return [pair, pair[::-1]]


def pair_column_names(data: Mapping[str, Any]) -> list[str]:
    """Return the names of the two texts in a model's training files, if they have any."""
    file = data["file"]
    names = data.get("text_columns") or file.get("text") or list(file.get("fields", ()))[:-1]
    return list(names) if len(names) == 2 and all(isinstance(name, str) for name in names) else []


def read_pairs(path: Path, names: Sequence[str] = (), columns: Sequence[int] = ()) -> list[Pair]:
    """Read the pairs of a file: JSON lines, a table with a heading, or two columns as in training."""
    name = str(path)
    if is_json(name):
        pairs = [
            parse_pair((line or b"").decode("utf-8", "replace"), names, where=f"{name}:{number}")
            for number, line in enumerate(lines(name), start=1)
            if (line or b"").strip()
        ]
    else:
        pairs = list(_read_table(name, names, columns))
    if not pairs:
        raise ValueError(f"{name} is empty: give a file with at least one pair")
    return pairs


def _read_table(name: str, names: Sequence[str], columns: Sequence[int]) -> Iterator[Pair]:
    """Yield the pairs of a table: from columns named in the first line, the only two, or those of training."""
    tally = LineReport()
    choice: ColumnChoice | None = None
    for line, row in read_rows(name, tally):
        if choice is None:
            choice = _choose_pair_columns(name, [cell.strip() for cell in row], names, columns)
            if choice.by_name:
                continue
        places = list(choice.places.values())
        if len(row) <= max(places) or not all(row[place].strip() for place in places):
            raise ValueError(f"{name}:{line}: a pair without its second text: {PAIR_REMEDY}")
        yield row[places[0]].strip(), row[places[1]].strip()
    tally.check(0.0, [name], unit="pair")


def _choose_pair_columns(path: str, first: Sequence[str], names: Sequence[str], columns: Sequence[int]) -> ColumnChoice:
    """Choose the two columns of a table by its first line, and report guesses and unused columns."""
    numbers = (1, 2) if len(first) == 2 or not columns else columns
    numbered = [Role(name=role, column=number) for role, number in zip(PAIR_ROLES, numbers, strict=True)]
    roles = pair_roles(first, names)
    choice = choose_columns(ColumnSample(path, tuple(first) if roles else (), [first]), roles or numbered)
    if not roles and names and suffix(path) in TABLE_SUFFIXES:
        problem = f"no columns named {' and '.join(names)} as in training"
        warnings.warn(f"{path}: {problem}: {choice.describe()}, and the first line is read too", stacklevel=1)
    elif choice.left_out:
        warnings.warn(f"{path}: {choice.describe()}", stacklevel=1)
    return choice


def _parse_json_pair(text: str, trained_names: Sequence[str], place: str) -> list[str]:
    """Return the two texts of a JSON object: by the names of training, by usual names, or its only two texts."""
    try:
        record: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"{place}invalid JSON, {text.strip()[:60]!r}: {PAIR_REMEDY}") from None
    names = [name for name, value in record.items() if isinstance(value, str)]
    pair = choose_pair(names, trained_names) or (tuple(range(len(names))) if len(names) == 2 else ())
    if not pair:
        raise ValueError(f"{place}no pair of texts in {text.strip()[:60]!r}: {PAIR_REMEDY}")
    return [record[names[index]].strip() for index in pair]
