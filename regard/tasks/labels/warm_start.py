"""What training may start from: word vectors of a file, the tokens and labels of another model."""

from __future__ import annotations

from typing import Any

import torch

from regard import config
from regard.checkpoint import Checkpoint
from regard.data import vectors
from regard.data.normalise import read_text_settings
from regard.data.tokenizers import Tokenizer
from regard.models.text_classifier import Labeller
from regard.tasks.labels.text_tokenizer import TextTokenizerConfig


def load_word_vectors(model: Labeller, own: Tokenizer, name: str) -> str:
    """Give known words the vectors of a file, scaled to the spread that others have; how many there were."""
    words, table = vectors.read(name)
    width = model.config.embedding
    if table.shape[1] != width:
        raise ValueError(f"{name}: vectors of {table.shape[1]} features, model.embedding is {width}: make them equal")
    kept = own.encode_normal(words)
    places = [(ids[0], row) for row, ids in enumerate(kept) if len(ids) == 1 and ids[0] not in own.special]
    if not places:
        raise ValueError(f"{name}: none of its words is a token here: vectors are for tokenizer.kind words")
    tokens, rows = (torch.tensor(column) for column in zip(*places, strict=True))
    found = torch.from_numpy(table)[rows]
    with torch.no_grad():
        model.embedding.weight[tokens] = found * (0.1 / found.std())
    return f"{name}: vectors of {len(places):,} of {own.vocab:,} tokens"


def parent_tokenizer_and_labels(found: Checkpoint | None, recipe: Any) -> tuple[Tokenizer | None, list[str] | None]:
    """The tokens of a model to start from and, where it learnt the same task, its labels."""
    if found is None:
        return None, None
    how = config.build(
        TextTokenizerConfig, {**config.plain(recipe.tokenizer), **_shared_tokenizer_settings(found)}, where="tokenizer"
    )
    tokenizer = Tokenizer.parse(found.text("tokenizer.json"), how)
    return tokenizer, list(found.config["labels"]) if found.config.get("task") == recipe.task else None


def _shared_tokenizer_settings(found: Checkpoint) -> dict[str, Any]:
    """What of a model's tokenizer settings a text to be labelled is read with."""
    names = TextTokenizerConfig.__dataclass_fields__
    return {
        name: value for name, value in read_text_settings(found.config.get("tokenizer", {})).items() if name in names
    }
