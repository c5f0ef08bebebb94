"""Runners, which compute the outputs of a trained model with PyTorch or another engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from regard.attention.hardware import device_of


@dataclass(frozen=True)
class Weights:
    """Number of weights and their memory."""

    number: int
    bytes: int


@runtime_checkable
class Runner(Protocol):
    """Computes the outputs of a model for a batch on its device."""

    @property
    def device(self) -> torch.device:
        """The device of batches and outputs."""

    @property
    def weights(self) -> Weights:
        """Number and memory of the weights."""

    def __call__(self, *batch: Any, **settings: Any) -> Any:
        """Return what the model's `forward` returns for this batch."""


@dataclass(frozen=True)
class TorchRunner:
    """Runs a model with PyTorch."""

    model: nn.Module

    @property
    def device(self) -> torch.device:
        """The device of the model's weights."""
        return device_of(self.model)

    @property
    def weights(self) -> Weights:
        """Number and memory of the model's parameters."""
        parameters = list(self.model.parameters())
        return Weights(sum(weight.numel() for weight in parameters), sum(weight.nbytes for weight in parameters))

    def __call__(self, *batch: Any, **settings: Any) -> Any:
        """Return the outputs of the model."""
        return self.model(*batch, **settings)


@contextmanager
def evaluation_runner(model: nn.Module) -> Iterator[TorchRunner]:
    """Yield a runner of a model in evaluation mode, without gradients; restore the training mode afterwards."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield TorchRunner(model)
    finally:
        model.train(training)
