"""Recurrent sequence to sequence: one network reads the source, another writes the target, with or without attention.

Without it all the writer knows of the source is one vector (Cho et al. 2014, Sutskever et al. 2014); with it, it looks
back at every word, before each step (Bahdanau et al. 2015) or after it (Luong et al. 2015).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.cache import DecoderState, KeyValues
from regard.attention.masks import Grid, Mask, Padded, Row, Stepping, Turn, padded
from regard.attention.scores import Additive, Bilinear, Score, dot
from regard.attention.singlehead import SingleHead
from regard.config.ranges import Length, Share, Small, Vocabulary, Width, affordable
from regard.config.resuming import Warned
from regard.models.blocks import Tied
from regard.models.cells import Kind, Layers
from regard.models.spread import spread

Layout = Row | Grid


@dataclass(frozen=True, kw_only=True)
class Seq2SeqConfig:
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

    FAMILY: ClassVar[str] = "recurrent layers"
    BODY: ClassVar[dict[str, str]] = {
        **{name: name for name in ("cell", "embedding", "bidirectional")},
        "width": "reading",
        "depth": "encoder",
    }

    def __post_init__(self) -> None:
        if self.target_vocab not in (None, self.vocab) and self.share == "all":
            raise ValueError("model.share: all needs one vocabulary for both sides; set it to target or none")
        affordable(self.parameters, "lower width, embedding, the layers or the vocabulary")
        if self.feed and not self.attention.startswith("luong"):
            raise ValueError(f"feed belongs to Luong's attention, not to {self.attention}: leave it out")
        if self.attention == "luong_dot" and self.memory != self.width:
            raise ValueError(
                f"attention: luong_dot compares vectors of one width, but the encoder has {self.memory} "
                f"features and the decoder {self.width}: set reading to {self.width // (1 + self.bidirectional)}"
            )

    @property
    def parameters(self) -> int:
        """About how many numbers are learnt."""
        tables = (self.vocab + 2 * (self.target_vocab or 0)) * self.embedding
        reads = 3 * self.memory * (self.embedding + (2 * self.encoder - 1) * self.memory)
        return tables + reads + 3 * self.width * (self.embedding + self.memory + (2 * self.decoder - 1) * self.width)

    @property
    def memory(self) -> int:
        """Features of a source token that was read."""
        return (self.reading or self.width) * (1 + self.bidirectional)

    @property
    def sizes(self) -> dict[str, Any]:
        """What another model must share to go on with the encoder."""
        own = {name: getattr(self, field) for name, field in self.BODY.items()}
        return {**own, "width": self.reading or self.width}

    @property
    def scale(self) -> float:
        """What vectors of tokens are multiplied by when they are read."""
        return math.sqrt(self.embedding)

    @property
    def body(self) -> dict[str, str]:
        """Where the weights of the encoder lie, which another model can go on with."""
        return {"embedding": "embedding", **{f"layer {n}": f"encoder.layers.{n}" for n in range(self.encoder)}}

    @property
    def phrase(self) -> str:
        """What it is, in a few words."""
        looks = "without attention" if self.attention == "none" else f"with attention ({self.attention})"
        return f"A recurrent network ({self.cell}) of {self.encoder}+{self.decoder} layers, {self.width} wide, {looks}"


class Carried(NamedTuple):
    """What goes from one step to the next: the state of the cells, and a vector that is read with the next token."""

    state: Float[Tensor, "batch query parts width"]
    fed: Float[Tensor, "batch query fed"]


class Plain(nn.Module):
    """`h' = cell([x ; s], h)`, where s is what the encoder ended with; tokens are predicted from h', s and x."""

    def __init__(self, config: Seq2SeqConfig):
        super().__init__()
        self.layers = _layers(config, config.memory, fused=True)
        self.output = nn.Linear(config.width + config.memory + config.embedding, config.embedding)

    def step(self, x: Tensor, carried: Carried, memory: KeyValues | None, mask: Mask) -> tuple[Tensor, Carried]:
        """One token of every query."""
        h, state = self.layers.step(torch.cat([x, carried.fed], -1), carried.state)
        return torch.cat([h, carried.fed], -1), Carried(state, carried.fed)

    def read(self, x: Tensor, carried: Carried, memory: KeyValues | None, mask: Mask) -> tuple[Tensor, Carried]:
        """All tokens of a text in one go."""
        fed = carried.fed.expand(-1, x.shape[1], -1)
        h, state = self.layers(torch.cat([x, fed], -1), carried.state[:, 0])
        return torch.cat([h, fed], -1), Carried(state[:, None], carried.fed)

    def features(self, x: Tensor, seen: Tensor) -> Tensor:
        """What the next token is predicted from."""
        return torch.tanh(self.output(torch.cat([seen, x], -1)))


