"""Whether files hold pictures with captions."""

from __future__ import annotations

from typing import Any

from regard.data.column_names import PICTURE_FILES
from regard.data.glimpse import Glimpse, is_folder
from regard.data.pictures.decoding import SUFFIXES
from regard.data.pictures.tables import LABELS
from regard.tasks.vision.captions.files import COLUMNS, is_tokens
from regard.training.task import NAMED, SURE, Claim, Given, data_section

SENTENCE = "pictures with captions: training a captioner"


def recognise(inputs: Given) -> Claim | None:
    """Files that somebody calls captions, and tables with a column of paths of pictures and one of captions."""
    if inputs.to is not None:
        return None
    if not inputs.is_declared and not all(not is_folder(name) and _captions(name) for name in inputs.files):
        return None
    train, valid = ([{"path": name} for name in names] for names in (inputs.files, inputs.valid))
    return Claim(data_section(train, valid), SENTENCE, SURE if inputs.is_declared else NAMED)


def _captions(name: str) -> bool:
    """Whether a file names picture files and what was written about them."""
    look = Glimpse.at(name)
    if look.is_json:
        first: dict[str, Any] = dict(look.records[0]) if look.records else {}
    else:
        if look.lines and is_tokens(look.lines[0]):
            return True
        first = (
            dict(zip(*look.rows[:2], strict=True)) if len(look.rows) > 1 else {}
        )  # names tell a heading by themselves
    columns = [column.strip().lower() for column in first]
    paths = [cell for column, cell in zip(columns, first.values(), strict=True) if column in PICTURE_FILES]
    named = any(column in COLUMNS for column in columns) and not any(column in LABELS for column in columns)
    return named and any(isinstance(cell, str) and cell.lower().endswith(SUFFIXES) for cell in paths)
