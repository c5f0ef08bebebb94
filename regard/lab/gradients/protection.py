"""What protects a gradient and what makes it vanish or explode: biases of gates, scales of recurrent weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.lab.demonstration import Chart, Demonstration, LabelledMatrix, Measurement
from regard.lab.gradients.reach import reach
from regard.models.parts.cells import Layers

Layer = Callable[[Tensor], Tensor]
WIDTH, EXAMPLES = 32, 4
INPUT_SCALE = 0.1  # of the inputs of networks of any scale: larger ones would saturate the tanh by themselves
FORGET_BIASES = (0.0, 1.0, 3.0, 5.0)
HELD_OPEN = 1e4  # a bias after which the sigmoid is 1, whatever else the gate hears
SCALES = (0.5, 0.9, 1.0, 1.2, 1.5, 2.0)
SHOWN_DISTANCES = (0, 1, 5, 10, 20, 40, 63, 100, 200, 500, 999)


def lstm_with_forget_bias(bias: float) -> Layer:
    """Return an untrained LSTM whose forget gates have this bias."""
    return _gated("lstm", slice(WIDTH, 2 * WIDTH), bias)


def gru_with_keep_bias(bias: float) -> Layer:
    """Return an untrained GRU whose update gates start with this bias towards keeping the state."""
    return _gated("gru", slice(WIDTH, 2 * WIDTH), -bias)


def _gated(kind: str, gate: slice, bias: float) -> Layer:
    layers = Layers(kind, WIDTH, WIDTH, fused=False).double()  # type: ignore[arg-type]
    [cell] = layers.layers[0].cells  # type: ignore[union-attr, misc]
    with torch.no_grad():
        cell.input.bias[gate] = bias
        cell.state.bias[gate] = 0.0
    return lambda x: layers(x)[0]


def recurrence_of_scale(scale: float, *, linear: bool = False) -> Layer:
    """Return `h' = tanh(U x + scale V h)` for an orthogonal V; without the tanh, every step multiplies by the scale."""
    V = scale * torch.linalg.qr(torch.randn(WIDTH, WIDTH, dtype=torch.float64))[0]
    U = INPUT_SCALE * torch.randn(WIDTH, WIDTH, dtype=torch.float64) / math.sqrt(WIDTH)

    def run(x: Float[Tensor, "batch time inputs"]) -> Float[Tensor, "batch time width"]:
        state, outputs = torch.zeros_like(x[:, 0]), []
        for column in (x @ U.T).unbind(1):
            state = column + state @ V.T
            state = state if linear else torch.tanh(state)
            outputs.append(state)
        return torch.stack(outputs, 1)

    return run


def compare_gates(*, length: int = 64, seed: int = 0) -> Demonstration:
    """Compare gradient norms by distance in LSTM and GRU, for several biases of the gates that keep the state."""
    makers: dict[str, Callable[[], Layer]] = {
        f"LSTM, forget bias {bias:g}": lambda bias=bias: lstm_with_forget_bias(bias)  # type: ignore[misc]
        for bias in FORGET_BIASES
    }
    makers["LSTM, forget gates held open"] = lambda: lstm_with_forget_bias(HELD_OPEN)
    makers |= {
        f"GRU, keep bias {bias:g}": lambda bias=bias: gru_with_keep_bias(bias)  # type: ignore[misc]
        for bias in FORGET_BIASES[::2]
    }
    norms = measure_reach(makers, length=length, seed=seed)
    measurement = Measurement(
        f"gradient left after {length - 1} steps, as a share of that after 1",
        "forget gates held open",
        share_left(norms["LSTM, forget gates held open"]),
        "forget bias 0, gates half open",
        share_left(norms["LSTM, forget bias 0"]),
    )
    return demonstrate("Gates that protect the gradient", norms, [measurement])


def compare_scales(*, length: int = 64, seed: int = 0) -> Demonstration:
    """Compare gradient norms by distance in networks without gates, for several scales of the recurrent weights."""
    makers: dict[str, Callable[[], Layer]] = {
        f"scale {scale:g}": lambda scale=scale: recurrence_of_scale(scale)  # type: ignore[misc]
        for scale in SCALES
    }
    makers["scale 1, no tanh"] = lambda: recurrence_of_scale(1.0, linear=True)
    norms = measure_reach(makers, length=length, seed=seed)
    control = share_left(norms["scale 1, no tanh"])
    after = f"gradient left after {length - 1} steps, as a share of that after 1"
    measurements = [
        Measurement(f"{after}: {effect}", name, share_left(norms[name]), "scale 1, no tanh", control)
        for effect, name in (("it vanishes", "scale 0.5"), ("it explodes", "scale 2"))
    ]
    return demonstrate("Recurrent weights that are too small or too large", norms, measurements)


def measure_reach(
    makers: Mapping[str, Callable[[], Layer]], *, length: int, seed: int
) -> dict[str, Float[Tensor, "distance"]]:
    """Return gradient norms by distance of several layers over the same random inputs."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        x = torch.randn(EXAMPLES, length, WIDTH, dtype=torch.float64)
        norms = {}
        for name, make in makers.items():
            torch.manual_seed(seed)  # the same weights but for what is compared
            norms[name] = reach(make(), x)
    return norms


def share_left(norms: Float[Tensor, "distance"]) -> float:
    """Return the gradient norm at the longest distance divided by that at distance 1."""
    return float(norms[-1] / norms[1])


def demonstrate(
    title: str, norms: Mapping[str, Float[Tensor, "distance"]], measurements: Sequence[Measurement]
) -> Demonstration:
    """Return a table of gradient norms at some distances, and a chart of all of them."""
    length = min(map(len, norms.values()))
    distances = [distance for distance in SHOWN_DISTANCES if distance < length]
    rows = [norm[distances].tolist() for norm in norms.values()]
    heads = [str(distance) for distance in distances]
    table = LabelledMatrix("Norm of the gradient by distance in steps", list(norms), heads, rows, digits=None)
    curves = {name: norm.tolist() for name, norm in norms.items()}
    chart = Chart(
        "d output / d input at a distance",
        "distance in steps",
        "norm of the gradient",
        list(range(length)),
        curves,
        y_scale="log",
        tabulated=False,
    )
    return Demonstration(title, measurements, charts=[chart], tables=[table])
