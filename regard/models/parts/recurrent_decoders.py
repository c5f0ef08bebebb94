"""Recurrent decoders, with or without attention to a memory: an encoded sentence or picture.

Without attention a decoder knows only one vector of it (Cho et al. 2014, Sutskever et al. 2014); with attention it
attends to the memory before each step (Bahdanau et al. 2015, Xu et al. 2015) or after it (Luong et al. 2015).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.cache import DecoderState, KeyValues
from regard.attention.hard import HardHead
from regard.attention.masks import Grid, Mask, Padded, Stepping, Turn, padded
from regard.attention.scores import Additive, Bilinear, Score, dot
from regard.attention.singlehead import SingleHead
from regard.models.interface import Traits
from regard.models.parts.blocks import Tied
from regard.models.parts.cells import Kind, Layers


@dataclass(frozen=True)
class WriterShape:
    """The sizes of a recurrent decoder."""

    cell: Kind
    embedding: int
    """Size of token embeddings, and of the features from which tokens are predicted."""
    width: int
    depth: int
    memory: int
    """Size of the vectors that are attended to."""
    dropout: float = 0.0

    def layers(self, fed: int, *, fused: bool) -> Layers:
        """Build the recurrent layers, which read a token's vector and `fed` more features."""
        inputs = self.embedding + fed
        return Layers(self.cell, inputs, self.width, depth=self.depth, dropout=self.dropout, fused=fused)


class Carried(NamedTuple):
    """What is carried from step to step: the state of the cells, and a vector that is read with the next token."""

    state: Float[Tensor, "batch query parts width"]
    fed: Float[Tensor, "batch query fed"]


class Looks(NamedTuple):
    """The attention over a text for a loss: its weights, or the probabilities and entropies of sampled places."""

    weights: Float[Tensor, "batch time key"] | None = None
    log_probability: Float[Tensor, "batch time"] | None = None
    entropy: Float[Tensor, "batch time"] | None = None


class Plain(nn.Module):
    """`h' = cell([x ; s], h)`, where s is the encoder's last output; tokens are predicted from h', s and x.

    With `fed` 0 there is no s, and the encoder only sets the initial state.
    """

    def __init__(self, shape: WriterShape, *, fed: int):
        super().__init__()
        self.layers = shape.layers(fed, fused=True)
        self.output = nn.Linear(shape.width + fed + shape.embedding, shape.embedding)

    def step(self, x: Tensor, carried: Carried, memory: KeyValues | None, mask: Mask) -> tuple[Tensor, Carried]:
        """Run one step for one token of every query."""
        h, state = self.layers.step(torch.cat([x, carried.fed], -1), carried.state)
        return torch.cat([h, carried.fed], -1), Carried(state, carried.fed)

    def read(self, x: Tensor, carried: Carried, memory: KeyValues | None, mask: Mask) -> tuple[Tensor, Carried]:
        """Read all tokens of a text in one pass."""
        fed = carried.fed.expand(-1, x.shape[1], -1)
        h, state = self.layers(torch.cat([x, fed], -1), carried.state[:, 0])
        return torch.cat([h, fed], -1), Carried(state[:, None], carried.fed)

    def study(self, x: Tensor, carried: Carried, memory: KeyValues | None, mask: Mask) -> tuple[Tensor, Looks]:
        """Read all tokens of a text in training; there is no attention to return."""
        return self.read(x, carried, memory, mask)[0], Looks()

    def features(self, x: Tensor, attended: Tensor) -> Tensor:
        """Return the features from which the next token is predicted."""
        return torch.tanh(self.output(torch.cat([attended, x], -1)))


