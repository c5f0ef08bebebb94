"""A recurrent language model and its back-propagation through time, written out in numpy with nothing hidden.

    h_t = tanh(W x_t + V h_(t-1) + b)      x_t: one token as a vector of zeros and a single one
    y_t = softmax(U h_t + c)               what comes next, as probabilities
    E   = sum over t of -log y_t[target_t]

Autograd does all of this by itself; here every derivative stands in the open, and a test holds the two equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

CLIP = 5.0  # largest single derivative that is let through


class Weights(NamedTuple):
    """The parameters of the network; gradients have the same fields and shapes."""

    W: Float[ndarray, "width vocab"]
    V: Float[ndarray, "width width"]
    b: Float[ndarray, "width"]
    U: Float[ndarray, "vocab width"]
    c: Float[ndarray, "vocab"]

    @classmethod
    def draw(cls, vocab: int, width: int, generator: np.random.Generator) -> Weights:
        """Initialise all parameters from a normal distribution with standard deviation 1 / sqrt(width)."""
        shapes = ((width, vocab), (width, width), (width,), (vocab, width), (vocab,))
        return cls(*(generator.normal(scale=width**-0.5, size=shape) for shape in shapes))

    def __add__(self, other: Weights) -> Weights:  # type: ignore[override]
        """Return the sum, parameter by parameter; the gradient of two samples is the sum of their gradients."""
        return Weights(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


class Activations(NamedTuple):
    """The hidden states and outputs of a forward pass, as the backward pass needs them."""

    h: Float[ndarray, "times width"]
    """States, the one before the first token included."""
    y: Float[ndarray, "tokens vocab"]


def forward(weights: Weights, tokens: Sequence[int], first: Float[ndarray, "width"] | None = None) -> Activations:
    """Run the network over the tokens, starting from the hidden state `first`, by default zeros."""
    W, V, b, U, c = weights
    h, y = [np.zeros_like(b) if first is None else first], []
    for token in tokens:
        h.append(np.tanh(W[:, token] + V @ h[-1] + b))  # W times a one-hot vector is a column of W
        y.append(softmax(U @ h[-1] + c))
    return Activations(np.stack(h), np.stack(y))


def loss(y: Float[ndarray, "tokens vocab"], targets: Sequence[int]) -> float:
    """Return the cross-entropy of the targets, summed over the tokens."""
    return float(-sum(np.log(y[t, target]) for t, target in enumerate(targets)))


def backward(weights: Weights, tokens: Sequence[int], targets: Sequence[int], read: Activations) -> Weights:
    """Return the gradient of the loss, computed by back-propagation through time.

    Each state is blamed twice: by the prediction made from it, and by all states after it.
    """
    _, V, _, U, _ = weights
    gradient = Weights(*(np.zeros_like(weight) for weight in weights))
    later = np.zeros(V.shape[0])  # dE/dh_t by what comes after t
    for t in reversed(range(len(tokens))):
        y, h, before = read.y[t], read.h[t + 1], read.h[t]
        by_y = np.zeros_like(y)
        by_y[targets[t]] = -1 / y[targets[t]]  # E has one term in y_t: -log y_t[target]
        by_score = softmax_jacobian(y) @ by_y  # the same as y minus the one-hot target
        by_h = U.T @ by_score + later
        by_sum = (1 - h**2) * by_h  # tanh' = 1 - tanh^2
        gradient.U[:] += np.outer(by_score, h)
        gradient.c[:] += by_score
        gradient.W[:, tokens[t]] += by_sum
        gradient.V[:] += np.outer(by_sum, before)
        gradient.b[:] += by_sum
        later = V.T @ by_sum
    return gradient


def softmax(scores: Float[ndarray, "vocab"]) -> Float[ndarray, "vocab"]:
    """Return the softmax, computed after subtracting the largest score so that exp stays finite."""
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


def softmax_jacobian(y: Float[ndarray, "vocab"]) -> Float[ndarray, "vocab vocab"]:
    """Return the Jacobian of the softmax, `diag(y) - y y'`."""
    return np.diag(y) - np.outer(y, y)


def clip(gradient: Weights, bound: float = CLIP) -> Weights:
    """Clip every element of the gradient to [-bound, bound], against exploding gradients."""
    return Weights(*(np.clip(part, -bound, bound) for part in gradient))


def step(weights: Weights, tokens: Sequence[int], targets: Sequence[int], *, rate: float) -> tuple[float, Weights]:
    """Take one step of gradient descent; return the loss before it and the new weights."""
    read = forward(weights, tokens)
    gradient = clip(backward(weights, tokens, targets, read))
    after = Weights(*(mine - rate * slope for mine, slope in zip(weights, gradient, strict=True)))
    return loss(read.y, targets), after
