"""A Transformer made ready for generating: a copy in half precision whose steps do more in fewer kernels.

Projections of the same input are joined; a norm is computed where it is needed next, together with the projection; the
past is written in place. It answers to `start` and `step` as the model does.
"""

from __future__ import annotations

import copy
import math
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.attend import AttentionSpec, attend, attend_step
from regard.attention.cache import KeyValues, LayerCache, StaticDecoderState
from regard.attention.hardware import kernels_run
from regard.attention.masks import Mask, Stepping, padded, stepping
from regard.attention.multihead import MultiHead
from regard.attention.tap import Tap
from regard.models.blocks import ACTIVATIONS, DecoderBlock

FEW = 16  # rows up to which reading the weights takes longer than multiplying with them


class Projection(NamedTuple):
    """Linear maps of one input, joined, and the function after them."""

    weight: Float[Tensor, "wide width"]
    bias: Float[Tensor, "wide"] | None
    activation: str = "none"

    @classmethod
    def of(cls, *maps: nn.Linear, activation: str = "none") -> Projection:
        """One matrix for several maps."""
        biases: list[Tensor] = [each.bias for each in maps if each.bias is not None]
        weight = torch.cat([each.weight for each in maps]) if len(maps) > 1 else maps[0].weight
        return cls(weight, torch.cat(biases) if biases else None, activation)


class Layer(NamedTuple):
    """A decoder block as its step needs it; each norm belongs to the projection after it."""

    past: Projection
    past_output: Projection
    source: Projection
    source_output: Projection
    inner: Projection
    outer: Projection
    norms: tuple[nn.LayerNorm, nn.LayerNorm, nn.LayerNorm]
    attention: MultiHead


class FusedDecoder:
    """The same model for generating only; its weights are copies, taken when it is made."""

    def __init__(self, model: Any, dtype: torch.dtype | None = None):
        dtype = dtype or next(model.parameters()).dtype
        self.model = copy.deepcopy(model).to(dtype).requires_grad_(False).eval()
        for positions in (self.model.encoder_positions, self.model.decoder_positions):
            if positions.embed(torch.zeros(1, dtype=torch.int64, device=self.device)) is None:
                positions.float()  # angles and slopes are no place to save
        table = getattr(self.model.decoder_positions, "table", None)  # of a scheme that adds to vectors, or to scores
        table = table.weight if isinstance(table, nn.Embedding) else table
        self.table = table if table is not None and table.shape[1] == model.config.width else None
        config = model.config
        self.pre = config.norm == "pre"
        self.layers = [_layer(block, config.activation) for block in self.model.decoder]

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        return self.model.prediction.device

    @torch.no_grad()
    def start(
        self, *inputs: Tensor, beams: int, limit: int
    ) -> tuple[Float[Tensor, "batch beam vocab"], StaticDecoderState]:
        """Read the source and the beginning of the target, as the model does."""
        with self._own_precision():
            logits, past = self.model.start(*inputs, beams=beams, limit=limit)
        return logits, StaticDecoderState.of(past)

    @torch.no_grad()
    def step(
        self, tokens: Int[Tensor, "batch beam"], state: StaticDecoderState
    ) -> tuple[Float[Tensor, "batch beam vocab"], StaticDecoderState]:
        """Feed one more token to every beam; the state given is the state answered."""
        past = state.advance()
        assert past.source is not None
        masks = stepping(past.where), padded(past.source, past.where)
        with self._own_precision():
            x, norm = self._embed(tokens, masks[0]), None
            for layer, cache, memory in zip(self.layers, past.caches, past.memories, strict=True):
                x, norm = self._through(layer, (x, norm), cache, memory, masks)
            norm = self.model.decoder_norm if self.pre else norm
            logits, _ = _project(x, Projection(self.model.prediction, None), norm=norm, dtype=torch.float32)
        return logits, past

    def _own_precision(self) -> torch.autocast:
        """Whatever is cast around it, as in an evaluation while training, it computes in the type of its weights."""
        return torch.autocast(self.device.type, enabled=False)

    def _through(
        self,
        layer: Layer,
        carried: tuple[Tensor, nn.LayerNorm | None],
        cache: LayerCache,
        memory: KeyValues,
        masks: tuple[Mask, Mask],
    ) -> tuple[Tensor, nn.LayerNorm | None]:
        """One block: a vector still to be normalised in, and out."""
        x, norm = carried
        first, second, third = layer.norms
        before = (first, second, third) if self.pre else (norm, first, second)
        wide, x = self._open(x, layer.past, before[0])
        x, _ = _project(self._look_back(wide, layer.attention, cache, masks[0]), layer.past_output, residual=x)
        wide, x = self._open(x, layer.source, before[1])
        mixed = attend(_split(wide, layer.attention.heads), *memory, mask=masks[1])
        x, _ = _project(_merge(mixed), layer.source_output, residual=x)
        wide, x = self._open(x, layer.inner, before[2])
        x, _ = _project(wide, layer.outer, residual=x)
        return x, third

    def _open(self, x: Tensor, projection: Projection, norm: nn.LayerNorm | None) -> tuple[Tensor, Tensor]:
        """The projection of what is normalised, and what its result is added to."""
        wide, normed = _project(x, projection, norm=norm)
        return wide, x if self.pre else normed

    def _look_back(self, wide: Tensor, attention: MultiHead, cache: LayerCache, mask: Mask) -> Tensor:
        """Self-attention over the cache, from joined queries, keys and values."""
        depth = attention.query.out_features // attention.heads
        sizes = [attention.heads * depth, attention.groups * depth]
        query, key, value = wide.split([*sizes, wide.shape[-1] - sum(sizes)], -1)
        query, key, value = (
            _split(query, attention.heads),
            _split(key, attention.groups),
            _split(value, attention.groups),
        )
        positions = self.model.decoder_positions
        if self.table is None:
            query, key = positions.turn(query, _places(mask)), positions.turn(key, _places(mask))
        way = AttentionSpec(bias=positions.bias if positions.biased else None)
        return _merge(attend_step(query, key, value, cache=cache, mask=mask, way=way))

    def _embed(self, tokens: Tensor, mask: Mask) -> Tensor:
        """Vectors of tokens, scaled and placed."""
        model, where = self.model, mask.where
        assert isinstance(where, Stepping)
        weight = (model.embedding if model.config.share == "all" else model.target_embedding).weight
        scale, table = math.sqrt(weight.shape[1]), self.table
        if table is not None and kernels_run(tokens):
            from regard.models.kernels import embed

            return embed(tokens, weight, table, scale=scale, prompt=where.prompt, taken=where.taken)
        x, added = F.embedding(tokens, weight), model.decoder_positions.embed(_places(mask))
        return x * scale if added is None else torch.add(added, x, alpha=scale)


