"""Which files are tables of numbers, and which of their columns is to be predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from regard.data.columns import check_columns
from regard.data.sniff import FilePreview
from regard.data.tables import read_even_rows
from regard.training.task import LIKELY, SURE, Claim, Given, data_section


def recognise(inputs: Given) -> Claim | None:
    """Recognise columns of numbers under their names; the last one is predicted unless another is named."""
    if inputs.to is not None:
        return None
    settings = inputs.settings.get("data") or {}
    if inputs.is_declared:  # whatever is wrong with it is said by the reader
        _, heading = next(read_even_rows(inputs.files[0]))
        return _claim(inputs, heading, settings, SURE)
    previews = [FilePreview.read(name) for name in inputs.files]
    first = previews[0]
    if first.heading is None or any(preview.rows[:1] != first.rows[:1] for preview in previews):
        return None
    columns = dict(zip(first.heading, first.columns, strict=True))
    target = _target(first.name, first.heading, settings)
    numeric_columns = [column for name, column in columns.items() if column.is_mostly_numeric and name != target]
    text_columns = [column for column in columns.values() if not column.is_mostly_numeric and not column.is_categorical]
    if not numeric_columns or (text_columns and not first.mixes_texts_and_numbers):
        return None
    return _claim(inputs, first.heading, settings, LIKELY if text_columns else SURE)


def _claim(inputs: Given, heading: Sequence[str], settings: Mapping[str, Any], confidence: int) -> Claim:
    target = _target(inputs.files[0], heading, settings)
    files = data_section([{"path": name} for name in inputs.files], [{"path": name} for name in inputs.valid])
    choice = "" if "target" in settings else ", its last column (data.target=NAME chooses another)"
    return Claim({**files, "target": target}, f"a table to predict {target}{choice}: training a perceptron", confidence)


def _target(name: str, heading: Sequence[str], settings: Mapping[str, Any]) -> str:
    target = str(settings.get("target", heading[-1]))
    check_columns(name, heading, [target], remedy="name it by data.target=COLUMN")
    return target
