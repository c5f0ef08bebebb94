"""The parts models are made of: residual steps, feed-forward, encoder and decoder blocks, embeddings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.cache import KeyValues, LayerCache
from regard.attention.masks import Mask
from regard.attention.multihead import Heads, MultiHead
from regard.attention.positions import Positions

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}


@dataclass(frozen=True)
class BlockShape:
    """What every block of a stack shares."""

    width: int
    heads: Heads
    hidden: int
    pre: bool = False
    activation: str = "relu"
    dropout: float = 0.0
    attention_dropout: float = 0.0
    attention_bias: bool = True

    def attention(self) -> MultiHead:
        """A multi-head attention of this shape."""
        return MultiHead(self.width, self.heads, bias=self.attention_bias, dropout=self.attention_dropout)

    def residual(self) -> Residual:
        """A residual step of this shape."""
        return Residual(self.width, pre=self.pre, dropout=self.dropout)


class Residual(nn.Module):
    """`norm(x + f(x))` as in the paper, or `x + f(norm(x))`, which trains without care (Xiong et al. 2020)."""

    def __init__(self, width: int, *, pre: bool, dropout: float):
        super().__init__()
        self.pre = pre
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "*batch width"], change: Callable[[Tensor], Tensor]) -> Tensor:
        """The input changed a little."""
        if self.pre:
            return x + self.dropout(change(self.norm(x)))
        changed = self.dropout(change(x))
        return self.norm(x + changed).to(changed.dtype)  # under autocast half precision suffices for what is normalised


class FeedForward(nn.Module):
    """`W2 f(W1 x)` at every token by itself."""

    def __init__(self, width: int, hidden: int, *, activation: str = "relu"):
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.inner = nn.Linear(width, hidden)
        self.outer = nn.Linear(hidden, width)

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """Each token's vector, changed without a look at the others."""
        return self.outer(self.activation(self.inner(x)))


class EncoderBlock(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, shape: BlockShape):
        super().__init__()
        self.attention = shape.attention()
        self.after_attention = shape.residual()
        self.mlp = FeedForward(shape.width, shape.hidden, activation=shape.activation)
        self.after_mlp = shape.residual()

    def forward(
        self, x: Float[Tensor, "*batch width"], *, mask: Mask, positions: Positions, cache: LayerCache | None = None
    ) -> Tensor:
        """Tokens that have looked at one another, or, with a cache, at what came before them."""
        x = self.after_attention(x, lambda y: self.attention(y, mask=mask, positions=positions, cache=cache))
        return self.after_mlp(x, self.mlp)


class DecoderBlock(nn.Module):
    """Self-attention over the past, cross-attention over the memory, then feed-forward."""

    def __init__(self, shape: BlockShape):
        super().__init__()
        self.attention = shape.attention()
        self.after_attention = shape.residual()
        self.cross = shape.attention()
        self.after_cross = shape.residual()
        self.mlp = FeedForward(shape.width, shape.hidden, activation=shape.activation)
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
        """Tokens that have looked at their past (first mask) and at the memory (second)."""
        past, source = masks
        x = self.after_attention(x, lambda y: self.attention(y, mask=past, positions=positions, cache=cache))
        x = self.after_cross(x, lambda y: self.cross(y, memory, mask=source))
        return self.after_mlp(x, self.mlp)


class Embedding(nn.Module):
    """A vector per token, scaled by the root of the width, plus what its place adds."""

    def __init__(self, vocab: int, width: int, *, dropout: float = 0.0):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocab, width) / math.sqrt(width))
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        tokens: Int[Tensor, "*batch"],
        places: Int[Tensor, "*places"],
        positions: Positions,
        lengths: Int[Tensor, "*lengths"] | None = None,
    ) -> Float[Tensor, "*batch width"]:
        """Vectors of tokens that stand at these places, in sequences of these lengths where they are known."""
        x = F.embedding(tokens, self.weight) * math.sqrt(self.weight.shape[1])
        added = positions.embed(places, lengths)
        return self.dropout(x if added is None else x + added.to(x.dtype))


@dataclass(frozen=True)
class Stack:
    """What a model writes with: vectors of tokens, positions, blocks, the last norm, and the matrix of the logits."""

    embedding: Embedding
    positions: Positions
    blocks: Sequence[nn.Module]
    norm: nn.Module
    prediction: Float[Tensor, "vocab width"]


class Tied(nn.Module):
    """A model that reads with one table of tokens and writes with another, or the same, as `config.share` says.

    all: source, target and output are one matrix; target: target and output are; none: each has its own.
    """

    config: Any
    embedding: Any
    target_embedding: Any
    output: Any

    @property
    def written(self) -> Any:
        """What turns target tokens into vectors."""
        return self.embedding if self.config.share == "all" else self.target_embedding

    @property
    def prediction(self) -> Float[Tensor, "vocab width"]:
        """The matrix that turns features into logits."""
        return self.output.weight if self.config.share == "none" else self.written.weight

    def logits(self, features: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch vocab"]:
        """One number per token of the vocabulary."""
        return F.linear(features, self.prediction)
