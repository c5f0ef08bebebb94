"""Decoding of image files to bytes of a given size: PNG, JPEG, WebP, TIFF, GIF or BMP, upright, first frame only.

Transparency is put on white; 16 bits become 8; EXIF decides which side is up. No more than 16 megapixels of a file are
ever unpacked: a JPEG of up to 100 is read at a half, a quarter or an eighth of its size, any other larger one is
refused by its header. A progressive JPEG cannot be read so, since its decoder first holds all of it. Of bytes up to
100 megapixels are unpacked, for a server that bounds what that takes (`measure_picture`); not of WebP and HEIC, whose
decoders take several times as much. HEIC is read where pillow-heif is installed.
"""

from __future__ import annotations

import io
import math
import stat
import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from jaxtyping import UInt8

if TYPE_CHECKING:
    from PIL import Image

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff")
OTHERS = (".avif", ".heic", ".heif", ".ico", ".jp2", ".jxl", ".psd", ".svg")  # not read from folders
FORMATS = ("PNG", "JPEG", "WEBP", "TIFF", "GIF", "BMP")  # none that runs a program or reads other files
MOST = 1 << 24  # pixels that are unpacked at most: 16 megapixels
LARGEST = 100_000_000  # pixels of a JPEG that is read at reduced size, and of what a server unpacks
UNPACKED_BYTES = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16B": 2}  # of a pixel in Pillow, by its mode; of others 4
BAND = 256  # rows of 16 bits that are turned into 8 at a time
TILE = 1024  # pixels on the sides of what is converted at a time of a large picture
SHRINKS = (1, 2, 4, 8)  # factors by which a JPEG decoder can divide the sides
ORIENTATION = 0x0112  # the tag of EXIF that says which side is up
LEAST = 4  # pixels on a side: the smallest patch
SMALL = f"fewer than {LEAST} pixels on a side, less than a patch: leave it out"
HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")  # of a container of pictures
BEGINNING = 12  # bytes that say which container a file is
NO_HEIC = "HEIC, which needs a library: pip install pillow-heif, or convert it, as with heif-convert a.heic a.jpg"
WIDE_SHADES = "shades of 32 bits or fractions: save it with 8 or 16 bits, or as a PNG"
NO_PICTURE = "no picture: give PNG, JPEG or WebP"
HUGE_BYTES = (
    "more than 100 megapixels (WebP, HEIC, turned TIFF: 16): make it smaller, as with mogrify -resize 1024x1024"
)
HUGE = "more than 16 megapixels (a plain JPEG: 100): make it smaller, as with mogrify -resize 1024x1024"
DAMAGE = (  # exceptions of Pillow's readers
    *(OSError, SyntaxError, ValueError, EOFError, KeyError, IndexError, TypeError, OverflowError, RuntimeError),
    *(struct.error, zlib.error),
)
TILE_WIDTH, TILE_HEIGHT = 322, 323  # tags of a TIFF
WHITE = (255, 255, 255, 255)
ANIMATED = "animated, of which the first frame is taken: save another by itself"
PAGED = "of several pages, of which the first is taken: save another by itself"
GREY, COLOURED = "grey, read as if in colour", "in colour, read as grey"
Fit = Literal["crop", "squeeze"]
Resample = Literal["bicubic", "bilinear", "nearest", "lanczos", "box", "hamming"]
Pixels = UInt8[np.ndarray, "channels size size"]


class Unusable(Exception):
    """The reason why a file is not a usable picture, with a remedy."""


class Decoded(NamedTuple):
    """A decoded picture file, channels first, with its original size and oddities."""

    pixels: Pixels
    side: int
    """Pixels on the short side."""
    odd: str | None
    """What is odd about it."""


class PictureHeader(NamedTuple):
    """The header of a picture, with its orientation applied."""

    width: int
    height: int
    grey: bool


def describe_enlarged(patch: int) -> str:
    """Return the message for pictures smaller than a patch, which are enlarged and show next to nothing."""
    return f"smaller than a patch of {patch} x {patch} pixels, so enlarged: give larger pictures"


@contextmanager
def silence_pillow() -> Iterator[None]:
    """Silence Pillow's warnings about metadata and sizes, which are checked here; applies to all threads."""
    from PIL import Image, TiffImagePlugin, WebPImagePlugin  # noqa: F401 (registered before several threads would)

    Image.preinit()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="PIL")
        yield


