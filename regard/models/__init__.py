"""Compositions of the attention core: one file, one model; this literal dict is the whole registry."""

from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.models.transformer import Transformer, TransformerConfig

MODELS = {
    "recurrent": (Seq2Seq, Seq2SeqConfig),
    "transformer": (Transformer, TransformerConfig),
}
