"""A stack of blocks made ready for generating: a copy in half precision whose steps do more in fewer kernels.

Projections of the same input are joined; a norm is computed where it is needed next, together with the projection; the
past is written in place. It answers to `start` and `step` as the model does; its blocks may look at a source or not.
"""

from __future__ import annotations

import copy
import math
import warnings
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.attend import AttentionSpec, attend_source, attend_step
from regard.attention.cache import KeyValues, LayerCache, StaticDecoderState
from regard.attention.hardware import device_of, kernels_run
from regard.attention.masks import Mask, Stepping, padded, stepping
from regard.attention.multihead import MultiHead
from regard.attention.positions import Learned, Positions, Table
from regard.attention.tap import Tap
from regard.models.blocks import ACTIVATIONS, Stack
from regard.models.known import Unknown, check

ENOUGH = 128  # examples for which it pays to make a copy, compile kernels and capture graphs
FEW = 16  # rows up to which reading the weights takes longer than multiplying with them


class Projection(NamedTuple):
    """Linear maps of one input, joined, and the function after them."""

    weight: Float[Tensor, "wide width"]
    bias: Float[Tensor, "wide"] | None
    activation: str = "none"

    @classmethod
    def of(cls, *maps: nn.Linear, activation: str = "none") -> Projection:
        """One matrix for several maps; that of a single one is its own."""
        biases: list[Tensor] = [each.bias for each in maps if each.bias is not None]
        weight = torch.cat([each.weight for each in maps]) if len(maps) > 1 else maps[0].weight
        bias = torch.cat(biases) if len(biases) > 1 else next(iter(biases), None)
        return cls(weight, bias, activation)


class Layer(NamedTuple):
    """A block as its step needs it; each norm belongs to the projection after it."""

    past: Projection
    past_output: Projection
    source: Projection | None
    source_output: Projection | None
    inner: Projection
    outer: Projection
    norms: tuple[nn.LayerNorm, ...]
    attention: MultiHead
    cross: MultiHead | None


class FusedDecoder:
    """The same model for generating only; its weights are copies, taken when it is made and when it is told to."""

    def __init__(self, model: Any, dtype: torch.dtype | None = None):
        dtype = dtype or next(model.parameters()).dtype
        check(model.stack)
        self.model = copy.deepcopy(model).to(dtype).requires_grad_(False).eval()
        for positions in self.model.modules():
            first = torch.ones(2, 1, dtype=torch.int64, device=device_of(model))
            if isinstance(positions, Positions) and positions.embed(*first) is None:
                positions.float()  # angles and slopes are no place to save
        self.stack: Stack = self.model.stack
        self.pre = self.stack.blocks[0].after_mlp.pre
        self.layers = [_layer(block) for block in self.stack.blocks]
        self.tables: list[Any] = []  # rows and graphs of searches with this copy, which die with it

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        return self.stack.prediction.device

    @torch.no_grad()
    def take(self, model: nn.Module) -> None:
        """The weights that the model has now, written where those it had before are: graphs go on reading there."""
        for kind in (nn.Module.parameters, nn.Module.buffers):
            for mine, theirs in zip(kind(self.model), kind(model), strict=True):
                mine.copy_(theirs)
        for layer, block in zip(self.layers, self.stack.blocks, strict=True):
            fresh = _layer(block).past
            layer.past.weight.copy_(fresh.weight)
            if layer.past.bias is not None and fresh.bias is not None:
                layer.past.bias.copy_(fresh.bias)

    @torch.no_grad()
    def start(
        self, *inputs: Tensor, beams: int, limit: int
    ) -> tuple[Float[Tensor, "batch beam vocab"], StaticDecoderState]:
        """Read the inputs and the beginning of the target, as the model does."""
        with self._own_precision():
            logits, past = self.model.start(*inputs, beams=beams, limit=limit)
        return logits, StaticDecoderState.of(past)

    @torch.no_grad()
    def step(
        self, tokens: Int[Tensor, "batch beam"], state: StaticDecoderState
    ) -> tuple[Float[Tensor, "batch beam vocab"], StaticDecoderState]:
        """Feed one more token to every beam; the state given is the state answered."""
        past = state.advance()
        masks = stepping(past.where), None if past.source is None else padded(past.source, past.where)
        memories = past.memories or (None,) * len(self.layers)
        with self._own_precision():
            x, norm = self._embed(tokens, masks[0]), None
            for layer, cache, memory in zip(self.layers, past.caches, memories, strict=True):
                x, norm = self._through(layer, (x, norm), cache, memory, masks)
            last: Any = self.stack.norm if self.pre else norm
            logits, _ = _project(x, Projection(self.stack.prediction, None), norm=last, dtype=torch.float32)
        return logits, past

    def _own_precision(self) -> torch.autocast:
        """Whatever is cast around it, as in an evaluation while training, it computes in the type of its weights."""
        return torch.autocast(self.device.type, enabled=False)

    def _through(
        self,
        layer: Layer,
        carried: tuple[Tensor, nn.LayerNorm | None],
        cache: LayerCache,
        memory: KeyValues | None,
        masks: tuple[Mask, Mask | None],
    ) -> tuple[Tensor, nn.LayerNorm | None]:
        """One block: a vector still to be normalised in, and out."""
        x, norm = carried
        before = iter(layer.norms if self.pre else (norm, *layer.norms[:-1]))
        wide, x = self._open(x, layer.past, next(before))
        x, _ = _project(self._look_back(wide, layer.attention, cache, masks[0]), layer.past_output, residual=x)
        if layer.cross is not None and layer.source is not None and layer.source_output is not None:
            assert memory is not None
            assert masks[1] is not None
            wide, x = self._open(x, layer.source, next(before))
            way = AttentionSpec(score=layer.cross.score)
            mixed = attend_source(_split(wide, layer.cross.heads), *memory, mask=masks[1], way=way)
            x, _ = _project(_merge(mixed), layer.source_output, residual=x)
        wide, x = self._open(x, layer.inner, next(before))
        x, _ = _project(wide, layer.outer, residual=x)
        return x, layer.norms[-1]

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
        positions = self.stack.positions
        if not isinstance(positions, Table | Learned):
            query, key = positions.turn(query, _places(mask)), positions.turn(key, _places(mask))
        way = AttentionSpec(score=attention.score, bias=positions.bias if positions.biased else None)
        return _merge(attend_step(query, key, value, cache=cache, mask=mask, way=way))

    def _embed(self, tokens: Tensor, mask: Mask) -> Tensor:
        """Vectors of tokens, scaled and placed."""
        where, positions, weight = mask.where, self.stack.positions, self.stack.embedding.weight
        assert isinstance(where, Stepping)
        scale = math.sqrt(weight.shape[1])
        if not isinstance(positions, Table | Learned):
            x, added = F.embedding(tokens, weight), positions.embed(_places(mask))
            return x * scale if added is None else torch.add(added, x, alpha=scale)
        table = positions.table.weight if isinstance(positions, Learned) else positions.table
        if kernels_run(tokens):
            from regard.models.kernels import embed

            return embed(tokens, weight, table, scale=scale, prompt=where.prompt, taken=where.taken)
        places = _places(mask).clamp(max=len(table) - 1)  # a row that nobody has may have gone on beyond
        return torch.add(F.embedding(places, table), F.embedding(tokens, weight), alpha=scale)


