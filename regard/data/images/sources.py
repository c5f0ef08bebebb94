"""Sources of images with their columns: a folder per class, a table with paths, idx files, npz files.

A shelf opens nothing by itself: its pictures are paths, or arrays from one file. Every picture has a place, for
messages, and columns: its label, or anything else from a table.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from regard.config.paths import real_path
from regard.config.resuming import Free
from regard.config.words import quantity
from regard.data.encodings import find_path
from regard.data.images import idx
from regard.data.images.decoding import NO_PICTURE, OTHERS, SUFFIXES
from regard.data.images.image_tables import (
    ELSEWHERE,
    LABEL,
    choose_image_columns,
    label_role,
    path_fault,
    picture_at,
    picture_role,
    refuse_if_all_missing,
    table_rows,
)
from regard.data.readers import JSON_SUFFIXES, suffix, value_at
from regard.data.source_file import SourceFile

Part = Literal["train", "test"]
BOX = "box"
PARTS: dict[str, tuple[str, ...]] = {"train": ("train", "training"), "test": ("test", "t10k", "valid", "val")}
UNREADABLE = (OSError, ValueError, EOFError, KeyError, MemoryError, zipfile.BadZipFile, zlib.error)  # of npz
REMEDY = "give a folder with a folder for each class, a CSV or JSON-lines file with paths, idx files, or an .npz file"
SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class PictureFile(SourceFile):
    """A source of pictures."""

    path: Free[str]
    """A folder with a folder of pictures for each class; a CSV, TSV or JSON-lines file with a path in each row; MNIST's
    idx files or the folder of them; or an .npz file."""
    picture: str | None = None
    """Column with the paths of pictures in a table; null: the one called path, file, image or the like."""
    label: str | None = None
    """Column with the labels in a table; null: the one called label, class or category."""
    folder: Free[str | None] = None
    """Folder in which the paths of a table begin; null: the one the table lies in."""
    classes: tuple[str, ...] = ()
    """Names of labels that are numbers in idx or .npz files, from 0 on; none: those in the file, or the numbers."""


@dataclass(frozen=True)
class ImageSource:
    """Pictures that can be opened one by one, with their columns."""

    name: str
    pictures: Sequence[Path] | np.ndarray
    """Files, or all pictures as one array: (pictures, height, width), channels last where there are any."""
    places: Sequence[str]
    columns: Mapping[str, Sequence[Any]]
    """What is said of each picture, by column; LABEL is its label, as a text, BOX where it is: shares of the sides."""
    refused: list[tuple[str, str]] = field(default_factory=list)
    """(place, reason) of rows that name no picture."""
    notes: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    """Names of all labels in their order, where that is said."""

    def __len__(self) -> int:
        return len(self.places)

    def digest(self) -> str:
        """Return the SHA-256 of the bytes of all pictures, in order."""
        if isinstance(self.pictures, np.ndarray):
            digest = hashlib.sha256(f"{self.pictures.dtype} {self.pictures.shape}".encode())
            digest.update(np.ascontiguousarray(self.pictures).data)
            return digest.hexdigest()
        with ThreadPoolExecutor(min(32, 2 * (os.cpu_count() or 1))) as pool:
            return hashlib.sha256("".join(pool.map(_digest, self.pictures, chunksize=64)).encode()).hexdigest()


def shelve(file: PictureFile, *, part: Part = "train", labelled: bool = True) -> ImageSource:
    """Return the pictures of a folder or file; if it has parts, those of the training or the test part.

    Unless `labelled`, pictures may be in a folder without a subfolder for each class.
    """
    root = find_path(file.path)
    if root.is_dir() and (idx_name := _find_idx_name(root, part)):
        return _list_idx(str(root), idx_name, file.classes)
    if root.suffix.lower() == ".npz":
        return _list_npz(root, part, file.classes)
    if "idx3-ubyte" in root.name:
        return _list_idx(str(root.parent), root.name.removesuffix(".gz"), file.classes)
    if file.classes:
        raise ValueError(f"{file.path} names its labels itself: leave out classes, which are for idx and .npz files")
    if root.is_dir():
        return _list_folder(_part_folder(root, part), labelled=labelled)
    if suffix(file.path) in (".csv", ".tsv", ".txt", *JSON_SUFFIXES):
        return _list_table(file)
    raise ValueError(f"{file.path} holds no pictures that can be read: {REMEDY}")


def has_test_part(path: str) -> bool:
    """True if this source has a separate test part."""
    root = find_path(path)
    if root.is_dir():
        return bool(_find_idx_name(root, "test")) or _part_folder(root, "test") != root
    return root.suffix.lower() == ".npz" and bool(_array_names(root, "test", strict=True))


# A folder for each class.


def _part_folder(root: Path, part: Part) -> Path:
    """Return the subfolder of this part if a folder has parts, else the folder itself."""
    inside = {subfolder.name.lower(): subfolder for subfolder in root.iterdir() if subfolder.is_dir()}
    part_folder = next((inside[name] for name in PARTS[part] if name in inside), None)
    split = any(name in inside for name in PARTS["train"]) and any(name in inside for name in PARTS["test"])
    return part_folder if part_folder is not None and split else root


def _list_folder(root: Path, *, labelled: bool = True) -> ImageSource:
    """Return a shelf with one class per subfolder, searched recursively; without labels, of the whole folder."""
    real = real_path(root)
    folders = sorted(child for child in root.iterdir() if child.is_dir() and not child.name.startswith("."))
    folders = folders if labelled else [root]
    paths, labels, refused, other_files, empty = list[Path](), list[str](), list[tuple[str, str]](), list[str](), []
    for folder in folders:
        before, inside = len(paths), real_path(folder).is_relative_to(real)
        for path in _list_files(folder) if inside else [folder]:  # a link may lead to a whole disk
            if path.exists() and not real_path(path).is_relative_to(real):
                refused.append((str(path), ELSEWHERE))
            elif path.suffix.lower() in OTHERS:
                refused.append((str(path), NO_PICTURE))
            elif path.suffix.lower() not in SUFFIXES:
                other_files.append(str(path))
            else:
                paths.append(path)
                labels.append(folder.name)
        if len(paths) == before:
            empty.append(str(folder))
    loose = [str(child) for child in sorted(root.iterdir()) if child.is_file() and child.suffix.lower() in SUFFIXES]
    loose = loose if labelled else []
    if not paths and not refused and not labelled:
        raise ValueError(f"{root} holds no pictures: name a folder with PNG, JPEG or WebP files")
    if not paths and not refused:
        contents = (
            f"{quantity(len(loose), 'picture')} but no folders for classes"
            if loose
            else "no pictures in folders of their own"
        )
        raise ValueError(f"{root} has {contents}: put the pictures of each class into a folder named after it")
    notes = [f"{_shorten_list(empty)}: no picture, so this class is not learnt: add some or remove it"] if empty else []
    if loose:
        notes.append(
            f"{_shorten_list(loose)}: in no class folder, left out: move pictures into the folder of their class"
        )
    if other_files:
        notes.append(f"{_shorten_list(other_files)}: no picture by its name, left out: remove it, or leave it so")
    return ImageSource(str(root), paths, [str(path) for path in paths], {LABEL: labels}, refused, tuple(notes))


def _list_files(folder: Path) -> Iterator[Path]:
    """Yield all files below a folder in a fixed order, without hidden ones; links to folders are not followed."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _list_files(path)
        else:
            yield path


