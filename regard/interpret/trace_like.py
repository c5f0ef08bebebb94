"""The interface of a trace for pages and plots, so that a trace can display itself without an import cycle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from regard.interpret.items import Item, Weights
from regard.interpret.steps import Steps


@runtime_checkable
class TraceLike(Protocol):
    """The part of a trace that pages and plots use."""

    @property
    def model(self) -> str:
        """The name of the model."""

    @property
    def items(self) -> Mapping[str, Sequence[Item]]:
        """Return the items that attend and are attended to, by the name of their list."""

    @property
    def weights(self) -> Sequence[Weights]:
        """Return the weights of every attention."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Return what was read and what was answered."""

    @property
    def pictures(self) -> Mapping[str, Tensor]:
        """Return the images whose regions are attended items, by the name of the item list."""

    def find(self, name: str | None = None) -> Weights:
        """Return the weights of one attention."""

    def steps(self, names: Sequence[str] | None = None) -> Steps | None:
        """Return the intermediate results of every step."""
