"""The text and label columns of a classifier's training table, as recorded in its checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from regard.data.text_columns import TextColumn
from regard.tasks.text_encoders.examples import ExampleFile
from regard.tasks.text_encoders.labelled_file import LabelledFile


def record_columns(file: ExampleFile) -> dict[str, Any]:
    """Return the checkpoint's entry for the column names of a training file; empty if the columns have no names."""
    if not isinstance(file, LabelledFile) or file.constant_label is not None:
        return {}
    layout = file.layout()
    if layout is None:
        *texts, label = file.field_names()
    elif layout.heading:
        *texts, label = (layout.heading[column - 1] for column in layout.columns)
    else:
        return {}
    return {"text_columns": texts, "label_column": label}


def read_column_names(data: Mapping[str, Any]) -> tuple[tuple[str, ...], str | None]:
    """Return the names of the text columns and the label column in a checkpoint, if it has them."""
    file = data.get("file", {})
    text_setting = file.get("text")
    texts = data.get("text_columns") or (text_setting if isinstance(text_setting, (list, tuple)) else [text_setting])
    label = data.get("label_column") or (file.get("label") if text_setting is not None else None)
    texts = tuple(text for text in texts if isinstance(text, str))
    return texts, label if isinstance(label, str) else None


def read_text_column(data: Mapping[str, Any], labels: Sequence[str]) -> TextColumn:
    """Return the text column described in the data section of a checkpoint."""
    file = data.get("file", {})
    columns: Sequence[int] = file.get("columns") or ()
    number = columns[0] if columns else file.get("text")
    return TextColumn(
        names=read_column_names(data)[0],
        number=number if isinstance(number, int) else None,
        label_number=columns[-1] if len(columns) > 1 else None,
        labels=frozenset(labels) | frozenset(map(str, data.get("names", {}))),
    )