# Tables with a path in each row.


def _list_table(file: PictureFile) -> ImageSource:
    """Return the pictures that a CSV, TSV or JSON-lines file names; paths are relative to its folder."""
    base = find_path(file.folder) if file.folder else find_path(file.path).parent
    shelf = ImageSource(file.path, paths := list[Path](), places := list[str](), columns := dict[str, list[Any]]())
    choice, picture, labelled = None, "", None
    for place, row in table_rows(file.path, shelf.refused):
        if choice is None:
            choice = choose_image_columns(file.path, row, [picture_role(file.picture), label_role(file.label)])
            picture = choice.column_name("picture")
            labelled = choice.column_name(LABEL) if LABEL in choice.places else None
        text, label = value_at(row, picture), value_at(row, labelled) if labelled else None
        if reason := path_fault(base, text):
            shelf.refused.append((place, reason))
            continue
        if labelled and (label is None or not str(label).strip()):
            shelf.refused.append((place, f"no label in column {labelled}: add one, or leave the row out"))
            continue
        paths.append(picture_at(base / str(text).strip()))
        places.append(place)
        for name in dict.fromkeys((*columns, *row)):
            columns.setdefault(name, [None] * (len(paths) - 1)).append(row.get(name))
        if labelled:
            columns.setdefault(LABEL, [])[len(paths) - 1 :] = [str(label).strip()]
    if not paths and not shelf.refused:
        raise ValueError(f"{file.path} names no picture: give a path and a label in each row")
    refuse_if_all_missing(file.path, paths)
    notes = (f"{file.path}: {choice.describe()}",) if choice is not None and choice.left_out else ()
    return replace(shelf, notes=notes)


# Arrays in one file.


def _find_idx_name(root: Path, part: Part) -> str | None:
    """Return the name of the idx file with the pictures of a part, or None."""
    names = sorted(file.name for file in root.iterdir() if "idx3-ubyte" in file.name)
    fitting = [name for name in names if name.startswith(PARTS[part])]
    return fitting[0].removesuffix(".gz") if fitting else None


def _list_idx(folder: str, name: str, classes: tuple[str, ...] = ()) -> ImageSource:
    """Return the pictures of one idx file with the labels of the other, whose name is similar."""
    pictures = idx.read_idx(folder, name, idx.PICTURES)
    labels = idx.read_idx(folder, name.replace("images", "labels").replace("idx3", "idx1"), idx.LABELS)
    return _list_arrays(f"{folder}/{name}", pictures, labels, classes)


