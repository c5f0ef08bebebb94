"""TIFF as a picture: pages, orientation, depth, damage, tiles that would fill the memory; HEIC without its library."""

import io
import struct
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.data.images import decoding
from regard.data.images.decoding import (
    Unusable,
    decode_bytes,
    decode_picture,
    measure_picture,
    read_header,
)

RAMP = np.linspace(0, 255, 16 * 16 * 3).reshape(16, 16, 3).astype(np.uint8)
ASCII, LONG = 2, 4  # types of tags


def encode(picture: Image.Image, **settings: object) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, "TIFF", **settings)
    return buffer.getvalue()


def tiled(side: int, tile: int | bytes) -> bytes:
    """A grey TIFF, compressed with deflate, of so many pixels on a side in one tile of another size."""
    tags = {256: side, 257: side, 258: 8, 259: 8, 262: 1, 277: 1, 322: tile, 323: tile, 324: 8, 325: 64}
    entries = b"".join(
        struct.pack("<HHI4s", tag, ASCII, 4, value)
        if isinstance(value, bytes)
        else struct.pack("<HHII", tag, LONG, 1, value)
        for tag, value in tags.items()
    )
    return struct.pack("<2sHI", b"II", 42, 72) + bytes(64) + struct.pack("<H", len(tags)) + entries + bytes(4)


@pytest.mark.parametrize("compression", ["raw", "tiff_lzw", "tiff_deflate", "packbits"])
def test_bytes_come_back_as_they_were_saved(tmp_path: Path, compression: str) -> None:
    data = encode(Image.fromarray(RAMP), compression=compression)
    assert np.array_equal(decode_bytes(data, most=1024), RAMP)
    (tmp_path / "a.tif").write_bytes(data)
    assert np.array_equal(decode_picture(tmp_path / "a.tif", size=16, channels=3).pixels, RAMP.transpose(2, 0, 1))


def test_sixteen_bits_keep_their_shades_and_wider_ones_are_refused() -> None:
    shades = np.linspace(0, 65535, 256).reshape(16, 16).astype(np.uint16)
    assert np.array_equal(decode_bytes(encode(Image.fromarray(shades)), most=1024), np.rint(shades / 257))
    for mode in ("I", "F"):
        with pytest.raises(Unusable, match="shades of 32 bits or fractions: save it with 8 or 16 bits"):
            decode_bytes(encode(Image.new(mode, (16, 16))), most=1024)


@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
def test_the_first_page_is_read_the_right_way_up(tmp_path: Path, orientation: int) -> None:
    upright = np.zeros((16, 32), np.uint8)
    upright[:8, :4] = 255
    stored = np.rot90(upright, {1: 0, 3: 2, 6: 1, 8: 3}[orientation])
    (tmp_path / "a.tif").write_bytes(encode(Image.fromarray(np.ascontiguousarray(stored)), tiffinfo={274: orientation}))
    assert np.array_equal(decode_bytes((tmp_path / "a.tif").read_bytes(), most=1024), upright)
    assert read_header(tmp_path / "a.tif") == (32, 16, True)


def test_of_several_pages_the_first_is_taken_and_that_is_said(tmp_path: Path) -> None:
    red, blue = (Image.new("RGB", (16, 16), colour) for colour in ("red", "blue"))
    data = encode(red, save_all=True, append_images=[blue] * 5)
    assert decode_bytes(data, most=1024)[4, 4].tolist() == [255, 0, 0]
    (tmp_path / "a.tiff").write_bytes(data)
    assert decode_picture(tmp_path / "a.tiff", size=8, channels=3).odd == decoding.PAGED


def test_a_size_or_tiles_that_would_fill_the_memory_are_refused_by_the_header() -> None:
    for data in (tiled(60_000, 256), tiled(4_100, 4_112), tiled(16, 8_192)):
        with pytest.raises(Unusable, match="more than 16 megapixels"), decoding._open_picture(data):
            pass
    for data in (tiled(600_000, 256), tiled(16, 8_192)):
        with pytest.raises(Unusable, match="megapixels"):
            decode_bytes(data, most=1024)
    with pytest.raises(Unusable, match="truncated or damaged"):
        measure_picture(tiled(16, b"9999"))


def test_damaged_bytes_are_refused_never_a_traceback() -> None:
    chance = np.random.default_rng(0)
    for settings in ({"compression": "raw"}, {"compression": "tiff_lzw"}, {"compression": "jpeg"}):
        whole = encode(Image.fromarray(RAMP), **settings)
        for _ in range(40):
            data = bytearray(whole)
            for place in chance.integers(8, len(data), 4):
                data[place] = chance.integers(256)
            with suppress(Unusable):
                assert measure_picture(bytes(data)).pixels >= decoding.LEAST**2
                assert decode_bytes(bytes(data[: chance.integers(9, len(data) + 1)]), most=64).ndim in (2, 3)
