"""The tokenizer of labelled texts: normalisation, kind of tokens, and truncation."""

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

Item = TypeVar("Item")

WORDS = r"\w+(?:['’]\w+)*|[^\w\s]"  # words and punctuation


@dataclass(frozen=True, kw_only=True)
class TextTokenizerConfig(UnitsConfig):
    """Settings of the tokenizer of labelled texts."""

    normalise: Level = "full"
    """Text normalisation before tokenising: full (quotes, apostrophes, hyphens, blanks, and all that is invisible),
    clean (only what is invisible) or none."""
    kind: Kind | None = None  # type: ignore[assignment]
    """A word (what `pattern` finds, or whatever is between spaces), a character, or a piece of a word; null: words
    and signs, or characters where most texts are a single word."""
    lowercase: bool = False
    """Whether capitals count as small letters."""
    ignore: str | None = None
    """Regular expression of what is removed, such as the tags <[^>]+>; a blank takes its place."""
    pattern: str | None = None
    """Regular expression of a word or sign, such as [\\w']+; null: whatever is between spaces."""
    max_length: Length = 512
    """Most tokens of a text; of a longer one only a part is read."""
    keep: Literal["begin", "end"] = "begin"
    """Which part of a text that is too long is read."""

    def __post_init__(self) -> None:
        if self.kind is None:
            replace(self, kind="words")  # runs the checks
            return
        super().__post_init__()
        expressions(self, "pattern", "ignore")

    def normal(self, text: str, *, written: bool = False) -> str:
        """Return a text without the parts to ignore, its words and punctuation separated by single spaces."""
        text = super().normal(text, written=written)
        text = re.sub(self.ignore, " ", text) if self.ignore else text
        text = text.lower() if self.lowercase else text
        return " ".join(re.findall(self.pattern, text) if self.pattern else text.split())

    def normal_word(self, word: str) -> str:
        """Normalise a word of a sentence that is already split into words."""
        word = super().normal(word)
        return word.lower() if self.lowercase else word


def encode_truncated(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Encode texts, truncated to the tokenizer's maximum length; a text without tokens is one unknown token."""
    return [_truncate(tokenizer, ids) or empty_text_tokens(tokenizer) for ids in tokenizer.encode_many(texts)]


def resolve_token_kind(config: TextTokenizerConfig, texts: Iterable[str]) -> TextTokenizerConfig:
    """Choose words or characters as tokens for these texts, unless the config names a kind."""
    if config.kind is not None:
        return config
    word_counts = [len(text.split()) for text in texts]
    if sum(count == 1 for count in word_counts) > len(word_counts) / 2:
        return replace(config, kind="characters")
    return replace(config, kind="words", pattern=config.pattern or WORDS)


def encode_words(
    tokenizer: Tokenizer, sentences: Sequence[Sequence[str]], *, as_in_text: bool = False, longest: int | None = None
) -> list[list[list[int]]]:
    """Encode each word of each sentence separately; tokens of characters and subwords mark the start of a word.

    With `as_in_text`, a word has the same tokens as within a text, and a long word is truncated to its first tokens,
    else to its last.
    """
    config = tokenizer_config(tokenizer)
    limit = longest or config.max_length
    words = list(dict.fromkeys(word for sentence in sentences for word in sentence))
    prefix = " " if config.kind == "characters" or (as_in_text and _marks_leading_blank(tokenizer)) else ""
    texts = [prefix + config.normal_word(word) for word in words]
    tokens = (
        (ids[:limit] if as_in_text else ids[-limit:]) or empty_text_tokens(tokenizer)
        for ids in tokenizer.encode_normal(texts)
    )
    word_tokens = dict(zip(words, tokens, strict=True))
    return [[word_tokens[word] for word in sentence] for sentence in sentences]


def readable_tokens(tokenizer: Tokenizer, text: str) -> list[str]:
    """Return the truncated tokens of a text in readable form; an unknown word is shown as written."""
    if tokenizer_config(tokenizer).kind == "words":
        return _truncate(tokenizer, tokenizer.how.normal(text).split()) or ["<unk>"]
    return tokenizer.pieces(encode_truncated(tokenizer, [text])[0])


def train_tokenizer(texts: Iterable[str], config: TextTokenizerConfig) -> Tokenizer:
    """Train a tokenizer on normalised texts."""
    normal_texts = list(texts)
    config = config if config.kind is not None else replace(config, kind="words")
    return units.train(normal_texts, config, characters=sum(map(len, normal_texts)))


def tokenizer_config(tokenizer: Tokenizer) -> TextTokenizerConfig:
    """Return the settings of a tokenizer of labelled texts."""
    assert isinstance(tokenizer.how, TextTokenizerConfig)
    return tokenizer.how


def _truncate(tokenizer: Tokenizer, items: list[Item]) -> list[Item]:
    """Return the part of a text that fits the maximum length."""
    config = tokenizer_config(tokenizer)
    return items[: config.max_length] if config.keep == "begin" else items[-config.max_length :]


def _marks_leading_blank(tokenizer: Tokenizer) -> bool:
    """True if the space before a word is part of its first token, as in GPT-2 and RoBERTa."""
    word, word_after_space, two_words = tokenizer.encode_normal(["a", " a", "a a"])
    return two_words != word + word and two_words == word + word_after_space


def empty_text_tokens(tokenizer: Tokenizer) -> list[int]:
    """Return the tokens that represent an empty text."""
    return [tokenizer.filler if tokenizer.unknown is None else tokenizer.unknown]
