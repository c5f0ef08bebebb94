"""Compositions of the attention core: one file, one model; this literal dict is the whole registry."""

from collections.abc import Mapping
from typing import Any

from regard import config
from regard.config.words import nearest
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.models.word2vec import Word2Vec, Word2VecConfig

MODELS: dict[str, tuple[Any, Any]] = {
    "recurrent": (Seq2Seq, Seq2SeqConfig),
    "transformer": (Transformer, TransformerConfig),
    "word2vec": (Word2Vec, Word2VecConfig),
}


def config_of(mapping: Any, *, task: str | None = None) -> Any:
    """The config that a checkpoint's model section describes."""
    from regard.models.lstm import RecurrentLMConfig
    from regard.models.text_classifier import ENCODERS

    writers = {"recurrent-language": (None, RecurrentLMConfig)}
    of_task = {"classification": ENCODERS, "tagging": ENCODERS, "language": writers}
    known: Mapping[str, tuple[Any, Any]] = of_task.get(task or "", MODELS)
    name = mapping.get("name", next(iter(known)))
    if name not in known:
        raise ValueError(f"unknown model {name!r}{nearest(str(name), known)}")
    return config.build(known[name][1], mapping, where="model")
