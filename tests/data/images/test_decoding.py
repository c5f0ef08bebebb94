"""Every kind of picture file becomes the bytes that it shows; what is none is refused in one line."""

import io
import struct
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regard.data.images import decoding
from regard.data.images.decoding import Unusable, decode_array, decode_picture, read_header, silence_pillow

RAMP = np.linspace(0, 255, 16 * 16 * 3).reshape(16, 16, 3).astype(np.uint8)


def opened(path: Path, size: int = 16, channels: int = 3, fit: decoding.Fit = "crop") -> np.ndarray:
    with silence_pillow():
        return decode_picture(path, size=size, channels=channels, fit=fit)[0]


@pytest.mark.parametrize("name", ["a.png", "a.bmp", "a.webp"])
def test_bytes_come_back_as_they_were_saved(tmp_path: Path, name: str) -> None:
    Image.fromarray(RAMP).save(tmp_path / name, **({"lossless": True} if name.endswith("webp") else {}))
    assert np.array_equal(opened(tmp_path / name), RAMP.transpose(2, 0, 1))


def test_a_jpeg_is_nearly_what_was_saved_however_large(tmp_path: Path) -> None:
    large = Image.fromarray(RAMP).resize((256, 256), Image.Resampling.BICUBIC)
    large.save(tmp_path / "a.jpg", quality=95)
    assert np.abs(opened(tmp_path / "a.jpg").astype(int) - RAMP.transpose(2, 0, 1)).mean() < 8


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_says_which_side_is_up(tmp_path: Path, orientation: int) -> None:
    upright = np.zeros((16, 16, 3), np.uint8)
    upright[:8, :4] = 255
    undo = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}  # what Pillow calls the way back
    stored = Image.fromarray(upright)
    if orientation in undo:
        stored = stored.transpose(Image.Transpose(undo[orientation]))
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored.save(tmp_path / "a.png", exif=exif)
    assert np.array_equal(opened(tmp_path / "a.png"), upright.transpose(2, 0, 1))


def test_sides_are_told_as_they_are_seen(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("L", (40, 20)).save(tmp_path / "a.jpg", exif=exif)
    assert read_header(tmp_path / "a.jpg") == (20, 40, True)
    Image.new("RGB", (40, 20)).save(tmp_path / "b.png")
    assert read_header(tmp_path / "b.png") == (40, 20, False)


def test_grey_becomes_three_equal_channels_and_colours_become_grey(tmp_path: Path) -> None:
    Image.fromarray(RAMP[..., 0]).save(tmp_path / "grey.png")
    assert np.array_equal(opened(tmp_path / "grey.png"), np.stack([RAMP[..., 0]] * 3))
    Image.fromarray(RAMP).save(tmp_path / "colour.png")
    luma = RAMP @ np.array([0.299, 0.587, 0.114])
    assert np.abs(opened(tmp_path / "colour.png", channels=1)[0] - luma).max() <= 1


def test_sixteen_bits_keep_their_shades(tmp_path: Path) -> None:
    shades = np.linspace(0, 65535, 256).reshape(16, 16).astype(np.uint16)
    Image.fromarray(shades).save(tmp_path / "a.png")
    assert np.array_equal(opened(tmp_path / "a.png", channels=1)[0], np.rint(shades / 257))


def test_what_is_transparent_is_white(tmp_path: Path) -> None:
    see_through = np.dstack([RAMP, np.full((16, 16), 255, np.uint8)])
    see_through[:4, :, 3] = 0
    Image.fromarray(see_through).save(tmp_path / "a.png")
    expected = RAMP.copy()
    expected[:4] = 255
    assert np.array_equal(opened(tmp_path / "a.png"), expected.transpose(2, 0, 1))
    palette = Image.new("P", (16, 16), 0)
    palette.putpalette([10, 20, 30, 40, 50, 60])
    palette.putpixel((0, 0), 1)
    palette.save(tmp_path / "p.png", transparency=1)
    found = opened(tmp_path / "p.png")
    assert found[:, 0, 0].tolist() == [255, 255, 255]
    assert found[:, 1, 1].tolist() == [10, 20, 30]


def test_four_inks_become_three_colours(tmp_path: Path) -> None:
    Image.new("CMYK", (16, 16), (0, 255, 255, 0)).save(tmp_path / "a.jpg", quality=95)
    red, green, blue = opened(tmp_path / "a.jpg").mean((1, 2))
    assert red > 200
    assert max(green, blue) < 60


def test_of_an_animation_the_first_frame_is_taken_and_that_is_said(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "blue")]
    for name in ("a.gif", "a.webp", "a.png"):
        frames[0].save(tmp_path / name, save_all=True, append_images=frames[1:], lossless=True)
        pixels, side, odd = decode_picture(tmp_path / name, size=8, channels=3)
        assert (side, odd) == (16, decoding.ANIMATED)
        assert pixels[:, 4, 4].tolist() == [255, 0, 0]


def test_a_long_picture_is_cut_or_squeezed(tmp_path: Path) -> None:
    wide = np.zeros((16, 48, 3), np.uint8)
    wide[:, 16:32] = 200
    Image.fromarray(wide).save(tmp_path / "a.png")
    assert np.array_equal(opened(tmp_path / "a.png"), np.full((3, 16, 16), 200))
    squeezed = opened(tmp_path / "a.png", fit="squeeze")
    assert squeezed[0, 8, 0] == squeezed[0, 8, -1] == 0
    assert squeezed[0, 8, 8] > 190


