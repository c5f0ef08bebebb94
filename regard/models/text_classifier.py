"""Models that classify texts, or each of their tokens.

Three encoders with one interface: recurrent layers (Graves and Schmidhuber 2005), convolutions of several widths (Kim
2014), Transformer blocks (Vaswani et al. 2017). The features of a text are pooled into one vector: the last state, the
mean, the maximum, a class token (Devlin et al. 2019), or attention with one learned query (Yang et al. 2016).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.masks import Grid, Row, causal, mask_between, padded
from regard.attention.multihead import Heads, Merge
from regard.attention.positions import scheme
from regard.attention.scores import Additive
from regard.attention.singlehead import SingleHead
from regard.config.ranges import Length, Share, Small, Vocabulary, Width, check_affordable, check_divisible
from regard.config.resuming import Warned
from regard.models.interface import Backbone, LabellerConfig, LabellerDefaults, Model, Traits, read_settings
from regard.models.parts.blocks import BlockShape, EncoderBlock, check_length
from regard.models.parts.cells import Kind, Layers
from regard.models.parts.convolution import TextConvolution
from regard.models.parts.unpack import highest, mean, spread

UNKNOWN = 3  # the token of unknown words, which also replaces dropped words


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(LabellerConfig):
    """The settings shared by all models that label text."""

    vocab: Vocabulary = 0
    """Tokens of the vocabulary; filled in from the tokenizer."""
    classes: Vocabulary = 0
    """Labels to choose from; filled in from the data."""
    per_token: bool = False
    """A label for each token, not for the text as a whole; filled in by the task."""
    embedding: Width = 128
    """Features of a token."""
    vectors: str | None = None
    """File of word vectors, in the text format of word2vec, that the features of known words start from."""
    dropout: Warned[Share] = 0.5
    """Dropout rate, applied between layers and before the output."""
    embedding_dropout: Warned[Share] = 0.0
    """Dropout rate of embeddings, the same features in a whole text."""
    word_dropout: Warned[Share] = 0.0
    """Share of tokens replaced by the unknown one in training."""

    def __post_init__(self) -> None:
        check_affordable(self.vocab * self.embedding + self.layers, "lower its width, its depth or the vocabulary")

    @property
    def token_features(self) -> int:
        """Return the number of features of an embedding."""
        return self.embedding

    @property
    def layers(self) -> int:
        """Return the approximate number of parameters without the embeddings."""
        return 0


@dataclass(frozen=True, kw_only=True)
class RecurrentEncoderConfig(EncoderConfig):
    """Recurrent layers that read a text."""

    name: Literal["rnn-encoder"] = "rnn-encoder"
    """Which model this is."""
    cell: Kind = "lstm"
    """Recurrent cell; gru resets its state after the product as cuDNN does, gru_before as first published."""
    width: Width = 128
    """Features of a state, in each direction."""
    depth: Small = 1
    """Layers on top of one another."""
    bidirectional: bool = True
    """Read from both ends; false sees, at each word, only what came before."""
    pool: Literal["last", "mean", "max", "attention"] = "max"
    """Pooling of the states of a text into one vector; tags need none."""

    labeller_defaults: ClassVar[LabellerDefaults] = LabellerDefaults(
        learning_rate=3e-3, small_dataset_settings={"embedding": 64, "width": 64, "dropout": 0.3}
    )

    @property
    def backbone(self) -> Backbone:
        """Return the embedding and all layers."""
        settings = {name: name for name in ("cell", "embedding", "width", "depth", "bidirectional")}
        layers = {f"layer {n}": f"reader.layers.layers.{n}" for n in range(self.depth)}
        return Backbone(
            family="recurrent layers",
            settings=settings,
            sizes=read_settings(self, settings),
            weights={"embedding": "embedding", **layers},
        )

    @property
    def layers(self) -> int:
        """Return the approximate number of parameters without the embeddings."""
        return 4 * (1 + self.bidirectional) * self.width * (self.embedding + (3 * self.depth - 2) * self.width)

    @property
    def phrase(self) -> str:
        """Return a short description of the model."""
        ways = "both ways" if self.bidirectional else "one way"
        return f"{self.depth} {self.cell.upper()} layer{'s' * (self.depth > 1)} of width {self.width} that read {ways}"


@dataclass(frozen=True, kw_only=True)
class ConvolutionEncoderConfig(EncoderConfig):
    """Convolutions over a text."""

    name: Literal["cnn-encoder"] = "cnn-encoder"
    """Which model this is."""
    widths: tuple[Small, ...] = (3, 4, 5)
    """Words that a filter sees at a time; one width may stand here several times."""
    maps: Width = 100
    """Filters of each width."""
    pool: Literal["max", "mean", "attention"] = "max"
    """Pooling of the filters' outputs into one vector; tags need none."""

    labeller_defaults: ClassVar[LabellerDefaults] = LabellerDefaults(
        learning_rate=4e-3,
        small_dataset_settings={"embedding": 100, "widths": [1, 3], "maps": 64, "dropout": 0.5},
    )

    @property
    def backbone(self) -> Backbone:
        """Return the embedding and all filters."""
        settings = {name: name for name in ("embedding", "widths", "maps")}
        return Backbone(
            family="convolutions",
            settings=settings,
            sizes=read_settings(self, settings),
            weights={"embedding": "embedding", "filters": "reader.convolution"},
        )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.widths:
            raise ValueError("widths must have one entry at least: the words that a filter sees")

    @property
    def layers(self) -> int:
        """Return the approximate number of parameters without the embeddings."""
        return sum(self.widths) * self.maps * self.embedding

    @property
    def phrase(self) -> str:
        """Return a short description of the model."""
        return f"{self.maps} filters of each of the widths {', '.join(map(str, self.widths))}"


