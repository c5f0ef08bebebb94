"""Pictures as somebody gives them to a trained model: files, folders, arrays; and the regions it sees in them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from regard.config.paths import real_path
from regard.data.pictures.album import Shape
from regard.data.pictures.decoding import (
    ANIMATED,
    SUFFIXES,
    Decoded,
    Unusable,
    decode_array,
    decode_picture,
    describe_enlarged,
    silence_pillow,
)
from regard.data.pictures.tables import ELSEWHERE
from regard.interpret.items import Item
from regard.models.vit import ViTConfig
from regard.tasks.trained import Unreadable

Given = str | Path | np.ndarray


def unfolded(text: str | Path) -> list[str]:
    """The pictures that one input stands for: of a folder all in it, at any depth, in the order of their names.

    Numbers in them count as numbers, so that frame 10 comes after frame 9.
    """
    if str(text).startswith(("http://", "https://")):
        raise ValueError(f"{text}: nothing is fetched: download the picture first, and name the file")
    if not Path(text).is_dir():
        return [str(text)]
    inside = (path for path in Path(text).rglob("*") if path.suffix.lower() in SUFFIXES and not path.is_dir())
    found = sorted((str(path) for path in inside if not _hidden(path.relative_to(text))), key=_counted)
    real = real_path(text)
    outside = {path for path in found if not real_path(path).is_relative_to(real)}
    for path in sorted(outside):
        warnings.warn(f"{path}: {ELSEWHERE}, or name it by itself", stacklevel=1)
    found = [path for path in found if path not in outside]
    if not found:
        raise ValueError(f"{text} holds no pictures: name a folder with PNG, JPEG or WebP files")
    return found


def opened(
    pictures: Sequence[Given], shape: Shape, *, patch: int = 0
) -> UInt8[np.ndarray, "pictures channels size size"]:
    """Pictures as a model's bytes; one that is none, or smaller than a patch of the model, is named."""
    if not pictures:
        raise ValueError("no picture was given: name at least one")
    found = []
    for each in pictures:
        try:
            with silence_pillow():
                pixels, side, odd = _bytes(each, shape)
        except Unusable as error:
            raise Unreadable(str(error) if isinstance(each, np.ndarray) else f"{each}: {error}") from None
        if odd == ANIMATED:
            warnings.warn(f"{each}: {odd}", stacklevel=1)
        if side < patch:
            warnings.warn(f"{called(each)}: {describe_enlarged(patch)}", stacklevel=1)
        found.append(pixels)
    return np.stack(found)


def patch_size(config: Any) -> int:
    """Return the side of the patches that a model cuts pictures into; 0 if it reads them whole."""
    return config.patch if isinstance(config, ViTConfig) else 0


def called(given: Given) -> str:
    """What to call a picture."""
    return f"an array of shape {given.shape}" if isinstance(given, np.ndarray) else str(given)


def patches(grid: tuple[int, int]) -> list[Item]:
    """Regions in so many rows and columns, row by row, with their boxes as shares of the sides."""
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


def _bytes(given: Given, shape: Shape) -> Decoded:
    if isinstance(given, np.ndarray):
        return Decoded(decode_array(given, **shape._asdict()), min(given.shape[:2]), None)
    return decode_picture(Path(given), **shape._asdict())


def _hidden(path: Path) -> bool:
    """Whether it, or a folder around it, is hidden, as it is to training."""
    return any(part.startswith(".") for part in path.parts)


def _counted(name: str) -> list[tuple[int, str]]:
    """What names are sorted by: letters as they are, numbers by what they count."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]
