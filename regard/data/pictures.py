"""Picture files: read as shades of grey, written, and drawn upon."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

if TYPE_CHECKING:
    from PIL import Image

RED = (230, 40, 40)
MOST = 1 << 26  # pixels of a picture that is still opened


def read(path: str | Path, *, size: int | None = None, invert: bool = False) -> Float[np.ndarray, "height width"]:
    """A picture as shades from 0, black, to 1; `size` is what its sides must be, `invert` makes ink on paper bright."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as picture:
            if picture.width * picture.height > MOST:
                raise ValueError(f"{path} has {picture.width} x {picture.height} pixels: make it smaller")
            if size is not None and picture.size != (size, size):
                found = f"{picture.width} x {picture.height}"
                raise ValueError(f"{path} has {found} pixels and the model reads {size} x {size}: cut or resize it")
            shades = np.asarray(picture.convert("L"), np.float32) / 255
    except FileNotFoundError:
        raise ValueError(f"no file {path}: check the path") from None
    except (UnidentifiedImageError, Image.DecompressionBombError):
        raise ValueError(f"{path} is no picture that can be read: give a PNG, JPEG or the like") from None
    except (OSError, SyntaxError) as error:
        raise ValueError(f"{path} cannot be read as a picture ({error}): save it again") from None
    return 1 - shades if invert else shades


def stacked(
    given: Sequence[str | Path | np.ndarray], *, size: int, invert: bool = False
) -> Float[np.ndarray, "pictures height width"]:
    """Picture files, or arrays of shades from 0 to 1, all of this size, as one array."""
    if not given:
        raise ValueError("no picture was given: name at least one")
    return np.stack([_shades(each, size, invert) for each in given])


def _shades(given: str | Path | np.ndarray, size: int, invert: bool) -> np.ndarray:
    if not isinstance(given, np.ndarray):
        return read(given, size=size, invert=invert)
    if given.shape != (size, size):
        raise ValueError(f"an array of shape {given.shape} is no picture for a model that reads {size} x {size}")
    shades = given.astype(np.float32)
    return 1 - shades if invert else shades


def write(path: str | Path, shades: Float[np.ndarray, "height width"]) -> None:
    """Shades from 0 to 1 as a picture file; its name tells the format."""
    from PIL import Image

    _saved(Image.fromarray(np.rint(np.clip(shades, 0, 1) * 255).astype(np.uint8)), path)


def marked(path: str | Path, source: str | Path, box: tuple[float, ...], text: str, *, scale: int = 4) -> None:
    """A picture made larger, a box given in its pixels and a few words drawn upon it, as another file."""
    from PIL import Image, ImageDraw

    with Image.open(source) as picture:
        large = picture.convert("RGB").resize((picture.width * scale, picture.height * scale), Image.Resampling.NEAREST)
    pen = ImageDraw.Draw(large)
    left, top, right, bottom = (each * scale for each in box)
    left, right = sorted((left, right))
    top, bottom = sorted((top, bottom))
    pen.rectangle(
        (left, top, right - 1 if right > left else right, bottom - 1 if bottom > top else bottom), outline=RED
    )
    pen.text((left + 2, max(0, top - 12)), text, fill=RED)
    _saved(large, path)


def _saved(picture: Image.Image, path: str | Path) -> None:
    from PIL import Image

    if Path(path).suffix.lower() not in Image.registered_extensions():
        raise ValueError(f"{path}: {Path(path).suffix or 'no suffix'} names no format of pictures, use .png")
    picture.save(path)
