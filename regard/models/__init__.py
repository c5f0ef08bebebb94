"""Compositions of the attention core: one file, one model; this literal dict is the whole registry."""

from regard.models.transformer import Transformer, TransformerConfig

MODELS = {
    "transformer": (Transformer, TransformerConfig),
}
