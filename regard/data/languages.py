"""Language identification from letters and words, for European languages."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from zlib import crc32

import numpy as np

from regard.data.language_names import LANGUAGES

TABLE = Path(__file__).with_name("languages.bin")
BUCKETS = 4096  # rows of the table, a power of two
LANES, BITS = 3, 21  # columns of the table that are summed in one integer, and bits per column
SCALE = 24.0  # integer value of one unit of log-odds
LIKELY = 0.6  # minimum probability of an identified language
ENOUGH = 4  # number of words from which the lower threshold applies
SURE, SURER = 0.95, 0.99  # minimum probability of a certain language: for ENOUGH words, and for fewer
UNLIKE, UNLIKER = 0.01, 0.0005  # maximum probability of the languages that a text is not in, likewise
LONGEST = 2000  # characters that are examined
TOGETHER = 128  # texts per batch
REMEMBERED = 1 << 14  # texts whose guesses are cached
MASK = np.uint64(BUCKETS - 1)
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # spreads similar values over the table
LATIN = re.compile("[A-Za-zªº\u00c0-\u024f\u1e00-\u1eff]")
WORD = re.compile(rf"{LATIN.pattern}+(?:'{LATIN.pattern}+)*'?")
ADDRESS = re.compile(r"\S*(?:@|://|www\.)\S*|[{%$][^\s}]*}?")
SIGNS = ("@", "://", "www.", "{", "%", "$")
"""One of them is in every address."""
_recent: list[dict[str, Guess | None]] = [{}]
"""What was found last, since it is asked for more than once; never changed, only replaced."""


@dataclass(frozen=True)
class Guess:
    """The likeliest language of a text, with the probability of each language."""

    code: str
    probabilities: dict[str, float]
    words: int

    @property
    def probability(self) -> float:
        """Return the probability of the likeliest language."""
        return self.probabilities[self.code]

    def surely(self, code: str) -> bool:
        """True if the text is in this language with near certainty; short texts need a higher probability."""
        return self.probabilities.get(code, 0.0) >= (SURE if self.words >= ENOUGH else SURER)

    def outside(self, codes: Collection[str]) -> str | None:
        """Return the language if it is almost certainly none of these, else None."""
        share = sum(self.probabilities[code] for code in codes)
        return self.code if share < (UNLIKE if self.words >= ENOUGH else UNLIKER) else None


def features(text: str) -> np.ndarray:
    """Return the rows of the table for a text: of its words, and of its n-grams of one to four letters."""
    return np.concatenate([rows for rows, _ in _features([_words(text[:LONGEST])])])


def _features(texts: Sequence[Sequence[str]]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the rows of words, then of n-grams of one to four letters, each with the index of its text."""
    whole = np.array([crc32(word.encode()) for words in texts for word in words], np.uint64)
    yield (whole & MASK).view(np.int64), np.repeat(np.arange(len(texts)), [len(words) for words in texts])
    spelled = [f" {' '.join(words)} " for words in texts]
    letters = np.frombuffer("".join(spelled).encode("utf-32-le"), np.uint32)
    owner = np.repeat(np.arange(len(texts)), [len(text) for text in spelled])
    mixed = letters.astype(np.uint64)
    for size in (1, 2, 3, 4):
        if size > 1:
            mixed = mixed[:-1] * MULTIPLIER + letters[size - 1 :]
        rows = (mixed + np.uint64(size)) * MULTIPLIER >> np.uint64(20) & MASK
        last = len(owner) - size + 1
        inside = owner[:last] == owner[size - 1 :]
        yield rows[inside].view(np.int64), owner[:last][inside]


def _words(text: str) -> list[str]:
    plain = ADDRESS.sub(" ", text) if any(sign in text for sign in SIGNS) else text
    return WORD.findall(plain.lower().replace("’", "'"))


@cache
def _table() -> np.ndarray:
    """Return a row of weights for each hashed feature, `LANES` languages in each number: sums take as much less time.

    Weights are log-odds as whole numbers from -128 to 127.
    """
    weights = np.frombuffer(TABLE.read_bytes(), np.int8).reshape(BUCKETS, len(LANGUAGES)).astype(np.int64)
    columns = np.pad(weights, ((0, 0), (0, -len(LANGUAGES) % LANES))).reshape(BUCKETS, -1, LANES)
    return (columns << np.arange(LANES) * BITS).sum(2)


