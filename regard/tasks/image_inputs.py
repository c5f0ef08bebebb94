"""Images as inputs of trained models: files, folders and arrays, and the patches of an image as items."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from regard.config.paths import real_path
from regard.data.images.album import Shape
from regard.data.images.decoding import (
    ANIMATED,
    PAGED,
    SUFFIXES,
    Decoded,
    Unusable,
    decode_array,
    decode_picture,
    describe_enlarged,
    silence_pillow,
)
from regard.data.images.image_tables import ELSEWHERE
from regard.interpret.items import Item
from regard.models.vit import ViTConfig
from regard.tasks.trained import Unreadable

ImageInput = str | Path | np.ndarray


def expand_folder(path_or_folder: str | Path) -> list[str]:
    """Return the path, or for a folder all images in it, at any depth, sorted by name.

    Numbers in names are sorted as numbers, so that frame 10 comes after frame 9.
    """
    if str(path_or_folder).startswith(("http://", "https://")):
        raise ValueError(f"{path_or_folder}: nothing is fetched: download the picture first, and name the file")
    if not Path(path_or_folder).is_dir():
        return [str(path_or_folder)]
    folder = Path(path_or_folder)
    image_paths = (path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and not path.is_dir())
    visible = (str(path) for path in image_paths if not _is_hidden(path.relative_to(folder)))
    paths = sorted(visible, key=_natural_sort_key)
    real_folder = real_path(folder)
    outside = {path for path in paths if not real_path(path).is_relative_to(real_folder)}
    for path in sorted(outside):
        warnings.warn(f"{path}: {ELSEWHERE}, or name it by itself", stacklevel=1)
    paths = [path for path in paths if path not in outside]
    if not paths:
        raise ValueError(f"{path_or_folder} holds no pictures: name a folder with PNG, JPEG or WebP files")
    return paths


def decode_images(
    images: Sequence[ImageInput], shape: Shape, *, patch: int = 0
) -> UInt8[np.ndarray, "images channels size size"]:
    """Decode images for a model; one that is unreadable or smaller than a patch is an error with its name."""
    if not images:
        raise ValueError("no picture was given: name at least one")
    decoded = []
    for image in images:
        try:
            with silence_pillow():
                pixels, short_side, oddity = _decode_image(image, shape)
        except Unusable as error:
            raise Unreadable(str(error) if isinstance(image, np.ndarray) else f"{image}: {error}") from None
        if oddity in (ANIMATED, PAGED):
            warnings.warn(f"{image}: {oddity}", stacklevel=1)
        if short_side < patch:
            warnings.warn(f"{input_name(image)}: {describe_enlarged(patch)}", stacklevel=1)
        decoded.append(pixels)
    return np.stack(decoded)


def channels_last(pixels: UInt8[np.ndarray, "channels size size"]) -> UInt8[np.ndarray, "size size *channels"]:
    """Return pixels as an array that models read: (row, column) of shades, or with a third axis of colours."""
    return pixels[0] if len(pixels) == 1 else np.ascontiguousarray(pixels.transpose(1, 2, 0))


def short_place(place: str) -> str:
    """Return the place of an image without the folders of this machine: the last folder and the file."""
    return "/".join(Path(place).parts[-2:])


def patch_size(config: Any) -> int:
    """Return the side of a model's patches; 0 if it does not divide images into patches."""
    return config.patch if isinstance(config, ViTConfig) else 0


def input_name(image: ImageInput) -> str:
    """Return the name of an image for messages and answers."""
    return f"an array of shape {image.shape}" if isinstance(image, np.ndarray) else str(image)


def patch_items(grid: tuple[int, int]) -> list[Item]:
    """Return the patches of a grid of (rows, columns), row by row, with their boxes as shares of the sides."""
    rows, columns = grid
    return [
        Item(
            f"{row + 1},{column + 1}",
            word=row * columns + column,
            box=(column / columns, row / rows, (column + 1) / columns, (row + 1) / rows),
        )
        for row in range(rows)
        for column in range(columns)
    ]


def _decode_image(image: ImageInput, shape: Shape) -> Decoded:
    if isinstance(image, np.ndarray):
        return Decoded(decode_array(image, **shape._asdict()), min(image.shape[:2]), None)
    return decode_picture(Path(image), **shape._asdict())


def _is_hidden(path: Path) -> bool:
    """True if a path, or a folder in it, is hidden; training skips these files as well."""
    return any(part.startswith(".") for part in path.parts)


def _natural_sort_key(name: str) -> list[tuple[int, str]]:
    """Return a sort key of a name that compares letters as text and digits as numbers."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]
