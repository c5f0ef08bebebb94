"""What clipping does where gradients explode, and where they do not."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from regard.lab.demonstration import Chart, Demonstration, LabelledMatrix, Measurement, Scale

LENGTH, WIDTH, BATCH = 20, 32, 8
STEPS, RATE = 100, 0.1
THRESHOLD = 1.0
LARGE, SMALL = 2.0, 0.5  # scales of the recurrent weights


@dataclass(frozen=True)
class Descent:
    """One training: the loss and the norm of the gradient before every step, and the length of every step."""

    losses: list[float]
    norms: list[float]
    moves: list[float]


def descend(scale: float, threshold: float | None, *, seed: int = 0) -> Descent:
    """Train an RNN by gradient descent to classify the sign of its first input."""
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = nn.RNN(1, WIDTH, bias=False, batch_first=True, dtype=torch.float64)
        output = nn.Linear(WIDTH, 1, bias=False, dtype=torch.float64)
        nn.init.orthogonal_(network.get_parameter("weight_hh_l0"), gain=scale)
    weights = [*network.parameters(), *output.parameters()]
    descent = Descent([], [], [])
    for _ in range(STEPS):
        x = torch.randn(BATCH, LENGTH, 1, generator=generator, dtype=torch.float64)
        logits = output(network(x)[0][:, -1])[:, 0]
        loss = F.binary_cross_entropy_with_logits(logits, (x[:, 0, 0] > 0).double())
        gradients = torch.autograd.grad(loss, weights)
        norm = float(torch.cat([gradient.flatten() for gradient in gradients]).norm())
        shrink = 1.0 if threshold is None else min(1.0, threshold / norm)
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients, strict=True):
                weight.sub_(RATE * shrink * gradient)
        descent.losses.append(float(loss.detach()))
        descent.norms.append(norm)
        descent.moves.append(RATE * shrink * norm)
    return descent


def compare_clipping(*, seed: int = 0) -> Demonstration:
    """Train with and without gradient clipping, from recurrent weights with exploding gradients and from small ones."""
    runs = {
        (name, way): descend(scale, threshold, seed=seed)
        for name, scale in (("large", LARGE), ("small", SMALL))
        for way, threshold in (("not clipped", None), ("clipped", THRESHOLD))
    }
    rows = [[max(run.norms), max(run.moves), max(run.losses), mean_of_last(run.losses)] for run in runs.values()]
    table = LabelledMatrix(
        f"{STEPS} steps of gradient descent through {LENGTH} steps of time; clipped at a norm of {THRESHOLD:g}",
        [f"{name} weights, {way}" for name, way in runs],
        ["largest norm", "longest step", "worst loss", "last losses"],
        rows,
        digits=None,
    )
    panels: tuple[tuple[str, str, Scale], ...] = (
        ("norm of the gradient", "norms", "log"),
        ("loss", "losses", "linear"),
    )
    charts = [
        Chart(
            title,
            "step of training",
            title,
            list(range(STEPS)),
            {f"{name} weights, {way}": getattr(run, field) for (name, way), run in runs.items()},
            y_scale=scale,
            tabulated=False,
        )
        for title, field, scale in panels
    ]
    changes = {
        name: max(abs(a - b) for a, b in zip(runs[name, "clipped"].moves, runs[name, "not clipped"].moves, strict=True))
        for name in ("large", "small")
    }
    measurement = Measurement(
        "largest change of a step by clipping", "large weights", changes["large"], "small weights", changes["small"]
    )
    return Demonstration("Clipping", [measurement], charts=charts, tables=[table])


def mean_of_last(losses: list[float], count: int = 20) -> float:
    """Return the mean of the final losses."""
    return sum(losses[-count:]) / count
