"""The Transformer: an encoder of the source and a decoder of the target (Vaswani et al. 2017)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import nn

from regard.attention.multihead import Heads, Merge
from regard.attention.positions import scheme
from regard.config.ranges import Length, Share, Small, Vocabulary, Width, check_affordable, check_divisible
from regard.config.resuming import Warned
from regard.models.interface import Backbone, ModelConfig, read_settings
from regard.models.parts.blocks import BlockShape, DecoderBlock, Embedding, EncoderBlock, init_xavier
from regard.models.parts.encoder_decoder import EncoderDecoder


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(ModelConfig):
    """An encoder-decoder Transformer."""

    name: Literal["transformer"] = "transformer"
    """Which model this is."""
    vocab: Vocabulary = 0
    """Tokens of the source vocabulary; filled in from the tokenizer."""
    target_vocab: Vocabulary | None = None
    """Tokens of the target vocabulary when it is another one."""
    width: Width = 512
    """Features of every position."""
    heads: Small = 8
    """Attention heads; must divide the width."""
    groups: Small | None = None
    """Groups of keys and values shared by heads; as many as heads when not given."""
    merge: Merge = "concat"
    """How heads become one vector: side by side before the output projection (concat), or added up (add)."""
    hidden: Width = 2048
    """Features inside the feed-forward part."""
    encoder: Small = 6
    """Encoder blocks."""
    decoder: Small = 6
    """Decoder blocks; one or two translate faster, and a deep encoder makes up for it."""
    norm: Literal["post", "pre"] = "post"
    """Layer norm after each sub-layer as in the paper (post), or before it (pre)."""
    positions: Literal[
        "none", "sinusoidal", "sinusoidal_halves", "learned", "binary", "integer", "normalised", "rotary", "alibi",
        "relative",
    ] = "sinusoidal"  # fmt: skip
    """Positional encoding: how tokens know their positions."""
    share: Literal["all", "target", "none"] = "all"
    """Which embeddings are one matrix: source, target and output; target and output; or none."""
    output_bias: bool = False
    """A bias for every token that may be written, as Marian has; the fastest decoding knows none."""
    activation: Literal["relu", "gelu", "silu"] = "relu"
    """Function inside the feed-forward part."""
    dropout: Warned[Share] = 0.1
    """Dropout rate."""
    attention_dropout: Warned[Share] = 0.0
    """Dropout rate of attention weights; above 0 the fastest kernels cannot be used."""
    attention_bias: bool = True
    """Whether the attention projections have biases."""
    context: Length = 1024
    """Longest sequence the position tables serve, in tokens."""

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "tiny": {"width": 128, "heads": 4, "hidden": 256, "encoder": 4, "decoder": 4, "dropout": 0.3},
        "small": {"width": 256, "heads": 4, "hidden": 1024, "encoder": 6, "decoder": 6, "dropout": 0.2},
        "base": {"width": 512, "heads": 8, "hidden": 2048, "encoder": 6, "decoder": 6, "dropout": 0.1},
        "big": {"width": 1024, "heads": 16, "hidden": 4096, "encoder": 6, "decoder": 6, "dropout": 0.3},
    }

    def __post_init__(self) -> None:
        if self.target_vocab not in (None, self.vocab) and self.share == "all":
            raise ValueError("model.share: all needs one vocabulary for both sides; set it to target or none")
        check_divisible(self.width, self.heads, self.groups)
        check_affordable(self.parameters, "lower width, hidden, the blocks, the context or the vocabulary")

    @property
    def parameters(self) -> int:
        """Return the approximate number of parameters, with tables of positions."""
        tables = (self.vocab + 2 * (self.target_vocab or 0) + self.context) * self.width
        blocks = self.encoder * (4 * self.width + 2 * self.hidden) + self.decoder * (8 * self.width + 2 * self.hidden)
        return tables + blocks * self.width

    @property
    def phrase(self) -> str:
        """Return a short description of the model."""
        return f"A Transformer of {self.encoder}+{self.decoder} blocks, {self.width} wide, {self.heads} heads"

    @property
    def backbone(self) -> Backbone:
        """Return the encoder, from which another model can start."""
        names = ("width", "heads", "hidden", "norm", "positions", "activation", "context")
        settings = {**{name: name for name in names}, "embedding": "width", "depth": "encoder"}
        grouped = self.groups is not None and self.groups != self.heads
        peculiar = {"groups of keys": grouped, "attention without biases": not self.attention_bias}
        peculiar["heads added up"] = self.merge == "add"
        parts = {"blocks": "encoder", "norm": "encoder_norm", "positions": "encoder_positions"}
        return Backbone(
            family="encoder blocks",
            settings=settings,
            sizes={**read_settings(self, settings), **peculiar},
            weights={"embedding": "embedding", **parts},
            embedding_scale=math.sqrt(self.width),
            same_model_settings=("groups", "attention_bias", "merge"),
        )

    @property
    def shape(self) -> BlockShape:
        """Return the settings shared by all blocks."""
        return BlockShape(
            width=self.width,
            heads=Heads(self.heads, groups=self.groups, merge=self.merge),
            hidden=self.hidden,
            pre=self.norm == "pre",
            activation=self.activation,
            dropout=self.dropout,
            attention_dropout=self.attention_dropout,
            attention_bias=self.attention_bias,
        )


class Transformer(EncoderDecoder):
    """An encoder-decoder Transformer, trained on packed rows or padded batches, that generates with beams."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        shape, width = config.shape, config.width
        places = {"width": width, "heads": config.heads, "context": config.context}
        self.embedding = Embedding(config.vocab, width, dropout=config.dropout)
        if config.share != "all":
            self.target_embedding = Embedding(config.target_vocab or config.vocab, width, dropout=config.dropout)
        self.encoder_positions = scheme(config.positions, causal=False, **places)
        self.decoder_positions = scheme(config.positions, causal=True, **places)
        self.encoder = nn.ModuleList(EncoderBlock(shape) for _ in range(config.encoder))
        self.decoder = nn.ModuleList(DecoderBlock(shape) for _ in range(config.decoder))
        self.encoder_norm = nn.LayerNorm(width) if shape.pre else nn.Identity()
        self.decoder_norm = nn.LayerNorm(width) if shape.pre else nn.Identity()
        if config.share == "none":
            self.output = nn.Linear(width, config.target_vocab or config.vocab, bias=False)
        if config.output_bias:
            self.bias = nn.Parameter(torch.zeros(config.target_vocab or config.vocab))
        for module in (*self.encoder, *self.decoder):
            module.apply(init_xavier)
