"""A guess at the language of a text from its letters and words: enough to tell European languages apart."""

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
LANES, BITS = 3, 21  # columns of the table that are summed as one whole number, and bits between them
SCALE = 24.0  # the table's integers for one unit of log-odds
LIKELY = 0.6  # the least share of what is named
ENOUGH = 4  # words that are more than a few
SURE, SURER = 0.95, 0.99  # the least share of a language beyond doubt: of so many words, of fewer
UNLIKE, UNLIKER = 0.01, 0.0005  # the most share of the languages that a text is not in
LONGEST = 2000  # characters that are looked at
TOGETHER = 128  # texts that are judged at a time
REMEMBERED = 1 << 14  # texts whose guesses are kept, since each is asked for more than once
MASK = np.uint64(BUCKETS - 1)
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # spreads what differs little
LATIN = re.compile("[A-Za-zªº\u00c0-\u024f\u1e00-\u1eff]")
WORD = re.compile(rf"{LATIN.pattern}+(?:'{LATIN.pattern}+)*'?")
ADDRESS = re.compile(r"\S*(?:@|://|www\.)\S*|[{%$][^\s}]*}?")
SIGNS = ("@", "://", "www.", "{", "%", "$")
"""One of them is in every address."""
_recent: list[dict[str, Guess | None]] = [{}]
"""What was found last, since it is asked for more than once; never changed, only replaced."""


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

    def surely(self, code: str) -> bool:
        """Whether it is this language beyond doubt; a few words need to be clearer than many."""
        return self.probabilities.get(code, 0.0) >= (SURE if self.words >= ENOUGH else SURER)

    def outside(self, codes: Collection[str]) -> str | None:
        """The language, if it is none of these; None where that is unsure."""
        share = sum(self.probabilities[code] for code in codes)
        return self.code if share < (UNLIKE if self.words >= ENOUGH else UNLIKER) else None


def features(text: str) -> np.ndarray:
    """The rows of the table that speak of a text: those of its words, and of one to four letters in a row."""
    return np.concatenate([rows for rows, _ in _features([_words(text[:LONGEST])])])


def _features(texts: Sequence[Sequence[str]]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows for the words of some texts, then for one to four letters in a row, each with the text it is of."""
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
    """Return the sums of rows of the table for each text, a column for each language.

    Features come with the text that each is of, in order.
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
    """Return the columns that were summed as one number."""
    half, columns = 1 << (BITS - 1), []
    for _ in range(LANES):
        columns.append((sums + half & 2 * half - 1) - half)
        sums = sums - columns[-1] >> BITS
    return np.stack(columns, axis=2).reshape(len(sums), -1)[:, : len(LANGUAGES)]


def identify(text: str) -> Guess | None:
    """The likeliest language of a text; None where it has no Latin letters to judge by."""
    return identify_many([text])[0]


def identify_many(texts: Sequence[str]) -> list[Guess | None]:
    """The likeliest language of each text, many at a time."""
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
    """The likeliest of these languages, however unlike each the text is; None where there is nothing to judge by."""
    best_guess = identify(text)
    candidates = [code for code in among if code in LANGUAGES]
    return max(candidates, key=best_guess.probabilities.__getitem__) if best_guess is not None and candidates else None


def guess(text: str, among: Collection[str]) -> str | None:
    """The likeliest of these languages, or None when nothing tells them apart or the text is in another one."""
    best_guess, code = identify(text), likeliest(text, among)
    if best_guess is None or code is None:
        return None
    total = sum(best_guess.probabilities[candidate] for candidate in among if candidate in LANGUAGES)
    return code if best_guess.probabilities[code] >= LIKELY * max(total, LIKELY) else None


def is_surely(text: str, code: str) -> bool:
    """Whether a text is in this language beyond doubt."""
    best_guess = identify(text)
    return best_guess is not None and best_guess.surely(code)


def identify_foreign(text: str, languages: Collection[str]) -> str | None:
    """The language of a text that is in none of these, or the script if it is not Latin; None where that is unsure."""
    return identify_foreign_many([text], languages)[0]


def identify_foreign_many(texts: Sequence[str], languages: Collection[str]) -> list[str | None]:
    """The same for each text, many at a time."""
    if any(code not in LANGUAGES for code in languages):
        return [None] * len(texts)
    guesses = zip(texts, identify_many(texts), strict=True)
    return [
        _foreign_script(text) or (None if best_guess is None else best_guess.outside(languages))
        for text, best_guess in guesses
    ]


def _foreign_script(text: str) -> str | None:
    """The script that most letters of a text have, unless that is Latin: Cyrillic, Greek, CJK ..."""
    if text.isascii():
        return None
    letters = [letter for letter in text[:LONGEST] if letter.isalpha()]
    non_latin = [letter for letter in letters if not LATIN.match(letter)]
    if 2 * len(non_latin) <= len(letters):
        return None
    names = Counter(unicodedata.name(letter, "unknown").split()[0] for letter in non_latin)
    [(script, _)] = names.most_common(1)
    return script if script == "CJK" else script.capitalize()
