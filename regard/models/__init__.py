"""Compositions of the attention core: one file, one model; this literal dict is the whole registry."""

from typing import Any

from regard import config
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
    return config.build(MODELS[mapping["name"]][1], mapping, where="model")
