"""What the division by the root of the depth does: to scores, to the softmax and to the gradient through it."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.attend import weigh
from regard.attention.scores import dot, scaled_dot
from regard.lab.demonstration import Chart, Demonstration, LabelledMatrix, Measurement

DEPTHS = (4, 16, 64, 256, 1024)
KEYS = 16
QUERIES = 256  # over which means are taken


def softmax_gradient(weights: Float[Tensor, "*batch key"]) -> Float[Tensor, "*batch"]:
    """Return the norm of the Jacobian of the softmax, `diag(p) - p p^T`."""
    squares = weights.square().sum(-1)
    return (squares - 2 * weights.pow(3).sum(-1) + squares.square()).clamp(min=0).sqrt()


def compare_depths(*, seed: int = 0) -> Demonstration:
    """Compare weights and gradients with and without scaling, for random queries and keys of variance 1."""
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for depth in DEPTHS:
        query = torch.randn(QUERIES, 1, depth, dtype=torch.float64, generator=generator)
        key = torch.randn(QUERIES, KEYS, depth, dtype=torch.float64, generator=generator)
        numbers: list[float] = []
        for scores in (dot(query, key)[:, 0], scaled_dot(query, key)[:, 0]):
            weights = weigh(scores)
            means = scores.std(), weights.amax(-1).mean(), softmax_gradient(weights).mean()
            numbers += [float(number) for number in means]
        rows.append(numbers)
    names = [f"{quantity}, {way}" for way in ("undivided", "divided") for quantity in ("scores ±", "top", "gradient")]
    by_name = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    table = LabelledMatrix(
        f"{KEYS} random keys: deviation of scores, largest weight, gradient through the softmax",
        [f"width {depth:,}" for depth in DEPTHS],
        names,
        rows,
        digits=3,
    )
    quantities = {"scores ±": "deviation of the scores", "top": "largest weight", "gradient": "norm of the gradient"}
    charts = [
        Chart(
            label,
            "width of queries and keys",
            label,
            DEPTHS,
            {way: by_name[f"{quantity}, {way}"] for way in ("undivided", "divided")},
            x_scale="log",
            y_scale="log" if quantity != "top" else "linear",
            tabulated=False,
        )
        for quantity, label in quantities.items()
    ]
    measurement = Measurement(
        f"gradient through the softmax at width {DEPTHS[-1]:,}, as a share of that at width {DEPTHS[0]}",
        "scores not divided",
        by_name["gradient, undivided"][-1] / by_name["gradient, undivided"][0],
        "scores divided by the root of the width",
        by_name["gradient, divided"][-1] / by_name["gradient, divided"][0],
    )
    return Demonstration("Divided by the root of the width", [measurement], tables=[table], charts=charts)
