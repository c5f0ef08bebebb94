"""Tables that name pictures: CSV, TSV or JSON lines with a path in each row."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.config.paths import real_path
from regard.config.words import nearest, quantity
from regard.data.pictures.decoding import SUFFIXES
from regard.data.readers import JSON_SUFFIXES, Refusal, lines, parsed, suffix, value_at
from regard.data.sheets import UNREADABLE, has_separator_line, text_lines

LABEL = "label"
PATHS = ("path", "file", "filename", "file_name", "image", "picture")  # how columns with paths are usually called
LABELS = ("label", "class", "category")
DELIMITERS = ",;\t"
ELSEWHERE = "a link that leaves the folder: copy the picture itself"


def table_rows(name: str, refused: list[tuple[str, str]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place, cells by column) of every row."""
    if suffix(name) in JSON_SUFFIXES:
        for number, line in enumerate(lines(name), start=1):
            place = f"{name}:{number}"
            try:
                record = parsed((line or b"").decode("utf-8"))
            except (Refusal, UnicodeDecodeError):
                refused.append((place, "no JSON: correct the line"))
                continue
            if isinstance(record, dict):
                yield place, record
            else:
                refused.append((place, "no JSON object: give a path and a label by their names"))
        return
    texts = text_lines(name)
    first = next(texts, "")
    mark = max(DELIMITERS, key=first.count)
    head = [cell.strip() for cell in next(csv.reader([first], delimiter=mark), [])]
    begins = 2 + has_separator_line(name)
    if len(head) == 2 and head[0].lower().endswith(SUFFIXES):  # no heading: a path and a label
        yield f"{name}:{begins - 1}", {"path": head[0], LABEL: head[1]}
        head = ["path", LABEL]
    reader = csv.reader(texts, delimiter=mark)
    place = f"{name}:{begins}"
    try:
        for row in reader:
            if row and len(row) != len(head):
                refused.append(
                    (place, f"{quantity(len(row), 'cell')} under {quantity(len(head), 'column')}: correct the line")
                )
            elif row:
                yield place, dict(zip(head, row, strict=True))
            place = f"{name}:{reader.line_num + begins}"
    except csv.Error as error:
        raise ValueError(f"{place}: {UNREADABLE} ({error})") from None


def path_column(name: str, row: Mapping[str, Any], asked: str | None, usual: Sequence[str]) -> str:
    """The column with paths: the one named, one that is called so, or one whose first cell looks like a path."""
    if asked is not None:
        if value_at(row, asked) is None and asked not in row:
            raise ValueError(f"{name} has no column {asked}{nearest(asked, list(row))}")
        return asked
    named = [column for column in row if column.lower() in usual]
    looking = [column for column, cell in row.items() if isinstance(cell, str) and cell.lower().endswith(SUFFIXES)]
    if not named and not looking:
        there = ", ".join(map(str, row))
        raise ValueError(f"{name} has no column with the paths of pictures, only {there}: {named_by('picture')}")
    return (named or looking)[0]


def named_by(setting: str, what: str = "COLUMN") -> str:
    """How to name a column or a folder, in training and where a model is scored."""
    return f"name it by data.train.{setting}={what}, with regard evaluate by -s {setting}={what}"


def path_fault(base: Path, text: Any) -> str | None:
    """What is wrong with the path of a picture."""
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        return "no path: name a picture, or leave the row out"
    path = Path(os.path.normpath(text.strip()))
    said = path.is_absolute() or path.parts[:1] == ("..",)  # that it leaves the folder, which a link does not say
    return None if said or real_path(picture_at(base / path)).is_relative_to(real_path(base)) else ELSEWHERE


def picture_at(path: Path) -> Path:
    """The path, or the same name in another format where only that is there."""
    if path.exists():
        return path
    return next((other for end in SUFFIXES if (other := path.with_suffix(end)).exists()), path)


def refuse_if_all_missing(name: str, paths: Sequence[Path]) -> None:
    """Refuse a table whose pictures lie in another folder; single ones that are missing are skipped later."""
    if paths and not any(map(os.path.lexists, paths)):
        remedy = f"if they lie in another folder, {named_by('folder', 'DIR')}"
        raise ValueError(f"{name}: none of its pictures is there, the first would be {paths[0]}: {remedy}")
