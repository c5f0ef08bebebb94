"""Damaged and hostile bytes in the three readers: one line or success, soon, in little memory, never a traceback."""

import random
import resource
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from regard import interop
from tests.interop.making import lay
from tests.interop.test_llama2c import lay as lay_llama2c
from tests.interop.test_llama2c import llama, written

ROUNDS = 150
MEMORY = 256  # MiB that a reader may take beyond what was taken before
SPECIAL = [
    b"\0",
    b"\xff",
    b"\n",
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b"-",
    b"1e999",
    b"NaN",
    b"null",
    b"true",
    b"../",
    b"\\u0000",
]
NUMBERS = [0, 1, -1, 127, 255, 65536, 2**31 - 1, -(2**31)]


def spoilt(data: bytes, rounds: int, *, head: int) -> Iterator[bytes]:
    """The data with a few changes, most of them near its beginning, where the structure is."""
    chance = random.Random(7)
    for _ in range(rounds):
        found = bytearray(data)
        for _ in range(chance.choice((1, 1, 2, 5))):
            place = chance.randrange(min(head, len(found)) if chance.random() < 0.9 else len(found)) if found else 0
            match chance.randrange(6):
                case 0:
                    found[place : place + 1] = bytes([chance.randrange(256)])
                case 1:
                    found[place:place] = chance.choice(SPECIAL)
                case 2:
                    del found[place : place + chance.choice((1, 4, 100))]
                case 3:
                    found[place : place + 4] = struct.pack("<i", chance.choice(NUMBERS))
                case 4:
                    del found[place + chance.randrange(64) :]
                case _:
                    other = chance.randrange(len(found)) if found else 0
                    found[place : place + 16] = found[other : other + chance.choice((4, 16, 64))]
        yield bytes(found)


def survived(read: Path, path: Path, data: bytes, rounds: int = ROUNDS, *, head: int = 4096) -> int:
    """How many spoilt versions of a file were refused; the others were read."""
    before, began, refused = _peak(), time.monotonic(), 0
    for each in spoilt(data, rounds, head=head):
        path.write_bytes(each)
        said = answer(read)
        refused += said is not None
        assert said is None or ("\n" not in said and len(said) < 1000 + len(str(read))), each[:200]
    assert _peak() - before < MEMORY
    assert time.monotonic() - began < 300
    return refused


def answer(read: Path) -> str | None:
    """What is said of a folder or file that cannot be read."""
    try:
        interop.read(read)
    except ValueError as error:
        return str(error)
    return None


def _peak() -> float:
    """The most memory this process ever had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("gpt")
    lay(place)
    interop.read(place)  # what a first call loads is no part of the measure
    return place


@pytest.fixture
def kept(folder) -> Iterator[Path]:
    """The folder, whose files are put back afterwards."""
    before = {path: path.read_bytes() for path in folder.iterdir()}
    yield folder
    for path in folder.iterdir():
        path.unlink()
    for path, data in before.items():
        path.write_bytes(data)


def test_spoilt_configs(kept):
    place = kept / "config.json"
    assert survived(kept, place, place.read_bytes()) > ROUNDS / 2


def test_spoilt_weights(kept):
    place = kept / "model.safetensors"
    assert survived(kept, place, place.read_bytes()) > ROUNDS / 2


def test_spoilt_indices(kept, tmp_path):
    lay(tmp_path / "shards", max_shard_size="20KB")
    place = tmp_path / "shards" / "model.safetensors.index.json"
    assert survived(tmp_path / "shards", place, place.read_bytes()) > ROUNDS / 2


def test_spoilt_files_of_llama2c(tmp_path):
    data = written(llama(tied=True, groups=6))
    place = lay_llama2c(tmp_path, data)
    assert survived(place, place, data, head=64) > ROUNDS / 2
