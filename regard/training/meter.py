"""Measurements between two reports, summed on the device until they are read."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from regard.training.distributed import ALONE, Team
from regard.training.task import Step


@dataclass
class Meter:
    """Sums since the last report."""

    began: float = field(default_factory=time.monotonic)
    losses: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, Any] = field(default_factory=dict)
    steps: int = 0

    def add(self, part: str, loss: Tensor, weight: Tensor) -> None:
        """Add the loss and weight of a part; both are zero for a failed step."""
        self.losses[part] = self.losses.get(part, 0) + loss
        self.weights[part] = self.weights.get(part, 0) + weight

    def count(self, steps: Iterable[Step]) -> None:
        """Add up what the task counts, once for all parts."""
        for step in steps:
            for name, count in step.counts.items():
                self.counts[name] = self.counts.get(name, 0) + count

    def read(self, team: Team = ALONE) -> tuple[dict[str, float], dict[str, float]]:
        """Return the values to show and the counts to add up; a loss without any weight is NaN."""
        counts = team.total({name: float(count) for name, count in self.counts.items()})
        single = len(self.losses) == 1
        values = {
            "loss" if single else f"{part}_loss": float(loss / self.weights[part]) for part, loss in self.losses.items()
        }
        for name in list(counts)[:1]:
            values[f"{name}_per_second"] = counts[name] / max(time.monotonic() - self.began, 1e-9)
        return values, counts
