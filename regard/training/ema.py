"""An exponential moving average of the weights, which scores better than the weights (Polyak and Juditsky 1992).

It is evaluated and saved as the best model in place of the weights, stored in checkpoints beside them, and restored to
the bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from regard.models.parts.batch_norm import statistics

EARLY = 10  # steps: until about then the average follows the quickly changing weights more closely


class MovingAverage:
    """The moving average of a model's trained parameters and of its norms' statistics; a decay of 0 disables it."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model, self.decay = model, decay
        self.weights = {name: weight.detach().clone() for name, weight in self._followed_weights()} if decay else {}

    @torch.no_grad()
    def follow(self, step: int) -> None:
        """Update the average with the weights after this step, counted from 1."""
        if self.weights:
            decay = min(self.decay, step / (EARLY + step))
            torch._foreach_lerp_(
                list(self.weights.values()), [weight for _, weight in self._followed_weights()], 1 - decay
            )

    @contextmanager
    def apply(self) -> Iterator[None]:
        """Replace the model's weights by the average, in place, within the block."""
        live_weights = (
            {name: weight.detach().clone() for name, weight in self._followed_weights()} if self.weights else {}
        )
        self._lay(self.weights)
        try:
            yield
        finally:
            self._lay(live_weights)

    def restore(self, weights: Mapping[str, Tensor]) -> None:
        """Restore a saved average; weights that it lacks start from their current values."""
        for name, weight in self._followed_weights() if self.weights else ():
            self.weights[name].copy_(weights.get(name, weight.detach()))

    def _followed_weights(self) -> Iterator[tuple[str, Tensor]]:
        yield from ((name, weight) for name, weight in self.model.named_parameters() if weight.requires_grad)
        yield from statistics(self.model).items()

    @torch.no_grad()
    def _lay(self, weights: Mapping[str, Tensor]) -> None:
        for name, weight in self._followed_weights() if weights else ():
            weight.copy_(weights[name])
