"""Pairs of texts as somebody gives them: a tab between the two, an object of JSON, or a file of these."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.data.column_names import find_pair
from regard.data.line_report import LineReport
from regard.data.readers import lines, suffix
from regard.data.tables import TABLE_SUFFIXES, is_json, read_rows

PAIR_REMEDY = 'write them with a tab between, or as {"text1": "...", "text2": "..."}'
Pair = tuple[str, str]


def parse_pair(text: str, known: Sequence[str] = (), *, where: str = "") -> Pair:
    """Two texts that were typed, or stand in a line; `known` are the names that they had in training."""
    place = f"{where}: " if where else ""
    if text.lstrip().startswith("{"):
        found = _parse_json_pair(text, known, place)
    else:
        found = [cell.strip() for cell in text.split("\t")]
        if len(found) != 2:
            problem = "no second text" if len(found) == 1 else f"{len(found)} texts"
            raise ValueError(f"{place}{text.strip()[:60]!r} has {problem}, and this model reads pairs: {PAIR_REMEDY}")
    if not all(found):
        raise ValueError(f"{place}one text of the pair {text.strip()[:60]!r} is empty: {PAIR_REMEDY}")
    return found[0], found[1]


def both_orders(pair: tuple[str, ...]) -> list[tuple[str, ...]]:
    """A pair in both its orders."""
    return [pair, pair[::-1]]


def pair_column_names(data: Mapping[str, Any]) -> list[str]:
    """What the two texts are called in the files that a model was trained on, where that is known."""
    file = data["file"]
    given = data.get("text_columns") or file.get("text") or list(file.get("fields", ()))[:-1]
    return list(given) if len(given) == 2 and all(isinstance(each, str) for each in given) else []


def read_pairs(path: Path, known: Sequence[str] = (), columns: Sequence[int] = ()) -> list[Pair]:
    """The pairs of a file: JSON lines, a table whose heading names them, or two columns; others as in training."""
    name = str(path)
    if is_json(name):
        found = [
            parse_pair((line or b"").decode("utf-8", "replace"), known, where=f"{name}:{number}")
            for number, line in enumerate(lines(name), start=1)
            if (line or b"").strip()
        ]
    else:
        found = list(_read_table(name, known, columns))
    if not found:
        raise ValueError(f"{name} is empty: give a file with at least one pair")
    return found


def _read_table(name: str, known: Sequence[str], columns: Sequence[int]) -> Iterator[Pair]:
    """Pairs of columns: those that the first line names, the only two, or those of the training files."""
    tally = LineReport()
    places: Sequence[int] | None = None
    for line, row in read_rows(name, tally):
        if places is None:
            first = [cell.strip() for cell in row]
            there = known and all(each in first for each in known)
            places = [first.index(each) for each in known] if there else find_pair(first)
            if places is not None:
                continue
            places = (0, 1) if len(first) == 2 or not columns else [column - 1 for column in columns]
            if known and suffix(name) in TABLE_SUFFIXES:
                told = f"no columns named {' and '.join(known)} as in training"
                read = " and ".join(str(place + 1) for place in places)
                warnings.warn(f"{name}: {told}: columns {read} are read, the first line too", stacklevel=1)
        if len(row) <= max(places) or not all(row[place].strip() for place in places):
            raise ValueError(f"{name}:{line}: a pair without its second text: {PAIR_REMEDY}")
        yield row[places[0]].strip(), row[places[1]].strip()
    tally.check(0.0, [name], unit="pair")


def _parse_json_pair(text: str, known: Sequence[str], place: str) -> list[str]:
    """The two texts of an object of JSON: by the names of training, by usual ones, or the only two there are."""
    try:
        record: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"{place}invalid JSON, {text.strip()[:60]!r}: {PAIR_REMEDY}") from None
    names = [name for name, value in record.items() if isinstance(value, str)]
    usual = find_pair(names)
    chosen = list(known) if known and all(each in names for each in known) else []
    chosen = chosen or ([names[at] for at in usual] if usual else names if len(names) == 2 else [])
    if len(chosen) != 2:
        raise ValueError(f"{place}no pair of texts in {text.strip()[:60]!r}: {PAIR_REMEDY}")
    return [record[name].strip() for name in chosen]
