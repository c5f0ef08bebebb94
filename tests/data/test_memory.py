"""Memory: an endless line, many huge ones and a corpus of gigabytes take hardly more than an ordinary corpus.

REGARD_FAULT_SEED replays the texts of a run, REGARD_FAULT_MEGABYTES sets the size of the large corpus.
"""

import json
import os
import random
import string
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TextIO

import pytest

CHILD = Path(__file__).parent / "weighing.py"
ROOT = CHILD.parent.parent.parent
SEED = int(os.environ.get("REGARD_FAULT_SEED", "0"))
LARGE = int(os.environ.get("REGARD_FAULT_MEGABYTES", "2000"))
Meddler = Callable[[TextIO, TextIO], None]

linux = pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process is read from /proc")


def nothing(source: TextIO, target: TextIO) -> None:
    """An ordinary corpus."""


def endless(megabytes: int) -> Meddler:
    """One line of this many megabytes."""

    def write(source: TextIO, target: TextIO) -> None:
        for _ in range(megabytes):
            source.write("x" * 1_000_000)
        source.write("\n")
        target.write("short\n")

    return write


def huge(count: int, letters: bytes) -> Meddler:
    """Lines that are not refused, a megabyte each, of these letters in the same random order."""

    def write(source: TextIO, target: TextIO) -> None:
        text = random.Random(SEED).randbytes(1_000_000).translate((letters * 256)[:256]).decode()
        for number in range(count):
            source.write(f"{number} {text}\n")
            target.write(f"huge {number}\n")

    return write


def written(stem: Path, *, characters: int, words: int, meddle: Meddler = nothing) -> list[str]:
    """Two files of about this many characters together, all pairs different, with something odd in their middle."""
    random_ = random.Random(SEED)
    known = ["".join(random_.choices(string.ascii_lowercase, k=random_.randint(2, 9))) for _ in range(2000)]
    texts = [" ".join(random_.choices(known, k=words)) for _ in range(997)]
    names = [f"{stem}.fr", f"{stem}.en"]
    with open(names[0], "w") as source, open(names[1], "w") as target:
        number = size = 0
        middle = characters // 2
        while size < characters:
            one, other = f"{number} {texts[number % 997]}\n", f"{texts[number * 7 % 997]} {number}\n"
            source.write(one)
            target.write(other)
            size += len(one) + len(other)
            number += 1
            if size >= middle:
                meddle(source, target)
                middle = characters * 2
    return names


def weighed(folder: Path, kind: str, *corpora: list[str]) -> list[dict]:
    """What a process of its own says of each corpus."""
    print(f"REGARD_FAULT_SEED={SEED}")
    files = [name for corpus in corpora for name in corpus]
    environment = {**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH") or str(ROOT)}
    command = [sys.executable, str(CHILD), str(folder / "cache"), kind, *files]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=3600)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def growth(told: list[dict], name: str) -> list[float]:
    """Megabytes that each corpus after the first added to the peak."""
    peaks = [one[name]["peak"] for one in told]
    return [peak - before for before, peak in pairwise(peaks)]


@linux
@pytest.mark.parametrize(("megabytes", "lines"), [(20, 2), pytest.param(100, 60, marks=pytest.mark.faults)])
def test_lines_of_megabytes_take_the_memory_of_an_ordinary_corpus(tmp_path, megabytes, lines):
    meddlers = {
        "ordinary": nothing,
        "endless": endless(megabytes),
        "unbroken": huge(lines, b"abcdefghijklmnopqrst"),  # a word of a megabyte, which would take minutes to learn
        "spaced": huge(lines, b"abcdefghijklmnopqrs   "),
    }
    corpora = [
        written(tmp_path / name, characters=200_000, words=9, meddle=meddle) for name, meddle in meddlers.items()
    ]
    ordinary, *odd = told = weighed(tmp_path, "real", *corpora)
    assert max(growth(told, "prepared")) < 20
    assert max(growth(told, "checked")) < 20
    for one, more in zip(odd, (1, lines, lines), strict=True):
        assert one["report"]["read"] == ordinary["report"]["read"] + more
        assert one["report"]["kept"] == pytest.approx(ordinary["report"]["kept"], abs=2)
        assert one["prepared"]["seconds"] < 240
    assert [found["count"] for found in odd[0]["report"]["refused"].values()] == [1]
    for one in odd[1:]:
        assert one["report"]["dropped"]["longer than 256 tokens"]["count"] == pytest.approx(lines, abs=2)


@linux
@pytest.mark.faults
def test_a_corpus_of_a_hundred_megabytes_is_tokenised_in_the_memory_of_a_small_one(tmp_path):
    small = written(tmp_path / "small", characters=4_000_000, words=18)
    large = written(tmp_path / "large", characters=100_000_000, words=18)
    told = weighed(tmp_path, "real", small, large)
    assert growth(told, "prepared")[0] < 40
    assert growth(told, "checked")[0] < 40
    assert told[1]["report"]["read"] > 5 * told[0]["report"]["read"]


@linux
@pytest.mark.faults
def test_a_corpus_of_gigabytes_is_read_held_out_and_written_in_the_memory_of_a_small_one(tmp_path):
    small = written(tmp_path / "small", characters=20_000_000, words=100)
    large = written(tmp_path / "large", characters=LARGE * 1_000_000, words=100)
    try:
        told = weighed(tmp_path, "quick", small, large)
    finally:
        for name in (*small, *large):
            os.unlink(name)
    assert growth(told, "prepared")[0] < 40
    assert growth(told, "checked")[0] < 40
    assert told[1]["report"]["read"] > 5 * told[0]["report"]["read"]
