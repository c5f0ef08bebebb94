"""A recurrent network unrolled in time, and the windows that truncated back-propagation cuts it into."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.lab.demonstration import Demonstration, LabelledMatrix, Measurement

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, SCALE = 16, 0.8  # of the states, and of the recurrent weights
INPUT_Y, STATE_Y, LOSS_Y = 0.0, 1.0, 2.0
FORWARD, BACKWARD = "#888888", "#D55E00"


def state_gradients(steps: int, window: int | None, *, seed: int = 0) -> Float[Tensor, "loss state"]:
    """Return the gradient norm of each step's loss with respect to each state, zero beyond the truncation.

    A window lets states pass from one to the next, but not gradients.
    """
    generator = torch.Generator().manual_seed(seed)
    draw: dict[str, Any] = {"generator": generator, "dtype": torch.float64}
    V = SCALE * torch.linalg.qr(torch.randn(WIDTH, WIDTH, **draw))[0]
    inputs, outputs = torch.randn(steps, WIDTH, **draw) / math.sqrt(WIDTH), torch.randn(steps, WIDTH, **draw)
    state, states, losses = torch.zeros(WIDTH, dtype=torch.float64), [], []
    for step in range(steps):
        if window is not None and step % window == 0:
            state = state.detach()
        state = torch.tanh(inputs[step] + V @ state).requires_grad_()
        states.append(state)
        losses.append((state * outputs[step]).sum().square())
    norms = torch.zeros(steps, steps, dtype=torch.float64)
    for step, loss in enumerate(losses):
        gradients = torch.autograd.grad(loss, states, retain_graph=True, allow_unused=True)
        for place, gradient in enumerate(gradients):
            norms[step, place] = 0.0 if gradient is None else gradient.norm()
    return norms


def unroll(*, steps: int = 12, window: int = 4, seed: int = 0) -> Demonstration:
    """Compare the gradients of full and truncated back-propagation through time."""
    if window >= steps:
        raise ValueError(f"--window {window}: give fewer than the {steps} steps, so that something is cut")
    whole, cut = (state_gradients(steps, size, seed=seed) for size in (None, window))
    names = [f"h{step}" for step in range(1, steps + 1)]
    losses = [f"E{step}" for step in range(1, steps + 1)]
    matrices = [
        LabelledMatrix("Gradient of each loss by each state: whole", losses, names, whole.tolist()),
        LabelledMatrix(f"The same, cut into windows of {window}", losses, names, cut.tolist()),
    ]
    last = (steps - 1) // window * window  # the first state of the last window
    measurement = Measurement(
        f"gradient of E{steps} by h{last}, the last state of the window before",
        "whole back-propagation",
        float(whole[-1, last - 1]),
        f"windows of {window}",
        float(cut[-1, last - 1]),
    )
    return Demonstration(f"{steps} steps unrolled, windows of {window}", [measurement], matrices=matrices)


def draw_unrolled(*, steps: int = 12, window: int = 4, seed: int = 0) -> Figure:
    """Draw the unrolled network with the gradient of the last loss, whole above, in windows below."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(max(7.0, 0.95 * steps), 6.4), layout="constrained")
    upper, lower = figure.subplots(2, 1)
    for axes, size, title in ((upper, None, "Back-propagation through all steps"), (lower, window, "Truncated")):
        plot_network(axes, state_gradients(steps, size, seed=seed)[-1].tolist(), size)
        suffix = "" if size is None else f": windows of {size}, states pass on, gradients do not"
        axes.set_title(title + suffix, fontsize=10)
    return figure


def plot_network(axes: Axes, gradients: list[float], window: int | None) -> None:
    """Plot an unrolled network: grey arrows forward, coloured arrows back, as thick as the gradient norm."""
    from matplotlib.patches import Rectangle

    steps = len(gradients)
    for start in range(0, steps, window or steps):
        end = min(start + (window or steps), steps)
        box = Rectangle((start - 0.45, -0.4), end - start - 0.1, 2.8, facecolor="#0072B2", alpha=0.08, edgecolor="none")
        axes.add_patch(box)
    for step, gradient in enumerate(gradients):
        _plot_arrow(axes, (step, INPUT_Y), (step, STATE_Y), FORWARD)
        _plot_arrow(axes, (step, STATE_Y), (step, LOSS_Y), FORWARD)
        if step:
            _plot_arrow(axes, (step - 1, STATE_Y), (step, STATE_Y), FORWARD, offset=0.08)
        for y, letter in ((INPUT_Y, "x"), (STATE_Y, "h"), (LOSS_Y, "E")):
            axes.text(step, y, f"${letter}_{{{step + 1}}}$", ha="center", va="center", fontsize=10)
        if step + 1 < steps:
            label = f"{gradient:.2g}" if gradient else "0"
            axes.text(step + 0.5, STATE_Y - 0.38, label, ha="center", fontsize=8, color=BACKWARD)
        if step + 1 < steps and gradient:
            thickness = 0.6 + 2.4 * math.sqrt(gradient / max(gradients))
            _plot_arrow(axes, (step + 1, STATE_Y), (step, STATE_Y), BACKWARD, offset=-0.12, thickness=thickness)
    _plot_arrow(axes, (steps - 1 + 0.1, LOSS_Y), (steps - 1 + 0.1, STATE_Y), BACKWARD, thickness=3.0)
    axes.set_xlim(-0.6, steps - 0.4)
    axes.set_ylim(-0.5, 2.5)
    axes.set_axis_off()


def _plot_arrow(
    axes: Axes,
    start: tuple[int | float, float],
    end: tuple[int | float, float],
    colour: str,
    *,
    offset: float = 0.0,
    thickness: float = 0.8,
) -> None:
    head, tail = ((x, y + offset) for x, y in (end, start))
    properties = {"arrowstyle": "->", "color": colour, "linewidth": thickness, "shrinkA": 9, "shrinkB": 9}
    axes.annotate("", head, tail, arrowprops=properties)
