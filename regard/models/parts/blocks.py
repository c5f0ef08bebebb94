"""The parts models are made of: residual steps, feed-forward, encoder and decoder blocks, embeddings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.cache import KeyValues, LayerCache
from regard.attention.hardware import kernels_run
from regard.attention.masks import Mask
from regard.attention.multihead import Heads, MultiHead
from regard.attention.positions import Positions
from regard.attention.scores import Score, scaled_dot
from regard.models.interface import TokenModel
from regard.models.parts.dropout import Dropout


def gelu_tanh(x: Tensor) -> Tensor:
    """Return GELU with the tanh approximation, as in GPT-2."""
    return F.gelu(x, approximate="tanh")


def quick_gelu(x: Tensor) -> Tensor:
    """GELU by its approximation with a sigmoid, as ImageGPT was trained with."""
    return x * torch.sigmoid(1.702 * x)


DEVIATION = 0.02  # standard deviation of the initial weights of GPT and BERT
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "silu": F.silu,
    "gelu_tanh": gelu_tanh,
    "quick_gelu": quick_gelu,
}


@dataclass(frozen=True)
class BlockShape:
    """The settings shared by all blocks of a stack."""

    width: int
    heads: Heads
    hidden: int
    pre: bool = False
    activation: str = "relu"
    dropout: float = 0.0
    attention_dropout: float = 0.0
    attention_bias: bool = True
    norm: Literal["layer", "rms"] = "layer"
    eps: float = 1e-5
    """Constant added to the variance in norms."""
    mlp_bias: bool = True
    gated: bool = False
    """True if a second projection gates the feed-forward layer (Shazeer 2020): SwiGLU with silu, GEGLU with gelu."""
    mlp_dropout: float = 0.0
    """Dropout rate inside the feed-forward layer."""
    stochastic_depth: float = 0.0
    """Share of examples for which a residual branch is dropped in training."""
    score: Score = scaled_dot

    def attention(self) -> MultiHead:
        """Build a multi-head attention of this shape."""
        bias, dropout = self.attention_bias, self.attention_dropout
        return MultiHead(self.width, self.heads, bias=bias, dropout=dropout, score=self.score)

    def residual(self) -> Residual:
        """Build a residual step of this shape."""
        skipped = self.stochastic_depth
        return Residual(self.width, pre=self.pre, dropout=self.dropout, norm=self.normal(), skipped=skipped)

    def normal(self) -> nn.Module:
        """Build a norm of this shape."""
        return (nn.LayerNorm if self.norm == "layer" else nn.RMSNorm)(self.width, eps=self.eps)

    def feed_forward(self) -> FeedForward:
        """Build a feed-forward network of this shape."""
        return FeedForward(
            self.width,
            self.hidden,
            activation=self.activation,
            bias=self.mlp_bias,
            gated=self.gated,
            dropout=self.mlp_dropout,
        )


def to_autocast_dtype(x: Tensor) -> Tensor:
    """Cast vectors to the dtype of autocast, if it is on: a sum needs no more precision than the terms added to it."""
    kind = x.device.type
    return x.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else x


class Residual(nn.Module):
    """`norm(x + f(x))` as in the paper, or `x + f(norm(x))`, which trains more easily (Xiong et al. 2020)."""

    def __init__(self, width: int, *, pre: bool, dropout: float, norm: nn.Module | None = None, skipped: float = 0.0):
        super().__init__()
        self.pre = pre
        self.norm = norm or nn.LayerNorm(width)
        dropped = Dropout(dropout)
        self.dropout = nn.Sequential(dropped, StochasticDepth(skipped)) if skipped else dropped

    def forward(
        self, x: Float[Tensor, "*batch width"], change: Callable[[Tensor], Tensor], *, first: int | None = None
    ) -> Tensor:
        """Add the change to the input; with `first`, only to its first tokens, if the change is one of those."""
        residual = x if first is None else x[..., :first, :]
        if self.pre:
            return residual + self.dropout(change(self.norm(x)))
        changed = self.dropout(change(x))
        return self.norm(residual + changed).to(
            changed.dtype
        )  # under autocast half precision suffices for what comes next


class StochasticDepth(nn.Module):
    """Stochastic depth: drops the change of some examples in training, and scales up the others (Huang et al. 2016)."""

    def __init__(self, share: float):
        super().__init__()
        self.share = share

    def forward(self, change: Float[Tensor, "batch *token width"]) -> Float[Tensor, "batch *token width"]:
        """Set the change of about `share` of the examples to zero in training; outside training return it unchanged."""
        if not self.training or not self.share:
            return change
        assert change.dim() > 2, "in a packed row nobody knows where an example ends"
        keep_mask = torch.rand(len(change), *[1] * (change.dim() - 1), device=change.device) >= self.share
        return torch.where(keep_mask, change / (1 - self.share), 0)


class FeedForward(nn.Module):
    """`W2 f(W1 x)` for every token separately, or `W2 (f(V x) * W1 x)` if it is gated."""

    gate: nn.Linear | None

    def __init__(
        self,
        width: int,
        hidden: int,
        *,
        activation: str = "relu",
        bias: bool = True,
        gated: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.inner = nn.Linear(width, hidden, bias=bias)
        self.outer = nn.Linear(hidden, width, bias=bias)
        self.gate = nn.Linear(width, hidden, bias=bias) if gated else None
        self.dropout = Dropout(dropout)
        self.approximate = {"gelu": False, "gelu_tanh": True}.get(activation)  # None: not a GELU

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """Transform each token's vector independently of the others."""
        if self.gate is not None:
            inner = self.activation(self.gate(x)) * self.inner(x)
        elif self._uses_kernel(x):
            from regard.models.parts.gelu import biased_gelu

            inner = biased_gelu(F.linear(x, self.inner.weight), self.inner.bias, bool(self.approximate))
        else:
            inner = self.activation(self.inner(x))
        return self.outer(self.dropout(inner))

    def _uses_kernel(self, x: Tensor) -> bool:
        """True if a kernel adds the bias: when a step is compiled for a GPU in half precision."""
        plain = self.inner.bias is not None and type(self.inner).forward is nn.Linear.forward
        supported = plain and self.approximate is not None and kernels_run(x)
        return supported and torch.compiler.is_compiling() and torch.is_autocast_enabled(x.device.type)


