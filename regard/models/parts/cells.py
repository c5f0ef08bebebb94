"""Recurrent cells, each written as its equation, and layers of them; torch's fused layers have the same interface.

A cell maps an input x and a state to the next state. A state is (..., parts, width): the vector h, which is the output,
and for an LSTM a second one, c, which is internal. Weights are concatenated, gate after gate, in torch's order.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.config.former_python_names import FormerName

Kind = Literal["rnn", "gru", "gru_before", "lstm"]
NAMES = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
HOLD = 1e4  # what is added to a gate to open or shut it, whatever its other inputs


class Cell(nn.Module):
    """The base of all cells: `W x` and `V h` for every gate, with biases, initialised as in torch."""

    gates: ClassVar[int]
    parts: ClassVar[int] = 1

    def __init__(self, inputs: int, width: int):
        super().__init__()
        self.input = nn.Linear(inputs, self.gates * width)
        self.state = nn.Linear(width, self.gates * width)
        for weight in self.parameters():
            nn.init.uniform_(weight, -1 / math.sqrt(width), 1 / math.sqrt(width))


class RNN(Cell):
    """`h' = tanh(W x + V h)` (Elman 1990)."""

    gates = 1

    def forward(self, x: Float[Tensor, "*batch inputs"], state: Float[Tensor, "*batch 1 width"]) -> Tensor:
        """Return the state after x."""
        h = state.squeeze(-2)
        return torch.tanh(self.input(x) + self.state(h)).unsqueeze(-2)


class GRUBefore(Cell):
    """The gated unit as first published: the state is reset before the product (Cho et al. 2014).

    r = sigmoid(W_r x + V_r h)      reset gate: the share of the state that the candidate is computed from
    u = sigmoid(W_u x + V_u h)      update gate: the share of the candidate in the new state
    n = tanh(W x + V (r * h))
    h' = u * n + (1 - u) * h
    """

    gates = 3

    def forward(self, x: Float[Tensor, "*batch inputs"], state: Float[Tensor, "*batch 1 width"]) -> Tensor:
        """Return the state after x."""
        h = state.squeeze(-2)
        width = h.shape[-1]
        gates, new = self.input(x).split([2 * width, width], -1)
        of_gates, of_new = self.state.weight.split([2 * width, width])
        bias_gates, bias_new = self.state.bias.split([2 * width, width])
        r, u = torch.sigmoid(gates + nn.functional.linear(h, of_gates, bias_gates)).chunk(2, -1)
        n = torch.tanh(new + nn.functional.linear(r * h, of_new, bias_new))
        return torch.lerp(h, n, u).unsqueeze(-2)


class GRU(Cell):
    """The gated unit of torch and cuDNN: the reset comes after the product, `n = tanh(W x + r * (V h))`.

    The rest is as in `GRUBefore`, but the weights of one cannot be used by the other.
    """

    gates = 3

    def forward(self, x: Float[Tensor, "*batch inputs"], state: Float[Tensor, "*batch 1 width"]) -> Tensor:
        """Return the state after x."""
        h = state.squeeze(-2)
        width = h.shape[-1]
        of_x, of_h = (product.split([2 * width, width], -1) for product in (self.input(x), self.state(h)))
        r, u = torch.sigmoid(of_x[0] + of_h[0]).chunk(2, -1)
        n = torch.tanh(of_x[1] + r * of_h[1])
        return torch.lerp(h, n, u).unsqueeze(-2)


class LSTM(Cell):
    """Long short-term memory: gates erase the cell c, write to it and show a part of it (Hochreiter, Schmidhuber 1997).

    i, f, o = sigmoid(W x + V h), each with its own weights
    c' = f * c + i * tanh(W_g x + V_g h)
    h' = o * tanh(c')
    """

    gates = 4
    parts = 2

    def forward(self, x: Float[Tensor, "*batch inputs"], state: Float[Tensor, "*batch 2 width"]) -> Tensor:
        """Return the state after x."""
        h, c = state.unbind(-2)
        i, f, g, o = (self.input(x) + self.state(h)).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.stack([torch.sigmoid(o) * torch.tanh(c), c], -2)


CELLS: dict[str, type[Cell]] = {"rnn": RNN, "gru": GRU, "gru_before": GRUBefore, "lstm": LSTM}
FUSED: dict[str, Callable[..., nn.RNNBase]] = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


class Layer(nn.Module):
    """The base of fused and stepwise layers."""

    def __init__(self, kind: Kind, width: int, *, bidirectional: bool):
        super().__init__()
        self.kind, self.width, self.directions = kind, width, 1 + bidirectional

    def blank(self, x: Float[Tensor, "batch *rest"]) -> Float[Tensor, "batch parts width"]:
        """Return the initial state of zeros: h of each direction, then c."""
        return x.new_zeros(len(x), self.directions * CELLS[self.kind].parts, self.width)


class StepwiseLayer(Layer):
    """One layer, step by step: a cell that reads from left to right, if bidirectional another from right to left."""

    def __init__(self, kind: Kind, inputs: int, width: int, *, bidirectional: bool = False):
        super().__init__(kind, width, bidirectional=bidirectional)
        self.cells = nn.ModuleList(CELLS[kind](inputs, width) for _ in range(1 + bidirectional))

    def forward(
        self, x: Float[Tensor, "batch time inputs"], state: Tensor | None, lengths: Int[Tensor, "batch"] | None
    ) -> tuple[Float[Tensor, "batch time features"], Tensor]:
        """Return the output at every step, and the state after the last; padding is skipped, with zeros as output.

        Without a state it starts from a blank one.
        """
        all_outputs, ends = [], []
        columns, places = x.unbind(1), range(x.shape[1])
        state = self.blank(x) if state is None else state
        starts = state.unflatten(-2, (-1, self.directions)).unbind(-2)  # each (batch, parts of a cell, width)
        for number, (cell, now) in enumerate(zip(self.cells, starts, strict=True)):
            outputs = [x.new_empty(0)] * x.shape[1]
            for place in reversed(places) if number else places:
                then = cell(columns[place], now)
                real = None if lengths is None else (place < lengths)[:, None]
                now = then if real is None else torch.where(real[..., None], then, now)
                outputs[place] = _visible_state(now) if real is None else torch.where(real, _visible_state(now), 0.0)
            all_outputs.append(torch.stack(outputs, 1))
            ends.append(now)
        return torch.cat(all_outputs, -1), torch.stack(ends, -2).flatten(-3, -2)

    def step(self, x: Float[Tensor, "*batch inputs"], state: Float[Tensor, "*batch parts width"]) -> Tensor:
        """Return the state after one more input, for a layer that reads from left to right only."""
        [cell] = self.cells
        return cell(x, state)


class Fused(Layer):
    """One layer as a single call of torch, which has kernels for all steps at once, except for `gru_before`."""

    def __init__(self, kind: Kind, inputs: int, width: int, *, bidirectional: bool = False):
        super().__init__(kind, width, bidirectional=bidirectional)
        self.whole = FUSED[kind](inputs, width, batch_first=True, bidirectional=bidirectional)

    def forward(
        self, x: Float[Tensor, "batch time inputs"], state: Tensor | None, lengths: Int[Tensor, "batch"] | None
    ) -> tuple[Float[Tensor, "batch time features"], Tensor]:
        """Return the same as `StepwiseLayer`; without a state it starts from a blank one.

        Padding is read and its outputs discarded, so that no lengths are copied from the device. Packing ragged
        sequences would need them, and take several times as long on a CPU.
        """
        initial = self.blank(x) if state is None else state
        if lengths is None:
            first = initial.transpose(0, 1).contiguous()  # (parts, batch, width)
            outputs, last = self.whole(x, tuple(first.chunk(2)) if self.kind == "lstm" else first)
            return outputs, (torch.cat(last) if isinstance(last, tuple) else last).transpose(0, 1)
        ends = lengths[:, None]
        real = torch.arange(x.shape[1], device=x.device) < ends
        if state is None and self.directions == 2 and self.kind != "rnn":
            return self._both_ways(x, real, ends)
        return self._way_by_way(x, initial, real, ends)

    def step(self, x: Float[Tensor, "*batch inputs"], state: Float[Tensor, "*batch parts width"]) -> Tensor:
        """Return the same as `StepwiseLayer`."""
        _, after = self(x.flatten(0, -2)[:, None], state.flatten(0, -3), None)
        return after.reshape(state.shape)

    def _both_ways(
        self, x: Tensor, real: Bool[Tensor, "batch time"], ends: Int[Tensor, "batch 1"]
    ) -> tuple[Float[Tensor, "batch time features"], Tensor]:
        """Run both directions at once: blank states stay blank on padding, so the backward one begins at the ends."""
        outputs, h, *inner = self._run(x, self.blank(x), real, ("", "_reverse"))
        forth, back = _gather_columns(outputs[..., : self.width], (ends - 1).clamp(min=0)), h[1][:, None]
        after = torch.cat([forth, back, *(part.transpose(0, 1) for part in inner)], 1)
        return torch.where(real[..., None], outputs, 0.0), torch.where(ends[..., None] > 0, after, 0.0)

    def _way_by_way(
        self, x: Tensor, state: Tensor, real: Bool[Tensor, "batch time"], ends: Int[Tensor, "batch 1"]
    ) -> tuple[Float[Tensor, "batch time features"], Tensor]:
        """Run each direction by itself, padding last: the backward one reads every sequence reversed."""
        column = torch.arange(x.shape[1], device=x.device)
        turned = torch.where(real, ends - 1 - column, column)
        ways = ("", "_reverse")[: self.directions]
        outputs, after = [], []
        for initial, way in zip(state.unflatten(1, (-1, len(ways))).unbind(2), ways, strict=True):
            shown, _, *inner = self._run(_gather_columns(x, turned) if way else x, initial, real, (way,))
            last = torch.cat(
                [_gather_columns(shown, (ends - 1).clamp(min=0)), *(part.transpose(0, 1) for part in inner)], 1
            )
            after.append(torch.where(ends[..., None] > 0, last, initial))
            outputs.append(torch.where(real[..., None], _gather_columns(shown, turned) if way else shown, 0.0))
        return torch.cat(outputs, -1), torch.stack(after, 2).flatten(1, 2)

    def _run(self, x: Tensor, state: Tensor, real: Bool[Tensor, "batch time"], ways: tuple[str, ...]) -> list[Tensor]:
        """Return the outputs at every column in one direction or both, and the last h and c."""
        weights = [getattr(self.whole, name + way) for way in ways for name in NAMES]
        if self.kind == "lstm" or len(ways) == 2:
            x = torch.cat([x.masked_fill(~real[..., None], 0.0), ~real[..., None]], -1)
            weights[::4] = [_add_hold_feature(weight, self.kind) for weight in weights[::4]]
        first = state.transpose(0, 1).contiguous()
        how = (True, 1, 0.0, self.training, len(ways) == 2, True)  # biases, layers, dropout, directions, batch first
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about weights that are not contiguous
            if self.kind == "lstm":
                return list(torch._VF.lstm(x, first.chunk(2), weights, *how))
            run = torch._VF.gru if self.kind == "gru" else torch._VF.rnn_tanh
            return list(run(x, first, weights, *how))

    @torch.no_grad()
    def to_stepwise(self) -> StepwiseLayer:
        """Copy the layer to a stepwise one; torch's gate z is 1 - u, so the weights of u change their sign."""
        whole, width = self.whole, self.whole.hidden_size
        twin = StepwiseLayer(self.kind, whole.input_size, width, bidirectional=whole.bidirectional)
        for cell, suffix in zip(twin.cells, ("", "_reverse"), strict=False):
            for part, name in (("input", "ih"), ("state", "hh")):
                for mine, kind in ((getattr(cell, part).weight, "weight"), (getattr(cell, part).bias, "bias")):
                    mine.copy_(getattr(whole, f"{kind}_{name}_l0{suffix}"))
                    if self.kind == "gru":
                        mine[width : 2 * width] *= -1
        return twin.to(next(whole.parameters()))


