"""Tables of images: CSV, TSV or JSON lines with a path in each row."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.config.paths import real_path
from regard.config.words import suggest_name
from regard.data.images.decoding import SUFFIXES
from regard.data.line_report import LineReport
from regard.data.readers import value_at
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
LABELS = ("label", "class", "category")
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


def path_column(name: str, row: Mapping[str, Any], column_name: str | None, usual: Sequence[str]) -> str:
    """Return the column with paths: the given one, one with a usual name, or one whose first cell looks like a path."""
    if column_name is not None:
        if value_at(row, column_name) is None and column_name not in row:
            raise ValueError(f"{name} has no column {column_name}{suggest_name(column_name, list(row))}")
        return column_name
    usual_columns = [column for column in row if column.lower() in usual]
    looking = [column for column, cell in row.items() if isinstance(cell, str) and cell.lower().endswith(SUFFIXES)]
    if not usual_columns and not looking:
        there = ", ".join(map(str, row))
        raise ValueError(f"{name} has no column with the paths of pictures, only {there}: {named_by('picture')}")
    return (usual_columns or looking)[0]


def named_by(setting: str, what: str = "COLUMN") -> str:
    """Return how to set the name of a column or a folder, in training and in evaluation."""
    return f"name it by data.train.{setting}={what}, with regard evaluate by -s {setting}={what}"


def path_fault(base: Path, text: Any) -> str | None:
    """Return what is wrong with the path of a picture, or None."""
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
        remedy = f"if they lie in another folder, {named_by('folder', 'DIR')}"
        raise ValueError(f"{name}: none of its pictures is there, the first would be {paths[0]}: {remedy}")
