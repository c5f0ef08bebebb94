"""Pairs of random words with the lengths of a translation corpus (WMT-like: 28 tokens on average, at most 128)."""

from __future__ import annotations

import random
from pathlib import Path

WORDS = 32_508  # with 256 bytes and the special tokens, a vocabulary of 32,768


def lengths(count: int, seed: int = 0) -> list[tuple[int, int]]:
    """Tokens of both sides of each pair, the end included."""
    chance = random.Random(seed)
    found = []
    for _ in range(count):
        source = min(128, max(3, int(chance.lognormvariate(3.2, 0.55))))
        found.append((source, min(128, max(3, int(source * chance.uniform(0.8, 1.3))))))
    return found


def write(folder: Path, count: int, seed: int = 0) -> tuple[Path, Path]:
    """Two files of `count` lines each, for a tokenizer of words."""
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(seed + 1)
    names = [name_of(number) for number in range(WORDS)]
    paths = folder / "train.source", folder / "train.target"
    sizes = lengths(count, seed)
    for side, path in enumerate(paths):
        with path.open("w", encoding="utf-8") as file:
            for pair in sizes:
                file.write(" ".join(chance.choices(names, k=pair[side] - 1)) + "\n")
    return paths


def name_of(number: int) -> str:
    """A word of letters alone, so that nothing is split from it."""
    letters = ""
    for _ in range(4):
        number, letter = divmod(number, 26)
        letters += chr(ord("a") + letter)
    return letters
