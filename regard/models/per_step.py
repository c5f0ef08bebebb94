"""A recurrent network with an output at every step: N vectors in, N vectors out (Elman 1990)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.config.ranges import Share, Small, Vocabulary, Width, check_affordable
from regard.config.resuming import Warned
from regard.models.interface import Model, ModelConfig, Traits
from regard.models.parts.cells import CELLS, Kind, Layers


@dataclass(frozen=True, kw_only=True)
class PerStepConfig(ModelConfig):
    """Recurrent layers, then an answer."""

    name: Literal["rnn-per-step"] = "rnn-per-step"
    """Which model this is."""
    inputs: Vocabulary = 0
    """Numbers it is given at every step; filled in from the data."""
    outputs: Vocabulary = 0
    """Numbers it answers with at every step; filled in from the data."""
    cell: Kind = "lstm"
    """Recurrent cell."""
    width: Width = 100
    """Features of a layer's state."""
    depth: Small = 1
    """Recurrent layers on top of one another."""
    dropout: Warned[Share] = 0.0
    """Dropout rate between layers."""

    def __post_init__(self) -> None:
        layers = self.inputs + self.width + (self.depth - 1) * 2 * self.width
        check_affordable(
            CELLS[self.cell].gates * self.width * layers + self.width * self.outputs, "lower width or depth"
        )


class RecurrentPerStep(Model):
    """Recurrent layers with an output at every step; their states are its only memory."""

    traits = Traits(compilable=False)  # compilation would unroll all steps

    def __init__(self, config: PerStepConfig):
        super().__init__()
        self.config = config
        self.layers = Layers(config.cell, config.inputs, config.width, depth=config.depth, dropout=config.dropout)
        self.output = nn.Linear(config.width, config.outputs)

    def forward(self, vectors: Float[Tensor, "batch time inputs"]) -> Float[Tensor, "batch time outputs"]:
        """Return the logits of the outputs at every step."""
        with torch.autocast(vectors.device.type, enabled=False):
            return self.output(self.layers(vectors)[0])
