"""Pictures beyond 16 megapixels, which a server unpacks whole and reduces tile by tile."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from regard.data.images import decoding
from regard.data.images.decoding import Unusable, decode_bytes, measure_picture

SIDES = (5_003, 3_407)  # 17 megapixels, no multiple of a tile or of the factor


def ramp(mode: str) -> Image.Image:
    """Return a picture that is dark at the left and above."""
    across, down = (np.linspace(0, 200, side, dtype=np.float32) for side in SIDES)
    grey = Image.fromarray((0.7 * across[None] + 0.3 * down[:, None]).astype(np.uint8))
    if mode == "I;16":
        return Image.fromarray(np.asarray(grey).astype(np.uint16) * 257)
    if mode == "RGBA":
        return Image.merge("RGBA", (grey, grey, grey, Image.new("L", SIDES, 128)))
    return grey.convert(mode)


def encode(picture: Image.Image, kind: str, **settings: Any) -> bytes:
    """Return a picture as the bytes of a file."""
    buffer = io.BytesIO()
    picture.save(buffer, kind, **settings)
    return buffer.getvalue()


CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "PNG, grey": ("L", "PNG", {"compress_level": 1}),
    "PNG, transparent": ("RGBA", "PNG", {"compress_level": 1}),
    "PNG, 16 bits": ("I;16", "PNG", {"compress_level": 1}),
    "PNG, turned": ("L", "PNG", {"compress_level": 1, "exif": 6}),
    "GIF": ("P", "GIF", {}),
    "BMP": ("RGB", "BMP", {}),
    "TIFF": ("RGB", "TIFF", {"compression": "tiff_adobe_deflate"}),
    "JPEG, progressive": ("RGB", "JPEG", {"progressive": True, "quality": 95}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_large_picture_is_read_like_a_small_one_of_the_same(name):
    """The reference is reduced by Pillow as a whole, upright and on white."""
    mode, kind, settings = CASES[name]
    turn = settings.get("exif")
    if turn:
        exif = Image.Exif()
        exif[decoding.ORIENTATION] = turn
        settings = {**settings, "exif": exif}
    data = encode(ramp(mode), kind, **settings)
    assert measure_picture(data).pixels == SIDES[0] * SIDES[1]
    shades = decode_bytes(data, most=256, most_pixels=1 << 20)
    expected = np.asarray(ramp("L").resize(shades.shape[1::-1] if not turn else shades.shape[:2], Image.Resampling.BOX))
    if mode == "RGBA":
        expected = 255 - (255 - expected.astype(int)) * 128 / 255
    reference = (np.rot90(expected, -1) if turn else expected).astype(int)
    assert min(shades.shape[:2]) == 256
    channels = shades if shades.ndim == 2 else shades.mean(2)
    assert np.abs(channels - reference).max() < 4, "but for the way of reducing"


def test_what_unpacking_takes_is_known_from_the_header():
    """Per pixel: what Pillow holds, of a TIFF also a strip, of a progressive JPEG its coefficients."""
    pixels = SIDES[0] * SIDES[1]
    for data, taken in (
        (encode(Image.new("L", SIDES), "PNG"), 1),
        (encode(Image.new("I;16", SIDES), "PNG"), 2),
        (encode(Image.new("RGB", SIDES), "PNG"), 4),
        (encode(Image.new("L", SIDES), "TIFF", compression="tiff_lzw"), 5),
        (encode(Image.new("RGB", SIDES), "JPEG", progressive=True), 6),
        (encode(Image.new("RGB", SIDES), "JPEG"), 0),
        (encode(Image.new("RGB", (4_096, 4_096)), "PNG"), 0),
    ):
        measured = measure_picture(data)
        assert measured.unpacked_bytes == taken * measured.pixels
        assert measured.pixels in (pixels, 1 << 24)


def test_formats_that_take_far_more_stay_at_sixteen_megapixels():
    turned = encode(Image.new("L", SIDES), "TIFF", compression="tiff_lzw", tiffinfo={decoding.ORIENTATION: 6})
    for data in (encode(Image.new("L", SIDES), "WEBP"), turned, encode(Image.new("L", (10_000, 10_001)), "PNG")):
        for read in (measure_picture, lambda data: decode_bytes(data, most=1024)):
            with pytest.raises(Unusable, match="more than 100 megapixels"):
                read(data)
