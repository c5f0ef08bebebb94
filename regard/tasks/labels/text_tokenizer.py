"""How a text to be judged is read: what is cleaned away, what its tokens are, and how many of them are kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from regard.config.expressions import expressions
from regard.config.ranges import Length
from regard.data.normalise import Level
from regard.data.tokenizers import Tokenizer, units
from regard.data.tokenizers.units import Kind, UnitsConfig

Item = TypeVar("Thing")

WORDS = r"\w+(?:['’]\w+)*|[^\w\s]"  # words and signs


@dataclass(frozen=True, kw_only=True)
class TextTokenizerConfig(UnitsConfig):
    """How a text becomes tokens."""

    normalise: Level = "full"
    """Text normalisation before tokenising: full (quotes, apostrophes, hyphens, blanks, and all that is invisible),
    clean (only what is invisible) or none."""
    kind: Kind | None = None  # type: ignore[assignment]
    """A word (what `pattern` finds, or whatever is between spaces), a character, or a piece of a word; null: words
    and signs, or characters where most texts are a single word."""
    lowercase: bool = False
    """Whether capitals count as small letters."""
    ignore: str | None = None
    """Regular expression of what is no text, such as <[^>]+>; it counts as a blank."""
    pattern: str | None = None
    """Regular expression of a word or sign, such as [\\w']+; null: whatever is between spaces."""
    longest: Length = 512
    """Most tokens of a text; of a longer one only a part is read."""
    keep: Literal["begin", "end"] = "begin"
    """Which part of a text that is too long is read."""

    def __post_init__(self) -> None:
        if self.kind is None:
            replace(self, kind="words")  # which checks the rest
            return
        super().__post_init__()
        expressions(self, "pattern", "ignore")

    def normal(self, text: str, *, written: bool = False) -> str:
        """A text without what is ignored, its words and signs between single blanks."""
        text = super().normal(text, written=written)
        text = re.sub(self.ignore, " ", text) if self.ignore else text
        text = text.lower() if self.lowercase else text
        return " ".join(re.findall(self.pattern, text) if self.pattern else text.split())

    def normal_word(self, word: str) -> str:
        """A word that was told apart by others."""
        word = super().normal(word)
        return word.lower() if self.lowercase else word


def encode_truncated(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Tokens of each text, at most `longest`; a text without any is one unknown token."""
    return [_truncate(tokenizer, ids) or empty_text_tokens(tokenizer) for ids in tokenizer.encode_many(texts)]


def resolve_token_kind(how: TextTokenizerConfig, texts: Iterable[str]) -> TextTokenizerConfig:
    """The same with a kind of token that suits these texts, if none was named."""
    if how.kind is not None:
        return how
    words = [len(text.split()) for text in texts]
    if sum(count == 1 for count in words) > len(words) / 2:
        return replace(how, kind="characters")
    return replace(how, kind="words", pattern=how.pattern or WORDS)


def encode_words(
    tokenizer: Tokenizer, sentences: Sequence[Sequence[str]], *, apart: bool = False, longest: int | None = None
) -> list[list[list[int]]]:
    """Tokens of each word of each sentence by itself; characters and pieces know where a word begins.

    Where they are read `apart`, a word has the tokens that it has within a text, and of a long one the first are kept.
    """
    how = tokenizer_config(tokenizer)
    most = longest or how.longest
    words = list(dict.fromkeys(word for sentence in sentences for word in sentence))
    blank = " " if how.kind == "characters" or (apart and _marks_leading_blank(tokenizer)) else ""
    texts = [blank + how.normal_word(word) for word in words]
    tokens = (
        (ids[:most] if apart else ids[-most:]) or empty_text_tokens(tokenizer) for ids in tokenizer.encode_normal(texts)
    )
    known = dict(zip(words, tokens, strict=True))
    return [[known[word] for word in sentence] for sentence in sentences]


def readable_tokens(tokenizer: Tokenizer, text: str) -> list[str]:
    """The tokens of a text that are read, in readable form; a word that is not known as it was written."""
    if tokenizer_config(tokenizer).kind == "words":
        return _truncate(tokenizer, tokenizer.how.normal(text).split()) or ["<unk>"]
    return tokenizer.pieces(encode_truncated(tokenizer, [text])[0])


def train_tokenizer(texts: Iterable[str], how: TextTokenizerConfig) -> Tokenizer:
    """The tokens of these texts, already normal."""
    kept = list(texts)
    how = how if how.kind is not None else replace(how, kind="words")
    return units.train(kept, how, characters=sum(map(len, kept)))


def tokenizer_config(tokenizer: Tokenizer) -> TextTokenizerConfig:
    """How a tokenizer of labelled texts reads them."""
    assert isinstance(tokenizer.how, TextTokenizerConfig)
    return tokenizer.how


def _truncate(tokenizer: Tokenizer, things: list[Item]) -> list[Item]:
    """What is read of a text that may be too long."""
    how = tokenizer_config(tokenizer)
    return things[: how.longest] if how.keep == "begin" else things[-how.longest :]


def _marks_leading_blank(tokenizer: Tokenizer) -> bool:
    """Whether the blank before a word is part of its first token, as in the pieces of GPT-2 and RoBERTa."""
    alone, after, both = tokenizer.encode_normal(["a", " a", "a a"])
    return both != alone + alone and both == alone + after


def empty_text_tokens(tokenizer: Tokenizer) -> list[int]:
    """What stands for a text without tokens."""
    return [tokenizer.filler if tokenizer.unknown is None else tokenizer.unknown]