def read_header(path: Path) -> PictureHeader:
    """Return the sides of a picture and whether it is grey, from its header alone."""
    with _open_picture(path) as picture:
        width, height = picture.size
        turned, grey = picture.getexif().get(ORIENTATION, 1) >= 5, _grey(picture)  # orientations that swap the sides
        turned = turned and picture.format != "TIFF"  # whose sides Pillow gives as they are seen
    return PictureHeader(height, width, grey) if turned else PictureHeader(width, height, grey)


def _grey(picture: Image.Image) -> bool:
    return picture.mode in ("1", "L", "LA", "La") or picture.mode.startswith("I")


def decode_picture(
    path: Path,
    *,
    size: int,
    channels: int,
    fit: Fit = "crop",
    resample: Resample | None = None,
    margin: float | None = None,
) -> Decoded:
    """Decode a picture file."""
    with _open_picture(path) as picture:
        side = min(picture.size)
        other = (GREY if _grey(picture) else COLOURED) if _grey(picture) != (channels == 1) else None
        several = PAGED if picture.format in ("TIFF", "HEIF") else ANIMATED
        odd = several if getattr(picture, "is_animated", False) and picture.format != "MPO" else other
        enough = 2 * round(size * (margin or 1))
        picture.draft(None, _draft_size(picture, enough))  # a JPEG is unpacked no larger than necessary
        if picture.width * picture.height > MOST:
            raise Unusable(HUGE)
        plain = _to_upright(picture, grey=channels == 1)
        square = _fit_square(plain, size, fit, resample or "bicubic", margin)
        return Decoded(_channels_first(np.asarray(square), channels), side, odd)


def _shrinkable(picture: Image.Image) -> bool:
    """True if the decoder can read the picture at a fraction of its size without holding all of it."""
    return picture.format in ("JPEG", "MPO") and "progressive" not in picture.info


