"""Which characters of a text, as it was written, each of its tokens stands for.

A text is normalised before it is tokenised, and then its tokens stand elsewhere: quotes become plain, letters and their
accents one, blanks single. So it is taken apart into words first, and each word into characters with the marks that
belong to them: a token stands for all of these that it touches. Where a word changes as a whole, as a Greek one does at
its end, its tokens stand for all of it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from tokenizers import Tokenizer as Engine

from regard.data.encodings import SURROGATE
from regard.data.normalise import Level, TextConfig, normal
from regard.data.tokenizers.tokenizer import Tokenizer

WORD = re.compile(r"\S+")
JOINERS = "\u200c\u200d"
Span = tuple[int, int]  # the first character, and the one after the last


class Located(NamedTuple):
    """The tokens of a text, and which of its characters each stands for."""

    ids: list[int]
    spans: list[Span]

    def covering(self, first: int, last: int) -> Span | None:
        """The fewest tokens, from the first to the last, in which these characters are; None where there are none."""
        touched = [number for number, (begin, end) in enumerate(self.spans) if begin < last and end > first]
        return (touched[0], touched[-1]) if touched else None

    def characters(self, first: int, last: int) -> Span:
        """The characters that the tokens from the first to the last stand for."""
        return self.spans[first][0], max(end for _, end in self.spans[first : last + 1])


class Locator:
    """Tokenises texts and keeps where their tokens stand."""

    def __init__(self, own: Tokenizer) -> None:
        self.how = own.how
        self._engine = Engine.from_str(own.json())
        self._engine.encode_special_tokens = True
        self._engine.no_padding()
        self._engine.no_truncation()

    def locate(self, texts: Sequence[str]) -> list[Located]:
        """Tokens of each text with their characters; many at once are encoded in parallel."""
        prepared = [_prepared(text, self.how) for text in texts]
        try:
            coded = self._engine.encode_batch([each for each, _ in prepared], add_special_tokens=False)
        except (TypeError, UnicodeEncodeError):
            raise ValueError(SURROGATE) from None
        return [
            Located(one.ids, [_over(made[begin : max(end, begin + 1)]) for begin, end in one.offsets])
            for one, (_, made) in zip(coded, prepared, strict=True)
        ]


class _Made(NamedTuple):
    """A character of a text as it is tokenised, and those of the original that it was made of."""

    written: str
    begin: int
    end: int


def _prepared(text: str, how: TextConfig) -> tuple[str, list[_Made]]:
    """A text as it is tokenised, in the order of `how.normal`, and what each of its characters was made of."""
    made = _parted([_normal(found[0], found.start(), how.normalise) for found in WORD.finditer(text)])
    if ignored := vars(how).get("ignore"):
        blank = {place for found in re.finditer(ignored, _text(made)) for place in range(*found.span())}
        made = _parted(_words([each._replace(written=" ") if n in blank else each for n, each in enumerate(made)]))
    if vars(how).get("lowercase"):
        made = _parted(map(_lower, _words(made)))
    if pattern := vars(how).get("pattern"):
        made = _parted(_words(made, re.compile(pattern)))
    return _text(made), made


def _words(made: list[_Made], pattern: re.Pattern[str] = WORD) -> list[list[_Made]]:
    return [made[slice(*found.span())] for found in pattern.finditer(_text(made))]


def _parted(words: Iterable[list[_Made]]) -> list[_Made]:
    """Words with single blanks between them, which stand for whatever is there."""
    made = list[_Made]()
    for word in words:
        if word and made:
            made.append(_Made(" ", made[-1].end, word[0].begin))
        made += word
    return made


def _text(made: Iterable[_Made]) -> str:
    return "".join(each.written for each in made)


def _normal(word: str, start: int, level: Level) -> list[_Made]:
    """A word as it is normalised, character by character with their marks; none if nothing is left of it."""
    whole = normal(word, level).strip()
    if whole == word and word.isascii():
        end = start + len(word)
        return list(map(_Made, word, range(start, end), range(start + 1, end + 1)))
    bounds = [*(place for place in range(len(word)) if not _continues(word, place)), len(word)]
    pieces = [(normal(word[begin:end], level), begin, end) for begin, end in pairwise(bounds)]
    if "".join(piece for piece, _, _ in pieces) != whole:
        pieces = [(whole, 0, len(word))]
    return [_Made(each, start + begin, start + end) for piece, begin, end in pieces for each in piece]


def _lower(word: Sequence[_Made]) -> list[_Made]:
    """A word in small letters; one of them may be two, and the last of a Greek word is another one."""
    whole, pieces = _text(word).lower(), [each.written.lower() for each in word]
    if len(whole) == len(word):
        pieces = list(whole)
    if "".join(pieces) != whole:
        return [_Made(each, word[0].begin, word[-1].end) for each in whole]
    return [made._replace(written=each) for piece, made in zip(pieces, word, strict=True) for each in piece]


def _continues(word: str, place: int) -> bool:
    """Whether a character belongs to the one before it: accents and other marks, and what joiners join."""
    if not place:
        return False
    near = word[place - 1 : place + 1]
    return any(each in JOINERS for each in near) or unicodedata.category(near[1]).startswith("M")


def _over(made: Sequence[_Made]) -> Span:
    """All characters that some were made of; the blank before a word is not part of it."""
    there = [each for each in made if each.written != " "] or made
    return there[0].begin, there[-1].end
