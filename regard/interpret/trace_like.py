"""What pages and pictures read of a trace, so that a trace can show itself as one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from regard.interpret.items import Item, Weights
from regard.interpret.steps import Steps


@runtime_checkable
class TraceLike(Protocol):
    """What pages and pictures of a trace need of it; a trace shows itself as a page."""

    @property
    def model(self) -> str:
        """The name of the model."""

    @property
    def items(self) -> Mapping[str, Sequence[Item]]:
        """What looks and what is looked at."""

    @property
    def weights(self) -> Sequence[Weights]:
        """Those of every attention."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """What was read and what was answered."""

    @property
    def pictures(self) -> Mapping[str, Tensor]:
        """What items with a box are parts of, by the name of their list."""

    def find(self, name: str | None = None) -> Weights:
        """One attention."""

    def steps(self, names: Sequence[str] | None = None) -> Steps | None:
        """The vectors of every step."""
