"""BERT: bidirectional Transformer blocks that predict masked tokens (Devlin et al. 2019).

Its settings make it RoBERTa (Liu et al. 2019), CamemBERT (Martin et al. 2020), or DistilBERT (Sanh et al. 2019).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.masks import Grid, Row, mask_between
from regard.attention.multihead import Heads, Merge
from regard.attention.positions import scheme
from regard.config.ranges import (
    Length,
    Positive,
    Share,
    Small,
    Vocabulary,
    Whole,
    Width,
    check_affordable,
    check_divisible,
)
from regard.config.resuming import Warned
from regard.models.interface import Backbone, ModelConfig, TokenModel, read_settings
from regard.models.parts.blocks import (
    ACTIVATIONS,
    DEVIATION,
    BlockShape,
    Embedding,
    EncoderBlock,
    check_length,
    init_normal,
)
from regard.models.parts.dropout import Dropout
from regard.models.parts.span_boundary import LONGEST_SPAN, SpanBoundaries, SpanBoundaryHead
from regard.models.parts.unpack import first


def _bert(width: int, depth: int) -> dict[str, Any]:
    """Return the settings of a BERT of this size, with 64 features per head."""
    return {"vocab": 30522, "width": width, "heads": width // 64, "hidden": 4 * width, "depth": depth}


ROBERTA = {"vocab": 50265, "offset": 2, "segments": 1, "eps": 1e-5, "pooler": False, "next_sentence": False}


@dataclass(frozen=True, kw_only=True)
class BERTConfig(ModelConfig):
    """Transformer blocks that read a whole text and fill in its masked tokens."""

    name: Literal["bert"] = "bert"
    """Which model this is."""
    vocab: Vocabulary = 0
    """Tokens of the vocabulary; filled in from the tokenizer."""
    width: Width = 768
    """Features of every position."""
    heads: Small = 12
    """Attention heads; must divide the width."""
    merge: Merge = "concat"
    """How heads become one vector: side by side before the output projection (concat), or added up (add)."""
    hidden: Width = 3072
    """Features inside the feed-forward part."""
    depth: Small = 12
    """Blocks on top of one another."""
    context: Length = 512
    """Longest sequence that the position tables serve, in tokens."""
    offset: Whole = 0
    """Rows of the position table before that of the first token; RoBERTa has 2."""
    segments: Whole = 2
    """Kinds of segments that a sequence may consist of; 0: tokens do not say of which they are."""
    norm: Literal["post", "pre"] = "post"
    """Layer norm after each sub-layer as in the paper (post), or before it (pre)."""
    eps: Positive = 1e-12
    """What a norm adds to the variance."""
    positions: Literal["learned", "rotary", "alibi", "relative", "sinusoidal", "none"] = "learned"
    """Positional encoding: how tokens know their positions."""
    activation: Literal["gelu", "gelu_tanh", "relu", "silu"] = "gelu"
    """Function inside the feed-forward part and the masked head."""
    embedding_norm: bool = True
    """A norm of the embeddings before the first block."""
    pooler: bool = True
    """A layer on the first token of a sequence, whose output represents the whole sequence."""
    masked: bool = True
    """A head that predicts masked tokens."""
    next_sentence: bool = True
    """A head that says whether the second segment follows the first; needs the pooler."""
    span_boundary: bool = False
    """A head that predicts the tokens of a masked span from those beside it; needs the masked head."""
    dropout: Warned[Share] = 0.1
    """Dropout rate."""
    attention_dropout: Warned[Share] = 0.0
    """Dropout rate of attention weights; above 0 the fastest kernels cannot be used."""

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "bert-tiny": _bert(128, 2),
        "bert-mini": _bert(256, 4),
        "bert-small": _bert(512, 4),
        "bert-medium": _bert(512, 8),
        "bert-base": _bert(768, 12),
        "bert-large": _bert(1024, 24),
        "biobert": {**_bert(768, 12), "vocab": 28996},
        "distilbert-base": {**_bert(768, 6), "segments": 0, "pooler": False, "next_sentence": False},
        "roberta-base": {**_bert(768, 12), **ROBERTA},
        "roberta-large": {**_bert(1024, 24), **ROBERTA},
        "camembert-base": {**_bert(768, 12), **ROBERTA, "vocab": 32005},
    }

    def __post_init__(self) -> None:
        check_divisible(self.width, self.heads)
        if self.next_sentence and not self.pooler:
            raise ValueError("model.next_sentence needs model.pooler: turn it on, or next_sentence off")
        if self.span_boundary and not self.masked:
            raise ValueError("model.span_boundary needs model.masked, whose matrix it shares: turn it on")
        check_affordable(self.parameters, "lower width, hidden, depth, the context or the vocabulary")

    @property
    def parameters(self) -> int:
        """Return the number of parameters."""
        width, hidden = self.width, self.hidden
        output = width if self.merge == "concat" else width // self.heads
        block = (3 * width + output) * width + 4 * width + 2 * width * hidden + hidden + width + 4 * width
        rows = self.context + self.offset
        places = {"learned": rows * width, "relative": 32 * self.heads}.get(self.positions, 0)
        norms = 2 * width * (self.embedding_norm + (self.norm == "pre"))
        heads = self.pooler * width * (width + 1) + self.next_sentence * 2 * (width + 1)
        masked = self.masked * (width * (width + 1) + 2 * width + self.vocab)
        boundary = self.span_boundary * (LONGEST_SPAN * width + 4 * width**2 + 6 * width)
        return (self.vocab + self.segments) * width + places + norms + self.depth * block + heads + masked + boundary

    @property
    def predicts_masked(self) -> bool:
        """True if it has a head for masked tokens."""
        return self.masked

    @property
    def phrase(self) -> str:
        """Return a short description of the model."""
        return f"A BERT of {self.depth} blocks, {self.width} wide, {self.heads} heads"

    @property
    def backbone(self) -> Backbone:
        """Return all parts but the next-sentence head; a plain encoder can start from the blocks of a plain BERT."""
        names = ("width", "heads", "hidden", "depth", "norm", "positions", "activation", "context")
        settings = {**{name: name for name in names}, "embedding": "width"}
        plain = {"merge": "concat", "offset": 0, "segments": 0, "eps": BlockShape.eps, "embedding_norm": False}
        parts = ("embedding", "segments", "embedding_norm", "positions", "blocks", "norm", *["pooler"] * self.pooler)
        peculiar = {name: getattr(self, name) != value for name, value in plain.items()}
        return Backbone(
            family="encoder blocks",
            settings=settings,
            sizes={**read_settings(self, settings), **peculiar},
            weights={name: name for name in (*parts, *["head", "bias"] * self.masked)},
            same_model_settings=tuple(plain),
        )

    @property
    def shape(self) -> BlockShape:
        """Return the settings shared by all blocks."""
        return BlockShape(
            width=self.width,
            heads=Heads(self.heads, merge=self.merge),
            hidden=self.hidden,
            pre=self.norm == "pre",
            activation=self.activation,
            dropout=self.dropout,
            attention_dropout=self.attention_dropout,
            eps=self.eps,
        )


class MaskedHead(nn.Module):
    """The transformation of features before they are compared with the vectors of all tokens."""

    def __init__(self, shape: BlockShape):
        super().__init__()
        self.activation = ACTIVATIONS[shape.activation]
        self.dense = nn.Linear(shape.width, shape.width)
        self.norm = shape.normal()

    def forward(self, features: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """Transform the features of the tokens to predict."""
        return self.norm(self.activation(self.dense(features)))


class BERT(TokenModel):
    """A bidirectional encoder, with heads for masked tokens and for whether two segments belong together."""

    segments: nn.Embedding | None

    def __init__(self, config: BERTConfig):
        super().__init__()
        self.config = config
        shape, width = config.shape, config.width
        places = {"width": width, "heads": config.heads, "context": config.context + config.offset}
        self.embedding = Embedding(config.vocab, width, scaled=False)
        self.positions = scheme(config.positions, causal=False, **places)
        self.segments = nn.Embedding(config.segments, width) if config.segments else None
        self.embedding_norm = shape.normal() if config.embedding_norm else nn.Identity()
        self.dropout = Dropout(config.dropout)
        self.blocks = nn.ModuleList(EncoderBlock(shape) for _ in range(config.depth))
        self.norm = shape.normal() if shape.pre else nn.Identity()
        if config.pooler:
            self.pooler = nn.Linear(width, width)
        if config.masked:
            self.head = MaskedHead(shape)
        if config.span_boundary:
            self.boundary = SpanBoundaryHead(width, eps=config.eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab)) if config.masked else None
        if config.next_sentence:
            self.next_sentence = nn.Linear(width, 2)
        self.apply(init_normal)
        if self.segments is not None:
            nn.init.normal_(self.segments.weight, std=DEVIATION)

    def forward(
        self,
        tokens: Int[Tensor, "*batch"],
        *,
        layout: Row | Grid,
        segments: Int[Tensor, "*batch"] | None = None,
    ) -> Float[Tensor, "*batch width"]:
        """Return the features of every token; without `segments` all tokens belong to the first one."""
        check_length(self.positions, layout.longest, before=self.config.offset)
        mask = mask_between(layout, layout)
        x = self.embedding(tokens, layout.place + self.config.offset, self.positions, layout.span)
        if self.segments is not None:
            x = x + (self.segments.weight[0] if segments is None else self.segments(segments)).to(x.dtype)
        x = self.dropout(self.embedding_norm(x))
        for block in self.blocks:
            x = block(x, mask=mask, positions=self.positions)
        return self.norm(x)

    def transform(self, features: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """Apply the masked head up to its output matrix."""
        return self.head(features)

    def predict_spans(
        self, features: Float[Tensor, "*batch width"], boundaries: SpanBoundaries
    ) -> Float[Tensor, "hidden width"]:
        """Return the transformed features of masked tokens from the span boundary head, before the output matrix."""
        return self.boundary(features, boundaries)

    @property
    def prediction(self) -> Float[Tensor, "vocab width"]:
        """The output matrix from transformed features to logits (a bias is added to them)."""
        return self.embedding.weight

    @property
    def has_logits(self) -> bool:
        """True if it has a head for masked tokens."""
        return self.config.masked

    def logits(self, features: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch vocab"]:
        """Return the logits of all tokens in the vocabulary."""
        return F.linear(self.transform(features), self.prediction, self.bias)

    def pool_features(
        self, features: Float[Tensor, "*batch width"], layout: Row | Grid
    ) -> Float[Tensor, "sequence width"]:
        """Return a vector per sequence, from its first token; a row of fixed shape has the maximal number of them."""
        return self.pooler(first(features, layout)).tanh()

    def following(self, pooled: Float[Tensor, "sequence width"]) -> Float[Tensor, "sequence 2"]:
        """Return the logits of the second segment following the first, and of it not doing so."""
        return self.next_sentence(pooled)