class Bahdanau(nn.Module):
    """Look from the last state, then step: `c = look(h), h' = cell([x ; c], h)`; predicted from h', c and x."""

    def __init__(self, config: Seq2SeqConfig):
        super().__init__()
        self.layers = _layers(config, config.memory, fused=False)
        self.cross = SingleHead(Additive(config.width, config.memory, config.width))
        self.output = nn.Linear(config.width + config.memory + config.embedding, config.embedding)

    def step(self, x: Tensor, carried: Carried, memory: KeyValues, mask: Mask) -> tuple[Tensor, Carried]:
        """One token of every query."""
        c = self.cross(self.layers.last(carried.state), memory, mask=mask)
        h, state = self.layers.step(torch.cat([x, c], -1), carried.state)
        return torch.cat([h, c], -1), Carried(state, carried.fed)

    def read(self, x: Tensor, carried: Carried, memory: KeyValues, mask: Mask) -> tuple[Tensor, Carried]:
        """All tokens of a text, each step after the one before it."""
        return _by_turns(self, x, carried, memory, mask)

    def features(self, x: Tensor, seen: Tensor) -> Tensor:
        """What the next token is predicted from."""
        return torch.tanh(self.output(torch.cat([seen, x], -1)))


class Luong(nn.Module):
    """Step, then look from the new state: `h' = cell(x, h), c = look(h'), a = tanh(W [c ; h'])`; predicted from a.

    Fed, the next step reads a beside its token: `cell([x ; a], h)`.
    """

    def __init__(self, config: Seq2SeqConfig):
        super().__init__()
        self.feed = config.feed
        self.layers = _layers(config, config.embedding if self.feed else 0, fused=not self.feed)
        self.cross = SingleHead(_score(config))
        self.output = nn.Linear(config.memory + config.width, config.embedding)

    def step(self, x: Tensor, carried: Carried, memory: KeyValues, mask: Mask) -> tuple[Tensor, Carried]:
        """One token of every query."""
        h, state = self.layers.step(torch.cat([x, carried.fed], -1), carried.state)
        a = self._look(h, memory, mask)
        return a, Carried(state, a if self.feed else carried.fed)

    def read(self, x: Tensor, carried: Carried, memory: KeyValues, mask: Mask) -> tuple[Tensor, Carried]:
        """All tokens of a text; in one go, unless each step is fed what the one before it saw."""
        if self.feed:
            return _by_turns(self, x, carried, memory, mask)
        h, state = self.layers(x, carried.state[:, 0])
        return self._look(h, memory, mask), Carried(state[:, None], carried.fed)

    def _look(self, h: Tensor, memory: KeyValues, mask: Mask) -> Tensor:
        c = self.cross(h, memory, mask=mask)
        return torch.tanh(self.output(torch.cat([c, h], -1)))

    def features(self, x: Tensor, seen: Tensor) -> Tensor:
        """What the next token is predicted from."""
        return seen


DECODERS: dict[str, type[Plain] | type[Bahdanau] | type[Luong]] = {"none": Plain, "bahdanau": Bahdanau, "luong": Luong}


@dataclass(frozen=True)
class Writing:
    """What a search remembers: places and the source as every decoder does, and what its own steps carry."""

    past: DecoderState
    carried: Carried

    @property
    def where(self) -> Stepping:
        """Who stands where."""
        return self.past.where

    def reorder(self, parents: Int[Tensor, "batch beam"]) -> Writing:
        """Beam k continues what beam `parents[k]` was."""
        rows = torch.arange(len(parents), device=parents.device)[:, None]
        return Writing(self.past.reorder(parents), Carried(*(each[rows, parents] for each in self.carried)))

    def keep(self, rows: Int[Tensor, "kept"]) -> Writing:
        """Only these examples go on."""
        return Writing(self.past.keep(rows), Carried(*(each[rows] for each in self.carried)))

    def join(self, other: Writing) -> Writing:
        """The examples of another search appended, each at its own position."""
        both = (torch.cat(pair) for pair in zip(self.carried, other.carried, strict=True))
        return Writing(self.past.join(other.past), Carried(*both))


