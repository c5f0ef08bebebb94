"""The CMU Pronouncing Dictionary as pairs of letters and sounds, cut so that no word is in two parts.

It reads the file in any of its three shapes: `cmudict.dict` (`read(2) R IY1 D`), `cmudict-0.7b` (`READ(1)  R IY1 D`,
remarks after `;;;`) and that of NLTK (`READ 2 R IY1 D`).
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from regard.data.readers import LINE, lines

HEAD = re.compile(r"(?P<word>.+?)(?:\(\d+\))?")
SOUND = re.compile(r"([A-Z]{1,2})[0-2]?")
SPELLED = re.compile(r"[a-z']*[a-z][a-z']*")
SHARES = {"test": 0.10, "valid": 0.02}  # the rest is for training
Pronunciations = Mapping[str, list[str]]


@dataclass(frozen=True)
class Dictionary:
    """Words with all their pronunciations, and the number of words left out."""

    words: Pronunciations
    passed_over: int
    """Words with a digit, a dot or another sign that is neither a letter nor an apostrophe."""


def read(name: str, *, stress: bool = False) -> Dictionary:
    """Read a dictionary file, words in lower case; `stress` keeps the stress digits of the vowels."""
    words: dict[str, list[str]] = {}
    others = set()
    for word, sounds in _entries(name):
        if not SPELLED.fullmatch(word):
            others.add(word)
            continue
        text = " ".join(sounds if stress else (sound.rstrip("012") for sound in sounds))
        pronunciations = words.setdefault(word, [])
        if text not in pronunciations:
            pronunciations.append(text)
    if not words:
        raise ValueError(f"{name} has no words: give the file of the CMU Pronouncing Dictionary")
    return Dictionary(words, len(others))


def part(word: str) -> str:
    """Return the part (train, valid or test) of a word, which depends on its letters alone."""
    place = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big") / 2**64
    for name, share in SHARES.items():
        if place < share:
            return name
        place -= share
    return "train"


def write(dictionary: Dictionary, folder: Path) -> dict[str, tuple[int, int]]:
    """Write `train.tsv.gz`, `valid.tsv.gz` and `test.tsv.gz` to a folder; return the counts of words and lines of each.

    A line is a word, a tab and a pronunciation; a word with several has as many lines.
    """
    folder.mkdir(parents=True, exist_ok=True)
    counts = {}
    for name in ("train", *SHARES):
        entries = {word: sounds for word, sounds in sorted(dictionary.words.items()) if part(word) == name}
        rows = [f"{word}\t{pronunciation}\n" for word, sounds in entries.items() for pronunciation in sounds]
        path = folder / f"{name}.tsv.gz"
        aside = path.with_name(f".{path.name}.part")
        aside.write_bytes(gzip.compress("".join(rows).encode(), mtime=0))  # the same bytes for the same words
        aside.replace(path)
        counts[name] = len(entries), len(rows)
    return counts


def _entries(name: str) -> Iterator[tuple[str, list[str]]]:
    """Yield (word, sounds) for every line that is not a comment."""
    for number, raw in enumerate(lines(name), start=1):
        if raw is None:
            raise ValueError(f"{name}:{number}: longer than {LINE:,} bytes, give the dictionary as it is published")
        text = raw.decode("utf-8", errors="replace").partition(" #")[0]  # a few words of 0.7b are not UTF-8
        if text.startswith((";;;", "##")) or not text.strip():
            continue
        head, *sounds = text.split()
        if sounds and sounds[0].isdigit():  # NLTK numbers the pronunciations
            del sounds[0]
        match = HEAD.fullmatch(head)
        if match is None or not sounds or not all(map(SOUND.fullmatch, sounds)):
            raise ValueError(f"{name}:{number}: {text[:40]!r} is not a word and its sounds, such as READ  R EH1 D")
        yield match["word"].lower(), sounds
