"""Which column of a table held the texts that a classifier was trained on, as its checkpoint keeps it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from regard.tasks.labels.files import AnyFile, LabelledFile
from regard.tasks.trained import TextColumn


def column_names(file: AnyFile) -> list[str]:
    """Return what the columns of the texts are called in a training file; nothing if it has no names."""
    if not isinstance(file, LabelledFile) or file.whole is not None:
        return []
    layout = file.layout()
    if layout is None:
        return list(file.names()[:-1])
    return [layout.heading[column - 1] for column in layout.columns[:-1]] if layout.heading else []


def recorded_column(data: Mapping[str, Any], labels: Sequence[str]) -> TextColumn:
    """Return what the data section of a checkpoint says of the column of the texts."""
    file = data.get("file", {})
    columns: Sequence[int] = file.get("columns") or ()
    names = data.get("text_columns") or ([file["text"]] if isinstance(file.get("text"), str) else [])
    number = columns[0] if columns else file.get("text")
    return TextColumn(
        names=tuple(map(str, names)),
        number=number if isinstance(number, int) else None,
        label_number=columns[-1] if len(columns) > 1 else None,
        labels=frozenset(labels) | frozenset(map(str, data.get("names", {}))),
    )
