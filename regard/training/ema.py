"""An exponential moving average of the weights, which scores better than the weights it follows.

Polyak and Juditsky 1992. It is evaluated and kept as the best model in place of the weights, saved with them, and
resumed to the bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from regard.models.parts.batch_norm import statistics

EARLY = 10  # steps: at first the average follows the weights closely, since they have hardly begun


class MovingAverage:
    """The running mean of a model's parameters and of the statistics of its norms; a decay of 0 keeps none."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model, self.decay = model, decay
        self.weights = {name: weight.detach().clone() for name, weight in self._followed_weights()} if decay else {}

    @torch.no_grad()
    def follow(self, step: int) -> None:
        """Take in the weights after this step, counted from 1."""
        if self.weights:
            decay = min(self.decay, step / (EARLY + step))
            torch._foreach_lerp_(
                list(self.weights.values()), [weight for _, weight in self._followed_weights()], 1 - decay
            )

    @contextmanager
    def apply(self) -> Iterator[None]:
        """The model with the average as its weights, written where they are, as long as the block lasts."""
        live_weights = (
            {name: weight.detach().clone() for name, weight in self._followed_weights()} if self.weights else {}
        )
        self._lay(self.weights)
        try:
            yield
        finally:
            self._lay(live_weights)

    def restore(self, weights: Mapping[str, Tensor]) -> None:
        """Be as it was saved; a run that had none begins with the weights it has now."""
        for name, weight in self._followed_weights() if self.weights else ():
            self.weights[name].copy_(weights.get(name, weight.detach()))

    def _followed_weights(self) -> Iterator[tuple[str, Tensor]]:
        yield from ((name, weight) for name, weight in self.model.named_parameters() if weight.requires_grad)
        yield from statistics(self.model).items()

    @torch.no_grad()
    def _lay(self, weights: Mapping[str, Tensor]) -> None:
        for name, weight in self._followed_weights() if weights else ():
            weight.copy_(weights[name])