class Bahdanau(nn.Module):
    """Attend from the last state, then step: `c = look(h), h' = cell([x ; c], h)`; predicted from h', c and x.

    If gated, the state scales the context: `c = sigmoid(w . h) look(h)` (Xu et al. 2015).
    """

    cross: SingleHead

    def __init__(self, shape: WriterShape, *, gated: bool = False):
        super().__init__()
        self.layers = shape.layers(shape.memory, fused=False)
        self.cross = self.head(Additive(shape.width, shape.memory, shape.width))
        self.output = nn.Linear(shape.width + shape.memory + shape.embedding, shape.embedding)
        self.gate = nn.Linear(shape.width, 1) if gated else None

    def head(self, score: Score) -> SingleHead:
        """Build the attention head."""
        return SingleHead(score)

    def step(self, x: Tensor, carried: Carried, memory: KeyValues, mask: Mask) -> tuple[Tensor, Carried]:
        """Run one step for one token of every query."""
        return self._after(x, carried, self.cross(self.layers.last(carried.state), memory, mask=mask))

    def read(self, x: Tensor, carried: Carried, memory: KeyValues, mask: Mask) -> tuple[Tensor, Carried]:
        """Read all tokens of a text, step by step."""
        return run_step_by_step(self.step, x, carried, memory, mask)

    def study(self, x: Tensor, carried: Carried, memory: KeyValues, mask: Mask) -> tuple[Tensor, Looks]:
        """Read all tokens of a text in training, and return their attention weights too."""
        weights_by_step = []

        def step(x: Tensor, carried: Carried, memory: KeyValues, mask: Mask) -> tuple[Tensor, Carried]:
            c, weights = self.cross.attend_with_weights(self.layers.last(carried.state), memory, mask=mask)
            weights_by_step.append(weights)
            return self._after(x, carried, c)

        outputs, _ = run_step_by_step(step, x, carried, memory, mask)
        return outputs, Looks(weights=torch.cat(weights_by_step, 1))

    def features(self, x: Tensor, attended: Tensor) -> Tensor:
        """Return the features from which the next token is predicted."""
        return torch.tanh(self.output(torch.cat([attended, x], -1)))

    def _after(self, x: Tensor, carried: Carried, c: Tensor) -> tuple[Tensor, Carried]:
        """Run the step that follows the attention."""
        if self.gate is not None:
            c = torch.sigmoid(self.gate(self.layers.last(carried.state))) * c
        h, state = self.layers.step(torch.cat([x, c], -1), carried.state)
        return torch.cat([h, c], -1), Carried(state, carried.fed)


class Hard(Bahdanau):
    """`Bahdanau` with hard attention to one place, sampled in training; `soft` is the share of texts that see the mean.

    In evaluation it attends to the likeliest place, or to the mean if `expected`.
    """

    cross: HardHead

    def __init__(self, shape: WriterShape, *, gated: bool = False, soft: float = 0.0, expected: bool = False):
        super().__init__(shape, gated=gated)
        self.soft, self.cross.expected = soft, expected

    def head(self, score: Score) -> SingleHead:
        """Build the attention head."""
        return HardHead(score)

    def study(self, x: Tensor, carried: Carried, memory: KeyValues, mask: Mask) -> tuple[Tensor, Looks]:
        """Read all tokens of a text in training, with log-probabilities and entropies of the sampled places."""
        logs, entropies = [], []
        soft = torch.rand(len(x), device=x.device) < self.soft

        def step(x: Tensor, carried: Carried, memory: KeyValues, mask: Mask) -> tuple[Tensor, Carried]:
            c, log, entropy = self.cross.look(self.layers.last(carried.state), memory, mask=mask, soft=soft)
            logs.append(log)
            entropies.append(entropy)
            return self._after(x, carried, c)

        outputs, _ = run_step_by_step(step, x, carried, memory, mask)
        return outputs, Looks(log_probability=torch.cat(logs, 1), entropy=torch.cat(entropies, 1))


class Luong(nn.Module):
    """Step, then attend from the new state: `h' = cell(x, h), c = look(h'), a = tanh(W [c ; h'])`; predicted from a.

    With input feeding (`feed`), the next step reads a beside its token: `cell([x ; a], h)`.
    """

    def __init__(self, shape: WriterShape, *, score: str, feed: bool = False):
        super().__init__()
        self.feed = feed
        self.layers = shape.layers(shape.embedding if feed else 0, fused=not feed)
        self.cross = SingleHead(_score(score, shape))
        self.output = nn.Linear(shape.memory + shape.width, shape.embedding)

    def step(self, x: Tensor, carried: Carried, memory: KeyValues, mask: Mask) -> tuple[Tensor, Carried]:
        """Run one step for one token of every query."""
        h, state = self.layers.step(torch.cat([x, carried.fed], -1), carried.state)
        a = self._look(h, memory, mask)
        return a, Carried(state, a if self.feed else carried.fed)

    def read(self, x: Tensor, carried: Carried, memory: KeyValues, mask: Mask) -> tuple[Tensor, Carried]:
        """Read all tokens of a text, in one pass unless each step is fed the output of the one before it."""
        if self.feed:
            return run_step_by_step(self.step, x, carried, memory, mask)
        h, state = self.layers(x, carried.state[:, 0])
        return self._look(h, memory, mask), Carried(state[:, None], carried.fed)

    def _look(self, h: Tensor, memory: KeyValues, mask: Mask) -> Tensor:
        c = self.cross(h, memory, mask=mask)
        return torch.tanh(self.output(torch.cat([c, h], -1)))

    def features(self, x: Tensor, attended: Tensor) -> Tensor:
        """Return the features from which the next token is predicted."""
        return attended


