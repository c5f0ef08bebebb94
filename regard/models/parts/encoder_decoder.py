"""The encoder-decoder shared by the Transformer and T5."""

from __future__ import annotations

from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.cache import DecoderState, LayerCache
from regard.attention.masks import Grid, Mask, Row, Stepping, causal, mask_between, padded, stepping
from regard.models.parts.blocks import DecoderBlock, Stack, Tied, check_length

Layout = Row | Grid


class EncoderDecoder(Tied):
    """An encoder-decoder, trained on packed rows or padded batches, that generates with beams."""

    encoder_positions: Any
    decoder_positions: Any
    encoder: Any
    decoder: Any
    encoder_norm: Any
    decoder_norm: Any

    def forward(
        self,
        source: Int[Tensor, "*source"],
        target: Int[Tensor, "*target"],
        *,
        layouts: tuple[Layout, Layout],
    ) -> Float[Tensor, "*target width"]:
        """Return the features of every target position, from which `logits` predicts the next token."""
        return self.write(self.encode(source, layouts[0]), target, layouts=layouts)

    def write(
        self,
        memory: Float[Tensor, "*source width"],
        target: Int[Tensor, "*target"],
        *,
        layouts: tuple[Layout, Layout],
    ) -> Float[Tensor, "*target width"]:
        """Return the features of every target position, after attention to its past and to the memory."""
        source_layout, target_layout = layouts
        check_length(self.decoder_positions, target_layout.longest)
        masks = mask_between(target_layout, target_layout) & causal(), mask_between(target_layout, source_layout)
        x = self.decoder_embedding(target, target_layout.place, self.decoder_positions)
        for block in self.decoder:
            x = block(x, memory, masks=masks, positions=self.decoder_positions)
        return self.finish(x)

    @property
    def stack(self) -> Stack:
        """Return the parts that generate the target."""
        blocks = list(self.decoder)
        return Stack(
            self.decoder_embedding, self.decoder_positions, blocks, self.decoder_norm, self.prediction, bias=self.bias
        )

    def encode(self, source: Int[Tensor, "*source"], layout: Layout) -> Float[Tensor, "*source width"]:
        """Encode the source, with attention of every token to all others."""
        check_length(self.encoder_positions, layout.longest)
        mask = mask_between(layout, layout)
        x = self.embedding(source, layout.place, self.encoder_positions, layout.span)
        for block in self.encoder:
            x = block(x, mask=mask, positions=self.encoder_positions)
        return self.encoder_norm(x)

    def finish(self, x: Float[Tensor, "*target width"]) -> Float[Tensor, "*target width"]:
        """Prepare the output of the last block for the matrix of the logits."""
        return self.decoder_norm(x)

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
        """Read the source and the beginning of the target; the source is stored once for all beams."""
        grid = Grid(lengths, source.shape[1])
        return self.begin(self._read(source, grid), grid, prompt, beams=beams, limit=limit)

    def _read(self, source: Int[Tensor, "batch source"], grid: Grid) -> Float[Tensor, "batch source width"]:
        """Encode a batch; on a CPU, where padding costs as much as tokens, as a packed row if there is any."""
        if source.device.type != "cpu" or bool((grid.lengths == grid.longest).all()):
            return self.encode(source, grid)
        row = Row.of(grid.lengths)
        features = self.encode(source[grid.filled], row)
        memory = features.new_zeros(*source.shape, features.shape[-1])
        memory[grid.filled] = features
        return memory

    def begin(
        self,
        memory: Float[Tensor, "batch source width"],
        grid: Grid,
        prompt: Int[Tensor, "batch prompt"],
        *,
        beams: int,
        limit: int,
    ) -> tuple[Float[Tensor, "batch beam vocab"], DecoderState]:
        """Read the beginning of a target, with attention to the encoded source."""
        memories = tuple(cast(DecoderBlock, block).cross.remember(memory) for block in self.decoder)
        room = prompt.shape[1]
        check_length(self.decoder_positions, room + limit, f"a beginning of {room} and an answer of {limit}, together")
        where = Stepping.begin(torch.full_like(grid.lengths, room), beams=beams, limit=limit, room=room, even=True)
        size = room + beams * limit
        caches = tuple(LayerCache.empty(key_values.keys, key_values.values.shape[-1], size) for key_values in memories)
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
        """Run the decoder with caches, adding the new keys and values to them."""
        places, _ = masks[0].places(tokens.shape[1], tokens.shape[1], tokens.device)
        x = self.decoder_embedding(tokens, places, self.decoder_positions)
        for block, cache, memory in zip(self.decoder, past.caches, past.memories, strict=True):
            x = block(x, memory, masks=masks, positions=self.decoder_positions, cache=cache)
        return self.finish(x)