@dataclass(frozen=True, kw_only=True)
class TransformerEncoderConfig(EncoderConfig):
    """Transformer blocks that read a text."""

    name: Literal["transformer-encoder"] = "transformer-encoder"
    """Which model this is."""
    width: Width = 128
    """Features of every position."""
    heads: Small = 4
    """Attention heads; must divide the width."""
    merge: Merge = "concat"
    """How heads become one vector: side by side before the output projection (concat), or added up (add)."""
    hidden: Width = 512
    """Features inside the feed-forward part."""
    depth: Small = 2
    """Blocks on top of one another."""
    norm: Literal["pre", "post"] = "pre"
    """Layer norm before each sub-layer (pre), or after it as in the paper (post)."""
    positions: Literal["none", "sinusoidal", "learned", "rotary", "alibi", "relative"] = "sinusoidal"
    """Positional encoding: how tokens know their positions."""
    activation: Literal["relu", "gelu", "gelu_tanh", "silu"] = "gelu"
    """Function inside the feed-forward part."""
    causal: bool = False
    """See, at each token, only what came before."""
    pool: Literal["class", "mean", "max", "attention"] = "mean"
    """Pooling of a text into one vector (tags need none); class takes the output of a token put in front of it."""
    context: Length = 1024
    """Longest text the position tables serve, in tokens."""

    labeller_defaults: ClassVar[LabellerDefaults] = LabellerDefaults(
        learning_rate=2e-3,
        small_dataset_settings={
            "embedding": 64,
            "width": 64,
            "heads": 4,
            "hidden": 128,
            "depth": 2,
            "dropout": 0.3,
        },
    )

    @property
    def backbone(self) -> Backbone:
        """Return the embedding and all blocks."""
        names = ("embedding", "width", "heads", "hidden", "depth", "norm", "positions", "activation")
        settings = {name: name for name in (*names, "causal", "context")}
        parts = {"fit": "fit", "blocks": "encoder", "norm": "norm", "positions": "positions"}
        return Backbone(
            family="encoder blocks",
            settings=settings,
            sizes={**read_settings(self, settings), "heads added up": self.merge == "add"},
            weights={"embedding": "embedding", **{part: f"reader.{prefix}" for part, prefix in parts.items()}},
            embedding_scale=math.sqrt(self.embedding),
            same_model_settings=("merge",),
        )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_divisible(self.width, self.heads)
        if self.causal and self.pool == "class":
            raise ValueError("pool: class puts its token in front, where a causal model sees nothing: choose mean")

    @property
    def layers(self) -> int:
        """Return the approximate number of parameters without the embeddings, but with tables of positions."""
        return self.depth * (4 * self.width + 2 * self.hidden) * self.width + self.context * self.width

    @property
    def phrase(self) -> str:
        """Return a short description of the model."""
        return f"A Transformer of {self.depth} blocks, {self.width} wide, {self.heads} heads"