class EncoderBlock(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, shape: BlockShape):
        super().__init__()
        self.attention = shape.attention()
        self.after_attention = shape.residual()
        self.mlp = shape.feed_forward()
        self.after_mlp = shape.residual()

    def forward(
        self,
        x: Float[Tensor, "*batch width"],
        *,
        mask: Mask,
        positions: Positions,
        cache: LayerCache | None = None,
        first: int | None = None,
    ) -> Tensor:
        """Let tokens (all, or only the first) attend to one another, or with a cache to those before them."""
        look = partial(self.attention, mask=mask, positions=positions, cache=cache, first=first)
        return self.after_mlp(self.after_attention(x, look, first=first), self.mlp)


class DecoderBlock(nn.Module):
    """Self-attention over the past, cross-attention over the memory, then feed-forward."""

    def __init__(self, shape: BlockShape):
        super().__init__()
        self.attention = shape.attention()
        self.after_attention = shape.residual()
        self.cross = shape.attention()
        self.after_cross = shape.residual()
        self.mlp = shape.feed_forward()
        self.after_mlp = shape.residual()

    def forward(
        self,
        x: Float[Tensor, "*batch width"],
        memory: Tensor | KeyValues,
        *,
        masks: tuple[Mask, Mask],
        positions: Positions,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """Let tokens attend to their past (first mask) and to the memory (second mask)."""
        past, source = masks
        x = self.after_attention(x, lambda y: self.attention(y, mask=past, positions=positions, cache=cache))
        x = self.after_cross(x, lambda y: self.cross(y, memory, mask=source))
        return self.after_mlp(x, self.mlp)


class Embedding(nn.Module):
    """A vector per token, scaled by the square root of the width or not, plus its positional encoding."""

    def __init__(self, vocab: int, width: int, *, dropout: float = 0.0, scaled: bool = True):
        super().__init__()
        self.scale = math.sqrt(width) if scaled else 1.0
        self.weight = nn.Parameter(torch.randn(vocab, width) / (math.sqrt(width) if scaled else 50.0))
        self.dropout = Dropout(dropout)

    def forward(
        self,
        tokens: Int[Tensor, "*batch"],
        places: Int[Tensor, "*places"],
        positions: Positions,
        lengths: Int[Tensor, "*lengths"] | None = None,
    ) -> Float[Tensor, "*batch width"]:
        """Return the vectors of tokens at these positions, in sequences of these lengths if they are known."""
        x = F.embedding(tokens, self.weight)
        x = x if self.scale == 1.0 else x * self.scale
        added = positions.embed(places, lengths)
        return self.dropout(x if added is None else x + added.to(x.dtype))


@dataclass(frozen=True)
class Stack:
    """The parts that a model generates with: embedding, positions, blocks, last norm and the matrix of the logits."""

    embedding: Embedding
    positions: Positions
    blocks: Sequence[nn.Module]
    norm: nn.Module
    prediction: Float[Tensor, "vocab width"]
    embedding_norm: nn.Module | None = None
    """Norm of the embeddings before the first block, if any."""
    scale: float = 1.0
    """Factor of the normalised features before the matrix."""
    bias: Float[Tensor, "vocab"] | None = None
    """Bias of the logits, if any."""

    def row_bytes(self, *, beams: int, written: int, prompt: int = 0, read: int = 0) -> int:
        """Return the memory of the keys and values of one example.

        Each beam holds those of its own `written` tokens; those of the prompt and of the `read` source are shared.
        """
        numbers = 0
        for block in self.blocks:
            numbers += (beams * written + prompt) * _numbers_per_token(block.attention)
            if isinstance(block, DecoderBlock):
                numbers += read * _numbers_per_token(block.cross)
        return numbers * self.prediction.element_size()


def _numbers_per_token(attention: Any) -> int:
    """Return the count of numbers that an attention caches for every token: those of a key and a value."""
    return int(attention.key.out_features + attention.value.out_features)


def check_length(positions: Positions, tokens: int, what: str = "a sequence", *, before: int = 0) -> None:
    """Raise ValueError if a sequence is longer than the position table, whose first `before` rows are not for tokens.

    Lengths are known on the host, so this needs no device sync; a kernel would read memory outside the table.
    """
    if positions.room is not None and tokens > positions.room - before:
        available = positions.room - before
        raise ValueError(f"{what} of {tokens} tokens, and the model knows {available} positions: give a shorter one")


def init_normal(module: nn.Module) -> None:
    """Initialise with normal weights and zero biases, as in GPT and BERT."""
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=DEVIATION)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


def init_xavier(module: nn.Module) -> None:
    """Initialise with Xavier weights and zero biases, as in the first Transformer."""
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


class Tied(TokenModel):
    """A model whose source, target and output embeddings may be shared, as `config.share` says.

    all: source, target and output are one matrix; target: target and output are one; none: each has its own.
    """

    config: Any
    embedding: Any
    target_embedding: Any
    output: Any

    @property
    def decoder_embedding(self) -> Any:
        """Return the embedding of target tokens."""
        return self.embedding if self.config.share == "all" else self.target_embedding

    @property
    def prediction(self) -> Float[Tensor, "vocab width"]:
        """The matrix that turns features into logits."""
        return self.output.weight if self.config.share == "none" else self.decoder_embedding.weight

    def logits(self, features: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch vocab"]:
        """Return the logits of all tokens in the vocabulary."""
        return F.linear(features, self.prediction, self.bias)
