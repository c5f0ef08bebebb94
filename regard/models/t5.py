"""T5: an encoder-decoder with relative positions only (Raffel et al. 2020).

Its settings also make it T5 1.1, with a gated feed-forward and a separate output matrix (Shazeer 2020).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.masks import Grid, Row
from regard.attention.multihead import Heads, MultiHead
from regard.attention.positions import Relative
from regard.attention.scores import dot
from regard.config.ranges import Length, Positive, Share, Small, Vocabulary, Width, check_affordable
from regard.config.resuming import Warned
from regard.models.interface import Backbone, ModelConfig, read_settings
from regard.models.parts.blocks import BlockShape, DecoderBlock, Embedding, EncoderBlock, FeedForward, Stack
from regard.models.parts.dropout import Dropout
from regard.models.parts.encoder_decoder import EncoderDecoder


def _t5(width: int, heads: int, hidden: int, blocks: int, **settings: Any) -> dict[str, Any]:
    """Return the settings of a T5 of this size."""
    sizes = {"width": width, "heads": heads, "hidden": hidden, "encoder": blocks, "decoder": blocks}
    return {"vocab": 32128, **sizes, **settings}


NEWER = {"activation": "gelu_tanh", "gated": True, "tied": False}


@dataclass(frozen=True, kw_only=True)
class T5Config(ModelConfig):
    """An encoder-decoder with biases by distance, RMSNorm, and no other biases."""

    name: Literal["t5"] = "t5"
    """Which model this is."""
    vocab: Vocabulary = 0
    """Tokens of the vocabulary; filled in from the tokenizer."""
    width: Width = 512
    """Features of every position."""
    depth: Width = 64
    """Features of an attention head; heads need not divide the width."""
    heads: Small = 8
    """Attention heads."""
    hidden: Width = 2048
    """Features inside the feed-forward part."""
    encoder: Small = 6
    """Encoder blocks."""
    decoder: Small = 6
    """Decoder blocks."""
    buckets: Small = 32
    """Buckets of distances between tokens, for each of which a head learns a bias."""
    furthest: Length = 128
    """Distance from which on all tokens share a bucket."""
    eps: Positive = 1e-6
    """What a norm adds to the variance."""
    activation: Literal["relu", "gelu_tanh", "gelu", "silu"] = "relu"
    """Function inside the feed-forward part."""
    gated: bool = False
    """Whether a second projection gates the feed-forward part, as in T5 1.1."""
    tied: bool = True
    """Predict tokens with the matrix that embeds them, from features scaled by 1 / sqrt(width)."""
    dropout: Warned[Share] = 0.1
    """Dropout rate."""
    attention_dropout: Warned[Share] = 0.0
    """Dropout rate of attention weights; above 0 the fastest kernels cannot be used."""
    context: Length = 512
    """Longest sequence of the data, in tokens; the model itself knows no bound."""

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "t5-small": _t5(512, 8, 2048, 6),
        "t5-base": _t5(768, 12, 3072, 12),
        "t5-large": _t5(1024, 16, 4096, 24),
        "t5-3b": _t5(1024, 32, 16384, 24, depth=128),
        "t5-11b": _t5(1024, 128, 65536, 24, depth=128),
        "t5-v1.1-small": _t5(512, 6, 1024, 8, **NEWER),
        "t5-v1.1-base": _t5(768, 12, 2048, 12, **NEWER),
        "t5-v1.1-large": _t5(1024, 16, 2816, 24, **NEWER),
    }

    def __post_init__(self) -> None:
        if self.buckets < 4 or self.buckets % 2:
            raise ValueError(f"model.buckets must be even and at least 4, not {self.buckets}")
        if self.furthest <= self.buckets // 2:
            raise ValueError(f"model.furthest must exceed half the buckets, {self.buckets // 2}, not {self.furthest}")
        check_affordable(self.parameters, "lower width, hidden, the blocks or the vocabulary")

    @property
    def parameters(self) -> int:
        """Return the number of parameters."""
        attention = 4 * self.width * self.depth * self.heads + self.width
        mlp = (3 if self.gated else 2) * self.width * self.hidden + self.width
        tables = self.vocab * self.width * (1 if self.tied else 2) + 2 * self.buckets * self.heads + 2 * self.width
        return tables + self.encoder * (attention + mlp) + self.decoder * (2 * attention + mlp)

    @property
    def phrase(self) -> str:
        """Return a short description of the model."""
        return f"A T5 of {self.encoder}+{self.decoder} blocks, {self.width} wide, {self.heads} heads"

    @property
    def backbone(self) -> Backbone:
        """Return all weights, from which another T5 can start."""
        names = ("width", "depth", "heads", "hidden", "encoder", "decoder", "buckets", "furthest")
        settings = {name: name for name in (*names, "eps", "activation", "gated", "tied", "context")}
        parts = ("encoder", "encoder_positions", "encoder_norm", "decoder", "decoder_positions", "decoder_norm")
        return Backbone(
            family="T5",
            settings=settings,
            sizes=read_settings(self, settings),
            weights={name: name for name in ("embedding", *parts, "output")},
        )

    @property
    def shape(self) -> BlockShape:
        """Return the settings shared by all blocks."""
        return BlockShape(
            width=self.width,
            heads=Heads(self.heads, depth=self.depth),
            hidden=self.hidden,
            pre=True,
            activation=self.activation,
            dropout=self.dropout,
            attention_dropout=self.attention_dropout,
            attention_bias=False,
            norm="rms",
            eps=self.eps,
            mlp_bias=False,
            mlp_dropout=self.dropout,
            gated=self.gated,
            score=dot,
        )


class T5(EncoderDecoder):
    """A T5; scores are not divided by the square root of the depth, but the initial weights of queries are smaller."""

    def __init__(self, config: T5Config):
        super().__init__()
        self.config = config
        shape, width = config.shape, config.width
        self.embedding = Embedding(config.vocab, width, dropout=config.dropout, scaled=False)
        buckets = {"buckets": config.buckets, "furthest": config.furthest}
        self.encoder_positions = Relative(config.heads, causal=False, **buckets)
        self.decoder_positions = Relative(config.heads, causal=True, **buckets)
        self.encoder = nn.ModuleList(EncoderBlock(shape) for _ in range(config.encoder))
        self.decoder = nn.ModuleList(DecoderBlock(shape) for _ in range(config.decoder))
        self.encoder_norm, self.decoder_norm = shape.normal(), shape.normal()
        self.dropout = Dropout(config.dropout)
        if not config.tied:
            self.output = nn.Linear(width, config.vocab, bias=False)
            nn.init.normal_(self.output.weight, std=width**-0.5)
        nn.init.normal_(self.embedding.weight, std=1.0)
        for table in (self.encoder_positions, self.decoder_positions):
            nn.init.normal_(table.table.weight, std=width**-0.5)
        for stack in (self.encoder, self.decoder):
            stack.apply(_initialise)

    @property
    def decoder_embedding(self) -> Embedding:
        """Return the embedding of target tokens, which is that of the source."""
        return self.embedding

    @property
    def prediction(self) -> Float[Tensor, "vocab width"]:
        """The matrix that turns features into logits."""
        return self.embedding.weight if self.config.tied else self.output.weight

    @property
    def scale(self) -> float:
        """Return the factor of features before the output matrix."""
        return self.config.width**-0.5 if self.config.tied else 1.0

    @property
    def stack(self) -> Stack:
        """Return the parts of the decoder that generate the target."""
        positions, blocks = self.decoder_positions, list(self.decoder)
        return Stack(self.embedding, positions, blocks, self.decoder_norm, self.prediction, scale=self.scale)

    def encode(self, source: Int[Tensor, "*source"], layout: Row | Grid) -> Float[Tensor, "*source width"]:
        """Encode the source, with attention of every token to all others."""
        return self.dropout(super().encode(source, layout))

    def finish(self, x: Float[Tensor, "*target width"]) -> Float[Tensor, "*target width"]:
        """Prepare the output of the last block for the matrix of the logits."""
        x = self.dropout(self.decoder_norm(x))
        return x * self.scale if self.config.tied else x


def _initialise(module: nn.Module) -> None:
    """Initialise weights with deviation 1 / sqrt(inputs), those of queries with 1 / sqrt(inputs * depth)."""
    if isinstance(module, MultiHead):
        width, depth = module.query.in_features, module.query.out_features // module.heads
        nn.init.normal_(module.query.weight, std=(width * depth) ** -0.5)
        for projection in (module.key, module.value, module.output):
            nn.init.normal_(projection.weight, std=projection.in_features**-0.5)
    if isinstance(module, FeedForward):
        for layer in (module.inner, module.outer, *([] if module.gate is None else [module.gate])):
            nn.init.normal_(layer.weight, std=layer.in_features**-0.5)