AnyEncoderConfig = RecurrentEncoderConfig | ConvolutionEncoderConfig | TransformerEncoderConfig


Layout = Row | Grid


class Read(NamedTuple):
    """The features of every token, and those of each text as a whole if the encoder gives any."""

    features: Float[Tensor, "*token features"]
    whole: Float[Tensor, "text features"] | None = None


class RecurrentEncoder(nn.Module):
    """Recurrent layers, in full precision, as errors of all steps accumulate in the states."""

    def __init__(self, config: RecurrentEncoderConfig):
        super().__init__()
        self.layers = Layers(
            config.cell,
            config.embedding,
            config.width,
            depth=config.depth,
            bidirectional=config.bidirectional,
            dropout=config.dropout,
        )
        self.features = config.width * self.layers.directions

    def forward(self, x: Float[Tensor, "*token inputs"], layout: Layout) -> Read:
        """Return the states and the last state of each direction; each text is read on its own line."""
        with torch.autocast(x.device.type, enabled=False):
            lines, grid, back = spread(x.float(), layout)
            states, last = self.layers(lines, lengths=grid.lengths)
            return Read(states if back is None else states.flatten(0, 1).index_select(0, back), self.layers.last(last))


class ConvolutionEncoder(nn.Module):
    """Convolutions along the text."""

    def __init__(self, config: ConvolutionEncoderConfig):
        super().__init__()
        self.convolution = TextConvolution(config.embedding, config.maps, config.widths)
        self.features = self.convolution.features

    def forward(self, x: Float[Tensor, "*token inputs"], layout: Layout) -> Read:
        """Return the outputs of the filters around every token."""
        return Read(self.convolution(x, _texts(layout)))


class TransformerEncoder(nn.Module):
    """Transformer blocks, with a class token in front if texts are pooled by one."""

    def __init__(self, config: TransformerEncoderConfig):
        super().__init__()
        self.config, self.features = config, config.width
        width, heads = config.width, Heads(config.heads, merge=config.merge)
        shape = BlockShape(width, heads, config.hidden, config.norm == "pre", config.activation, dropout=config.dropout)
        self.fit = nn.Linear(config.embedding, width) if config.embedding != width else nn.Identity()
        self.positions = scheme(
            config.positions, width=width, heads=config.heads, context=config.context + 1, causal=config.causal
        )
        self.encoder = nn.ModuleList(EncoderBlock(shape) for _ in range(config.depth))
        self.norm = nn.LayerNorm(width) if shape.pre else nn.Identity()
        self.dropout = nn.Dropout(config.dropout)
        in_front = config.pool == "class" and not config.per_token
        self.token = nn.Parameter(torch.randn(width)) if in_front else None

    def forward(self, x: Float[Tensor, "*token inputs"], layout: Layout) -> Read:
        """Return the features of tokens after self-attention, and those of the class token if there is one."""
        x, inner = self.fit(x) * math.sqrt(self.config.embedding), layout
        if self.token is not None:
            x, inner = _prepend_token(x, layout, self.token.to(x.dtype))
        check_length(self.positions, inner.longest, before=int(inner is layout))
        added = self.positions.embed(inner.place, inner.span)
        x = self.dropout(x if added is None else x + added)
        mask = mask_between(inner, inner) & causal() if self.config.causal else mask_between(inner, inner)
        for block in self.encoder:
            x = block(x, mask=mask, positions=self.positions)
        x = self.norm(x)
        return Read(*_remove_token(x, layout, inner)) if self.token is not None else Read(x)


ENCODERS: dict[str, tuple[Any, type[EncoderConfig]]] = {
    "rnn-encoder": (RecurrentEncoder, RecurrentEncoderConfig),
    "cnn-encoder": (ConvolutionEncoder, ConvolutionEncoderConfig),
    "transformer-encoder": (TransformerEncoder, TransformerEncoderConfig),
}