def _visible_state(state: Float[Tensor, "*batch parts width"]) -> Float[Tensor, "*batch width"]:
    """Return h, the part of a cell's state that is its output."""
    return state.squeeze(-2) if state.shape[-2] == 1 else state.unbind(-2)[0]  # a gradient through [0] is a copy


def _gather_columns(x: Float[Tensor, "batch time width"], column: Int[Tensor, "batch picked"]) -> Tensor:
    """Return these columns of every line."""
    return x.gather(1, column[..., None].expand(-1, -1, x.shape[-1]))


def _add_hold_feature(weight: Float[Tensor, "gates inputs"], kind: Kind) -> Float[Tensor, "gates more"]:
    """Add weights of one more feature, which is 1 on padding and makes the gates hold the state.

    An LSTM's forget gate is opened and its input gate shut: `c' = 1 * c + 0 * g` keeps the cell to the bit, and a blank
    cell has zeros as output. A GRU keeps its whole state: torch's z is 1.
    """
    gate = weight.new_ones(len(weight) // CELLS[kind].gates, 1)
    signs = {"lstm": (-HOLD, HOLD, 0, 0), "gru": (0, HOLD, 0)}[kind]  # torch's order: i, f, g, o and r, z, n
    return torch.cat([weight, torch.cat([sign * gate for sign in signs])], 1)


class Layers(nn.Module):
    """Recurrent layers on top of one another, with dropout between them.

    Fused layers are used where they exist; `fused=False` runs every step in Python, so that it can be inspected.
    """

    def __init__(
        self,
        kind: Kind,
        inputs: int,
        width: int,
        *,
        depth: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        fused: bool = True,
    ):
        super().__init__()
        layer = Fused if fused and kind in FUSED else StepwiseLayer
        self.width, self.directions = width, 1 + bidirectional
        self.shape = depth, self.directions * CELLS[kind].parts
        """Layers, and vectors of the state of each: h from either direction, then c."""
        sizes = [inputs, *[width * self.directions] * (depth - 1)]
        self.layers = nn.ModuleList(layer(kind, size, width, bidirectional=bidirectional) for size in sizes)
        self.dropout = nn.Dropout(dropout)

    @property
    def parts(self) -> int:
        """Return the number of vectors in a state."""
        return math.prod(self.shape)

    def blank(self, x: Float[Tensor, "batch *rest"]) -> Float[Tensor, "batch parts width"]:
        """Return the initial state of zeros."""
        return x.new_zeros(len(x), self.parts, self.width)

    def forward(
        self,
        x: Float[Tensor, "batch time inputs"],
        state: Float[Tensor, "batch parts width"] | None = None,
        lengths: Int[Tensor, "batch"] | None = None,
    ) -> tuple[Float[Tensor, "batch time features"], Float[Tensor, "batch parts width"]]:
        """Return the last layer's output at every step, and the state after the last step that is not padding.

        Without lengths there is no padding. Padding changes nothing: the backward pass begins at each sequence's end.
        """
        if 0 in x.shape[:2]:  # no sequences, or nothing to read
            return x.new_zeros(*x.shape[:2], self.directions * self.width), self.blank(x) if state is None else state
        states = [None] * len(self.layers) if state is None else state.split(self.shape[1], -2)
        ends = []
        for number, (layer, layer_state) in enumerate(zip(self.layers, states, strict=True)):
            x, end = layer(x if number == 0 else self.dropout(x), layer_state, lengths)
            ends.append(end)
        return x, torch.cat(ends, -2)

    def step(
        self, x: Float[Tensor, "*batch inputs"], state: Float[Tensor, "*batch parts width"]
    ) -> tuple[Float[Tensor, "*batch width"], Float[Tensor, "*batch parts width"]]:
        """Run one step of layers that read from left to right, for any batch dimensions."""
        assert self.directions == 1, "the way back cannot be taken step by step"
        ends = []
        for number, (layer, layer_state) in enumerate(zip(self.layers, state.split(self.shape[1], -2), strict=True)):
            assert isinstance(layer, StepwiseLayer | Fused)
            ends.append(layer.step(x if number == 0 else self.dropout(x), layer_state))
            x = _visible_state(ends[-1])
        return x, ends[0] if len(ends) == 1 else torch.cat(ends, -2)

    def last(self, state: Float[Tensor, "*batch parts width"]) -> Float[Tensor, "*batch features"]:
        """Return the last layer's output in this state, with both directions."""
        if self.directions == 1:
            return _visible_state(state.split(self.shape[1], -2)[-1])
        return state.unflatten(-2, self.shape)[..., -1, : self.directions, :].flatten(-2)

    def to_stepwise(self) -> Layers:
        """Return a copy of the layers without fused kernels, whose steps can be inspected."""
        twin = copy.deepcopy(self)
        twin.layers = nn.ModuleList(layer.to_stepwise() if isinstance(layer, Fused) else layer for layer in twin.layers)
        return twin

    written_out = FormerName("to_stepwise")
