"""Compositions of the attention core: one file, one model; this literal dict is the whole registry."""

from regard.models.seq2seq import Recurrent, RecurrentConfig
from regard.models.transformer import Transformer, TransformerConfig

MODELS = {
    "recurrent": (Recurrent, RecurrentConfig),
    "transformer": (Transformer, TransformerConfig),
}
