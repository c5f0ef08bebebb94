"""Pictures with captions, from files: CSV, TSV, JSON lines, and the token file that Flickr8k comes with.

A picture may have several captions, in rows of their own or as a list. What is missing on either side is said in a
line: a caption whose picture is not there, a picture that nobody wrote about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.config.paths import real_path
from regard.config.resuming import Free
from regard.data.column_names import CAPTIONS
from regard.data.columns import Role
from regard.data.encodings import find_path
from regard.data.images.decoding import SUFFIXES
from regard.data.images.image_tables import (
    choose_image_columns,
    describe_setting,
    path_fault,
    picture_at,
    picture_role,
    refuse_if_all_missing,
    table_rows,
)
from regard.data.images.sources import ImageSource
from regard.data.readers import LINE, lines, value_at
from regard.data.source_file import SourceFile

NAME = "name"  # the column with the paths of pictures, as their file has them
CAPTION = "captions"  # the column of a shelf with all that was written about a picture
TOKEN_LINE = re.compile(r"(\S[^\t]*\.\w+)#\d+\t(.*)")  # Flickr8k: name.jpg#0, a tab, the caption
FILES_NAMED = 3


@dataclass(frozen=True, kw_only=True)
class CaptionFile(SourceFile):
    """Where pictures and captions come from."""

    path: Free[str]
    """A CSV, TSV or JSON-lines file with the path of a picture and a caption in each row, or Flickr8k's token file."""
    picture: str | None = None
    """Column with the paths of pictures; null: the one called path, file, image or the like."""
    caption: str | None = None
    """Column with a caption, or in JSON lines a list of them; null: the one called caption, captions or the like."""
    folder: Free[str | None] = None
    """Folder in which the paths begin; null: the one the file lies in."""
    only: Free[str | None] = None
    """A file with the name of a picture in each line: only these are taken, such as those of a split."""


def shelve(file: CaptionFile) -> ImageSource:
    """Return the images of a file, each with all its captions; rows without an image or a caption are refused."""
    if find_path(file.path).is_dir():
        raise ValueError(f"{file.path} is a folder: name the CSV or JSON-lines file with the captions of its pictures")
    base = find_path(file.folder) if file.folder else find_path(file.path).parent
    chosen_names = None if file.only is None else _read_names(file.only)
    paths, places, captions = dict[str, Path](), list[str](), dict[str, list[str]]()
    refused, refused_names, notes = list[tuple[str, str]](), set[str](), list[str]()
    for place, path, captions_of_row in _read_captions(file, refused, notes):
        name = str(path).strip()
        if chosen_names is not None and name not in chosen_names:
            continue
        if name in refused_names:
            continue
        if name not in paths and (fault := path_fault(base, path)):  # once for each image
            refused.append((place, fault))
            refused_names |= {name} if name else set()
            continue
        texts = [" ".join(text.split()) for text in captions_of_row if isinstance(text, str) and text.strip()]
        if not texts:
            refused.append((place, "no caption: write one, or leave the row out"))
            continue
        if name not in paths:
            paths[name] = picture_at(base / name)
            places.append(place)
            captions[name] = []
        captions[name] += texts
    for name, place in (chosen_names or {}).items():
        if name not in captions:
            refused.append((place, f"no caption in {file.path}: write one, or leave the name out"))
    if not paths and not refused:
        raise ValueError(f"{file.path} has no captions: give the path of a picture and a caption in each row")
    refuse_if_all_missing(file.path, list(paths.values()))
    if chosen_names is None:
        notes += _note_uncaptioned(set(paths.values()), {base / name for name in refused_names}, file)
    columns: dict[str, list[Any]] = {CAPTION: list(captions.values()), NAME: list(paths)}
    return ImageSource(file.path, list(paths.values()), places, columns, refused, tuple(notes))


def is_token_line(line: str) -> bool:
    """True if a line is one of Flickr8k's token file."""
    match = TOKEN_LINE.fullmatch(line)
    return match is not None and match[1].lower().endswith(SUFFIXES)


def _read_captions(
    file: CaptionFile, refused: list[tuple[str, str]], notes: list[str]
) -> Iterator[tuple[str, Any, list[Any]]]:
    """Yield (place, path, captions) of every row, and note which columns are left out."""
    texts = _lines(file.path)
    if (first_line := next(texts, None)) is not None and is_token_line(first_line[1]):
        for place, line in (first_line, *texts):
            if match := TOKEN_LINE.fullmatch(line):
                yield place, match[1], [match[2]]
            elif line.strip():
                refused.append((place, "no NAME.jpg#0, tab and caption: correct the line"))
        return
    columns: list[str] = []
    for place, row in table_rows(file.path, refused):
        if not columns:
            setting = describe_setting("caption")
            caption = Role(name="caption", column=file.caption, usual=CAPTIONS, setting=setting)
            choice = choose_image_columns(file.path, row, [picture_role(file.picture), caption])
            columns = list(map(choice.column_name, choice.places))
            notes += [f"{file.path}: {choice.describe()}"] if choice.left_out else []
        cell = value_at(row, columns[1])
        yield place, value_at(row, columns[0]), cell if isinstance(cell, list) else [cell]


def _lines(name: str) -> Iterator[tuple[str, str]]:
    """Yield (place, text) of every line."""
    for number, line in enumerate(lines(name), start=1):
        if line is None:
            raise ValueError(f"{name}:{number}: a line of more than {LINE:,} bytes: correct it")
        try:
            yield f"{name}:{number}", line.decode("utf-8")
        except UnicodeDecodeError:
            raise ValueError(f"{name}:{number}: not UTF-8: save the file as UTF-8") from None


def _read_names(path: str) -> dict[str, str]:
    """Return the names in a file, one in each line, and where they stand."""
    names = {text.strip(): place for place, text in _lines(path) if text.strip()}
    if not names:
        raise ValueError(f"{path} names no picture: give a name in each line")
    return names


def _note_uncaptioned(captioned: set[Path], refused: set[Path], file: CaptionFile) -> tuple[str, ...]:
    """Return a note on images beside the others that have no caption."""
    folders, captioned = {path.parent for path in captioned}, {real_path(path) for path in captioned | refused}
    files_beside = (path for folder in sorted(folders) if folder.is_dir() for path in sorted(folder.iterdir()))
    uncaptioned = [
        str(path) for path in files_beside if path.suffix.lower() in SUFFIXES and real_path(path) not in captioned
    ]
    if not uncaptioned:
        return ()
    if len(uncaptioned) > FILES_NAMED:
        return (f"{len(uncaptioned):,} other pictures beside these, without a caption in {file.path}, are not used",)
    return (f"{', '.join(uncaptioned)}: no caption in {file.path}, left out: write some, or leave them so",)
