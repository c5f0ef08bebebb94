"""The Neural Turing Machine: a controller that reads and writes a memory by attention (Graves et al. 2014).

Every head attends to the places of the memory with weights that sum to one. They are computed by content (similarity to
a key) and by location (the weights of the step before, shifted by a few places):

    c_i = softmax_i(strength * cosine(key, M_i))       content-based addressing
    g   = gate * c + (1 - gate) * w                    interpolation with the last weights
    s_i = sum_j g_(i - j) shift_j                      location-based addressing: a circular convolution
    w'_i = s_i^power / sum_j s_j^power                 sharpening

A write head erases and adds, `M_i <- M_i * (1 - w_i erase) + w_i add`; then a read head reads `sum_i w_i M_i`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.attend import weigh
from regard.attention.masks import EVERYONE, Grid, Mask, Padded, Turn
from regard.attention.scores import cosine
from regard.attention.tap import Tap
from regard.config.ranges import Range, Small, Vocabulary, Width, check_affordable
from regard.models.interface import Model, ModelConfig, Traits
from regard.models.parts.cells import LSTM

FIRST = 5.0  # initial logit of the first place, above those of the others
SETTINGS = 3  # numbers that address a memory beside a key and a shift: strength, power, gate
STEADY = 2.0  # initial sharpening of weights and closing of the gate, so that weights are kept from step to step


@dataclass(frozen=True, kw_only=True)
class NTMConfig(ModelConfig):
    """A controller with a memory beside it."""

    name: Literal["ntm"] = "ntm"
    """Which model this is."""
    inputs: Vocabulary = 0
    """Numbers it is given at every step; filled in from the data."""
    outputs: Vocabulary = 0
    """Numbers it answers with at every step; filled in from the data."""
    controller: Literal["lstm", "feedforward"] = "lstm"
    """The network that drives the heads; feedforward remembers nothing but what it reads."""
    width: Width = 100
    """Features of the controller."""
    places: Annotated[int, Range(1, 2**16)] = 128
    """Vectors in the memory: the longest sequence it can hold."""
    depth: Width = 20
    """Features of each of these vectors."""
    reads: Small = 1
    """Read heads."""
    writes: Small = 1
    """Write heads."""
    shifts: Annotated[int, Range(0, 1000)] = 1
    """Places by which a step may move the weights, forwards or backwards; 0: content-based addressing alone."""

    def __post_init__(self) -> None:
        if 2 * self.shifts + 1 > self.places:
            raise ValueError(
                f"shifts of up to {self.shifts} either way are {2 * self.shifts + 1}, and the memory has "
                f"{self.places} places: lower shifts or raise places"
            )
        heads = self.reads + self.writes
        check_affordable(
            4 * self.width * (self.inputs + self.reads * self.depth + self.width)
            + self.width * (heads * (3 * self.depth + 2 * self.shifts + 4) + self.outputs)
            + heads * self.places,
            "lower width, depth or heads",
        )


class State(NamedTuple):
    """The state between two steps."""

    hidden: Float[Tensor, "batch parts width"]
    """The state of the controller."""
    read: Float[Tensor, "batch seen"]
    """The vectors read by the read heads, concatenated."""
    weights: Float[Tensor, "batch heads places"]
    """The attention weights of the heads: read heads, then write heads."""
    memory: Float[Tensor, "batch places depth"]


def by_content(
    key: Float[Tensor, "batch heads depth"],
    strength: Float[Tensor, "batch heads 1"],
    memory: Float[Tensor, "batch places depth"],
) -> Float[Tensor, "batch heads places"]:
    """Return weights of the places by similarity to the key; an infinite strength selects only the nearest."""
    return weigh(strength * cosine(key, memory))


def interpolate(
    content: Float[Tensor, "*batch places"], last: Float[Tensor, "*batch places"], gate: Float[Tensor, "*batch 1"]
) -> Float[Tensor, "*batch places"]:
    """Return the weights by content where the gate is 1, those of the last step where it is 0."""
    return torch.lerp(last, content, gate)


def shift_weights(
    weights: Float[Tensor, "*batch places"], shift: Float[Tensor, "*batch shifts"]
) -> Float[Tensor, "*batch places"]:
    """Return weights shifted round the memory; the middle of `shift` is the share that stays."""
    reach = shift.shape[-1] // 2
    moved = torch.stack([weights.roll(by, -1) for by in range(-reach, reach + 1)], -1)
    return (moved @ shift[..., None]).squeeze(-1)


def sharpen(
    weights: Float[Tensor, "*batch places"], power: Float[Tensor, "*batch 1"]
) -> Float[Tensor, "*batch places"]:
    """Raise weights to a power, in logarithms, as a high power of small weights would underflow and give 0 / 0."""
    return weigh(power * weights.clamp(min=torch.finfo(weights.dtype).tiny).log())


def write(
    memory: Float[Tensor, "batch places depth"],
    weights: Float[Tensor, "batch heads places"],
    erase: Float[Tensor, "batch heads depth"],
    add: Float[Tensor, "batch heads depth"],
) -> Float[Tensor, "batch places depth"]:
    """Erase by each head where it attends, then add by all of them."""
    for where, what in zip(weights.unbind(1), erase.unbind(1), strict=True):
        memory = memory * (1 - where[..., None] * what[:, None])
    return torch.baddbmm(memory, weights.mT, add)


class Heads(nn.Module):
    """Heads of one kind: their weights before the first step, and the tap by which weights are watched."""

    def __init__(self, heads: int, places: int):
        super().__init__()
        self.first = nn.Parameter(FIRST * F.one_hot(torch.zeros(heads, dtype=torch.long), places).float())
        self.weights = Tap()


class NTMStep(nn.Module):
    """One step: the controller, the addressing of its heads, writing and reading."""

    def __init__(self, config: NTMConfig):
        super().__init__()
        self.config = config
        read_size, heads = config.reads * config.depth, config.reads + config.writes
        input_size = config.inputs + read_size
        self.controller = (
            LSTM(input_size, config.width) if config.controller == "lstm" else nn.Linear(input_size, config.width)
        )
        self.sizes = [config.depth, SETTINGS, 2 * config.shifts + 1]
        self.address = nn.Linear(config.width, heads * sum(self.sizes))
        self.change = nn.Linear(config.width, config.writes * 2 * config.depth)
        self.read, self.write = Heads(config.reads, config.places), Heads(config.writes, config.places)
        self.hidden = nn.Parameter(torch.zeros(LSTM.parts, config.width)) if config.controller == "lstm" else None
        self.seen = nn.Parameter(torch.zeros(read_size))
        self.blank = nn.Parameter(torch.randn(config.depth) / config.depth**0.5)
        with torch.no_grad():
            settings = self.address.bias.view(heads, -1)[:, config.depth : config.depth + SETTINGS]
            settings.copy_(torch.tensor([0.0, STEADY, -STEADY]))

    def forward(self, x: Float[Tensor, "batch inputs"], state: State, mask: Mask = EVERYONE) -> tuple[Tensor, State]:
        """Return the output of the controller with what its heads read, and the state after the step."""
        shown, hidden = self._run_controller(torch.cat([x, state.read], -1), state.hidden)
        weights = self._looks(shown, state)
        reading, writing = weights.split([self.config.reads, self.config.writes], 1)
        reading = self.read.weights(reading[:, :, None], mask).squeeze(2)
        writing = self.write.weights(writing[:, :, None], mask).squeeze(2)
        erase, add = self.change(shown).unflatten(-1, (self.config.writes, -1)).chunk(2, -1)
        memory = write(state.memory, writing, erase.sigmoid(), add)
        read = (reading @ memory).flatten(1)
        return torch.cat([shown, read], -1), State(hidden, read, torch.cat([reading, writing], 1), memory)

    def _run_controller(self, x: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output of the controller, and its state; a feed-forward one has none."""
        if isinstance(self.controller, LSTM):
            hidden = self.controller(x, hidden)
            return hidden.unbind(-2)[0], hidden
        return torch.tanh(self.controller(x)), hidden

    def _looks(self, shown: Float[Tensor, "batch width"], state: State) -> Float[Tensor, "batch heads places"]:
        """Return the weights of every head, after content, gate, shift and power."""
        addresses = self.address(shown).unflatten(-1, (-1, sum(self.sizes)))
        key, settings, shift = addresses.split(self.sizes, -1)
        strength, power = F.softplus(settings[..., :2]).split(1, -1)
        content_weights = by_content(torch.tanh(key), strength, state.memory)
        gated_weights = interpolate(content_weights, state.weights, settings[..., 2:].sigmoid())
        return sharpen(shift_weights(gated_weights, weigh(shift)), 1 + power)

    def start(self, batch: int) -> State:
        """Return the initial state, which is learnt, with the same vector in every place of the memory.

        So the content does not distinguish places, and a larger memory behaves like a smaller one.
        """
        weights = weigh(torch.cat([self.read.first, self.write.first]))
        memory = self.blank.expand(self.config.places, -1)
        hidden = self.seen.new_zeros(0, self.config.width) if self.hidden is None else self.hidden
        return State(*(tensor.repeat(batch, *[1] * tensor.dim()) for tensor in (hidden, self.seen, weights, memory)))