def _draft_size(picture: Image.Image, enough: int) -> tuple[int, int]:
    """Return the size to request from the decoder: `enough`, or less if that would exceed the pixel limit."""
    width, height = picture.size
    shrink = next((shrink for shrink in SHRINKS if width * height <= MOST * shrink**2), SHRINKS[-1])
    return min(enough, width // shrink), min(enough, height // shrink)


def decode_array(
    array: np.ndarray,
    *,
    size: int,
    channels: int,
    fit: Fit = "crop",
    resample: Resample | None = None,
    margin: float | None = None,
) -> Pixels:
    """Convert an array, (height, width) or with channels last, of bytes or of numbers from 0 to 1."""
    from PIL import Image

    shades = array[..., 0] if array.ndim == 3 and array.shape[-1] == 1 else array
    if shades.ndim not in (2, 3) or (shades.ndim == 3 and shades.shape[-1] not in (3, 4)) or not shades.size:
        raise Unusable(f"an array of shape {array.shape} is no picture: give (height, width), or (height, width, 3)")
    if min(shades.shape[:2]) < LEAST:
        raise Unusable(SMALL)
    if shades.dtype.kind == "f":
        if not np.isfinite(shades).all() or shades.min() < 0 or shades.max() > 1:
            raise Unusable("an array of numbers beyond 0 to 1: divide by the largest, or give bytes")
        shades = np.rint(shades * 255).astype(np.uint8)
    if shades.dtype != np.uint8:
        raise Unusable(f"an array of {shades.dtype}: give bytes (uint8), or numbers from 0 to 1")
    whole = margin is None or margin == 1
    if whole and (shades.shape == (size, size) or (shades.shape == (size, size, 3) and channels == 3)):
        return _channels_first(shades, channels)
    plain = _to_upright(Image.fromarray(shades), grey=channels == 1)
    return _channels_first(np.asarray(_fit_square(plain, size, fit, resample or "bicubic", margin)), channels)


class PictureSize(NamedTuple):
    """The size of a picture as its header says, and what its decoder takes at most beside the result."""

    pixels: int
    unpacked_bytes: int
    """0 for a picture of which no more than 16 megapixels are unpacked."""


def measure_picture(data: bytes) -> PictureSize:
    """Return the size of a picture of up to 100 megapixels, from its header."""
    with silence_pillow(), _open_picture(data, unpacks_large=True) as picture:
        return PictureSize(picture.width * picture.height, _measure_unpacking(picture))


def _measure_unpacking(picture: Image.Image) -> int:
    """Return the bytes that are taken by unpacking a large picture whole, 0 for any other."""
    pixels = picture.width * picture.height
    if pixels <= MOST or _shrinkable(picture):
        return 0
    if picture.format in ("JPEG", "MPO"):
        return 2 * len(picture.getbands()) * pixels  # the coefficients of all scans
    whole = UNPACKED_BYTES.get(picture.mode, 4) * pixels
    return whole + 4 * pixels if picture.format == "TIFF" else whole  # and perhaps a strip that is all of it


def decode_bytes(data: bytes, *, most: int, most_pixels: int = MOST) -> UInt8[np.ndarray, "height width *colours"]:
    """Decode a picture from bytes, and reduce its short side to at most `most` pixels, and all to `most_pixels`.

    What that takes beside the result is bounded by `measure_picture`.
    """
    from PIL import Image

    with silence_pillow(), _open_picture(data, unpacks_large=True) as picture:
        grey = _grey(picture)
        picture.draft(None, _draft_size(picture, 2 * most))
        if picture.width * picture.height > MOST:
            plain = _to_small_upright(picture, 2 * most, grey=grey)
        else:
            plain = _to_upright(picture, grey=grey)
        scale = min(most / min(plain.size), math.sqrt(most_pixels / (plain.width * plain.height)))
        if scale < 1:
            width, height = (max(1, round(length * scale)) for length in plain.size)
            plain = plain.resize((width, height), Image.Resampling.BICUBIC)
        return np.array(plain)


@contextmanager
def _open_picture(source: Path | bytes, *, unpacks_large: bool = False) -> Iterator[Image.Image]:
    """Open a picture, from a file or bytes, that is small enough; every failure is raised as Unusable."""
    from PIL import Image, UnidentifiedImageError

    try:
        _check_source(source)
        opened: Any = io.BytesIO(source) if isinstance(source, bytes) else source
        with Image.open(opened, formats=_choose_formats(source)) as picture:
            _check_pixels(picture, unpacks_large=unpacks_large)
            if min(picture.size) < LEAST:
                raise Unusable(SMALL)
            if picture.format == "TIFF":
                _check_tiff(picture)
            yield picture
    except FileNotFoundError:
        raise Unusable("missing file: check the path") from None
    except UnidentifiedImageError:
        raise Unusable(NO_PICTURE) from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise Unusable(HUGE) from None
    except PermissionError:
        raise Unusable("reading is not allowed: change its permissions") from None
    except DAMAGE:
        raise Unusable("truncated or damaged: fetch or save it again") from None


def _check_pixels(picture: Image.Image, *, unpacks_large: bool) -> None:
    """Raise Unusable for a picture with too many pixels for its format."""
    pixels = picture.width * picture.height
    if pixels <= MOST or (pixels <= LARGEST and _shrinkable(picture)):
        return
    if not unpacks_large:
        raise Unusable(HUGE)
    is_turned = picture.format == "TIFF" and picture.getexif().get(ORIENTATION, 1) != 1  # by a copy of all of it
    if pixels > LARGEST or picture.format in ("WEBP", "HEIF") or is_turned:
        raise Unusable(HUGE_BYTES)


def _check_source(source: Path | bytes) -> None:
    """Raise Unusable for an empty file or anything but a regular file, before it is opened."""
    if isinstance(source, bytes):
        size = len(source)
    else:
        status = source.stat()
        size = status.st_size
        if not stat.S_ISREG(status.st_mode):
            raise Unusable("no file but a pipe, a device or a folder: give a picture")
    if not size:
        raise Unusable("empty file: save the picture again")


def _choose_formats(source: Path | bytes) -> tuple[str, ...]:
    """Return the names of the formats that a picture may have; raise Unusable for HEIC without its library."""
    if isinstance(source, bytes):
        beginning = source[:BEGINNING]
    else:
        with source.open("rb") as file:
            beginning = file.read(BEGINNING)
    if beginning[4:8] != b"ftyp" or beginning[8:] not in HEIC_BRANDS:
        return FORMATS
    try:
        from pillow_heif import register_heif_opener
    except ImportError:
        raise Unusable(NO_HEIC) from None
    register_heif_opener()
    return ("HEIF",)


def _check_tiff(picture: Any) -> None:
    """Raise Unusable for a TIFF whose shades have no known range, or whose tiles are far larger than the picture."""
    if picture.mode in ("I", "F"):
        raise Unusable(WIDE_SHADES)
    sides = [picture.tag_v2.get(tag, 1) for tag in (TILE_WIDTH, TILE_HEIGHT)]
    if not all(isinstance(side, int) for side in sides):
        raise ValueError("the sides of tiles are no numbers")
    if math.prod(sides) > MOST:
        raise Unusable(HUGE)


def _to_upright(picture: Image.Image, *, grey: bool) -> Image.Image:
    """Convert to eight bits of grey or RGB, the right way up, without transparency."""
    from PIL import ImageOps

    picture.load()
    return _flatten(ImageOps.exif_transpose(picture), grey=grey)


def _to_small_upright(picture: Image.Image, least: int, *, grey: bool) -> Image.Image:
    """Convert likewise, reduced by a whole number to a short side of at least `least`, and to 16 megapixels.

    That is done tile by tile, so that nothing is as large as what was unpacked.
    """
    from PIL import Image, ImageOps

    picture.load()
    factor = max(min(picture.size) // least, math.ceil(math.sqrt(picture.width * picture.height / MOST)))
    small = Image.new("L" if grey else "RGB", (-(-picture.width // factor), -(-picture.height // factor)))
    step = factor * max(1, TILE // factor)
    for top in range(0, picture.height, step):
        for left in range(0, picture.width, step):
            right, bottom = min(left + step, picture.width), min(top + step, picture.height)
            tile = _flatten(picture.crop((left, top, right, bottom)), grey=grey)
            small.paste(tile.reduce(factor), (left // factor, top // factor))
    small.getexif()[ORIENTATION] = picture.getexif().get(ORIENTATION, 1)
    return ImageOps.exif_transpose(small)


def _flatten(picture: Image.Image, *, grey: bool) -> Image.Image:
    """Convert to eight bits of grey or RGB without transparency."""
    from PIL import Image

    if picture.mode.startswith("I") or picture.mode == "F":  # Pillow would clip 16 bits at 255
        shades = np.asarray(picture)
        eight_bits = np.empty(shades.shape, np.uint8)
        for row in range(0, len(shades), BAND):
            eight_bits[row : row + BAND] = np.clip(np.rint(shades[row : row + BAND] / 257.0), 0, 255)
        picture = Image.fromarray(eight_bits)
    if picture.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in picture.info:
        rgba = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", rgba.size, WHITE), rgba)
    return picture.convert("L" if grey else "RGB")


def _fit_square(picture: Image.Image, size: int, fit: Fit, resample: Resample, margin: float | None) -> Image.Image:
    """Return a square of side `size`: the centre crop of the resized picture, or the squeezed picture.

    With a `margin` the short side is first resized to `margin` times `size`, in whole pixels, as other libraries do.
    """
    from PIL import Image

    width, height = picture.size
    method = Image.Resampling[resample.upper()]
    if fit == "squeeze":
        return picture if (width, height) == (size, size) else picture.resize((size, size), method)
    side = min(width, height)
    if margin is None:
        start_x, start_y = (width - side) / 2, (height - side) / 2
        whole = (width, height) == (size, size)
        return (
            picture
            if whole
            else picture.resize((size, size), method, box=(start_x, start_y, start_x + side, start_y + side))
        )
    edge = round(margin * size)
    sides = (
        edge if width == side else int(edge * width / side),
        edge if height == side else int(edge * height / side),
    )
    picture = picture if sides == (width, height) else picture.resize(sides, method)
    start_x, start_y = ((length - size) // 2 for length in picture.size)
    return picture.crop((start_x, start_y, start_x + size, start_y + size))


def _channels_first(shades: np.ndarray, channels: int) -> Pixels:
    """Move the channels to the front."""
    if shades.ndim == 2:
        return np.ascontiguousarray(np.broadcast_to(shades, (channels, *shades.shape)))
    return np.ascontiguousarray(shades.transpose(2, 0, 1))
