"""Recurrent sequence-to-sequence models: an encoder and a decoder, with or without attention.

Without attention the decoder knows only one vector of the source (Cho et al. 2014, Sutskever et al. 2014); with
attention it attends to every word, before each step (Bahdanau et al. 2015) or after it (Luong et al. 2015).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.cache import KeyValues
from regard.attention.masks import Grid, Row, padded
from regard.config.ranges import Length, Share, Small, Vocabulary, Width, check_affordable
from regard.config.resuming import Warned
from regard.models.interface import Backbone, ModelConfig, read_settings
from regard.models.parts.cells import Kind, Layers
from regard.models.parts.recurrent_decoders import (
    Bahdanau,
    Carried,
    Luong,
    Plain,
    RecurrentWriter,
    WriterShape,
    Writing,
    full_precision,
    table,
)
from regard.models.parts.unpack import spread

Layout = Row | Grid


@dataclass(frozen=True, kw_only=True)
class Seq2SeqConfig(ModelConfig):
    """A recurrent encoder and decoder, with or without attention."""

    name: Literal["seq2seq"] = "seq2seq"
    """Which model this is."""
    vocab: Vocabulary = 0
    """Tokens of the source vocabulary; filled in from the tokenizer."""
    target_vocab: Vocabulary | None = None
    """Tokens of the target vocabulary when it is another one."""
    cell: Kind = "gru"
    """Recurrent cell; gru resets its state after the product as cuDNN does, gru_before as first published."""
    attention: Literal["none", "bahdanau", "luong_dot", "luong_general", "luong_concat"] = "bahdanau"
    """Attention to the source: none, before each step (Bahdanau), or after it with one of three scores (Luong)."""
    feed: bool = False
    """Luong's input feeding: each step also reads the last context; training then goes step by step."""
    width: Width = 256
    """Features of the decoder's state."""
    reading: Width | None = None
    """Features of the encoder's state in each direction; null: as many as the decoder has."""
    embedding: Width = 256
    """Features of a token, and of what tokens are predicted from."""
    encoder: Small = 1
    """Encoder layers."""
    decoder: Small = 1
    """Decoder layers."""
    bidirectional: bool = True
    """Read from both ends."""
    share: Literal["all", "target", "none"] = "all"
    """Which embeddings are one matrix: source, target and output; target and output; or none."""
    dropout: Warned[Share] = 0.3
    """Dropout rate, applied to embeddings, between layers, and to encoder and decoder outputs."""
    context: Length = 1024
    """Longest sequence read or written, in tokens."""

    def __post_init__(self) -> None:
        if self.target_vocab not in (None, self.vocab) and self.share == "all":
            raise ValueError("model.share: all needs one vocabulary for both sides; set it to target or none")
        check_affordable(self.parameters, "lower width, embedding, the layers or the vocabulary")
        if self.feed and not self.attention.startswith("luong"):
            raise ValueError(f"feed belongs to Luong's attention, not to {self.attention}: leave it out")
        if self.attention == "luong_dot" and self.memory != self.width:
            raise ValueError(
                f"attention: luong_dot compares vectors of one width, but the encoder has {self.memory} "
                f"features and the decoder {self.width}: set reading to {self.width // (1 + self.bidirectional)}"
            )

    @property
    def parameters(self) -> int:
        """Return the approximate number of parameters."""
        tables = (self.vocab + 2 * (self.target_vocab or 0)) * self.embedding
        reads = 3 * self.memory * (self.embedding + (2 * self.encoder - 1) * self.memory)
        return tables + reads + 3 * self.width * (self.embedding + self.memory + (2 * self.decoder - 1) * self.width)

    @property
    def memory(self) -> int:
        """Return the number of features of an encoded source token."""
        return (self.reading or self.width) * (1 + self.bidirectional)

    @property
    def backbone(self) -> Backbone:
        """Return the encoder, from which another model can start."""
        settings = {name: name for name in ("cell", "embedding", "bidirectional")}
        settings |= {"width": "reading", "depth": "encoder"}
        return Backbone(
            family="recurrent layers",
            settings=settings,
            sizes={**read_settings(self, settings), "width": self.reading or self.width},
            weights={"embedding": "embedding", **{f"layer {n}": f"encoder.layers.{n}" for n in range(self.encoder)}},
            embedding_scale=math.sqrt(self.embedding),
        )

    @property
    def phrase(self) -> str:
        """Return a short description of the model."""
        looks = "without attention" if self.attention == "none" else f"with attention ({self.attention})"
        return f"A recurrent network ({self.cell}) of {self.encoder}+{self.decoder} layers, {self.width} wide, {looks}"


