"""What others do while a model is trained: a callback is told of steps, evaluations and checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


class Callback:
    """Somebody who is told how a training goes; an error in a method ends the training.

    Of several processes only the first one tells it.
    """

    def on_step(self, step: int, metrics: Mapping[str, int | float]) -> None:
        """Take note of the loss, the learning rate and the speed since the last call.

        It is called every `training.log_every` steps, and before evaluations and checkpoints.
        """

    def on_evaluation(self, step: int, scores: Mapping[str, int | float]) -> None:
        """Take note of the scores on the data held out for validation."""

    def on_checkpoint(self, folder: Path) -> None:
        """Take note of a checkpoint that is safe on the disk."""
