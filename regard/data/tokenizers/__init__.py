"""Texts to numbers and back."""

from regard.data.tokenizers.tokenizer import (
    ENDLESS,
    EXCERPT,
    LARGEST,
    WORD,
    Tokenizer,
    TokenizerConfig,
    derived,
    excerpt,
    refuse_explosive,
    train,
)

__all__ = [
    "ENDLESS",
    "EXCERPT",
    "LARGEST",
    "WORD",
    "Tokenizer",
    "TokenizerConfig",
    "derived",
    "excerpt",
    "refuse_explosive",
    "train",
]