class Labeller(Model):
    """An embedding, an encoder, and the logits of the labels of a text or of each token.

    Texts are in a packed row or in a padded batch, with the same results.
    """

    def __init__(self, config: AnyEncoderConfig):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab, config.embedding)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.reader = ENCODERS[config.name][0](config)
        # a compiler would unroll every step of recurrent layers; recorded steps cost nothing to launch
        self.traits = Traits(compilable=not isinstance(self.reader, RecurrentEncoder))
        features = self.reader.features
        if config.pool == "attention" and not config.per_token:
            self.query = nn.Parameter(torch.randn(1, 1, features) / math.sqrt(features))
            self.pool = SingleHead(Additive(features, features, features))
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(features, config.classes)

    def forward(self, tokens: Int[Tensor, "*token"], layout: Layout) -> Float[Tensor, "*label classes"]:
        """Return the logits of every token, or of every text (a row of fixed shape has its maximal number of them)."""
        read = self.reader(self._embed(tokens, layout), layout)
        return self.output(self.dropout(read.features if self.config.per_token else self._pool_features(read, layout)))

    def _embed(self, tokens: Int[Tensor, "*token"], layout: Layout) -> Float[Tensor, "*token embedding"]:
        """Embed tokens, in training with word dropout, and with dropout of the same features throughout a text."""
        words, features = self.config.word_dropout, self.config.embedding_dropout
        if self.training and words:
            tokens = tokens.masked_fill(torch.rand(tokens.shape, device=tokens.device) < words, UNKNOWN)
        x = self.embedding(tokens)
        if not (self.training and features):
            return x
        feature_mask = F.dropout(x.new_ones(len(layout.lengths), x.shape[-1]), features)
        return x * (feature_mask.index_select(0, layout.segment) if isinstance(layout, Row) else feature_mask[:, None])

    def _pool_features(self, read: Read, layout: Layout) -> Float[Tensor, "text features"]:
        """Return one vector for each text."""
        if read.whole is not None and self.config.pool in ("last", "class"):
            return read.whole
        if self.config.pool in ("mean", "max"):
            return (mean if self.config.pool == "mean" else highest)(read.features, layout)
        features, grid, _ = spread(read.features, layout)
        memory = self.pool.remember(features)
        query = self.query.to(features.dtype).expand(len(features), -1, -1)
        return self.pool(query, memory, mask=padded(grid))[:, 0]


def _texts(layout: Layout) -> Int[Tensor, "*token"]:
    """Return the number of the text of every token; -1 on padding."""
    if isinstance(layout, Row):
        return layout.segment
    numbers = torch.arange(len(layout.lengths), device=layout.lengths.device)
    return torch.where(layout.filled, numbers[:, None], -1)


def _prepend_token(
    x: Float[Tensor, "*token width"], layout: Layout, token: Float[Tensor, "width"]
) -> tuple[Float[Tensor, "*more width"], Layout]:
    """Put one more token in front of every text."""
    if isinstance(layout, Grid):
        return torch.cat([token.expand(len(x), 1, -1), x], 1), Grid(layout.lengths + 1, layout.longest + 1)
    numbers = torch.arange(len(layout.lengths), device=x.device)
    order = torch.argsort(torch.cat([numbers, layout.segment]), stable=True)
    segment = torch.cat([numbers, layout.segment])[order]
    place = torch.cat([torch.zeros_like(numbers), layout.place + 1])[order]
    offsets = layout.offsets + torch.arange(len(layout.offsets), device=x.device, dtype=layout.offsets.dtype)
    row = Row(offsets, layout.longest + 1, segment, place, layout.count, layout.most)
    return torch.cat([token.expand(len(numbers), -1), x]).index_select(0, order), row


def _remove_token(x: Float[Tensor, "*more width"], layout: Layout, inner: Layout) -> tuple[Tensor, Tensor]:
    """Return the texts without the tokens in front of them, and these tokens."""
    if isinstance(layout, Grid):
        return x[:, 1:], x[:, 0]
    assert isinstance(inner, Row)
    indices = torch.arange(len(layout.segment), device=x.device) + layout.segment + 1
    lines = len(layout.lengths) if layout.most is None else layout.most
    return x.index_select(0, indices), x.index_select(0, inner.offsets[:lines].long())
