"""Whether folders and files hold labelled pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.data.column_names import PICTURE_FILES
from regard.data.glimpse import Glimpse, arrays_in, is_folder
from regard.data.pictures.decoding import SUFFIXES
from regard.data.pictures.tables import LABELS
from regard.training.task import NAMED, SURE, Claim, Given, data_section

SENTENCE = "labelled pictures: training a classifier"


def recognise(inputs: Given) -> Claim | None:
    """Folders and files that somebody calls pictures, arrays, and tables with a column of paths and one of labels."""
    if inputs.to is not None:
        return None
    if not inputs.is_declared and not all(
        _arrays(name) or (not is_folder(name) and _table(name)) for name in inputs.files
    ):
        return None
    train, valid = ([{"path": name} for name in names] for names in (inputs.files, inputs.valid))
    return Claim(data_section(train, valid), SENTENCE, SURE if inputs.is_declared else NAMED)


def _arrays(name: str) -> bool:
    """Whether a file is named like one with pictures in it."""
    return (Path(name).suffix.lower() == ".npz" and "edges" not in arrays_in(name)) or "idx3-ubyte" in Path(name).name


def _table(name: str) -> bool:
    """Whether a file names picture files and says what they show."""
    look = Glimpse.at(name)
    if look.is_json:
        first: dict[str, Any] = dict(look.records[0]) if look.records else {}
    else:
        cells = look.rows[1] if look.heading and len(look.rows) > 1 else []
        first = dict(zip(look.heading or [], cells, strict=False))
    paths = [cell for column, cell in first.items() if column.lower() in PICTURE_FILES]
    named = any(column.lower() in LABELS for column in first)
    return named and any(isinstance(cell, str) and cell.lower().endswith(SUFFIXES) for cell in paths)
