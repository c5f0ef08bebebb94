"""Tokenizers: text to token ids and back."""

from regard.data.tokenizers.forking import keep_threads_across_forks
from regard.data.tokenizers.limits import refuse_explosive
from regard.data.tokenizers.tokenizer import WORD, Tokenizer
from regard.data.tokenizers.tokenizer_training import (
    ENDLESS,
    EXCERPT,
    LARGEST,
    TokenizerConfig,
    default_vocab_size,
    excerpt,
    train,
)

keep_threads_across_forks()

__all__ = [
    "ENDLESS",
    "EXCERPT",
    "LARGEST",
    "WORD",
    "Tokenizer",
    "TokenizerConfig",
    "default_vocab_size",
    "excerpt",
    "refuse_explosive",
    "train",
]
