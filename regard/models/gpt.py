"""GPT: causal Transformer blocks that predict the next token of a text (Radford et al. 2018, 2019).

Its settings make it GPT-2 and GPT-3 (Brown et al. 2020), BLOOM (Le Scao et al. 2022), Llama (Touvron et al. 2023), or,
over the pixels of a picture, ImageGPT (Chen et al. 2020).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.cache import DecoderState, LayerCache
from regard.attention.masks import Grid, Mask, Row, Stepping, causal, mask_between, padded, stepping
from regard.attention.multihead import Heads, Merge
from regard.attention.plane import LearnedPlane
from regard.attention.positions import Positions, Rotary, scheme
from regard.config.ranges import (
    Length,
    Positive,
    Range,
    Share,
    Small,
    Vocabulary,
    Width,
    check_affordable,
    check_divisible,
)
from regard.config.resuming import Warned
from regard.models.interface import Backbone, ModelConfig, TokenModel, read_settings
from regard.models.parts.blocks import (
    DEVIATION,
    BlockShape,
    Embedding,
    EncoderBlock,
    Stack,
    check_length,
    init_normal,
    to_autocast_dtype,
)
from regard.models.parts.dropout import Dropout

Side = Annotated[int, Range(0, 4096)]


def _gpt(width: int, heads: int, depth: int, *, vocab: int = 50257, context: int = 1024) -> dict[str, Any]:
    """Return the settings of a GPT-2 or GPT-3 of this size."""
    return {"vocab": vocab, "width": width, "heads": heads, "hidden": 4 * width, "depth": depth, "context": context}


def _bloom(width: int, heads: int, depth: int) -> dict[str, Any]:
    """BLOOM by size."""
    sizes = _gpt(width, heads, depth, vocab=250880, context=2048)
    return {**sizes, "positions": "alibi", "embedding_norm": True, "dropout": 0.0}


def _llama(width: int, heads: int, hidden: int, depth: int, **settings: Any) -> dict[str, Any]:
    """Return the settings of a Llama of this size."""
    fixed = {"vocab": 32000, "normalisation": "rms", "positions": "rotary", "activation": "silu", "gated": True}
    biases = {"attention_bias": False, "mlp_bias": False, "tied": False, "dropout": 0.0}
    sizes = {"width": width, "heads": heads, "hidden": hidden, "depth": depth}
    return {**fixed, **biases, **sizes, "context": 2048, **settings}


# settings that plain encoder blocks do not have
PECULIAR = (
    *("groups", "merge", "normalisation", "eps", "rotary_base", "gated"),
    *("attention_bias", "mlp_bias", "embedding_norm"),
)


@dataclass(frozen=True, kw_only=True)
class GPTConfig(ModelConfig):
    """Transformer blocks that predict the next token of a text."""

    name: Literal["gpt"] = "gpt"
    """Which model this is."""
    vocab: Vocabulary = 0
    """Tokens of the vocabulary; filled in from the tokenizer."""
    width: Width = 768
    """Features of every position."""
    heads: Small = 12
    """Attention heads; must divide the width."""
    groups: Small | None = None
    """Groups of keys and values shared by heads; as many as heads when not given."""
    merge: Merge = "concat"
    """How heads become one vector: side by side before the output projection (concat), or added up (add)."""
    hidden: Width = 3072
    """Features inside the feed-forward part."""
    depth: Small = 12
    """Blocks on top of one another."""
    norm: Literal["pre", "post"] = "pre"
    """Norm before each sub-layer as in GPT-2 (pre), or after it as in GPT-1 (post)."""
    normalisation: Literal["layer", "rms"] = "layer"
    """Kind of norm: LayerNorm, or RMSNorm, which has no mean and no bias."""
    eps: Positive = 1e-5
    """What a norm adds to the variance."""
    positions: Literal["learned", "rotary", "alibi", "relative", "sinusoidal", "none"] = "learned"
    """Positional encoding: how tokens know their positions."""
    rotary_base: Positive = 10000.0
    """Base of the wavelengths of rotary positions; larger ones tell longer distances apart."""
    activation: Literal["gelu_tanh", "gelu", "relu", "silu", "quick_gelu"] = "gelu_tanh"
    """Function inside the feed-forward part."""
    gated: bool = False
    """Whether a second projection gates the feed-forward part: SwiGLU with silu, GEGLU with gelu."""
    attention_bias: bool = True
    """Whether the attention projections have biases."""
    mlp_bias: bool = True
    """Whether the feed-forward projections have biases."""
    tied: bool = True
    """Predict tokens with the matrix that embeds them."""
    embedding_norm: bool = False
    """A norm of the embeddings before the first block, as in BLOOM."""
    context: Length = 1024
    """Longest sequence that the position tables serve, in tokens."""
    dropout: Warned[Share] = 0.1
    """Dropout rate."""
    embedding_dropout: Warned[Share | None] = None
    """Dropout rate of embeddings; as elsewhere when not given."""
    attention_dropout: Warned[Share] = 0.0
    """Dropout rate of attention weights; above 0 the fastest kernels cannot be used."""

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "gpt1": {**_gpt(768, 12, 12, vocab=40478, context=512), "norm": "post"},
        "gpt2": _gpt(768, 12, 12),
        "gpt2-medium": _gpt(1024, 16, 24),
        "gpt2-large": _gpt(1280, 20, 36),
        "gpt2-xl": _gpt(1600, 25, 48),
        "gpt3-small": _gpt(768, 12, 12, context=2048),
        "gpt3-medium": _gpt(1024, 16, 24, context=2048),
        "gpt3-large": _gpt(1536, 16, 24, context=2048),
        "gpt3-xl": _gpt(2048, 16, 24, context=2048),
        "gpt3-2.7b": _gpt(2560, 32, 32, context=2048),
        "gpt3-6.7b": _gpt(4096, 32, 32, context=2048),
        "gpt3-13b": _gpt(5120, 40, 40, context=2048),
        "gpt3": _gpt(12288, 96, 96, context=2048),
        "megatron-1.2b": _gpt(1536, 16, 40, vocab=51200),
        "megatron-2.5b": _gpt(1920, 20, 54, vocab=51200),
        "megatron-4.2b": _gpt(2304, 24, 64, vocab=51200),
        "megatron-8.3b": _gpt(3072, 32, 72, vocab=51200),
        "bloom-560m": _bloom(1024, 16, 24),
        "bloom-1b1": _bloom(1536, 16, 24),
        "bloom-1b7": _bloom(2048, 16, 24),
        "bloom-3b": _bloom(2560, 32, 30),
        "bloom-7b1": _bloom(4096, 32, 30),
        "bloom-176b": _bloom(14336, 112, 70),
        "stories15m": _llama(288, 6, 768, 6, context=256, tied=True),
        "stories42m": _llama(512, 8, 1376, 8, context=1024, tied=True),
        "stories110m": _llama(768, 12, 2048, 12, context=1024, tied=True),
        "llama-7b": _llama(4096, 32, 11008, 32, eps=1e-6),
        "llama-13b": _llama(5120, 40, 13824, 40, eps=1e-6),
        "llama-65b": _llama(8192, 64, 22016, 80, eps=1e-6),
        "llama2-7b": _llama(4096, 32, 11008, 32, context=4096),
        "llama2-70b": _llama(8192, 64, 28672, 80, groups=8, context=4096),
    }

    def __post_init__(self) -> None:
        check_divisible(self.width, self.heads, self.groups)
        check_affordable(self.parameters, "lower width, hidden, depth, the context or the vocabulary")

    @property
    def parameters(self) -> int:
        """Return the number of parameters."""
        width, hidden, rms = self.width, self.hidden, self.normalisation == "rms"
        shared = width // self.heads * (self.groups or self.heads)
        output = width if self.merge == "concat" else width // self.heads
        attention = width * (width + 2 * shared + output) + self.attention_bias * 2 * (width + shared)
        outwards = (2 if self.gated else 1) * hidden
        mlp = width * (outwards + hidden) + self.mlp_bias * (outwards + width)
        norm = width * (1 if rms else 2)
        norms = 2 * self.depth + (self.norm == "pre") + self.embedding_norm
        tables = self.vocab * width * (1 if self.tied else 2)
        places = {"learned": self.context * width, "relative": 32 * self.heads}.get(self.positions, 0)
        return tables + places + self.depth * (attention + mlp) + norms * norm

    @property
    def phrase(self) -> str:
        """Return a short description of the model."""
        return f"A GPT of {self.depth} blocks, {self.width} wide, {self.heads} heads"

    @property
    def backbone(self) -> Backbone:
        """Return the embedding and all blocks; a plain encoder can start from those of a plain GPT."""
        names = ("width", "heads", "hidden", "depth", "norm", "positions", "activation", "context")
        settings = {**{name: name for name in names}, "embedding": "width"}
        peculiar = {name: getattr(self, name) != getattr(GPTConfig, name) for name in PECULIAR}
        peculiar |= {"causal": True, "groups": self.groups not in (None, self.heads)}
        return Backbone(
            family="encoder blocks",
            settings=settings,
            sizes={**read_settings(self, settings), **peculiar},
            weights={name: name for name in ("embedding", "embedding_norm", "positions", "blocks", "norm")},
            same_model_settings=PECULIAR,
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
            norm=self.normalisation,
            eps=self.eps,
            mlp_bias=self.mlp_bias,
            gated=self.gated,
        )


def _imagegpt(width: int, heads: int, depth: int) -> dict[str, Any]:
    """Return the settings of an ImageGPT of this size: 512 colours and a start token, over 32 x 32 pixels."""
    kind = {"normalisation": "rms", "activation": "quick_gelu", "tied": False, "positions": "learned", "size": 32}
    return {**_gpt(width, heads, depth, vocab=513), **kind}


@dataclass(frozen=True, kw_only=True)
class ImageGPTConfig(GPTConfig):
    """A GPT whose tokens are the pixels of a picture, row by row."""

    name: Literal["image-gpt"] = "image-gpt"  # type: ignore[assignment]
    """Which model this is."""
    width: Width = 256
    """Features of every position."""
    heads: Small = 8
    """Attention heads; must divide the width."""
    hidden: Width = 1024
    """Features inside the feed-forward part."""
    depth: Small = 8
    """Blocks on top of one another."""
    positions: Literal["plane", "learned", "rotary", "alibi", "relative", "sinusoidal", "none"] = "plane"  # type: ignore[assignment]
    """Positional encoding; plane: learned vectors of the row, the column and the channel."""
    dropout: Warned[Share] = 0.0
    """Dropout rate."""
    size: Side = 0
    """Pixels on each side of a picture; filled in from the pictures."""
    channels: Annotated[int, Range(1, 3)] = 1
    """Tokens of a pixel: 3 bytes of red, green and blue, else 1; filled in from the pictures."""

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "imagegpt-small": _imagegpt(512, 8, 24),
        "imagegpt-medium": _imagegpt(1024, 8, 36),
        "imagegpt-large": _imagegpt(1536, 16, 48),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.places > self.context:
            raise ValueError(f"pictures of {self.places:,} tokens, and a context of {self.context:,}: raise it")

    @property
    def places(self) -> int:
        """Tokens of a picture."""
        return self.size**2 * self.channels

    @property
    def pairs(self) -> tuple[int, int]:
        """Return the number of attending pairs of tokens before causal masking, and that of all pairs."""
        return self.places**2, self.places**2

    @property
    def parameters(self) -> int:
        """Return the number of parameters."""
        return super().parameters + (self.positions == "plane") * (2 * self.size + self.channels) * self.width

    @property
    def phrase(self) -> str:
        """Return a short description of the model."""
        return f"A GPT over pixels, of {self.depth} blocks, {self.width} wide, {self.heads} heads"

    @property
    def backbone(self) -> Backbone:
        """Return the embedding and all blocks, from which only models of pixels can start."""
        return replace(super().backbone, family="pixels")


class GPT(TokenModel):
    """A causal language model, trained on packed rows or padded batches, that generates with beams."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.config = config
        shape, width = config.shape, config.width
        self.embedding = Embedding(config.vocab, width, scaled=False)
        self.embedding_norm = shape.normal() if config.embedding_norm else nn.Identity()
        self.dropout = Dropout(config.dropout if config.embedding_dropout is None else config.embedding_dropout)
        self.positions = _positions(config)
        self.blocks = nn.ModuleList(EncoderBlock(shape) for _ in range(config.depth))
        self.norm = shape.normal() if shape.pre else nn.Identity()
        if not config.tied:
            self.output = nn.Linear(width, config.vocab, bias=False)
        self.apply(init_normal)
        for block in self.blocks:  # the sum in the residual stream has the variance of one term
            for last in (cast(EncoderBlock, block).attention.output, cast(EncoderBlock, block).mlp.outer):
                nn.init.normal_(last.weight, std=DEVIATION / math.sqrt(2 * config.depth))

    def forward(self, tokens: Int[Tensor, "*batch"], *, layout: Row | Grid) -> Float[Tensor, "*batch width"]:
        """Return the features of every token, from which `logits` predicts the next one."""
        check_length(self.positions, layout.longest)
        return self._read(tokens, mask_between(layout, layout) & causal(), (None,) * len(self.blocks))

    @property
    def prediction(self) -> Float[Tensor, "vocab width"]:
        """The matrix that turns features into logits."""
        return self.embedding.weight if self.config.tied else self.output.weight

    def logits(self, features: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch vocab"]:
        """Return the logits of all tokens in the vocabulary."""
        return F.linear(features, self.prediction)

    @property
    def stack(self) -> Stack:
        """Return the parts that generate text."""
        norm = self.embedding_norm if self.config.embedding_norm else None
        return Stack(self.embedding, self.positions, list(self.blocks), self.norm, self.prediction, embedding_norm=norm)

    @torch.no_grad()
    def start(
        self,
        prompt: Int[Tensor, "batch prompt"],
        lengths: Int[Tensor, "batch"] | None = None,
        *,
        beams: int = 1,
        limit: int,
    ) -> tuple[Float[Tensor, "batch beam vocab"], DecoderState]:
        """Read prompts of at least one token, padded on the right if `lengths` are given.

        They are stored once for all beams; a shorter prompt is continued at the positions after its own last token.
        """
        batch, room = prompt.shape
        if not room:
            raise ValueError("a prompt of no tokens: give one at least, such as the token that ends a text")
        check_length(self.positions, room + limit, f"a prompt of {room} and an answer of {limit}, together")
        ends = torch.full((batch,), room, device=prompt.device) if lengths is None else lengths
        whole = lengths is None or (lengths.device.type == "cpu" and bool((lengths == room).all()))
        where = Stepping.begin(ends, beams=beams, limit=limit, room=room, even=whole)
        read = Grid(ends, room)
        mask = causal() if whole else padded(read, read) & causal()
        caches = self._caches(batch, room + beams * limit)
        features = self._read(prompt, mask, caches)
        last = features[torch.arange(batch, device=prompt.device), ends - 1]
        return self.logits(last[:, None]).expand(-1, beams, -1), DecoderState(where, caches)

    @torch.no_grad()
    def step(
        self, tokens: Int[Tensor, "batch beam"], state: DecoderState
    ) -> tuple[Float[Tensor, "batch beam vocab"], DecoderState]:
        """Feed one more token to every beam."""
        past = state.advance()
        return self.logits(self._read(tokens, stepping(past.where), past.caches)), past

    def _read(self, tokens: Tensor, mask: Mask, caches: Sequence[LayerCache | None]) -> Tensor:
        """Run all blocks, adding the new keys and values to the caches, if there are any."""
        places, _ = mask.places(tokens.shape[-1], tokens.shape[-1], tokens.device)
        x = self.dropout(self.embedding_norm(self.embedding(tokens, places, self.positions)))
        x = (
            to_autocast_dtype(x) if self.config.normalisation == "layer" else x
        )  # RMS norms need the precision of their weights
        for block, cache in zip(self.blocks, caches, strict=True):
            x = block(x, mask=mask, positions=self.positions, cache=cache)
        return self.norm(x)

    def _caches(self, batch: int, size: int) -> tuple[LayerCache, ...]:
        """Return empty caches in the dtype of the keys."""
        nothing = self.embedding.weight.new_empty(batch, 0, self.config.width)
        memories = [cast(EncoderBlock, block).attention.remember(nothing) for block in self.blocks]
        return tuple(LayerCache.empty(memory.keys, memory.values.shape[-1], size) for memory in memories)


def _positions(config: GPTConfig) -> Positions:
    """Build the positional encoding of a config."""
    if config.positions == "rotary":
        return Rotary(config.width // config.heads, base=config.rotary_base)
    if isinstance(config, ImageGPTConfig) and config.positions == "plane":
        return LearnedPlane((config.size, config.size), config.width, channels=config.channels)
    return scheme(config.positions, width=config.width, heads=config.heads, context=config.context, causal=True)