class NTM(Model):
    """A Neural Turing Machine with an output at every step; in full precision, as errors accumulate in the memory."""

    traits = Traits(compilable=False, compiled=("step",))  # compiling the whole model would unroll all steps

    def __init__(self, config: NTMConfig):
        super().__init__()
        self.config = config
        self.step = NTMStep(config)
        self.output = nn.Linear(config.width + config.reads * config.depth, config.outputs)

    def forward(self, vectors: Float[Tensor, "batch time inputs"]) -> Float[Tensor, "batch time outputs"]:
        """Return the logits of the outputs at every step."""
        with torch.autocast(vectors.device.type, enabled=False):
            x = vectors.float() if vectors.dtype in (torch.float16, torch.bfloat16) else vectors
            state, shown = self.step.start(len(x)), []
            step = self.step if self.training else self.step.forward  # only training is compiled
            columns = x.transpose(0, 1).contiguous()  # so that every step has the same strides, whatever their number
            for now, mask in zip(columns, self._turns(x), strict=True):
                output, state = step(now, state, mask)
                shown.append(output)
            return self.output(torch.stack(shown, 1))

    def _turns(self, x: Float[Tensor, "batch time inputs"]) -> list[Mask]:
        """Return the mask of every step, which tells a watcher the number of the step."""
        batch, time, _ = x.shape
        if not (self.step.read.weights.is_watched or self.step.write.weights.is_watched):
            return [EVERYONE] * time
        places = Grid(torch.full((batch,), self.config.places), self.config.places)
        steps = Grid(torch.full((batch,), time), time)
        return [Mask(where=Padded(places, Turn(steps, at))) for at in range(time)]