class Seq2Seq(RecurrentWriter):
    """A recurrent encoder-decoder; packed rows are read as padded batches."""

    def __init__(self, config: Seq2SeqConfig):
        super().__init__()
        self.config = config
        target, read = config.target_vocab or config.vocab, config.reading or config.width
        self.embedding = table(config.vocab, config.embedding)
        if config.share != "all":
            self.target_embedding = table(target, config.embedding)
        self.encoder = Layers(
            config.cell,
            config.embedding,
            read,
            depth=config.encoder,
            bidirectional=config.bidirectional,
            dropout=config.dropout,
        )
        decoder = _writer(config)
        self.decoder = nn.ModuleList([decoder])
        self.bridge = nn.Linear(self.encoder.shape[1] * read, decoder.layers.parts * config.width)
        self.dropout = nn.Dropout(config.dropout)
        if config.share == "none":
            self.output = nn.Linear(config.embedding, target, bias=False)

    def forward(
        self,
        source: Int[Tensor, "*source"],
        target: Int[Tensor, "*target"],
        *,
        layouts: tuple[Layout, Layout],
    ) -> Float[Tensor, "*target width"]:
        """Return the features of every target position, from which `logits` predicts the next token."""
        with full_precision(source):
            (read, sources, _), (written, targets, back) = map(spread, (source, target), layouts)
            memory, carried, sources = self._read(read, sources, lines=len(written))
            features, _ = self.write(written, carried, memory, padded(sources, targets))
            return features if back is None else features.flatten(0, 1).index_select(0, back)

    @torch.no_grad()
    def start(
        self,
        source: Int[Tensor, "batch source"],
        lengths: Int[Tensor, "batch"],
        prompt: Int[Tensor, "batch prompt"],
        *,
        beams: int = 1,
        limit: int,
    ) -> tuple[Float[Tensor, "batch beam vocab"], Writing]:
        """Read the source and the beginning of the target; the source is stored once for all beams."""
        with full_precision(source):
            memory, carried, grid = self._read(source, Grid(lengths, source.shape[1]), lines=len(source))
            return self.begin(prompt, carried, memory, grid, beams=beams, limit=limit)

    def _read(
        self, source: Int[Tensor, "batch source"], grid: Grid, *, lines: int
    ) -> tuple[KeyValues | None, Carried, Grid]:
        """Encode the source; return the decoder's memory, its initial state and the layout, for `lines` examples."""
        x = self.dropout(self.embedding(source) * math.sqrt(self.config.embedding))
        features, state = self.encoder(x, lengths=grid.lengths)
        features, state, lengths = (_fit_lines(tensor, lines) for tensor in (features, state, grid.lengths))
        decoder, last = self.writer, state.unflatten(1, self.encoder.shape)[:, -1].flatten(1)
        first = torch.tanh(self.bridge(last)).unflatten(1, (decoder.layers.parts, -1))[:, None]
        memory = None if isinstance(decoder, Plain) else decoder.cross.remember(self.dropout(features))
        fed = self.dropout(self.encoder.last(state)) if memory is None else x.new_zeros(lines, self._fed_width)
        return memory, Carried(first, fed[:, None]), Grid(lengths, grid.longest)

    @property
    def _fed_width(self) -> int:
        return self.config.embedding if self.config.feed else 0


def _writer(config: Seq2SeqConfig) -> Plain | Bahdanau | Luong:
    """Build the decoder with the attention of the config."""
    sizes = config.memory, config.dropout
    shape = WriterShape(config.cell, config.embedding, config.width, config.decoder, *sizes)
    if config.attention == "none":
        return Plain(shape, fed=shape.memory)
    return Bahdanau(shape) if config.attention == "bahdanau" else Luong(shape, score=config.attention, feed=config.feed)


def _fit_lines(tensor: Tensor, lines: int) -> Tensor:
    """Cut or pad to this many lines, as the unused tails of source and target rows may be cut differently."""
    more = lines - len(tensor)
    return tensor[:lines] if more <= 0 else torch.cat([tensor, tensor.new_zeros(more, *tensor.shape[1:])])
