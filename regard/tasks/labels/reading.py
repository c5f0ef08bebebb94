"""How a text to be judged is read: what is cleaned away, what its tokens are, and how many of them are kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from regard.config.checking import expressions
from regard.data.tokenizers import UNK, units
from regard.data.tokenizers.units import Kind, Units, UnitsConfig

WORDS = r"\w+(?:['’]\w+)*|[^\w\s]"  # words and signs


@dataclass(frozen=True, kw_only=True)
class ReadingConfig(UnitsConfig):
    """How a text becomes tokens."""

    kind: Kind | None = None  # type: ignore[assignment]
    """A word (what `pattern` finds, or whatever stands between blanks), a character, or a piece of a word; null: words
    and signs, or characters where most texts are a single word."""
    lowercase: bool = False
    """Whether capitals count as small letters."""
    ignore: str | None = None
    """Regular expression of what is no text, such as <[^>]+>; it counts as a blank."""
    pattern: str | None = None
    """Regular expression of a word or sign, such as [\\w']+; null: whatever stands between blanks."""
    longest: int = 512
    """Most tokens of a text; of a longer one only a part is read."""
    keep: Literal["begin", "end"] = "begin"
    """Which part of a text that is too long is read."""

    def __post_init__(self) -> None:
        if self.kind is None:
            replace(self, kind="words")  # which checks the rest
            return
        super().__post_init__()
        if self.longest < 1:
            raise ValueError(f"longest must be at least 1, not {self.longest}")
        expressions(self, "pattern", "ignore")


@dataclass(frozen=True)
class Reading:
    """Texts to tokens, as the recipe says."""

    how: ReadingConfig
    units: Units

    @classmethod
    def parse(cls, how: ReadingConfig, text: str) -> Reading:
        """With the tokens of a tokenizer.json."""
        return cls(how, Units.parse(text, how.kind or "words"))

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


def settled(how: ReadingConfig, texts: Iterable[str]) -> ReadingConfig:
    """The same with a kind of token that suits these texts, if none was named."""
    if how.kind is not None:
        return how
    words = [len(text.split()) for text in texts]
    if sum(count == 1 for count in words) > len(words) / 2:
        return replace(how, kind="characters")
    return replace(how, kind="words", pattern=how.pattern or WORDS)


def learn(texts: Iterable[str], how: ReadingConfig) -> Reading:
    """The tokens of these texts, already normal."""
    kept = list(texts)
    how = how if how.kind is not None else replace(how, kind="words")
    return Reading(how, units.train(kept, how, characters=sum(map(len, kept))))
