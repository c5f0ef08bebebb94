"""Pictures made to use up the memory of `regard serve`, which is measured from outside (S12)."""

from __future__ import annotations

import base64
import importlib.util
import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from PIL import Image

from regard import checkpoint, models
from regard.config import plain
from regard.data.images.decoding import measure_picture
from regard.models.vit import ViTConfig
from regard.serve.payload import MOST_DECODED, PICTURE_SIDE
from tests.serve.memory import MEGABYTE, peak_bytes, reset_peak
from tests.serve.process import ServerProcess, run_server

pytestmark = pytest.mark.unchecked
BUDGET = 64 * MEGABYTE  # the limit memory_bytes
LARGEST_DECODER = 420 * MEGABYTE  # what one decoder takes at most for 16 megapixels: those of WebP with transparency
DECODERS = 2
SPARE = 160 * MEGABYTE  # for bodies, tiles, and what the allocator keeps
HEIC = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(100)  # the beginning of a photograph of a telephone


def encode(mode: str, size: tuple[int, int], kind: str, **settings: object) -> str:
    """Return a picture of one colour in base64."""
    buffer = io.BytesIO()
    Image.new(mode, size).save(buffer, kind, **settings)
    return base64.b64encode(buffer.getvalue()).decode()


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[ServerProcess]:
    """A process that classifies pictures with a small model that has learnt nothing."""
    folder = tmp_path_factory.mktemp("pictures")
    write_eye(folder / "eye")
    settings = ("-s", f"memory_bytes={BUDGET}", "-s", "deadline=600")
    with run_server(folder / "log", str(folder / "eye"), *settings) as server:
        yield server


@pytest.fixture(scope="module")
def roomy(tmp_path_factory) -> Iterator[ServerProcess]:
    """The same with the memory that a server has by default."""
    folder = tmp_path_factory.mktemp("roomy")
    write_eye(folder / "eye")
    with run_server(folder / "log", str(folder / "eye"), "-s", "deadline=600") as server:
        yield server


def write_eye(folder: Path) -> None:
    """Write a checkpoint of a small classifier of pictures that has learnt nothing."""
    torch.manual_seed(0)
    config = ViTConfig(size=16, patch=4, width=16, heads=2, hidden=16, depth=1, classes=2)
    data = {"mean": [0.5] * 3, "std": [0.5] * 3, "fit": "squeeze"}
    weights = checkpoint.weights(models.build(config).eval())
    settings = {"task": "pictures", "model": plain(config), "data": data, "labels": ["red", "blue"]}
    checkpoint.write(folder, {"config.yaml": settings, checkpoint.WEIGHTS: weights}, facts={"step": 1})


def classify(server: ServerProcess, inputs: str | list[str]) -> tuple[int, str]:
    """Return the status of an answer, and its error if it has one."""
    with server.client() as client:
        answer = client.post("/v1/classify", json={"inputs": inputs})
    return answer.status_code, answer.json().get("error", {}).get("message", "")


def test_large_pictures_are_read_or_refused_by_format_and_size(server):
    """Up to 16 megapixels all are read, up to 100 a plain JPEG, and others where the memory for them is allowed."""
    assert classify(server, encode("RGB", (10_000, 9_999), "JPEG"))[0] == 200
    assert classify(server, encode("RGB", (4_096, 4_096), "PNG"))[0] == 200
    assert classify(server, encode("L", (5_000, 3_400), "PNG"))[0] == 200
    for picture in (encode("RGB", (10_000, 10_001), "JPEG"), encode("RGB", (5_000, 3_400), "WEBP")):
        status, message = classify(server, picture)
        assert (status, "more than 100 megapixels (WebP, HEIC, turned TIFF: 16)" in message) == (422, True)
    for picture in (
        encode("RGB", (5_000, 3_400), "JPEG", progressive=True),
        encode("RGB", (5_000, 3_400), "PNG"),
        encode("L", (5_000, 3_400), "TIFF", compression="tiff_deflate"),
    ):
        status, message = classify(server, picture)
        assert (status, f"all requests together have {BUDGET:,}" in message) == (413, True)
    status, message = classify(server, [encode("L", (4_096, 4_096), "PNG")] * 6)
    assert (status, "at most 100,000,000 in a request" in message) == (422, True)


