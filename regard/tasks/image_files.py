"""Whether folders and files hold labelled pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.data.column_names import PICTURE_FILES
from regard.data.images.decoding import SUFFIXES
from regard.data.images.image_tables import LABELS
from regard.data.sniff import FilePreview, array_names, is_folder
from regard.training.task import NAMED, SURE, Claim, Given, data_section

SENTENCE = "labelled pictures: training a classifier"


def claim_labelled_images(inputs: Given) -> Claim | None:
    """Claim files that are declared to be pictures, arrays of pictures, and tables with columns of paths and labels."""
    if inputs.to is not None:
        return None
    if not inputs.is_declared and not all(
        _holds_image_arrays(name) or (not is_folder(name) and _lists_labelled_images(name)) for name in inputs.files
    ):
        return None
    train, valid = ([{"path": name} for name in names] for names in (inputs.files, inputs.valid))
    return Claim(data_section(train, valid), SENTENCE, SURE if inputs.is_declared else NAMED)


def _holds_image_arrays(name: str) -> bool:
    """True if a file is named like one of image arrays: npz or MNIST's idx."""
    return (Path(name).suffix.lower() == ".npz" and "edges" not in array_names(name)) or "idx3-ubyte" in Path(name).name


def _lists_labelled_images(name: str) -> bool:
    """True if a table names image files and their labels."""
    preview = FilePreview.read(name)
    if preview.is_json:
        first_record: dict[str, Any] = dict(preview.records[0]) if preview.records else {}
    else:
        cells = preview.rows[1] if preview.heading and len(preview.rows) > 1 else []
        first_record = dict(zip(preview.heading or [], cells, strict=False))
    paths = [cell for column, cell in first_record.items() if column.lower() in PICTURE_FILES]
    has_labels = any(column.lower() in LABELS for column in first_record)
    return has_labels and any(isinstance(cell, str) and cell.lower().endswith(SUFFIXES) for cell in paths)
