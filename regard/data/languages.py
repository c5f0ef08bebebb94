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
TABLE = Path(__file__).with_name("languages.bin")
BUCKETS = 4096  # rows of the table
SCALE = 24.0  # the table's integers for one unit of log-odds
LIKELY = 0.6  # the least share of what is named
ENOUGH = 4  # words that are more than a few
SURE, SURER = 0.95, 0.99  # the least share of a language beyond doubt: of so many words, of fewer
UNLIKE, UNLIKER = 0.01, 0.0005  # the most share of the languages that a text is not in
LONGEST = 2000  # characters that are looked at
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # spreads what differs little
LATIN = re.compile("[A-Za-zªº\u00c0-\u024f\u1e00-\u1eff]")
WORD = re.compile(rf"{LATIN.pattern}+(?:'{LATIN.pattern}+)*'?")
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
    """A row of weights for each hashed feature, a column for each language: log-odds as whole numbers."""
    return np.frombuffer(TABLE.read_bytes(), np.int8).reshape(BUCKETS, len(LANGUAGES))


def identify(text: str) -> Guess | None:
    """The likeliest language of a text; None where it has no Latin letters to judge by."""
    words = len(_words(text))
    if not words:
        return None
    logits = _table()[features(text)].sum(0, dtype=np.int64) / SCALE
    odds = np.exp(logits - logits.max())
    shares = dict(zip(LANGUAGES, (odds / odds.sum()).tolist(), strict=True))
    return Guess(max(shares, key=shares.__getitem__), shares, words)


def likeliest(text: str, among: Collection[str]) -> str | None:
    """The likeliest of these languages, however unlike each the text is; None where there is nothing to judge by."""
    found = identify(text)
    known = [code for code in among if code in LANGUAGES]
    return max(known, key=found.probabilities.__getitem__) if found is not None and known else None


def guess(text: str, among: Collection[str]) -> str | None:
    """The likeliest of these languages, or None when nothing tells them apart or the text is in another one."""
    found, code = identify(text), likeliest(text, among)
    if found is None or code is None:
        return None
    known = sum(found.probabilities[one] for one in among if one in LANGUAGES)
    return code if found.probabilities[code] >= LIKELY * max(known, LIKELY) else None


def is_surely(text: str, code: str) -> bool:
    """Whether a text is in this language beyond doubt; a few words need to be clearer than many."""
    found = identify(text) if code in LANGUAGES else None
    if found is None:
        return False
    return found.probabilities[code] >= (SURE if found.words >= ENOUGH else SURER)


def foreign(text: str, known: Collection[str]) -> str | None:
    """The language of a text that is in none of these, or the script if it is not Latin; None where that is unsure."""
    if any(code not in LANGUAGES for code in known):
        return None
    if (script := _script(text)) is not None:
        return script
    found = identify(text)
    if found is None:
        return None
    share = sum(found.probabilities[code] for code in known)
    return found.code if share < (UNLIKE if found.words >= ENOUGH else UNLIKER) else None


def _script(text: str) -> str | None:
    """The script that most letters of a text have, unless that is Latin: Cyrillic, Greek, CJK ..."""
    letters = [letter for letter in text[:LONGEST] if letter.isalpha()]
    strange = [letter for letter in letters if not LATIN.match(letter)]
    if 2 * len(strange) <= len(letters):
        return None
    names = Counter(unicodedata.name(letter, "unknown").split()[0] for letter in strange)
    [(script, _)] = names.most_common(1)
    return script if script == "CJK" else script.capitalize()
