"""Tables of images: CSV, TSV or JSON lines with a path in each row."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from regard.config.paths import real_path
from regard.data.column_content import Content
from regard.data.column_names import PICTURE_FILES, PICTURE_LABELS
from regard.data.columns import ColumnChoice, ColumnSample, Role, choose_columns
from regard.data.images.decoding import SUFFIXES
from regard.data.line_report import LineReport
from regard.data.sniff import FilePreview
from regard.data.tables import (
    NO_OBJECT,
    StrictReport,
    describe_width,
    detect_heading_format,
    is_json,
    read_objects,
    read_rows,
)

LABEL = "label"
PICTURE_PATHS = Content(lambda column: any(cell.lower().endswith(SUFFIXES) for cell in column.cells))
ELSEWHERE = "a link that leaves the folder: copy the picture itself"


@dataclass
class PlacedRefusals(LineReport):
    """A report that stores the place of every refused line, since bad rows are skipped one by one."""

    path: str = ""
    refusals: list[tuple[str, str]] = field(default_factory=list)

    def refuse(self, reason: str, file: int, line: int) -> None:
        """Store the place of a line that cannot be read."""
        objects = "no JSON object: give a path and a label by their names"
        remedy = objects if reason == NO_OBJECT else "no JSON: correct the line"
        self.refusals.append((f"{self.path}:{line}", remedy))


def table_rows(name: str, refused: list[tuple[str, str]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (place, cells by column) of every row."""
    if is_json(name):
        for line, record in read_objects(name, PlacedRefusals(path=name, refusals=refused)):
            yield f"{name}:{line}", dict(record)
        return
    rows = read_rows(name, StrictReport(path=name), detect_heading_format(name), empty_cells=True)
    first, cells = next(rows, (1, []))
    heading = [cell.strip() for cell in cells]
    if len(heading) == 2 and heading[0].lower().endswith(SUFFIXES):  # no heading: a path and a label
        yield f"{name}:{first}", {"path": heading[0], LABEL: heading[1]}
        heading = ["path", LABEL]
    for line, row in rows:
        if len(row) == len(heading):
            yield f"{name}:{line}", dict(zip(heading, row, strict=True))
        else:
            refused.append((f"{name}:{line}", describe_width(row, heading)))


def choose_image_columns(name: str, row: Mapping[str, Any], roles: Sequence[Role]) -> ColumnChoice:
    """Choose columns by the first row of a table; fields inside JSON objects have names with dots."""
    texts = ColumnSample.of_records(name, [row], texts=True)
    nested = {column: cells.cells[0] for column, cells in zip(texts.names, texts.columns, strict=True)}
    cells = {**{str(column): "" for column in row}, **nested}
    return choose_columns(ColumnSample(name, tuple(cells), [list(cells.values())]), roles)


def picture_role(column: str | None = None) -> Role:
    """Return the role of the column with the paths of pictures: the one named, or one that is called or looks so."""
    setting = describe_setting("picture")
    return Role(name="picture", column=column, usual=PICTURE_FILES, content=PICTURE_PATHS, setting=setting)


def label_role(column: str | None = None) -> Role:
    """Return the role of the column with the labels of pictures, which need not be there."""
    return Role(name=LABEL, column=column, usual=PICTURE_LABELS, required=False)


def lists_pictures(name: str, beside: Role) -> bool:
    """True if a file seems to name pictures in a column called so, and has a column of another role beside them."""
    preview = FilePreview.read(name)
    records: Sequence[Mapping[str, Any]] = preview.records
    if not preview.is_json and len(preview.rows) > 1:
        records = [dict(zip(*preview.rows[:2], strict=True))]
    roles = [replace(picture_role(), needs_content=True, required=False), beside]
    choice = choose_image_columns(name, records[0] if records else {}, roles)
    return choice.reasons.get("picture") == "usual" and beside.name in choice.places


def describe_setting(setting: str, what: str = "COLUMN") -> str:
    """Say how to name a column or a folder, in training and where a model is scored."""
    return f"name it by data.train.{setting}={what}, with regard evaluate by -s {setting}={what}"


def path_fault(base: Path, text: Any) -> str | None:
    """Return the reason why the path of an image in a table is unusable, or None if it is fine."""
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        return "no path: name a picture, or leave the row out"
    path = Path(os.path.normpath(text.strip()))
    leaves_folder = path.is_absolute() or path.parts[:1] == ("..",)  # explicit in the path, unlike a link
    return None if leaves_folder or real_path(picture_at(base / path)).is_relative_to(real_path(base)) else ELSEWHERE


def picture_at(path: Path) -> Path:
    """Return the path, or the same name in another format if only that exists."""
    if path.exists():
        return path
    return next((other for end in SUFFIXES if (other := path.with_suffix(end)).exists()), path)


def refuse_if_all_missing(name: str, paths: Sequence[Path]) -> None:
    """Raise ValueError if all pictures of a table are missing; single missing ones are skipped later."""
    if paths and not any(map(os.path.lexists, paths)):
        remedy = f"if they lie in another folder, {describe_setting('folder', 'DIR')}"
        raise ValueError(f"{name}: none of its pictures is there, the first would be {paths[0]}: {remedy}")
