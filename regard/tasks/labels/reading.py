"""How a text to be judged is read: what is cleaned away, what its tokens are, and how many of them are kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from regard.config.expressions import expressions
from regard.config.ranges import Length
from regard.data.tokenizers import UNK, units
from regard.data.tokenizers.units import Kind, Units, UnitsConfig


@dataclass(frozen=True, kw_only=True)
class ReadingConfig(UnitsConfig):
    """How a text becomes tokens."""

    kind: Kind = "words"
    """A word (what `pattern` finds, or whatever stands between blanks), a character, or a piece of a word."""
    lowercase: bool = False
    """Whether capitals count as small letters."""
    ignore: str | None = None
    """Regular expression of what is no text, such as <[^>]+>; it counts as a blank."""
    pattern: str | None = None
    """Regular expression of a word or sign, such as [\\w']+; null: whatever stands between blanks."""
    longest: Length = 512
    """Most tokens of a text; of a longer one only a part is read."""
    keep: Literal["begin", "end"] = "begin"
    """Which part of a text that is too long is read."""

    def __post_init__(self) -> None:
        super().__post_init__()
        expressions(self, "pattern", "ignore")


@dataclass(frozen=True)
class Reading:
    """Texts to tokens, as the recipe says."""

    how: ReadingConfig
    units: Units

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokens of each text, at most `longest`; a text without any is one unknown token."""
        found = self.units.lines([normal(text, self.how) for text in texts])
        return [self.cut(tokens) or [UNK] for tokens in found]

    def cut(self, tokens: list[int]) -> list[int]:
        """What is kept of a text."""
        longest = self.how.longest
        return tokens[:longest] if self.how.keep == "begin" else tokens[-longest:]

    def encode_words(self, words: Sequence[str]) -> list[list[int]]:
        """Tokens of each word of a sentence by itself; characters and pieces know where a word begins."""
        fresh = [word for word in dict.fromkeys(words) if word not in self._known]
        blank = " " if self.how.kind == "characters" else ""
        texts = [blank + (word.lower() if self.how.lowercase else word) for word in fresh]
        self._known.update(zip(fresh, self.units.lines(texts), strict=True))
        return [self._known[word][-self.how.longest :] or [UNK] for word in words]

    def shown(self, text: str) -> list[str]:
        """The tokens of a text that are read, in readable form; a word that is not known as it was written."""
        if self.how.kind == "words":
            words = normal(text, self.how).split()
            longest = self.how.longest
            return (words[:longest] if self.how.keep == "begin" else words[-longest:]) or ["<unk>"]
        return self.units.tokenizer.pieces(self.encode([text])[0])

    @cached_property
    def _known(self) -> dict[str, list[int]]:
        return {}


def normal(text: str, how: ReadingConfig) -> str:
    """A text without what is ignored, its words and signs between single blanks."""
    text = re.sub(how.ignore, " ", text) if how.ignore else text
    text = text.lower() if how.lowercase else text
    return " ".join(re.findall(how.pattern, text) if how.pattern else text.split())


def learn(texts: Iterable[str], how: ReadingConfig) -> Reading:
    """The tokens of these texts, already normal."""
    kept = list(texts)
    return Reading(how, units.train(kept, how, characters=sum(map(len, kept))))
