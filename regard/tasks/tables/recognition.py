"""Which files are tables of numbers, and which of their columns is to be predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from regard.config.words import suggest_name
from regard.data.glimpse import Glimpse
from regard.data.tables import read_even_rows
from regard.training.task import LIKELY, SURE, Claim, Given, data_section


def recognise(given: Given) -> Claim | None:
    """Columns of numbers under their names; the last one is predicted unless another is named."""
    if given.to is not None:
        return None
    named = given.settings.get("data") or {}
    if given.is_declared:  # whatever is wrong with it is said by the reader
        _, heading = next(read_even_rows(given.files[0]))
        return _claim(given, heading, named, SURE)
    looks = [Glimpse.at(name) for name in given.files]
    first = looks[0]
    if first.heading is None or any(look.rows[:1] != first.rows[:1] for look in looks):
        return None
    columns = dict(zip(first.heading, first.columns, strict=True))
    target = _target(first.name, first.heading, named)
    inputs = [column for name, column in columns.items() if column.mostly_numeric and name != target]
    strange = [column for column in columns.values() if not column.mostly_numeric and not column.repeats]
    if not inputs or (strange and not first.mixes_texts_and_numbers):
        return None
    return _claim(given, first.heading, named, LIKELY if strange else SURE)


def _claim(given: Given, heading: Sequence[str], named: Mapping[str, Any], confidence: int) -> Claim:
    target = _target(given.files[0], heading, named)
    files = data_section([{"path": name} for name in given.files], [{"path": name} for name in given.valid])
    choice = "" if "target" in named else ", its last column (data.target=NAME chooses another)"
    return Claim({**files, "target": target}, f"a table to predict {target}{choice}: training a perceptron", confidence)


def _target(name: str, heading: Sequence[str], named: Mapping[str, Any]) -> str:
    target = str(named.get("target", heading[-1]))
    if target not in heading:
        raise ValueError(f"{name} has no column {target}{suggest_name(target, heading)}")
    return target
