"""Starting points of training: word vectors from a file, and the tokenizer of a parent model."""

from __future__ import annotations

import torch

from regard import config
from regard.checkpoint import Checkpoint
from regard.data import vectors
from regard.data.normalise import read_text_settings
from regard.data.tokenizers import Tokenizer
from regard.models.text_classifier import Labeller
from regard.tasks.text_encoders.text_tokenizer import TextTokenizerConfig


def load_word_vectors(model: Labeller, tokenizer: Tokenizer, name: str) -> str:
    """Load word vectors from a file, scaled to the deviation of random ones, and return a note on their number."""
    words, table = vectors.read(name)
    width = model.config.embedding
    if table.shape[1] != width:
        raise ValueError(f"{name}: vectors of {table.shape[1]} features, model.embedding is {width}: make them equal")
    token_ids = tokenizer.encode_normal(words)
    known_words = [
        (ids[0], row) for row, ids in enumerate(token_ids) if len(ids) == 1 and ids[0] not in tokenizer.special
    ]
    if not known_words:
        raise ValueError(f"{name}: none of its words is a token here: vectors are for tokenizer.kind words")
    tokens, rows = (torch.tensor(column) for column in zip(*known_words, strict=True))
    vectors_of_tokens = torch.from_numpy(table)[rows]
    with torch.no_grad():
        model.embedding.weight[tokens] = vectors_of_tokens * (0.1 / vectors_of_tokens.std())
    return f"{name}: vectors of {len(known_words):,} of {tokenizer.vocab:,} tokens"


def parent_tokenizer(parent: Checkpoint | None, tokenizer_config: TextTokenizerConfig) -> Tokenizer | None:
    """Return the tokenizer of a parent model, with the other settings of `tokenizer_config`."""
    if parent is None:
        return None
    kind = type(tokenizer_config)
    names = {setting.name for setting in config.describe(kind)}
    parent_settings = read_text_settings(parent.config.get("tokenizer", {}))
    shared_settings = {name: value for name, value in parent_settings.items() if name in names}
    settings = {**config.plain(tokenizer_config), **shared_settings}
    return Tokenizer.parse(parent.text("tokenizer.json"), config.build(kind, settings, where="tokenizer"))
