"""A copy of a decoder in half precision for fast generation, with fewer kernels per step.

Projections of the same input are joined; a norm is computed together with the projection after it; the cache is
written in place. `start` and `step` are those of the model; its blocks may have cross-attention or not.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.attend import AttentionSpec, attend_source, attend_step
from regard.attention.cache import KeyValues, LayerCache, StaticDecoderState
from regard.attention.hardware import device_of, kernels_run
from regard.attention.masks import Mask, Stepping, padded, stepping
from regard.attention.multihead import MultiHead
from regard.attention.positions import ALiBi, Learned, Positions, Table
from regard.models.inference.projection import Carried, Projection, add_projection, project_normalised
from regard.models.inference.supported import check
from regard.models.parts.blocks import ACTIVATIONS, DecoderBlock, Stack

ROWS = 64  # minimum number of rows of a search, and the factor that their number is a multiple of
SHARE = 1 / 8  # of a device's memory, for keys and values of a search


class Layer(NamedTuple):
    """The weights of a block for a decoding step; each norm belongs to the projection after it."""

    past: Projection
    past_output: Projection
    source: Projection | None
    source_output: Projection | None
    inner: Projection
    outer: Projection
    norms: tuple[nn.Module, ...]
    attention: MultiHead
    cross: MultiHead | None


class FusedDecoder:
    """A copy of a model for generation only; weights are copied when it is made and when `take` is called."""

    def __init__(self, model: Any, dtype: torch.dtype | None = None):
        dtype = dtype or next(model.parameters()).dtype
        check(model.stack)
        self.model = copy.deepcopy(model).to(dtype).requires_grad_(False).eval()
        for positions in self.model.modules():
            first = torch.ones(2, 1, dtype=torch.int64, device=device_of(model))
            if isinstance(positions, Positions) and positions.embed(*first) is None:
                positions.float()  # angles and slopes need full precision
        self.stack: Stack = self.model.stack
        self.pre = self.stack.blocks[0].after_mlp.pre
        self.layers = [_layer(block) for block in self.stack.blocks]
        self._biases: dict[int, Tensor] = {}  # by the number of distances they cover
        self.tables: list[Any] = []  # rows and graphs of searches with this copy, freed with it

    @property
    def device(self) -> torch.device:
        """Return the device of the weights."""
        return self.stack.prediction.device

    def row_bytes(self, *, beams: int, written: int, prompt: int = 0, read: int = 0) -> int:
        """Return the memory of the keys and values of one row."""
        return self.stack.row_bytes(beams=beams, written=written, prompt=prompt, read=read)

    def count_rows(self, most: int, row_bytes: int) -> int:
        """Return how many rows a search may have: `most`, or as few as keep within a share of the device's memory."""
        if self.device.type != "cuda":
            return most
        fitting = int(SHARE * torch.cuda.get_device_properties(self.device).total_memory) // row_bytes
        return min(most, max(ROWS, fitting // ROWS * ROWS))

    @torch.no_grad()
    def take(self, model: nn.Module) -> None:
        """Copy the present weights of the model in place, so that recorded graphs use them."""
        for kind in (nn.Module.parameters, nn.Module.buffers):
            for mine, theirs in zip(kind(self.model), kind(model), strict=True):
                mine.copy_(theirs)
        for layer, block in zip(self.layers, self.stack.blocks, strict=True):
            fresh = _layer(block)
            for old, new in ((layer.past, fresh.past), (layer.inner, fresh.inner)):  # the joined projections
                old.weight.copy_(new.weight)
                if old.bias is not None and new.bias is not None:
                    old.bias.copy_(new.bias)
        for reach, table in self._biases.items():
            table.copy_(self._fresh_bias(reach))

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
        """Feed one more token to every beam; the state is updated in place and returned."""
        past = state.advance()
        masks = stepping(past.where), None if past.source is None else padded(past.source, past.where)
        memories = past.memories or (None,) * len(self.layers)
        with self._own_precision():
            carried, norm = Carried(self._embed(tokens, masks[0])), None
            for layer, cache, memory in zip(self.layers, past.caches, memories, strict=True):
                carried, norm = self._through(layer, (carried, norm), cache, memory, masks)
            last: Any = self.stack.norm if self.pre else norm
            matrix = Projection(self.stack.prediction, scale=self.stack.scale)
            logits, _ = project_normalised(carried, matrix, last, dtype=torch.float32)
        return logits, past

    def _own_precision(self) -> torch.autocast:
        """Return a context without the autocast of training, so that computation is in the dtype of the weights."""
        return torch.autocast(self.device.type, enabled=False)

    def _through(
        self,
        layer: Layer,
        stream: tuple[Carried, nn.Module | None],
        cache: LayerCache,
        memory: KeyValues | None,
        masks: tuple[Mask, Mask | None],
    ) -> tuple[Carried, nn.Module | None]:
        """Run one block on a vector still to be normalised, and return another such vector and its norm."""
        carried, norm = stream
        before = iter(layer.norms if self.pre else (norm, *layer.norms[:-1]))
        wide, x = self._open(carried, layer.past, next(before))
        carried = add_projection(self._look_back(wide, layer.attention, cache, masks[0]), layer.past_output, x)
        if layer.cross is not None and layer.source is not None and layer.source_output is not None:
            assert memory is not None
            assert masks[1] is not None
            wide, x = self._open(carried, layer.source, next(before))
            way = AttentionSpec(score=layer.cross.score)
            mixed = attend_source(_split(wide, layer.cross.heads), *memory, mask=masks[1], way=way)
            carried = add_projection(_merge(mixed), layer.source_output, x)
        wide, x = self._open(carried, layer.inner, next(before))
        return add_projection(wide, layer.outer, x), layer.norms[-1]

    def _open(self, carried: Carried, projection: Projection, norm: nn.Module | None) -> tuple[Tensor, Tensor]:
        """Return the projection of the normalised vector, and the residual to which its result is added."""
        wide, (normed, total) = project_normalised(carried, projection, norm)
        return wide, total if self.pre else normed

    def _look_back(self, wide: Tensor, attention: MultiHead, cache: LayerCache, mask: Mask) -> Tensor:
        """Apply self-attention over the cache to joined queries, keys and values."""
        depth = attention.query.out_features // attention.heads
        sizes = [attention.heads * depth, attention.groups * depth]
        parts = wide.split([*sizes, wide.shape[-1] - sum(sizes)], -1)
        counts = attention.heads, attention.groups, attention.groups
        query, key, value = (_split(part, count) for part, count in zip(parts, counts, strict=True))
        where, positions = mask.where, self.stack.positions
        assert isinstance(where, Stepping)
        way = AttentionSpec(score=attention.score)
        if positions.biased:
            slopes = positions.slopes if isinstance(positions, ALiBi) else None
            back = self._bias(where.room + where.slots.shape[2]) if slopes is None else None
            way = replace(way, bias=positions.bias, slopes=slopes, back=back)
        return _merge(attend_step(query, key, value, cache=cache, mask=mask, way=way, positions=positions))

    def _bias(self, reach: int) -> Tensor:
        """Return the attention bias by distance to the key, computed once for all layers and steps."""
        if reach not in self._biases:
            self._biases[reach] = self._fresh_bias(reach)
        return self._biases[reach]

    def _fresh_bias(self, reach: int) -> Tensor:
        back = -torch.arange(reach, device=self.device)
        return self.stack.positions.bias(back[None])[:, 0].float().contiguous()

    def _embed(self, tokens: Tensor, mask: Mask) -> Tensor:
        """Return the token embeddings, scaled, with positions added, and normalised if the model does that."""
        where, positions, embedding = mask.where, self.stack.positions, self.stack.embedding
        assert isinstance(where, Stepping)
        if isinstance(positions, Table | Learned) and kernels_run(tokens):
            from regard.models.inference.kernels import embed

            table = positions.table.weight if isinstance(positions, Learned) else positions.table
            after = where.prompt, where.taken
            x = embed(tokens, embedding.weight, table, scale=embedding.scale, places=after)
        else:
            places = mask.once("newest", lambda: where.newest)
            if isinstance(positions, Table | Learned):  # an unused row may be beyond the table
                size = positions.table.num_embeddings if isinstance(positions, Learned) else len(positions.table)
                places = places.clamp(max=size - 1)
            x = embedding(tokens, places, positions)
        return x if self.stack.embedding_norm is None else self.stack.embedding_norm(x)


def _layer(block: Any) -> Layer:
    """Join the weights of a block."""
    attention, cross = block.attention, block.cross if isinstance(block, DecoderBlock) else None
    steps = [block.after_attention, *([] if cross is None else [block.after_cross]), block.after_mlp]
    function = next(name for name, candidate in ACTIVATIONS.items() if candidate is block.mlp.activation)
    gate, inner = block.mlp.gate, block.mlp.inner
    first = Projection.of(*([inner] if gate is None else [gate, inner]), activation=function, gated=gate is not None)
    return Layer(
        past=Projection.of(attention.query, attention.key, attention.value),
        past_output=Projection.of(attention.output),
        source=None if cross is None else Projection.of(cross.query),
        source_output=None if cross is None else Projection.of(cross.output),
        inner=first,
        outer=Projection.of(block.mlp.outer),
        norms=tuple(step.norm for step in steps),
        attention=attention,
        cross=cross,
    )


def _split(vectors: Tensor, heads: int) -> Tensor:
    """(batch, beam, heads * depth) -> (batch, heads, beam, depth)."""
    return vectors.unflatten(-1, (heads, -1)).transpose(-3, -2)


def _merge(vectors: Tensor) -> Tensor:
    """(batch, heads, beam, depth) -> (batch, beam, heads * depth)."""
    return vectors.transpose(-3, -2).flatten(-2)
