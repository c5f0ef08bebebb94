"""Batch norm and layer norm of one small matrix, step by step."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from regard.lab.demonstration import Demonstration, LabelledMatrix, Measurement

MATRIX = ((1, 3, 4), (2, 2, 2), (0, 1, 5), (4, 6, 1), (5, 2, 3), (3, 0, 1))
"""Six features of three examples; the second feature is the same in all, so its variance is 0."""
EPSILON = 1e-5  # what both norms add to the variance


def normalise(x: Float[Tensor, "feature example"], dim: int, epsilon: float = EPSILON) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean, standard deviation and normalised values; `dim` is 1 (examples) for batch norm, 0 for layer norm."""
    mean = x.mean(dim, keepdim=True)
    variance = (x - mean).square().mean(dim, keepdim=True)
    return mean, variance.sqrt(), (x - mean) / (variance + epsilon).sqrt()


def compare_norms(matrix: Sequence[Sequence[int | float]] = MATRIX) -> Demonstration:
    """Normalise a matrix of features by examples in both ways."""
    x = torch.tensor(matrix, dtype=torch.float64)
    features = [f"feature {number}" for number in range(1, len(x) + 1)]
    examples = [f"example {number}" for number in range(1, x.shape[1] + 1)]
    row_mean, row_deviation, by_batch = normalise(x, 1)
    column_mean, column_deviation, by_layer = normalise(x, 0)
    matrices = [
        LabelledMatrix("Features by examples", features, examples, x.tolist()),
        LabelledMatrix(
            "Batch norm: of each feature",
            features,
            ["mean", "deviation"],
            torch.cat([row_mean, row_deviation], 1).tolist(),
        ),
        LabelledMatrix("After batch norm", features, examples, by_batch.tolist()),
        LabelledMatrix(
            "Layer norm: of each example",
            ["mean", "deviation"],
            examples,
            torch.cat([column_mean, column_deviation]).tolist(),
        ),
        LabelledMatrix("After layer norm", features, examples, by_layer.tolist()),
    ]
    return Demonstration("Batch norm and layer norm", [measure_influence(x)], matrices=matrices, notes=describe_flat(x))


def measure_influence(x: Float[Tensor, "feature example"]) -> Measurement:
    """Measure how much the first example's output changes when the last example is flipped, in either norm."""
    other = torch.cat([x[:, :-1], x[:, -1:].flip(0)], 1)
    batch, layer = (
        float((norm(other) - norm(x))[:, 0].abs().max())
        for norm in (
            lambda values: F.batch_norm(values.T, None, None, training=True, eps=EPSILON).T,
            lambda values: F.layer_norm(values.T, (len(values),), eps=EPSILON).T,
        )
    )
    return Measurement(
        "change of example 1 when the last example is turned upside down", "batch norm", batch, "layer norm", layer
    )


def describe_flat(x: Float[Tensor, "feature example"]) -> list[str]:
    """Say which features and examples have no variance, where only epsilon is divided by."""
    kinds = {"feature": x, "example": x.T}
    flat = [
        f"{kind} {number}"
        for kind, rows in kinds.items()
        for number, row in enumerate(rows, 1)
        if row.unique().numel() == 1
    ]
    verb = "has" if len(flat) == 1 else "have"
    return (
        [f"{', '.join(flat)} {verb} variance 0: {EPSILON:g} is added before the root, so 0 comes out"] if flat else []
    )
