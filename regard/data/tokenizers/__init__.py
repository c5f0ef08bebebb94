"""Texts to numbers and back."""

from regard.data.tokenizers.tokenizer import (
    BOS,
    BYTES,
    ENDLESS,
    EOS,
    EXCERPT,
    LARGEST,
    PAD,
    SPECIALS,
    UNK,
    WORD,
    Tokenizer,
    TokenizerConfig,
    derived,
    excerpt,
    train,
)

__all__ = [
    "BOS",
    "BYTES",
    "ENDLESS",
    "EOS",
    "EXCERPT",
    "LARGEST",
    "PAD",
    "SPECIALS",
    "UNK",
    "WORD",
    "Tokenizer",
    "TokenizerConfig",
    "derived",
    "excerpt",
    "train",
]
