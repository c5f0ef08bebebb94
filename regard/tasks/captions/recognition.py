"""Whether files hold pictures with captions."""

from __future__ import annotations

from typing import Any

from regard.data.column_names import PICTURE_FILES
from regard.data.images.decoding import SUFFIXES
from regard.data.images.image_tables import LABELS
from regard.data.sniff import FilePreview, is_folder
from regard.tasks.captions.files import COLUMNS, is_token_line
from regard.training.task import NAMED, SURE, Claim, Given, data_section

SENTENCE = "pictures with captions: training a captioner"


def recognise(inputs: Given) -> Claim | None:
    """Claim files that are declared to be captions, and tables with columns of image paths and captions."""
    if inputs.to is not None:
        return None
    if not inputs.is_declared and not all(
        not is_folder(name) and _lists_captioned_images(name) for name in inputs.files
    ):
        return None
    train, valid = ([{"path": name} for name in names] for names in (inputs.files, inputs.valid))
    return Claim(data_section(train, valid), SENTENCE, SURE if inputs.is_declared else NAMED)


def _lists_captioned_images(name: str) -> bool:
    """True if a file names image files and their captions."""
    preview = FilePreview.read(name)
    if preview.is_json:
        first_record: dict[str, Any] = dict(preview.records[0]) if preview.records else {}
    else:
        if preview.lines and is_token_line(preview.lines[0]):
            return True
        first_record = dict(zip(*preview.rows[:2], strict=True)) if len(preview.rows) > 1 else {}
    columns = [column.strip().lower() for column in first_record]
    paths = [cell for column, cell in zip(columns, first_record.values(), strict=True) if column in PICTURE_FILES]
    has_captions = any(column in COLUMNS for column in columns) and not any(column in LABELS for column in columns)
    return has_captions and any(isinstance(cell, str) and cell.lower().endswith(SUFFIXES) for cell in paths)