def _sum_weights(features: Iterable[tuple[np.ndarray, np.ndarray]], texts: int) -> np.ndarray:
    """Return the sums of table rows for each text, with one column per language.

    Features are ordered by the index of their text.
    """
    if texts == 1:
        sums = _table().take(np.concatenate([rows for rows, _ in features]), axis=0).sum(0, keepdims=True)
        return _split_lanes(sums)
    sums = np.zeros((texts, _table().shape[1]), np.int64)
    for rows, owner in features:
        begins = np.searchsorted(owner, np.arange(texts + 1))
        filled = begins[:-1] < begins[1:]
        if len(rows):
            sums[filled] += np.add.reduceat(_table().take(rows, axis=0), begins[:-1][filled], axis=0)
    return _split_lanes(sums)


def _split_lanes(sums: np.ndarray) -> np.ndarray:
    """Unpack the columns that were summed in one integer."""
    half, columns = 1 << (BITS - 1), []
    for _ in range(LANES):
        columns.append((sums + half & 2 * half - 1) - half)
        sums = sums - columns[-1] >> BITS
    return np.stack(columns, axis=2).reshape(len(sums), -1)[:, : len(LANGUAGES)]


def identify(text: str) -> Guess | None:
    """Return the likeliest language of a text; None if it has no Latin letters."""
    return identify_many([text])[0]


def identify_many(texts: Sequence[str]) -> list[Guess | None]:
    """Return the likeliest language of each text, in batches."""
    recent, heads = _recent[0], [text[:LONGEST] for text in texts]
    guesses = {text: recent[text] for text in heads if text in recent}
    new = [text for text in dict.fromkeys(heads) if text not in guesses]
    for begin in range(0, len(new), TOGETHER):
        chunk = new[begin : begin + TOGETHER]
        guesses |= dict(zip(chunk, _classify([_words(text) for text in chunk]), strict=True))
    if new:
        _recent[0] = dict(list(guesses.items())[-REMEMBERED:])
    return [guesses[text] for text in heads]


def _classify(texts: Sequence[Sequence[str]]) -> Iterator[Guess | None]:
    logits = _sum_weights(_features(texts), len(texts)) / SCALE
    odds = np.exp(logits - logits.max(1, keepdims=True))
    shares = (odds / odds.sum(1, keepdims=True)).tolist()
    codes = list(LANGUAGES)
    for words, best, probabilities in zip(texts, odds.argmax(1).tolist(), shares, strict=True):
        yield Guess(codes[best], dict(zip(codes, probabilities, strict=True)), len(words)) if words else None


def likeliest(text: str, among: Collection[str]) -> str | None:
    """Return the likeliest of these languages, even if the text is in none of them; None if it has no Latin letters."""
    best_guess = identify(text)
    candidates = [code for code in among if code in LANGUAGES]
    return max(candidates, key=best_guess.probabilities.__getitem__) if best_guess is not None and candidates else None


def guess(text: str, among: Collection[str]) -> str | None:
    """Return the likeliest of these languages; None if it is unclear or the text is in another language."""
    best_guess, code = identify(text), likeliest(text, among)
    if best_guess is None or code is None:
        return None
    total = sum(best_guess.probabilities[candidate] for candidate in among if candidate in LANGUAGES)
    return code if best_guess.probabilities[code] >= LIKELY * max(total, LIKELY) else None


def is_surely(text: str, code: str) -> bool:
    """True if a text is in this language with near certainty."""
    best_guess = identify(text)
    return best_guess is not None and best_guess.surely(code)


def identify_foreign(text: str, languages: Collection[str]) -> str | None:
    """Return the language, or non-Latin script, of a text that is in none of these languages; None if unsure."""
    return identify_foreign_many([text], languages)[0]


def identify_foreign_many(texts: Sequence[str], languages: Collection[str]) -> list[str | None]:
    """Return the foreign language of each text, or None, in batches."""
    if any(code not in LANGUAGES for code in languages):
        return [None] * len(texts)
    guesses = zip(texts, identify_many(texts), strict=True)
    return [
        _foreign_script(text) or (None if best_guess is None else best_guess.outside(languages))
        for text, best_guess in guesses
    ]


def _foreign_script(text: str) -> str | None:
    """Return the script of most letters of a text, if it is not Latin: Cyrillic, Greek, CJK ..."""
    if text.isascii():
        return None
    letters = [letter for letter in text[:LONGEST] if letter.isalpha()]
    non_latin = [letter for letter in letters if not LATIN.match(letter)]
    if 2 * len(non_latin) <= len(letters):
        return None
    names = Counter(unicodedata.name(letter, "unknown").split()[0] for letter in non_latin)
    [(script, _)] = names.most_common(1)
    return script if script == "CJK" else script.capitalize()