def bomb(path: Path, side: int) -> None:
    """A PNG whose header promises so many pixels."""
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", head), (b"IDAT", zlib.compress(b"\0" * 100)), (b"IEND", b"")]
    data = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )
    path.write_bytes(data)


@pytest.mark.parametrize("side", [4100, 10_000, 60_000])
def test_a_huge_picture_is_refused_by_its_header(tmp_path: Path, side: int) -> None:
    bomb(tmp_path / "a.png", side)
    with pytest.raises(Unusable, match=r"more than 16 megapixels .*mogrify -resize"):
        opened(tmp_path / "a.png")


def unpacked(path: Path, monkeypatch: pytest.MonkeyPatch, *, size: int) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """A picture file decoded, and the sizes that were unpacked on the way."""
    sizes, upright = [], decoding._to_upright

    def watched(picture: Image.Image, *, grey: bool) -> Image.Image:
        found = upright(picture, grey=grey)
        sizes.append(found.size)
        return found

    monkeypatch.setattr(decoding, "_to_upright", watched)
    with decoding.silence_pillow():
        return decode_picture(path, size=size, channels=3).pixels, sizes


@pytest.mark.parametrize("size", [32, 2000])
def test_a_cameras_jpeg_is_unpacked_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    photo = Image.new("RGB", (6000, 4000), (200, 30, 40))  # 24 megapixels
    photo.save(tmp_path / "a.jpg", quality=50)
    pixels, [(width, height)] = unpacked(tmp_path / "a.jpg", monkeypatch, size=size)
    assert width * height <= decoding.MOST
    assert width * height < 16 * max(size, 250) ** 2
    assert np.abs(pixels.mean((1, 2)) - [200, 30, 40]).max() < 3
    assert decoding.read_header(tmp_path / "a.jpg")[:2] == (6000, 4000)


def test_a_jpeg_that_cannot_be_unpacked_small_is_refused(tmp_path: Path) -> None:
    Image.new("L", (6000, 4000)).save(tmp_path / "progressive.jpg", progressive=True)
    Image.new("L", (12000, 9000)).save(tmp_path / "large.jpg", quality=30)
    for name in ("progressive.jpg", "large.jpg"):
        with decoding.silence_pillow(), pytest.raises(Unusable, match=r"mogrify -resize 1024x1024"):
            opened(tmp_path / name)


def test_a_picture_beyond_all_measure_is_refused_by_its_header_whatever_its_kind(tmp_path: Path) -> None:
    small = io.BytesIO()
    Image.new("L", (64, 64)).save(small, "JPEG")
    data = bytearray(small.getvalue())
    place = data.index(b"\xff\xc0") + 5  # height and width in the start of the frame
    for side in (12_000, 40_000):
        data[place : place + 4] = struct.pack(">HH", side, side)
        (tmp_path / "a.jpg").write_bytes(data)
        with decoding.silence_pillow(), pytest.raises(Unusable, match="more than 16 megapixels"):
            opened(tmp_path / "a.jpg")


def test_what_is_no_picture_is_refused_with_a_remedy(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    Image.fromarray(RAMP).resize((128, 128)).save(buffer, "PNG")
    whole = buffer.getvalue()
    Image.new("RGB", (40, 2)).save(tmp_path / "thin.png")
    files = {"cut.png": whole[: len(whole) // 2], "empty.png": b"", "text.png": b"not a picture at all"}
    files |= {"other.png": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    said = {}
    for name in (*files, "thin.png", "none.png"):
        with pytest.raises(Unusable) as error:
            opened(tmp_path / name)
        said[name] = str(error.value)
    assert said["cut.png"].startswith("truncated or damaged: ")
    assert said["empty.png"].startswith("empty file: ")
    assert said["text.png"] == said["other.png"] == "no picture: give PNG, JPEG or WebP"
    assert said["thin.png"].startswith("fewer than 4 pixels on a side, less than a patch: ")
    assert said["none.png"].startswith("missing file: ")


def test_damaged_bytes_are_refused_never_a_traceback(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    for name in ("PNG", "JPEG", "WEBP", "GIF"):
        buffer = io.BytesIO()
        Image.fromarray(RAMP).save(buffer, name)
        for _ in range(30):
            data = bytearray(buffer.getvalue())
            for place in chance.integers(0, len(data), 8):
                data[place] = chance.integers(256)
            (tmp_path / "a.png").write_bytes(data[: chance.integers(1, len(data) + 1)])
            with suppress(Unusable):
                assert opened(tmp_path / "a.png").shape == (3, 16, 16)


def test_arrays_of_bytes_or_shades_are_pictures_too() -> None:
    assert np.array_equal(decode_array(RAMP, size=16, channels=3), RAMP.transpose(2, 0, 1))
    assert np.array_equal(decode_array(RAMP[..., :1], size=16, channels=1)[0], RAMP[..., 0])
    assert np.array_equal(decode_array(RAMP / 255, size=16, channels=3), RAMP.transpose(2, 0, 1))
    assert decode_array(RAMP, size=8, channels=1).shape == (1, 8, 8)
    for wrong in (RAMP.astype(np.int32), RAMP / 255 * 2, np.zeros((3, 3, 3, 3), np.uint8), np.zeros((0, 4), np.uint8)):
        with pytest.raises(Unusable, match="an array of"):
            decode_array(wrong, size=16, channels=3)
    with pytest.raises(Unusable, match="fewer than 4 pixels on a side"):
        decode_array(np.zeros((2, 2), np.uint8), size=16, channels=3)
