"""The characters of the original text that each token stands for.

A text is normalised before it is tokenised, which moves its characters: quotes become plain, letters and their accents
one, blanks single. So it is first split into words, and each word into characters with their combining marks: a token
stands for all of these that it touches. If a word changes as a whole, as a Greek one does at its end, its tokens stand
for all of it.
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
    """The tokens of a text, with the span of characters of each."""

    ids: list[int]
    spans: list[Span]

    def covering(self, first: int, last: int) -> Span | None:
        """Return the first and last token of the smallest range that covers these characters, or None."""
        touched = [number for number, (begin, end) in enumerate(self.spans) if begin < last and end > first]
        return (touched[0], touched[-1]) if touched else None

    def characters(self, first: int, last: int) -> Span:
        """Return the span of characters of the tokens from `first` to `last`."""
        return self.spans[first][0], max(end for _, end in self.spans[first : last + 1])


class Locator:
    """A tokenizer that also returns the characters of each token."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.how = tokenizer.how
        self._engine = Engine.from_str(tokenizer.json())
        self._engine.encode_special_tokens = True
        self._engine.no_padding()
        self._engine.no_truncation()

    def locate(self, texts: Sequence[str]) -> list[Located]:
        """Return the tokens of each text with their characters; batches are encoded in parallel."""
        prepared = [_normalise_with_origins(text, self.how) for text in texts]
        try:
            coded = self._engine.encode_batch([normalised for normalised, _ in prepared], add_special_tokens=False)
        except (TypeError, UnicodeEncodeError):
            raise ValueError(SURROGATE) from None
        return [
            Located(
                encoding.ids,
                [_covered_span(characters[begin : max(end, begin + 1)]) for begin, end in encoding.offsets],
            )
            for encoding, (_, characters) in zip(coded, prepared, strict=True)
        ]


class _Character(NamedTuple):
    """A character of a normalised text, with the span of original characters from which it was made."""

    written: str
    begin: int
    end: int


def _normalise_with_origins(text: str, how: TextConfig) -> tuple[str, list[_Character]]:
    """Normalise a text in the order of `how.normal`, and keep the origin of each character."""
    characters = _join_words([_normalise_word(match[0], match.start(), how.normalise) for match in WORD.finditer(text)])
    if ignored := vars(how).get("ignore"):
        blank = {
            place for match in re.finditer(ignored, _join_characters(characters)) for place in range(*match.span())
        }
        characters = _join_words(
            _words(
                [character._replace(written=" ") if n in blank else character for n, character in enumerate(characters)]
            )
        )
    if vars(how).get("lowercase"):
        characters = _join_words(map(_lowercase_word, _words(characters)))
    if pattern := vars(how).get("pattern"):
        characters = _join_words(_words(characters, re.compile(pattern)))
    return _join_characters(characters), characters


def _words(characters: list[_Character], pattern: re.Pattern[str] = WORD) -> list[list[_Character]]:
    return [characters[slice(*match.span())] for match in pattern.finditer(_join_characters(characters))]


def _join_words(words: Iterable[list[_Character]]) -> list[_Character]:
    """Join words by single blanks, which stand for whatever is between them."""
    characters = list[_Character]()
    for word in words:
        if word and characters:
            characters.append(_Character(" ", characters[-1].end, word[0].begin))
        characters += word
    return characters


def _join_characters(characters: Iterable[_Character]) -> str:
    return "".join(character.written for character in characters)


def _normalise_word(word: str, start: int, level: Level) -> list[_Character]:
    """Normalise a word character by character, with combining marks; empty if nothing is left of it."""
    whole = normal(word, level).strip()
    if whole == word and word.isascii():
        end = start + len(word)
        return list(map(_Character, word, range(start, end), range(start + 1, end + 1)))
    bounds = [*(place for place in range(len(word)) if not _continues(word, place)), len(word)]
    pieces = [(normal(word[begin:end], level), begin, end) for begin, end in pairwise(bounds)]
    if "".join(piece for piece, _, _ in pieces) != whole:
        pieces = [(whole, 0, len(word))]
    return [_Character(letter, start + begin, start + end) for piece, begin, end in pieces for letter in piece]


def _lowercase_word(word: Sequence[_Character]) -> list[_Character]:
    """Lowercase a word; a letter may become two, and a final Greek sigma depends on its position."""
    whole, pieces = _join_characters(word).lower(), [letter.written.lower() for letter in word]
    if len(whole) == len(word):
        pieces = list(whole)
    if "".join(pieces) != whole:
        return [_Character(letter, word[0].begin, word[-1].end) for letter in whole]
    return [
        character._replace(written=letter) for piece, character in zip(pieces, word, strict=True) for letter in piece
    ]


def _continues(word: str, place: int) -> bool:
    """True if a character belongs to the one before it: a combining mark, or a joined character."""
    if not place:
        return False
    near = word[place - 1 : place + 1]
    return any(letter in JOINERS for letter in near) or unicodedata.category(near[1]).startswith("M")


def _covered_span(characters: Sequence[_Character]) -> Span:
    """Return the span of the originals of these characters, without the blank before a word."""
    there = [character for character in characters if character.written != " "] or characters
    return there[0].begin, there[-1].end
