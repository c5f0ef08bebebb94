"""What the training loop needs to know of something that can be learnt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from torch import Tensor, nn

Thing = TypeVar("Thing")


@dataclass(frozen=True)
class Step:
    """What a task says of one row: the loss summed over what it counts, how much that is, and what to report."""

    loss: Tensor
    weight: int | float | Tensor
    counts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluation:
    """Scores by name, and a few answers to look at."""

    metrics: Mapping[str, int | float]
    samples: list[dict[str, Any]] = field(default_factory=list)


@runtime_checkable
class Task(Protocol):
    """What the loop needs to know of something that can be learnt.

    Two methods more are used where there are any: `origins(batch) -> list[str]`, where its examples come from (such as
    `train.fr:1042`), longest first; and `split(batch) -> list`, its halves, or only itself when it is one example.
    """

    model: nn.Module
    goal: tuple[str, Literal["max", "min"]]
    rows: int

    def parts(self) -> dict[str, list[nn.Parameter]]:
        """The parameters of each optimizer, stepped in this order."""

    def batch(self, row: int) -> Any:
        """The data of a row, a pure function of its number; rows count on across epochs."""

    def step(self, batch: Any, part: str) -> Step:
        """The loss that this part's parameters should lower."""

    def evaluate(self) -> Evaluation:
        """How good the model is now."""

    def contents(self) -> dict[str, Any]:
        """The files of a checkpoint beside weights, metrics and manifest."""


def evenly(things: Sequence[Thing], count: int) -> Sequence[Thing]:
    """So many of the things, always the same, from all parts of the list: corpora stand there one after the other."""
    if count >= len(things):
        return things
    return [things[(2 * place + 1) * len(things) // (2 * count)] for place in range(count)]
