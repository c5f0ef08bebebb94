"""What a task does for models of other libraries, as far as it does: takes them over, with their heads and tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable


@runtime_checkable
class ImportsModels(Protocol):
    """A task that can take over a model that another library trained."""

    Recipe: ClassVar[Any]

    @staticmethod
    def checkpoint_files(shape: Any, tokenizer: Any, notes: Sequence[str] = (), **head: Any) -> dict[str, Any]:
        """Return the files of a checkpoint, but for the weights."""


@runtime_checkable
class ImportsHeads(ImportsModels, Protocol):
    """A task that takes over the labels of such a model too."""

    @classmethod
    def holds(cls, shape: Any) -> bool:
        """True if a model of this shape belongs to this task, and not to another with such models."""


@runtime_checkable
class AddsTokens(Protocol):
    """A task that gives a pre-trained model tokens of its own."""

    @staticmethod
    def added_token_ids(own: Any) -> Sequence[int]:
        """Return the tokens that the task added to a tokenizer."""


@runtime_checkable
class SaysUse(Protocol):
    """A task whose models are used in different ways, by their shape."""

    @classmethod
    def use(cls, shape: Any) -> tuple[str, str]:
        """Return the command that uses such a model, and how Python does."""
