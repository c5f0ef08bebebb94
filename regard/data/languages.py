"""A guess at the language of a text from its letters and words: enough to tell European languages apart."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from zlib import crc32

import numpy as np

LANGUAGES = {
    "en": "English",
    "fr": "French",
    "de": "German",
    "es": "Spanish",
    "it": "Italian",
    "pt": "Portuguese",
    "nl": "Dutch",
    "ca": "Catalan",
    "ro": "Romanian",
    "pl": "Polish",
    "cs": "Czech",
    "sv": "Swedish",
    "da": "Danish",
    "no": "Norwegian",
    "fi": "Finnish",
    "hu": "Hungarian",
    "tr": "Turkish",
}
"""Those that are told apart, in the order of the table's columns."""
TABLE = Path(__file__).with_name("languages.npy")
BUCKETS = 4096  # rows of the table
SCALE = 24.0  # the table's integers for one unit of log-odds
LONGEST = 300  # characters that are looked at
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # spreads what differs little
WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*'?")
ADDRESS = re.compile(r"\S*(?:@|://|www\.)\S*|[{%$][^\s}]*}?")


@dataclass(frozen=True)
class Guess:
    """The likeliest language of a text, and how probable each is."""

    code: str
    probabilities: dict[str, float]
    words: int

    @property
    def probability(self) -> float:
        """How probable the likeliest language is."""
        return self.probabilities[self.code]


def features(text: str) -> np.ndarray:
    """The rows of the table that speak of a text: those of its words, and of one to four letters in a row."""
    words = _words(text)
    whole = [crc32(word.encode()) for word in words]
    letters = np.frombuffer(f" {' '.join(words)} ".encode("utf-32-le"), np.uint32)
    mixed, rows = letters.astype(np.uint64), [np.array(whole, np.uint64)]
    for size in (1, 2, 3, 4):
        if size > 1:
            mixed = mixed[:-1] * MULTIPLIER + letters[size - 1 :]
        rows.append((mixed + np.uint64(size)) * MULTIPLIER >> np.uint64(20))
    return (np.concatenate(rows) % BUCKETS).astype(np.int64)


def _words(text: str) -> list[str]:
    return WORD.findall(ADDRESS.sub(" ", text[:LONGEST]).lower().replace("’", "'"))


@cache
def _table() -> np.ndarray:
    return np.load(TABLE, allow_pickle=False)


def identify(text: str) -> Guess | None:
    """The likeliest language of a text; None where it has no Latin letters to judge by."""
    words = _words(text)
    if not words:
        return None
    logits = _table()[features(text)].sum(0, dtype=np.int64) / SCALE
    odds = np.exp(logits - logits.max())
    shares = dict(zip(LANGUAGES, (odds / odds.sum()).tolist(), strict=True))
    return Guess(max(shares, key=shares.__getitem__), shares, len(words))