class Seq2Seq(Tied):
    """Reads a source, writes a target; trained on packed rows, generates beam by beam.

    Rows are spread over padded batches, and everything runs in full precision: states gather the errors of all steps.
    """

    compilable: ClassVar[bool] = False  # a compiler would unroll every step; recorded they cost nothing to launch

    def __init__(self, config: Seq2SeqConfig):
        super().__init__()
        self.config = config
        target, read = config.target_vocab or config.vocab, config.reading or config.width
        self.embedding = _embedding(config.vocab, config.embedding)
        if config.share != "all":
            self.target_embedding = _embedding(target, config.embedding)
        self.encoder = Layers(
            config.cell,
            config.embedding,
            read,
            depth=config.encoder,
            bidirectional=config.bidirectional,
            dropout=config.dropout,
        )
        decoder = DECODERS[config.attention.partition("_")[0]](config)
        self.decoder = nn.ModuleList([decoder])  # a list of one, so that looks have the name they have in any decoder
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
        """Features of every target position, from which `logits` predicts the next token."""
        with _full_precision(source):
            (read, sources, _), (written, targets, back) = map(spread, (source, target), layouts)
            memory, carried, sources = self._read(read, sources, lines=len(written))
            features, _ = self._write(written, carried, memory, padded(sources, targets))
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
        """Read the source and the beginning of the target; the source is held once, whatever the beams."""
        with _full_precision(source):
            memory, carried, grid = self._read(source, Grid(lengths, source.shape[1]), lines=len(source))
            room = prompt.shape[1]
            where = Stepping.begin(torch.full_like(lengths, room), beams=beams, limit=limit, room=room, even=True)
            features, carried = self._write(prompt, carried, memory, padded(grid, Grid(where.prompt, room)))
            past = DecoderState(where, (), () if memory is None else (memory,), grid)
            beamed = Carried(*(each.expand(-1, beams, *each.shape[2:]) for each in carried))
            return self.logits(features[:, -1:]).expand(-1, beams, -1), Writing(past, beamed)

    @torch.no_grad()
    def step(
        self, tokens: Int[Tensor, "batch beam"], state: Writing
    ) -> tuple[Float[Tensor, "batch beam vocab"], Writing]:
        """Feed one more token to every beam."""
        past = state.past.advance()
        assert past.source is not None
        with _full_precision(tokens):
            decoder, x = self._decoder, self._embed_target(tokens)
            memory = past.memories[0] if past.memories else None
            seen, carried = decoder.step(x, state.carried, memory, padded(past.source, past.where))
            return self.logits(decoder.features(x, seen)), Writing(past, carried)

    def _read(
        self, source: Int[Tensor, "batch source"], grid: Grid, *, lines: int
    ) -> tuple[KeyValues | None, Carried, Grid]:
        """The source as the decoder looks at it, and what its first step is given; for so many lines."""
        x = self.dropout(self.embedding(source) * math.sqrt(self.config.embedding))
        seen, state = self.encoder(x, lengths=grid.lengths)
        seen, state, lengths = (_lined(each, lines) for each in (seen, state, grid.lengths))
        decoder, last = self._decoder, state.unflatten(1, self.encoder.shape)[:, -1].flatten(1)
        first = torch.tanh(self.bridge(last)).unflatten(1, (decoder.layers.parts, -1))[:, None]
        memory = None if isinstance(decoder, Plain) else decoder.cross.remember(self.dropout(seen))
        fed = self.dropout(self.encoder.last(state)) if memory is None else x.new_zeros(lines, self._fed)
        return memory, Carried(first, fed[:, None]), Grid(lengths, grid.longest)

    def _write(
        self, target: Int[Tensor, "batch target"], carried: Carried, memory: KeyValues | None, mask: Mask
    ) -> tuple[Float[Tensor, "batch target width"], Carried]:
        """Features of every target position, and what the next step would be given."""
        decoder, x = self._decoder, self._embed_target(target)
        seen, carried = decoder.read(x, carried, memory, mask)
        return self.dropout(decoder.features(x, seen)), carried

    @property
    def _decoder(self) -> Any:
        return self.decoder[0]

    @property
    def _fed(self) -> int:
        return self.config.embedding if self.config.feed else 0

    def _embed_target(self, tokens: Tensor) -> Tensor:
        return self.dropout(self.written(tokens) * math.sqrt(self.config.embedding))


def _layers(config: Seq2SeqConfig, fed: int, *, fused: bool) -> Layers:
    """The decoder's cells, which read a token's vector and so many features more."""
    inputs = config.embedding + fed
    return Layers(config.cell, inputs, config.width, depth=config.decoder, dropout=config.dropout, fused=fused)


def _score(config: Seq2SeqConfig) -> Score:
    """One of Luong's scores."""
    if config.attention == "luong_dot":
        return dot
    if config.attention == "luong_general":
        return Bilinear(config.width, config.memory)
    return Additive(config.width, config.memory, config.width)


def _by_turns(
    decoder: Bahdanau | Luong, x: Tensor, carried: Carried, memory: KeyValues, mask: Mask
) -> tuple[Tensor, Carried]:
    """Column after column, each looking at the source when its turn has come."""
    where = mask.where
    assert isinstance(where, Padded)
    assert isinstance(where.query, Grid)
    seen = []
    for at, column in enumerate(x.split(1, 1)):
        turn = replace(mask, where=Padded(where.key, Turn(where.query, at)))  # what a mask remembers is shared by all
        now, carried = decoder.step(column, carried, memory, turn)
        seen.append(now)
    return torch.cat(seen, 1), carried


def _embedding(vocab: int, width: int) -> nn.Embedding:
    """Vectors of tokens, drawn so that they predict with the same matrix."""
    table = nn.Embedding(vocab, width)
    nn.init.normal_(table.weight, std=1 / math.sqrt(width))
    return table


def _lined(tensor: Tensor, lines: int) -> Tensor:
    """So many lines: the tails of two rows may be cut differently, and nobody reads them."""
    more = lines - len(tensor)
    return tensor[:lines] if more <= 0 else torch.cat([tensor, tensor.new_zeros(more, *tensor.shape[1:])])


def _full_precision(tensor: Tensor) -> torch.autocast:
    return torch.autocast(tensor.device.type, enabled=False)
