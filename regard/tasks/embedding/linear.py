"""Multinomial logistic regression with an L2 penalty, fitted to convergence: a linear head on frozen vectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch.nn import functional as F

STEEPEST = 1e-7  # largest gradient of the mean loss at convergence
ROUNDS = 20  # of 500 iterations each


@dataclass(frozen=True)
class Head:
    """A linear classifier: weight vector and bias of every class."""

    weight: Float[np.ndarray, "class width"]
    bias: Float[np.ndarray, "class"]
    slope: float = 0.0
    """The largest absolute entry of the gradient at the end of the fit."""

    def probabilities(self, vectors: Float[np.ndarray, "text width"]) -> Float[np.ndarray, "text class"]:
        """Return the probability of each class for each vector."""
        scores = vectors.astype(np.float64) @ self.weight.T + self.bias
        scores -= scores.max(axis=1, keepdims=True)
        exponentials = np.exp(scores)
        return exponentials / exponentials.sum(axis=1, keepdims=True)


def fit(
    vectors: Float[np.ndarray, "text width"], labels: Int[np.ndarray, "text"], classes: int, *, penalty: float = 1.0
) -> Head:
    """Minimise the summed cross-entropy plus half the penalty times the squared weights; biases are not penalised.

    The minimum is unique, and computed in double precision by L-BFGS. For two classes the penalty is doubled, which
    makes the fit equal to binary logistic regression with a single weight vector.
    """
    inputs, truth = torch.from_numpy(vectors.astype(np.float64)), torch.from_numpy(labels.astype(np.int64))
    weight = torch.zeros(classes, vectors.shape[1], dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(classes, dtype=torch.float64, requires_grad=True)
    strength = penalty * (2.0 if classes == 2 else 1.0)

    def loss() -> torch.Tensor:
        surprise = F.cross_entropy(F.linear(inputs, weight, bias), truth, reduction="sum")
        return (surprise + 0.5 * strength * weight.square().sum()) / len(truth)

    optimizer = torch.optim.LBFGS(
        [weight, bias], max_iter=500, history_size=20, tolerance_grad=STEEPEST / 10, tolerance_change=0.0,
        line_search_fn="strong_wolfe",
    )  # fmt: skip

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    slope = float("inf")
    for _ in range(ROUNDS):
        optimizer.step(closure)  # type: ignore[arg-type]
        closure()
        assert weight.grad is not None
        assert bias.grad is not None
        slope = max(float(weight.grad.abs().max()), float(bias.grad.abs().max()))
        if slope <= STEEPEST:
            break
    centred = (bias - bias.mean()).detach()  # only differences of biases matter
    return Head(weight.detach().numpy(), centred.numpy(), slope)


def folds(labels: Int[np.ndarray, "text"], most: int = 5) -> list[Int[np.ndarray, "chosen"]]:
    """Return folds stratified by class, or none if a class has a single text."""
    counts = np.bincount(labels)
    count = min(most, int(counts[counts > 0].min()))
    if count < 2:
        return []
    ranks = np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        chosen = np.flatnonzero(labels == label)
        ranks[chosen] = np.arange(len(chosen)) % count
    return [np.flatnonzero(ranks == number) for number in range(count)]


def cross_validate(
    vectors: Float[np.ndarray, "text width"], labels: Int[np.ndarray, "text"], classes: int, *, penalty: float = 1.0
) -> Int[np.ndarray, "text"] | None:
    """Return the class of each text predicted by a head fitted to the other folds, or None without folds."""
    answers = np.empty(len(labels), np.int64)
    parts = folds(labels)
    for part in parts:
        others = np.setdiff1d(np.arange(len(labels)), part)
        head = fit(vectors[others], labels[others], classes, penalty=penalty)
        answers[part] = head.probabilities(vectors[part]).argmax(axis=1)
    return answers if parts else None
