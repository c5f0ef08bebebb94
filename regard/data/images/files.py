"""Picture files: read as shades of grey, written, annotated, and tiled."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, UInt8

if TYPE_CHECKING:
    from PIL import Image

RED = (230, 40, 40)
SCALE = 4  # factor by which a picture is enlarged before it is annotated
GAP = 2  # pixels between tiled pictures
WIDE = 512  # pixels on a side of a grid of pictures, about
MOST = 1 << 26  # pixels of a picture at most


def read(path: str | Path, *, size: int | None = None, invert: bool = False) -> Float[np.ndarray, "height width"]:
    """Read a picture as shades from 0, black, to 1; its sides must be `size`; `invert` makes ink on paper bright."""
    from PIL import Image, UnidentifiedImageError

    if Path(path).is_dir():
        raise ValueError(f"{path} is a folder: name the picture files in it")
    try:
        with (
            warnings.catch_warnings(action="error", category=Image.DecompressionBombWarning),
            Image.open(path) as picture,
        ):
            _check(path, picture, size)
            shades = _grey(path, picture, ground=255 if invert else 0)
    except FileNotFoundError:
        raise ValueError(f"no file {path}: check the path") from None
    except UnidentifiedImageError:
        raise ValueError(f"{path} is no picture that can be read: give a PNG, JPEG or the like") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise ValueError(f"{path} has more than {MOST:,} pixels: make it smaller") from None
    except (OSError, SyntaxError) as error:
        raise ValueError(f"{path} cannot be read as a picture ({error}): save it again") from None
    return 1 - shades if invert else shades


def _check(path: str | Path, picture: Image.Image, size: int | None) -> None:
    """Raise ValueError for a picture that the model cannot read."""
    if picture.width * picture.height > MOST:
        raise ValueError(f"{path} has {picture.width} x {picture.height} pixels: make it smaller")
    if size is not None and picture.size != (size, size):
        dimensions = f"{picture.width} x {picture.height}"
        raise ValueError(f"{path} has {dimensions} pixels and the model reads {size} x {size}: cut or resize it")
    if (several := getattr(picture, "n_frames", 1)) > 1:
        raise ValueError(f"{path} holds {several} pictures: save each as a file of its own")


def _grey(path: str | Path, picture: Image.Image, *, ground: int) -> Float[np.ndarray, "height width"]:
    """Return an image as grey levels from 0 to 1; transparent pixels get the level `ground` (0 to 255)."""
    from PIL import Image

    if picture.mode.startswith("I"):  # Pillow would clip 16 bits at 255, which leaves a white picture
        return np.asarray(picture, np.float32) / 65535
    if picture.mode == "F":
        raise ValueError(f"{path} has shades that are fractions: save it as a PNG of 8 or 16 bits")
    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        rgba = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", rgba.size, (ground, ground, ground, 255)), rgba)
    return np.asarray(picture.convert("L"), np.float32) / 255


def stack_pictures(
    pictures: Sequence[str | Path | np.ndarray], *, size: int, invert: bool = False
) -> Float[np.ndarray, "pictures height width"]:
    """Stack picture files, or arrays of shades from 0 to 1, all of this size."""
    if not pictures:
        raise ValueError("no picture was given: name at least one")
    return np.stack([_to_shades(picture, size, invert) for picture in pictures])


def _to_shades(picture: str | Path | np.ndarray, size: int, invert: bool) -> np.ndarray:
    if not isinstance(picture, np.ndarray):
        return read(picture, size=size, invert=invert)
    if picture.shape != (size, size):
        raise ValueError(f"an array of shape {picture.shape} is no picture for a model that reads {size} x {size}")
    shades = picture.astype(np.float32)
    return 1 - shades if invert else shades


def write(path: str | Path, shades: Float[np.ndarray, "height width"]) -> None:
    """Write shades from 0 to 1 as a picture file in the format of its ending."""
    _save_picture(_picture(shades), path)


def save_with_box(
    path: str | Path, shades: Float[np.ndarray, "height width"], box: tuple[float, ...], text: str
) -> None:
    """Write an enlarged picture with a box, in pixels of the original, and a caption drawn on it."""
    from PIL import Image, ImageDraw

    picture = _picture(shades).convert("RGB")
    large = picture.resize((picture.width * SCALE, picture.height * SCALE), Image.Resampling.NEAREST)
    pen = ImageDraw.Draw(large)
    x1, y1, x2, y2 = (side * SCALE for side in box)
    x1, x2 = sorted((x1, x2))
    y1, y2 = sorted((y1, y2))
    pen.rectangle((x1, y1, x2 - 1 if x2 > x1 else x2, y2 - 1 if y2 > y1 else y2), outline=RED)
    pen.text((x1 + 2, max(0, y1 - 12)), text, fill=RED)
    _save_picture(large, path)


def save_grid(
    path: str | Path, pictures: Sequence[UInt8[np.ndarray, "channels height width"]], *, across: int | None = None
) -> None:
    """Write pictures side by side in one file, `across` in a row, or in a square; small ones are enlarged."""
    from PIL import Image

    across = across or math.ceil(math.sqrt(len(pictures)))
    channels, height, width = pictures[0].shape
    down = -(-len(pictures) // across)
    whole = np.full((down * (height + GAP) - GAP, across * (width + GAP) - GAP, channels), 128, np.uint8)
    for number, picture in enumerate(pictures):
        row_start, column_start = (number // across) * (height + GAP), (number % across) * (width + GAP)
        whole[row_start : row_start + height, column_start : column_start + width] = picture.transpose(1, 2, 0)
    times = max(1, WIDE // max(whole.shape[:2]))
    drawn = Image.fromarray(whole.squeeze(-1) if channels == 1 else whole)
    _save_picture(drawn.resize((drawn.width * times, drawn.height * times), Image.Resampling.NEAREST), path)


def save_arrays(
    path: str | Path, pictures: Sequence[UInt8[np.ndarray, "channels height width"]], labels: list[str]
) -> None:
    """Write labelled pictures to an .npz file that can be trained on."""
    array = np.stack(pictures).transpose(0, 2, 3, 1)
    np.savez_compressed(path, pictures=array, labels=np.array(labels))


def _picture(shades: np.ndarray) -> Image.Image:
    from PIL import Image

    return Image.fromarray(np.rint(np.clip(shades, 0, 1) * 255).astype(np.uint8))


def _save_picture(picture: Image.Image, path: str | Path) -> None:
    from PIL import Image

    if Path(path).suffix.lower() not in Image.registered_extensions():
        raise ValueError(f"{path}: {Path(path).suffix or 'no suffix'} names no format of pictures, use .png")
    picture.save(path)
