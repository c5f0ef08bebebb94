"""Callbacks, which are notified of steps, evaluations and checkpoints during training."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


class Callback:
    """The base class of callbacks during training; an error in a method ends the training.

    With several processes, only the first one calls it.
    """

    def on_step(self, step: int, metrics: Mapping[str, int | float]) -> None:
        """Receive the loss, the learning rate and the speed since the last call.

        It is called every `training.log_every` steps, and before evaluations and checkpoints.
        """

    def on_evaluation(self, step: int, scores: Mapping[str, int | float]) -> None:
        """Receive the scores on the validation data."""

    def on_checkpoint(self, folder: Path) -> None:
        """Receive the folder of a checkpoint that has been saved."""
