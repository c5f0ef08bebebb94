"""A small recurrent language model trained by hand: back-propagation through time in numpy, held against autograd."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from regard.lab import bptt_numpy as bptt
from regard.lab.bptt_numpy import Weights
from regard.lab.demonstration import Chart, Demonstration, Measurement

LEAST = 1e-12  # what counts as nothing in a relative difference


@dataclass(frozen=True)
class TrainingResult:
    """The results of training with gradients computed by hand."""

    losses: list[float]
    """Nats per character before every step, and after the last."""
    differences: dict[str, float]
    """By weight, the largest difference between the derivatives by hand and those of autograd, relative to them."""
    cut: dict[str, float]
    """The same where autograd does not pass gradients from one state to the one before."""
    written: str
    """What the model writes at the end, each time the likeliest character."""


def learn(text: str, *, width: int = 16, steps: int = 200, rate: float = 0.1, seed: int = 0) -> TrainingResult:
    """Train on one line of text by gradient descent, and compare the gradients with those of autograd."""
    if len(set(text)) < 2:
        raise ValueError(f"{text!r} has nothing to predict: give a text with at least two different characters")
    letters = sorted(set(text))
    numbers = [letters.index(letter) for letter in text]
    tokens, targets = numbers[:-1], numbers[1:]
    weights = Weights.draw(len(letters), width, np.random.default_rng(seed))
    differences = compare_gradients(weights, tokens, targets)
    losses, trained_from = [], weights
    for _ in range(steps):
        step_loss, weights = bptt.step(weights, tokens, targets, rate=rate / len(tokens))
        losses.append(step_loss / len(tokens))
    losses.append(bptt.loss(bptt.forward(weights, tokens).y, targets) / len(tokens))
    cut = compare_gradients(trained_from, tokens, targets, cut=True)
    return TrainingResult(
        losses, differences, cut, "".join(letters[index] for index in write(weights, tokens[0], len(text)))
    )


def measure_agreement(lesson: TrainingResult) -> Measurement:
    """Compare the hand-written gradient of V with autograd's, and with autograd's truncated after one step."""
    quantity = "largest relative difference of the derivatives of V"
    return Measurement(quantity, "cut between the steps", lesson.cut["V"], "autograd", lesson.differences["V"])


def show_losses(lesson: TrainingResult) -> Demonstration:
    """Return the losses as a chart, with the comparison of gradients."""
    steps = list(range(len(lesson.losses)))
    label = "nats per character"
    chart = Chart("Gradient descent by hand", "step", label, steps, {"loss": lesson.losses}, y_scale="log")
    return Demonstration("Back-propagation through time by hand", [measure_agreement(lesson)], charts=[chart])


def compare_gradients(
    weights: Weights, tokens: list[int], targets: list[int], *, cut: bool = False
) -> dict[str, float]:
    """Return the largest relative difference from autograd by weight; `cut` detaches the state between steps."""
    by_hand = bptt.backward(weights, tokens, targets, bptt.forward(weights, tokens))
    leaves = [torch.from_numpy(tensor.copy()).requires_grad_() for tensor in weights]
    W, V, b, U, c = leaves
    h, total = torch.zeros_like(b), torch.zeros((), dtype=torch.float64)
    for token, target in zip(tokens, targets, strict=True):
        h = torch.tanh(W[:, token] + V @ (h.detach() if cut else h) + b)
        total = total - torch.log_softmax(U @ h + c, -1)[target]
    theirs = [tensor.numpy() for tensor in torch.autograd.grad(total, leaves)]
    pairs = zip(Weights._fields, by_hand, theirs, strict=True)
    return {name: float(np.abs(a - b).max() / max(np.abs(b).max(), LEAST)) for name, a, b in pairs}


def write(weights: Weights, first: int, length: int) -> list[int]:
    """Generate tokens greedily after the first one."""
    state, tokens = None, [first]
    while len(tokens) < length:
        read = bptt.forward(weights, tokens[-1:], state)
        state = read.h[-1]
        tokens.append(int(read.y[-1].argmax()))
    return tokens
