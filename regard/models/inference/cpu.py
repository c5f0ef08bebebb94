"""Decoding steps on a CPU with few calls, where a small model is limited by Python overhead, not by memory.

The model's own weights are used without a copy, so they are always up to date. `start` and `step` are those of the
model, with the same states; reading whole sequences, with dropout, autocast and the rest, is left to the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.attend import AttentionSpec, attend, attend_step
from regard.attention.cache import DecoderState, KeyValues, LayerCache
from regard.attention.masks import Mask, Stepping, padded, stepping
from regard.attention.multihead import MultiHead
from regard.attention.positions import Positions
from regard.models.inference.supported import check
from regard.models.parts.blocks import DecoderBlock, FeedForward

Change = Callable[[Tensor], Tensor]


class LeanDecoder:
    """A stack of blocks for generation only, which shares the weights of its model."""

    def __init__(self, model: Any):
        self.model, self.stack = model, model.stack
        check(self.stack)
        self.pre = self.stack.blocks[0].after_mlp.pre
        self.blocks = [_Block.of(block, self.stack.positions) for block in self.stack.blocks]

    def parameters(self) -> Iterator[nn.Parameter]:
        """Return the parameters of the model."""
        return self.model.parameters()

    def row_bytes(self, *, beams: int, written: int, prompt: int = 0, read: int = 0) -> int:
        """Return the memory of the keys and values of one row."""
        return self.stack.row_bytes(beams=beams, written=written, prompt=prompt, read=read)

    def start(self, *inputs: Tensor, beams: int, limit: int) -> tuple[Float[Tensor, "batch beam vocab"], DecoderState]:
        """Read the inputs and the beginning of the target, as the model does."""
        with self._own_precision():
            return self.model.start(*inputs, beams=beams, limit=limit)

    @torch.no_grad()
    def step(
        self, tokens: Int[Tensor, "batch beam"], state: DecoderState
    ) -> tuple[Float[Tensor, "batch beam vocab"], DecoderState]:
        """Feed one more token to every beam."""
        past, stack = state.advance(), self.stack
        masks = stepping(past.where), None if past.source is None else padded(past.source, past.where)
        memories = past.memories or (None,) * len(self.blocks)
        with self._own_precision():
            x = self._embed(tokens, masks[0])
            for block, cache, memory in zip(self.blocks, past.caches, memories, strict=True):
                x = self._through(block, x, (cache, memory), masks)
            x = stack.norm(x) if self.pre else x
            return F.linear(x if stack.scale == 1.0 else x * stack.scale, stack.prediction), past

    def _own_precision(self) -> AbstractContextManager[Any]:
        """Return a context without autocast, so that computation is in the dtype of the weights."""
        kind = self.stack.prediction.device.type
        return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()

    def _embed(self, tokens: Tensor, mask: Mask) -> Tensor:
        """Return the token embeddings, scaled, with positions added, and normalised if the model does that."""
        where, stack, embedding = mask.where, self.stack, self.stack.embedding
        assert isinstance(where, Stepping)
        x = F.embedding(tokens, embedding.weight)
        x = x if embedding.scale == 1.0 else x * embedding.scale
        added = stack.positions.embed(mask.once("newest", lambda: where.newest))
        x = x if added is None else x + added.to(x.dtype)
        return x if stack.embedding_norm is None else stack.embedding_norm(x)

    def _through(
        self, block: _Block, x: Tensor, state: tuple[LayerCache, KeyValues | None], masks: tuple[Mask, Mask | None]
    ) -> Tensor:
        """Run one block: the output of each part is added to its input, with the norm before or after."""
        cache, memory = state
        for norm, part in zip(block.norms, block.parts, strict=True):
            y = norm(x) if self.pre else x
            if isinstance(part, _Past):
                y = part.look(y, cache, masks[0], self.stack.positions)
            elif isinstance(part, _Source):
                assert memory is not None
                assert masks[1] is not None
                y = part.look(y, memory, masks[1])
            else:
                y = part.change(y)
            x = y.add_(x) if self.pre else norm(y.add_(x))
        return x


class _Block(NamedTuple):
    """The parts of a block in their order, and the norm of each."""

    parts: tuple[_Past | _Source | _Inner, ...]
    norms: tuple[Change, ...]

    @classmethod
    def of(cls, block: Any, positions: Positions) -> _Block:
        past, inner = _Past.of(block.attention, positions), _Inner.of(block.mlp)
        steps: tuple[Any, ...] = block.after_attention, block.after_mlp
        if not isinstance(block, DecoderBlock):
            return cls((past, inner), tuple(_norm(step.norm) for step in steps))
        steps = block.after_attention, block.after_cross, block.after_mlp
        return cls((past, _Source.of(block.cross), inner), tuple(_norm(step.norm) for step in steps))


class _Map(NamedTuple):
    """The weights of a linear layer outside its module, where looking them up takes as long as a small product."""

    weight: Tensor
    bias: Tensor | None

    @classmethod
    def of(cls, map: nn.Linear) -> _Map:
        return cls(map.weight, map.bias)


class _Past(NamedTuple):
    """Self-attention to the previous tokens."""

    query: _Map
    key: _Map
    value: _Map
    output: _Map
    heads: int
    groups: int
    way: AttentionSpec

    @classmethod
    def of(cls, attention: MultiHead, positions: Positions) -> _Past:
        way = AttentionSpec(score=attention.score, bias=positions.bias if positions.biased else None)
        query, key, value = _Map.of(attention.query), _Map.of(attention.key), _Map.of(attention.value)
        return cls(query, key, value, _Map.of(attention.output), attention.heads, attention.groups, way)

    def look(self, x: Tensor, cache: LayerCache, mask: Mask, positions: Positions) -> Tensor:
        query = _split(F.linear(x, *self.query), self.heads)
        key, value = _split(F.linear(x, *self.key), self.groups), _split(F.linear(x, *self.value), self.groups)
        mixed = attend_step(query, key, value, cache=cache, mask=mask, way=self.way, positions=positions)
        return F.linear(_merge(mixed), *self.output)


class _Source(NamedTuple):
    """Cross-attention to the source."""

    query: _Map
    output: _Map
    heads: int
    way: AttentionSpec

    @classmethod
    def of(cls, attention: MultiHead) -> _Source:
        way = AttentionSpec(score=attention.score)
        return cls(_Map.of(attention.query), _Map.of(attention.output), attention.heads, way)

    def look(self, x: Tensor, memory: KeyValues, mask: Mask) -> Tensor:
        mixed = attend(_split(F.linear(x, *self.query), self.heads), *memory, mask=mask, way=self.way)
        return F.linear(_merge(mixed), *self.output)


class _Inner(NamedTuple):
    """The feed-forward network."""

    inner: _Map
    outer: _Map
    gate: _Map | None
    activation: Change

    @classmethod
    def of(cls, mlp: FeedForward) -> _Inner:
        gate = None if mlp.gate is None else _Map.of(mlp.gate)
        return cls(_Map.of(mlp.inner), _Map.of(mlp.outer), gate, mlp.activation)

    def change(self, x: Tensor) -> Tensor:
        inner = F.linear(x, *self.inner)
        inner = self.activation(inner) if self.gate is None else self.activation(F.linear(x, *self.gate)) * inner
        return F.linear(inner, *self.outer)


def _norm(norm: Any) -> Change:
    """Return a norm as a function, with its weights taken out of the module."""
    shape, weight, eps = norm.normalized_shape, norm.weight, norm.eps
    if isinstance(norm, nn.RMSNorm):
        return lambda x: torch.rms_norm(x, shape, weight, eps)
    bias = norm.bias
    return lambda x: torch.layer_norm(x, shape, weight, bias, eps)


def _split(vectors: Tensor, heads: int) -> Tensor:
    """(batch, beam, heads * depth) -> (batch, heads, beam, depth)."""
    batch, beams, _ = vectors.shape
    return vectors.view(batch, heads, 1, -1) if beams == 1 else vectors.view(batch, beams, heads, -1).transpose(1, 2)


def _merge(vectors: Tensor) -> Tensor:
    """(batch, heads, beam, depth) -> (batch, beam, heads * depth)."""
    return vectors.transpose(1, 2).flatten(2)
