"""Tokens of running text for language models: characters, words, or subwords, and line ends.

A line end is the token <eos> for every unit. Characters and words are a closed vocabulary from the training text; any
other is <unk>.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from tokenizers import Regex, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Engine

from regard.config.ranges import Count, Range
from regard.data import tokenizers
from regard.data.normalise import Level, TextConfig
from regard.data.roles import BYTES, CHARACTER, SPECIALS
from regard.data.tokenizers import Tokenizer, TokenizerConfig

Kind = Literal["characters", "words", "bpe", "unigram"]
CLOSED = ("characters", "words")
LARGEST = 1_000_000
UNKNOWN = "<unk>"
SYMBOLS = {byte: symbol for symbol, byte in BYTES.items()}


@dataclass(frozen=True, kw_only=True)
class UnitsConfig(TextConfig):
    """The tokens of a running text."""

    normalise: Level = "none"
    """Text normalisation before tokenising: full (quotes, apostrophes, hyphens, blanks, and all that is invisible),
    clean (only what is invisible) or none, since the model writes what it reads."""
    kind: Kind = "characters"
    """A character, a word (whatever is between spaces), or a piece of a word (bpe, unigram)."""
    vocab: Annotated[int, Range(len(SPECIALS) + 1, LARGEST)] | None = None
    """Most tokens; null takes all characters or words, and as many pieces as the amount of text suggests."""
    min_frequency: Count = 1
    """Times a character, word or piece must occur in the text to become a token."""

    def __post_init__(self) -> None:
        if self.vocab is not None and self.vocab < 300 and self.kind not in CLOSED:
            raise ValueError(f"vocab must be at least 300 for {self.kind}, 256 bytes and some more, not {self.vocab}")


def train(lines: Iterable[str], config: UnitsConfig, *, characters: int, special: Sequence[str] = ()) -> Tokenizer:
    """Train a tokenizer on normalised lines; `characters` is the size of the text.

    `special` names special tokens besides those of all of Regard's tokenizers.
    """
    if config.kind not in CLOSED:
        pieces = TokenizerConfig(kind=config.kind, vocab=config.vocab, min_frequency=config.min_frequency)
        return tokenizers.train(lines, pieces, characters=characters, special=special).with_text_config(config)
    fixed = [*SPECIALS, *special]
    frequent = [name for name in _rank_units(lines, config) if name not in fixed]
    if not frequent:
        raise ValueError(f"the text has no {config.kind} that occur {config.min_frequency} times or more: add text")
    names = [*fixed, *frequent[: max((config.vocab or LARGEST) - len(fixed), 1)]]
    vocab = {name: number for number, name in enumerate(names)}
    engine = _engine(models.WordLevel(vocab, unk_token=UNKNOWN), config.kind)
    engine.add_special_tokens(fixed)
    return Tokenizer(engine, config)


def _rank_units(lines: Iterable[str], config: UnitsConfig) -> list[str]:
    """Return characters or words as byte symbols, the most frequent first, ties in order of the symbols."""
    if config.kind == "characters":
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(unicodedata.normalize("NFC", line))
        symbol_counts = {"".join(SYMBOLS[byte] for byte in unit.encode()): count for unit, count in counts.items()}
        return sorted(
            (name for name in symbol_counts if symbol_counts[name] >= config.min_frequency),
            key=lambda name: (-symbol_counts[name], name),
        )
    counter = _engine(models.WordLevel(unk_token=UNKNOWN), config.kind)
    trainer = trainers.WordLevelTrainer(
        vocab_size=LARGEST, min_frequency=config.min_frequency, special_tokens=[], show_progress=False
    )
    counter.train_from_iterator(lines, trainer)
    word_counts = counter.get_vocab()
    return sorted(word_counts, key=word_counts.__getitem__)


def _engine(model: models.Model, kind: Kind) -> Engine:
    """Wrap a model: NFC, splitting at blanks or between characters, byte symbols."""
    engine = Engine(model)
    engine.normalizer = normalizers.NFC()
    cut = (
        pre_tokenizers.WhitespaceSplit() if kind == "words" else pre_tokenizers.Split(Regex(CHARACTER), "isolated")  # type: ignore[arg-type]
    )
    symbols = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    engine.pre_tokenizer = pre_tokenizers.Sequence([cut, symbols])  # type: ignore[assignment,list-item]
    return engine