def _list_npz(path: Path, part: Part, classes: tuple[str, ...] = ()) -> ImageSource:
    """Return the pictures and labels of an npz file, read without pickle."""
    keys = _array_names(path, part)
    if not keys:
        raise ValueError(f"{path} has no arrays named pictures and labels, or {part}_pictures and {part}_labels")
    boxes_key = keys[1].replace("labels", "boxes") if "labels" in keys[1] else keys[1].replace("y", "boxes", 1)
    arrays = _read_arrays(path, (*keys, "classes", boxes_key))
    pictures, labels, names = arrays[keys[0]], arrays[keys[1]], arrays.get("classes", np.array([], str))
    if pictures.ndim == 4 and pictures.shape[1] in (1, 3) and pictures.shape[-1] not in (1, 3):
        pictures = pictures.transpose(0, 2, 3, 1)
    if names.ndim != 1 or names.dtype.kind not in "US":
        raise ValueError(f"{path}: classes must be a list of names, not {names.dtype} of shape {names.shape}")
    shelf = _list_arrays(str(path), pictures, labels, classes or tuple(map(str, names)))
    if boxes_key in arrays:
        return replace(shelf, columns={**shelf.columns, BOX: _read_boxes(shelf, pictures, arrays[boxes_key])})
    return shelf


def _read_boxes(shelf: ImageSource, pictures: np.ndarray, boxes: np.ndarray) -> list[tuple[float, ...]]:
    """Return left, top, right and bottom of each picture's box, as shares of its sides."""
    form = "give left, top, right, bottom of each as shares of its sides"
    if boxes.shape != (len(shelf), 4) or boxes.dtype.kind not in "fiu":
        raise ValueError(f"{shelf.name}: boxes of shape {boxes.shape} for {len(shelf)} pictures: {form}")
    if pictures.shape[1] != pictures.shape[2]:
        raise ValueError(f"{shelf.name}: boxes in pictures that are not square: cut them square, or leave boxes out")
    good = ((boxes >= 0) & (boxes <= 1)).all(1) & (boxes[:, :2] < boxes[:, 2:]).all(1)  # comparisons with nan are false
    if not good.all():
        first = int(np.argmin(good))
        raise ValueError(f"{shelf.places[first]}: {boxes[first].tolist()} is no box: {form}, from 0 to 1")
    return [tuple(box) for box in boxes.astype(float).tolist()]


def _array_names(path: Path, part: Part, *, strict: bool = False) -> tuple[str, str] | None:
    """Return the names of the arrays with pictures and labels; `strict` accepts only names of this part."""
    try:
        with zipfile.ZipFile(path) as archive:
            there = {name.removesuffix(".npy") for name in archive.namelist()}
    except UNREADABLE as error:
        raise _unreadable(path, error) from None
    pairs = [(f"{name}_pictures", f"{name}_labels") for name in PARTS[part]]
    pairs += [(f"{name}_images", f"{name}_labels") for name in PARTS[part]]
    pairs += [(f"x_{name}", f"y_{name}") for name in PARTS[part]]
    pairs += [] if strict else [("pictures", "labels"), ("images", "labels"), ("x", "y")]
    return next((pair for pair in pairs if there.issuperset(pair)), None)


def _read_arrays(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Read those of these arrays that a file holds."""
    try:
        with zipfile.ZipFile(path) as archive:
            arrays = {}
            for name in (name for name in names if f"{name}.npy" in archive.namelist()):
                with archive.open(f"{name}.npy") as file:
                    arrays[name] = np.lib.format.read_array(file, allow_pickle=False)
            return arrays
    except UNREADABLE as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: BaseException) -> ValueError:
    reason = " ".join(str(error).split())[:80]
    return ValueError(f"{path} cannot be read ({reason}): make it again with numpy.savez")


def _list_arrays(name: str, pictures: np.ndarray, labels: np.ndarray, classes: tuple[str, ...] = ()) -> ImageSource:
    """Return a shelf of images and labels from arrays, after checking their shapes and dtypes."""
    labels = labels.reshape(-1)
    if len(pictures) != len(labels) or not len(pictures) or pictures.ndim not in (3, 4):
        raise ValueError(
            f"{name}: pictures of shape {pictures.shape} and {len(labels)} labels do not belong together: "
            "give (pictures, height, width) or (pictures, height, width, 3), and a label for each"
        )
    if labels.dtype.kind not in "iuUS":
        raise ValueError(f"{name}: labels must be whole numbers or texts, not {labels.dtype}")
    if classes and labels.dtype.kind in "iu":
        if labels.min() < 0 or labels.max() >= len(classes):
            raise ValueError(f"{name}: a label is {labels.max()}, but there are {len(classes)} classes: name them all")
        texts = [classes[number] for number in labels.tolist()]
    else:
        texts, classes = [str(label) for label in labels.tolist()], ()
    return ImageSource(
        name, pictures, [f"{name}:{number}" for number in range(len(labels))], {LABEL: texts}, classes=classes
    )


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file; a file that cannot be read is refused later, when it is opened."""
    try:
        if not path.is_file():
            return "none"  # reading a pipe would block
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return "none"


def _shorten_list(places: Sequence[str]) -> str:
    """Return the first few places, and how many more there are."""
    more = len(places) - SHOWN
    return ", ".join(places[:SHOWN]) + (f" and {more:,} more" if more > 0 else "")
