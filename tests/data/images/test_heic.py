"""Photographs in HEIC, as telephones take them, read by the library that people install for it."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.data.images.decoding import (
    Unusable,
    decode_bytes,
    decode_picture,
    measure_picture,
    read_header,
    silence_pillow,
)

ORIENTATION = 0x0112
TURNED = 6  # by a quarter, as of a telephone held upright


def encode(mode: str, size: tuple[int, int], orientation: int = 1) -> bytes:
    """Return a picture that grows lighter from top to bottom, as HEIC."""
    pillow_heif = pytest.importorskip("pillow_heif", reason="pillow-heif is not installed (pip install pillow-heif)")
    pillow_heif.register_heif_opener()
    width, height = size
    shades = np.linspace(0, 255, height).round()[:, None].repeat(width, 1).astype(np.uint8)
    exif, buffer = Image.Exif(), io.BytesIO()
    exif[ORIENTATION] = orientation
    Image.fromarray(shades).convert(mode).save(buffer, "HEIF", quality=95, exif=exif.tobytes())
    return buffer.getvalue()


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L"])
def test_a_photograph_is_read_reduced_and_turned_upright(mode: str, tmp_path: Path):
    data = encode(mode, (400, 300))
    assert measure_picture(data).pixels == 400 * 300
    array = decode_bytes(data, most=150)
    assert array.shape[:2] == (150, 200)
    columns = array.reshape(150, 200, -1)[..., 0].mean(1)
    assert columns == pytest.approx(np.linspace(0, 255, 150), abs=4)
    turned = encode(mode, (400, 300), TURNED)
    assert decode_bytes(turned, most=1000).shape[:2] == (400, 300)
    path = tmp_path / "photo.heic"
    path.write_bytes(turned)
    header = read_header(path)
    assert (header.width, header.height, header.grey) == (300, 400, mode == "L")
    pixels = decode_picture(path, size=32, channels=3).pixels
    rows = pixels.reshape(3, 32, 32).astype(float).mean((0, 1))
    assert (np.diff(rows) < 0).all(), "what was at the top is at the right"


def test_one_that_is_damaged_or_too_large_is_refused():
    with pytest.raises(Unusable, match=r"no picture|damaged"):
        decode_bytes(encode("RGB", (400, 300))[:-200], most=100)
    with pytest.raises(Unusable, match="16"):
        decode_bytes(encode("L", (5_000, 3_400)), most=100)


def test_without_the_library_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    data = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(100)
    (tmp_path / "a.heic").write_bytes(data)
    with pytest.raises(Unusable, match="HEIC, which needs a library: pip install pillow-heif, or convert it"):
        decode_bytes(data, most=100)
    with silence_pillow(), pytest.raises(Unusable, match="pip install pillow-heif"):
        read_header(tmp_path / "a.heic")