class Ready:
    """What a model generates with: itself for little work, from then on a lean copy, where that pays.

    Compiling kernels and capturing graphs takes seconds, which a few sentences do not bring in again: the first
    `ENOUGH` examples are left to the model itself, unless one request brings so many, or `warm` is called. The copy,
    its tables and its graphs belong to this object and die with it; when the weights change it takes them over in
    place. A model that is watched generates as it is, since a copy has no weights to show.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._examples = 0
        self._lean: FusedDecoder | None = None
        self._stamp: Any = None
        self._refused = not hasattr(model, "stack")

    def __call__(self, examples: int) -> Any:
        """The model, or its copy, for so many examples more."""
        self._examples += examples
        first = next(self.model.parameters())
        if self._refused or self._examples < ENOUGH or not pays(first.device):
            return self.model
        watched, *stamp = self._look()
        if watched:
            return self.model
        if self._lean is None or stamp[1:] != self._stamp[1:]:
            self._lean = self._made(torch.float16 if first.is_cuda and first.dtype is torch.float32 else first.dtype)
        elif stamp != self._stamp:
            self._lean.take(self.model)
        self._stamp = stamp
        return self.model if self._lean is None else self._lean

    def warm(self) -> None:
        """Count from now on on much work."""
        self._examples = ENOUGH

    def give_up(self, reason: str) -> None:
        """Leave everything to the model itself, and say why."""
        self._refused, self._lean = True, None
        warnings.warn(f"generating without the fast path, which does not know this model: {reason}", stacklevel=3)

    def _made(self, dtype: torch.dtype) -> FusedDecoder | None:
        self._lean = None  # the old one first, so that both never are there
        try:
            return FusedDecoder(self.model, dtype)
        except Unknown as reason:
            self.give_up(str(reason))
            return None

    def _look(self) -> list[Any]:
        """Whether somebody watches; how often weights were changed; and what else a copy depends on."""
        watched, changes, parts, weights, waiting = False, 0, 0, [], [self.model]
        while waiting:  # by hand, since it is done for every request
            part = waiting.pop()
            parts += 1
            watched = watched or (bool(part._forward_hooks) and isinstance(part, Tap))
            for weight in part._parameters.values():
                if weight is not None:
                    changes += weight._version
                    weights.append(id(weight))
            waiting.extend(each for each in part._modules.values() if each is not None)
        first = next(self.model.parameters())
        return [watched, changes, parts, weights, first.data_ptr(), first.dtype]


def pays(device: torch.device) -> bool:
    """Whether a lean copy is worth its memory: where launching, not arithmetic, takes the time."""
    return device.type == "cuda"


def _layer(block: Any) -> Layer:
    """A block's weights, joined."""
    own, cross = block.attention, getattr(block, "cross", None)
    steps = [block.after_attention, *([] if cross is None else [block.after_cross]), block.after_mlp]
    function = next(name for name, each in ACTIVATIONS.items() if each is block.mlp.activation)
    return Layer(
        past=Projection.of(own.query, own.key, own.value),
        past_output=Projection.of(own.output),
        source=None if cross is None else Projection.of(cross.query),
        source_output=None if cross is None else Projection.of(cross.output),
        inner=Projection.of(block.mlp.inner, activation=function),
        outer=Projection.of(block.mlp.outer),
        norms=tuple(step.norm for step in steps),
        attention=own,
        cross=cross,
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