def for_generation(model: nn.Module) -> Any:
    """What to search with: on a GPU the model made lean, made again when its weights change; elsewhere the model.

    A model that is watched stays as it is, since a lean one has no weights to show; so does one made of other blocks.
    """
    first = next(model.parameters())
    known = any(isinstance(part, DecoderBlock) for part in model.modules())
    if not (known and first.is_cuda) or any(isinstance(part, Tap) and part.watched for part in model.modules()):
        return model
    stamp = sum(weight._version for weight in model.parameters()), first.data_ptr(), first.dtype
    if model not in _made or _made[model][0] != stamp:
        _made[model] = stamp, FusedDecoder(model, torch.float16 if first.dtype is torch.float32 else first.dtype)
    return _made[model][1]


_made: WeakKeyDictionary[nn.Module, tuple[Any, FusedDecoder]] = WeakKeyDictionary()


def _layer(block: DecoderBlock, activation: str) -> Layer:
    """A block's weights, joined."""
    own, cross = block.attention, block.cross
    return Layer(
        past=Projection.of(own.query, own.key, own.value),
        past_output=Projection.of(own.output),
        source=Projection.of(cross.query),
        source_output=Projection.of(cross.output),
        inner=Projection.of(block.mlp.inner, activation=activation),
        outer=Projection.of(block.mlp.outer),
        norms=(block.after_attention.norm, block.after_cross.norm, block.after_mlp.norm),
        attention=own,
    )


def _project(
    x: Tensor,
    projection: Projection,
    *,
    norm: nn.LayerNorm | None = None,
    residual: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    """`function(norm(x) W + b) + residual`, in the type asked for, and the normalised x."""
    weight, bias, activation = projection
    if kernels_run(x) and x.numel() <= FEW * x.shape[-1]:
        from regard.models.kernels import project

        return project(x, weight, bias, norm=norm, residual=residual, activation=activation, dtype=dtype)
    normed = x if norm is None else norm(x)
    if x.is_cuda and dtype not in (None, x.dtype):
        return torch.mm(normed.flatten(0, -2), weight.T, out_dtype=dtype).unflatten(0, x.shape[:-1]), normed
    wide = F.linear(normed, weight, bias)
    wide = wide if activation == "none" else ACTIVATIONS[activation](wide)
    return wide if residual is None else wide + residual, normed


def _places(mask: Mask) -> Tensor:
    """Where the newest tokens stand, found once for all layers."""
    where = mask.where
    assert isinstance(where, Stepping)
    return mask.once("newest", lambda: where.newest)


def _split(vectors: Tensor, heads: int) -> Tensor:
    """(batch, beam, heads * depth) -> (batch, heads, beam, depth)."""
    return vectors.unflatten(-1, (heads, -1)).transpose(-3, -2)


def _merge(vectors: Tensor) -> Tensor:
    """(batch, heads, beam, depth) -> (batch, beam, heads * depth)."""
    return vectors.transpose(-3, -2).flatten(-2)
