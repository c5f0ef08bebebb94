"""Picture files: whatever the format, the shades are those that were saved; what is ambiguous is refused."""

import zlib

import numpy as np
import pytest
from PIL import Image

from regard.data import images

SHADES = np.linspace(0, 1, 64, dtype=np.float32).reshape(8, 8)


def bytes_of(shades: np.ndarray) -> Image.Image:
    return Image.fromarray(np.rint(shades * 255).astype(np.uint8))


def test_sixteen_bits_are_the_same_shades_as_eight(tmp_path):
    Image.fromarray(np.rint(SHADES * 65535).astype(np.uint16)).save(tmp_path / "deep.png")
    bytes_of(SHADES).save(tmp_path / "plain.png")
    deep, plain = (images.read(tmp_path / name) for name in ("deep.png", "plain.png"))
    np.testing.assert_allclose(deep, SHADES, atol=1 / 65535)
    np.testing.assert_allclose(plain, deep, atol=1 / 255)


@pytest.mark.parametrize("invert", [False, True])
def test_what_is_transparent_has_the_shade_of_the_ground(tmp_path, invert):
    ink = Image.new("L", (8, 8), 0 if invert else 255)
    Image.merge("LA", [ink, bytes_of(SHADES)]).save(tmp_path / "ink.png")
    np.testing.assert_allclose(images.read(tmp_path / "ink.png", invert=invert), SHADES, atol=2 / 255)


def test_what_is_not_one_picture_of_shades_is_refused(tmp_path):
    frames = [bytes_of(SHADES), bytes_of(1 - SHADES)]
    frames[0].save(tmp_path / "moving.gif", save_all=True, append_images=frames[1:])
    Image.fromarray(SHADES).save(tmp_path / "fractions.tif")
    for name, said in (
        ("moving.gif", "holds 2 pictures: save each"),
        ("fractions.tif", "shades that are fractions: save it as a PNG"),
        ("", "is a folder: name the picture files in it"),
    ):
        with pytest.raises(ValueError, match=said):
            images.read(tmp_path / name)


@pytest.mark.parametrize("side", [8_500, 10_000, 20_000])
def test_a_huge_picture_is_refused_before_it_is_unpacked(tmp_path, side):
    with Image.new("1", (8, 8)) as small:
        small.save(tmp_path / "huge.png")
    data = bytearray((tmp_path / "huge.png").read_bytes())
    data[16:24] = side.to_bytes(4, "big") * 2
    data[29:33] = zlib.crc32(bytes(data[12:29])).to_bytes(4, "big")
    (tmp_path / "huge.png").write_bytes(data)
    with pytest.raises(ValueError, match="pixels: make it smaller"):
        images.read(tmp_path / "huge.png")