@pytest.mark.parametrize(
    ("mode", "side", "kind", "settings"),
    [
        ("RGBA", 7_000, "PNG", {"compress_level": 1}),
        ("RGB", 5_000, "JPEG", {"progressive": True, "subsampling": 0}),
        ("RGB", 5_000, "TIFF", {"compression": "tiff_adobe_deflate", "strip_size": 1 << 30}),
    ],
    ids=["PNG", "progressive JPEG", "TIFF"],
)
def test_what_is_unpacked_whole_takes_no_more_than_is_reserved(roomy, mode, side, kind, settings):
    """S12: the decoder and the tiles that are converted; of a second large picture at the same time nothing."""
    picture = encode(mode, (side, side), kind, **settings)
    reserved = measure_picture(base64.b64decode(picture)).unpacked_bytes
    assert reserved >= 4 * side * side
    assert classify(roomy, encode(mode, (side // 8, side // 8), kind, **settings))[0] == 200
    reset_peak(roomy)
    before = peak_bytes(roomy)
    with ThreadPoolExecutor(3) as pool:
        statuses = [status for status, _ in pool.map(lambda picture: classify(roomy, picture), [picture] * 3)]
    growth = peak_bytes(roomy) - before
    print(f"{reserved / MEGABYTE:.0f} MiB reserved, {growth / MEGABYTE:.0f} MiB more at most, {statuses}")
    assert set(statuses) <= {200, 429}
    assert statuses.count(200)
    assert growth < reserved + SPARE
    assert classify(roomy, picture)[0] == 200, "what was reserved is free again"


def test_a_tiff_is_read_and_what_is_wrong_with_one_is_told(server):
    """Of several pages the first is read; HEIC is refused with the remedy where its library is missing."""
    pages = {"save_all": True, "append_images": [Image.new("RGB", (40, 40), "blue")]}
    for settings in ({}, {"compression": "tiff_lzw"}, {"compression": "jpeg"}, pages):
        assert classify(server, encode("RGB", (40, 40), "TIFF", **settings))[0] == 200
    assert classify(server, encode("RGB", (4_096, 4_096), "TIFF", compression="tiff_deflate"))[0] == 200
    whole = base64.b64decode(encode("RGB", (40, 40), "TIFF"))
    for data, words in (
        (whole[:200], "truncated or damaged"),
        (whole[:-1_000], "truncated or damaged"),
        (b"II*\0" + whole[:4] * 20, "no picture"),
        *(() if importlib.util.find_spec("pillow_heif") else ((HEIC, "pip install pillow-heif, or convert it"),)),
    ):
        status, message = classify(server, base64.b64encode(data).decode())
        assert (status, words in message) == (422, True), message
    status, message = classify(server, encode("F", (40, 40), "TIFF"))
    assert (status, "32 bits or fractions" in message) == (422, True)


def test_many_large_pictures_at_a_time_are_answered_or_refused_within_bounded_memory(server):
    """Long ones have a short side that is not reduced; those of many requests would take gigabytes."""
    long = encode("RGB", (PICTURE_SIDE, (1 << 24) // PICTURE_SIDE), "PNG")
    clear = encode("RGBA", (4_000, 4_000), "WEBP", lossless=True)
    deep = encode("I;16", (4_096, 4_096), "PNG")
    pages = encode("RGBA", (4_096, 4_096), "TIFF", compression="tiff_deflate")
    requests = [[long] * 5, [clear] * 5, [deep] * 5, [pages] * 5] * 3
    classify(server, encode("RGB", (64, 64), "PNG"))
    reset_peak(server)
    before = peak_bytes(server)
    with ThreadPoolExecutor(len(requests)) as pool:
        statuses = [status for status, _ in pool.map(lambda inputs: classify(server, inputs), requests)]
    growth = peak_bytes(server) - before
    print(f"{before / MEGABYTE:.0f} MiB before, {growth / MEGABYTE:.0f} MiB more at most, {statuses}")
    assert set(statuses) <= {200, 429}
    assert statuses.count(200)
    assert 3 * MOST_DECODED * 5 <= BUDGET, "one request fits"
    assert growth < BUDGET + DECODERS * LARGEST_DECODER
    assert classify(server, long)[0] == 200, "what was reserved is free again"
