"""The Transformer: an encoder reads the source, a decoder writes the target (Vaswani et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.cache import DecoderState, LayerCache
from regard.attention.masks import Grid, Mask, Row, Stepping, between, causal, padded, stepping
from regard.attention.multihead import Heads
from regard.attention.positions import scheme
from regard.config.ranges import Length, Share, Small, Vocabulary, Width, affordable, divided
from regard.config.resuming import Warned
from regard.models.blocks import BlockShape, DecoderBlock, Embedding, EncoderBlock, Stack, Tied

Layout = Row | Grid


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
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

    FAMILY: ClassVar[str] = "encoder blocks"
    BODY: ClassVar[dict[str, str]] = {
        **{name: name for name in ("width", "heads", "hidden", "norm", "positions", "activation", "context")},
        "embedding": "width",
        "depth": "encoder",
    }
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "tiny": {"width": 128, "heads": 4, "hidden": 256, "encoder": 4, "decoder": 4, "dropout": 0.3},
        "small": {"width": 256, "heads": 4, "hidden": 1024, "encoder": 6, "decoder": 6, "dropout": 0.2},
        "base": {"width": 512, "heads": 8, "hidden": 2048, "encoder": 6, "decoder": 6, "dropout": 0.1},
        "big": {"width": 1024, "heads": 16, "hidden": 4096, "encoder": 6, "decoder": 6, "dropout": 0.3},
    }

    def __post_init__(self) -> None:
        if self.target_vocab not in (None, self.vocab) and self.share == "all":
            raise ValueError("model.share: all needs one vocabulary for both sides; set it to target or none")
        divided(self.width, self.heads, self.groups)
        affordable(self.parameters, "lower width, hidden, the blocks, the context or the vocabulary")

    @property
    def parameters(self) -> int:
        """About how many numbers are learnt, and held in tables of positions."""
        tables = (self.vocab + 2 * (self.target_vocab or 0) + self.context) * self.width
        blocks = self.encoder * (4 * self.width + 2 * self.hidden) + self.decoder * (8 * self.width + 2 * self.hidden)
        return tables + blocks * self.width

    @property
    def phrase(self) -> str:
        """What it is, in a few words."""
        return f"A Transformer of {self.encoder}+{self.decoder} blocks, {self.width} wide, {self.heads} heads"

    @property
    def sizes(self) -> dict[str, Any]:
        """What another model must share to go on with the encoder."""
        own = {name: getattr(self, field) for name, field in self.BODY.items()}
        grouped = self.groups is not None and self.groups != self.heads
        return {**own, "groups of keys": grouped, "attention without biases": not self.attention_bias}

    @property
    def body(self) -> dict[str, str]:
        """Where the weights of the encoder lie, which another model can go on with."""
        parts = {"blocks": "encoder", "norm": "encoder_norm", "positions": "encoder_positions"}
        return {"embedding": "embedding", **parts}

    @property
    def shape(self) -> BlockShape:
        """What all blocks share."""
        return BlockShape(
            width=self.width,
            heads=Heads(self.heads, groups=self.groups),
            hidden=self.hidden,
            pre=self.norm == "pre",
            activation=self.activation,
            dropout=self.dropout,
            attention_dropout=self.attention_dropout,
            attention_bias=self.attention_bias,
        )


class Transformer(Tied):
    """Reads a source, writes a target; trained on packed rows, generates beam by beam."""

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
        for module in (*self.encoder, *self.decoder):
            module.apply(_initialise)

    def forward(
        self,
        source: Int[Tensor, "*source"],
        target: Int[Tensor, "*target"],
        *,
        layouts: tuple[Layout, Layout],
    ) -> Float[Tensor, "*target width"]:
        """Features of every target position, from which `logits` predicts the next token."""
        source_layout, target_layout = layouts
        memory = self.encode(source, source_layout)
        masks = between(target_layout, target_layout) & causal(), between(target_layout, source_layout)
        x = self._embed_target(target, target_layout.place)
        for block in self.decoder:
            x = block(x, memory, masks=masks, positions=self.decoder_positions)
        return self.decoder_norm(x)

    @property
    def stack(self) -> Stack:
        """What writes the target."""
        blocks = list(self.decoder)
        return Stack(self.written, self.decoder_positions, blocks, self.decoder_norm, self.prediction)

    def encode(self, source: Int[Tensor, "*source"], layout: Layout) -> Float[Tensor, "*source width"]:
        """The source, each token having looked at all others."""
        mask = between(layout, layout)
        x = self.embedding(source, layout.place, self.encoder_positions, layout.span)
        for block in self.encoder:
            x = block(x, mask=mask, positions=self.encoder_positions)
        return self.encoder_norm(x)

    @torch.no_grad()
    def start(
        self,
        source: Int[Tensor, "batch source"],
        lengths: Int[Tensor, "batch"],
        prompt: Int[Tensor, "batch prompt"],
        *,
        beams: int = 1,
        limit: int,
    ) -> tuple[Float[Tensor, "batch beam vocab"], DecoderState]:
        """Read the source and the beginning of the target; the source is held once, whatever the beams."""
        grid = Grid(lengths, source.shape[1])
        memory = self.encode(source, grid)
        memories = tuple(cast(DecoderBlock, block).cross.remember(memory) for block in self.decoder)
        room = prompt.shape[1]
        where = Stepping.begin(torch.full_like(lengths, room), beams=beams, limit=limit, room=room)
        size = room + beams * limit
        caches = tuple(LayerCache.empty(held.keys, held.values.shape[-1], size) for held in memories)
        read = Grid(where.prompt, room)
        past = DecoderState(where, caches, memories, grid)
        features = self._decode(prompt, past, masks=(padded(read, read) & causal(), padded(grid, read)))
        logits = self.logits(features[:, -1:])
        return logits.expand(-1, beams, -1), past

    @torch.no_grad()
    def step(
        self, tokens: Int[Tensor, "batch beam"], state: DecoderState
    ) -> tuple[Float[Tensor, "batch beam vocab"], DecoderState]:
        """Feed one more token to every beam."""
        past = state.advance()
        assert past.source is not None
        masks = stepping(past.where), padded(past.source, past.where)
        return self.logits(self._decode(tokens, past, masks=masks)), past

    def _decode(self, tokens: Tensor, past: DecoderState, *, masks: tuple[Mask, Mask]) -> Tensor:
        """Through the decoder with caches, writing the newest keys into them."""
        places, _ = masks[0].places(tokens.shape[1], tokens.shape[1], tokens.device)
        x = self._embed_target(tokens, places)
        for block, cache, memory in zip(self.decoder, past.caches, past.memories, strict=True):
            x = block(x, memory, masks=masks, positions=self.decoder_positions, cache=cache)
        return self.decoder_norm(x)

    def _embed_target(self, tokens: Tensor, places: Tensor) -> Tensor:
        return self.written(tokens, places, self.decoder_positions)


def _initialise(module: nn.Module) -> None:
    """Xavier weights and zero biases, as the reference implementation has them."""
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
