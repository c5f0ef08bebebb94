"""Which characters of a text, as it was written, each of its tokens stands for.

A text is normalised before it is tokenised, and then its tokens stand elsewhere: quotes become plain, letters and their
accents one, blanks single. So it is taken apart into words first, and each word into characters with the marks that
belong to them: a token stands for all of these that it touches. Where a word changes as a whole, as a Greek one does at
its end, its tokens stand for all of it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from tokenizers import Tokenizer as Engine

from regard.data.normalise import TextConfig
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
            raise ValueError("a text holds a lone surrogate, which no file can: decode it as UTF-8 first") from None
        return [
            Located(one.ids, [_over(made[begin : max(end, begin + 1)]) for begin, end in one.offsets])
            for one, (_, made) in zip(coded, prepared, strict=True)
        ]


class _Made(NamedTuple):
    """Which characters of a text one of its normal form was made of, and whether they are a blank between words."""

    begin: int
    end: int
    blank: bool = False


def _prepared(text: str, how: TextConfig) -> tuple[str, list[_Made]]:
    """A text as it is tokenised, and what each of its characters was made of."""
    ignored, pattern = getattr(how, "ignore", None), getattr(how, "pattern", None)
    normal: Callable[[str], str] = getattr(how, "normal_word", how.normal)
    if ignored:
        text = re.sub(ignored, lambda match: " " * len(match[0]), text)  # every character stays where it is
    parts, made = list[str](), list[_Made]()
    for word in (re.compile(pattern) if pattern else WORD).finditer(text):
        start, written = word.start(), _characters(word[0], normal)
        if not written:
            continue
        if parts:
            made.append(_Made(made[-1].end, start, blank=True))
        for piece, begin, end in written:
            parts.append(piece)
            made += [_Made(start + begin, start + end)] * len(piece)
    return _joined(parts, made), made


def _joined(parts: Sequence[str], made: Sequence[_Made]) -> str:
    """The normal form of a text, a single blank between its words."""
    letters = iter("".join(parts))
    return "".join(" " if each.blank else next(letters) for each in made)


def _characters(word: str, normal: Callable[[str], str]) -> list[tuple[str, int, int]]:
    """The characters of a word with their marks, normalised, and where each stands in it; none if nothing is left."""
    whole = normal(word).strip()
    if word.isascii() and len(whole) == len(word):
        return [(each, place, place + 1) for place, each in enumerate(whole)]
    bounds = [*(place for place in range(len(word)) if not _continues(word, place)), len(word)]
    pieces = [(normal(word[begin:end]), begin, end) for begin, end in pairwise(bounds)]
    if "".join(piece for piece, _, _ in pieces) == whole:
        return [each for each in pieces if each[0]]
    return [(whole, 0, len(word))] if whole else []


def _continues(word: str, place: int) -> bool:
    """Whether a character belongs to the one before it: accents and other marks, and what joiners join."""
    if not place:
        return False
    near = word[place - 1 : place + 1]
    return any(each in JOINERS for each in near) or unicodedata.category(near[1]).startswith("M")


def _over(made: Sequence[_Made]) -> Span:
    """All characters that some were made of; the blank before a word is not part of it."""
    there = [each for each in made if not each.blank] or made
    return (min(each.begin for each in there), max(each.end for each in there))
