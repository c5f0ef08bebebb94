"""The multi-layer perceptron for regression or classification (Rumelhart, Hinton and Williams 1986)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.config.ranges import Share, Vocabulary, Width, check_affordable
from regard.config.resuming import Warned
from regard.models.interface import Model, ModelConfig, Traits


@dataclass(frozen=True, kw_only=True)
class PerceptronConfig(ModelConfig):
    """Plain layers one after another."""

    name: Literal["perceptron"] = "perceptron"
    """Which model this is."""
    inputs: Vocabulary = 0
    """Number of inputs; filled in from the table."""
    outputs: Vocabulary = 0
    """Number of outputs, one, or one for each class; filled in from the table."""
    hidden: tuple[Width, ...] = (64, 64)
    """Features of each layer in between; none makes it linear regression."""
    dropout: Warned[Share] = 0.0
    """Dropout rate of those features."""

    def __post_init__(self) -> None:
        sizes = (self.inputs, *self.hidden, self.outputs)
        check_affordable(sum(before * after for before, after in itertools.pairwise(sizes)), "lower hidden")


class Perceptron(Model):
    """`W2 relu(W1 x + b1) + b2`, with any number of such layers; in full precision."""

    traits = Traits(capturable=False)  # training is shorter than compilation

    def __init__(self, config: PerceptronConfig):
        super().__init__()
        self.config = config
        layers: list[nn.Module] = []
        for before, after in zip((config.inputs, *config.hidden), config.hidden, strict=False):
            layers += [nn.Linear(before, after), nn.ReLU(), nn.Dropout(config.dropout)]
        last = (config.inputs, *config.hidden)[-1]
        self.layers = nn.Sequential(*layers, nn.Linear(last, config.outputs))

    def forward(self, x: Float[Tensor, "batch inputs"]) -> Float[Tensor, "batch outputs"]:
        """Return the outputs for these rows."""
        with torch.autocast(x.device.type, enabled=False):
            return self.layers(x)