@dataclass(frozen=True)
class Writing:
    """The state of a search: positions and source as in every decoder, and what the steps carry."""

    past: DecoderState
    carried: Carried

    @property
    def where(self) -> Stepping:
        """Return the positions of the beams."""
        return self.past.where

    def reorder(self, parents: Int[Tensor, "batch beam"]) -> Writing:
        """Return the state in which beam k continues beam `parents[k]`."""
        rows = torch.arange(len(parents), device=parents.device)[:, None]
        return Writing(self.past.reorder(parents), Carried(*(tensor[rows, parents] for tensor in self.carried)))

    def keep(self, rows: Int[Tensor, "kept"]) -> Writing:
        """Return the state of these examples only."""
        return Writing(self.past.keep(rows), Carried(*(tensor[rows] for tensor in self.carried)))

    def join(self, other: Writing) -> Writing:
        """Append the examples of another search, each at its own position."""
        both = (torch.cat(pair) for pair in zip(self.carried, other.carried, strict=True))
        return Writing(self.past.join(other.past), Carried(*both))


class RecurrentWriter(Tied):
    """The base of models that generate with one of these decoders.

    Everything runs in full precision, as errors of all steps accumulate in the states.
    """

    traits = Traits(compilable=False)  # a compiler would unroll every step; recorded steps cost nothing to launch
    decoder: nn.ModuleList
    """A list of one, so that attentions have the same names as in other decoders."""
    dropout: nn.Dropout

    def write(
        self, target: Int[Tensor, "batch target"], carried: Carried, memory: KeyValues | None, mask: Mask
    ) -> tuple[Float[Tensor, "batch target width"], Carried]:
        """Return the features of every target position, and what is carried to the next step."""
        x = self.embedded(target)
        outputs, carried = self.writer.read(x, carried, memory, mask)
        return self.dropout(self.writer.features(x, outputs)), carried

    def begin(
        self,
        prompt: Int[Tensor, "batch prompt"],
        carried: Carried,
        memory: KeyValues | None,
        grid: Grid,
        *,
        beams: int,
        limit: int,
    ) -> tuple[Float[Tensor, "batch beam vocab"], Writing]:
        """Read the beginning of a target; the memory is stored once for all beams."""
        room = prompt.shape[1]
        where = Stepping.begin(torch.full_like(grid.lengths, room), beams=beams, limit=limit, room=room, even=True)
        features, carried = self.write(prompt, carried, memory, padded(grid, Grid(where.prompt, room)))
        past = DecoderState(where, (), () if memory is None else (memory,), grid)
        beamed = Carried(*(tensor.expand(-1, beams, *tensor.shape[2:]) for tensor in carried))
        return self.logits(features[:, -1:]).expand(-1, beams, -1), Writing(past, beamed)

    @torch.no_grad()
    def step(
        self, tokens: Int[Tensor, "batch beam"], state: Writing
    ) -> tuple[Float[Tensor, "batch beam vocab"], Writing]:
        """Feed one more token to every beam."""
        past = state.past.advance()
        assert past.source is not None
        with full_precision(tokens):
            writer, x = self.writer, self.embedded(tokens)
            memory = past.memories[0] if past.memories else None
            output, carried = writer.step(x, state.carried, memory, padded(past.source, past.where))
            return self.logits(writer.features(x, output)), Writing(past, carried)

    @property
    def writer(self) -> Any:
        """Return the decoder."""
        return self.decoder[0]

    def embedded(self, tokens: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch features"]:
        """Return the vectors of target tokens."""
        return self.dropout(self.decoder_embedding(tokens) * math.sqrt(self.config.embedding))


StepFunction = Callable[[Tensor, Carried, KeyValues, Mask], tuple[Tensor, Carried]]


def run_step_by_step(
    step: StepFunction, x: Tensor, carried: Carried, memory: KeyValues, mask: Mask
) -> tuple[Float[Tensor, "batch time features"], Carried]:
    """Run a step function over the columns, one after the other, with the mask of each."""
    where = mask.where
    assert isinstance(where, Padded)
    assert isinstance(where.query, Grid)
    outputs = []
    for at, column in enumerate(x.split(1, 1)):
        turn = replace(mask, where=Padded(where.key, Turn(where.query, at)))  # the cache of the mask is shared by all
        now, carried = step(column, carried, memory, turn)
        outputs.append(now)
    return torch.cat(outputs, 1), carried


def table(vocab: int, width: int) -> nn.Embedding:
    """Build a token embedding, initialised so that it can also be the output matrix."""
    vectors = nn.Embedding(vocab, width)
    nn.init.normal_(vectors.weight, std=1 / math.sqrt(width))
    return vectors


def full_precision(tensor: Tensor) -> torch.autocast:
    """Return a context without autocast to half precision."""
    return torch.autocast(tensor.device.type, enabled=False)


def _score(name: str, shape: WriterShape) -> Score:
    """Build one of Luong's scores."""
    if name == "luong_dot":
        return dot
    if name == "luong_general":
        return Bilinear(shape.width, shape.memory)
    return Additive(shape.width, shape.memory, shape.width)
