"""Which files are tables of numbers, and which of their columns is to be predicted."""

from __future__ import annotations

from typing import Any

from regard.config.words import nearest
from regard.data.glimpse import Glimpse
from regard.training.task import SURE, Claim, Given, data_section


def recognise(given: Given) -> Claim | None:
    """Columns of numbers under their names; the last one is predicted unless another is named."""
    looks = [Glimpse.at(name) for name in given.files]
    first = looks[0]
    heading = first.heading or (first.rows[0] if given.told and first.rows else None)
    if given.to is not None or heading is None or any(look.rows[:1] != first.rows[:1] for look in looks):
        return None
    columns = dict(zip(heading, first.columns, strict=True))
    named = given.settings.get("data") or {}
    target = named.get("target", heading[-1])
    if target not in columns:
        raise ValueError(f"{first.name} has no column {target}{nearest(str(target), heading)}")
    inputs = [name for name, column in columns.items() if column.numeric and name != target]
    others = [name for name, column in columns.items() if not column.numeric and name != target]
    strange = [name for name in (*others, target) if not columns[name].numeric and not columns[name].repeats]
    if not inputs or (strange and not given.told):
        return None
    how: dict[str, Any] = {"target": target}
    if not columns[target].numeric:
        how["predicts"] = "class"
    if others and "inputs" not in named:
        how["inputs"] = inputs
    data = {**data_section([{"path": name} for name in given.files], [{"path": name} for name in given.valid]), **how}
    what = "a class" if "predicts" in how else "a number"
    choice = "" if "target" in named else ", its last column (data.target=NAME chooses another)"
    return Claim(data, f"a table: training a perceptron to predict {target}, {what}{choice}", SURE)
