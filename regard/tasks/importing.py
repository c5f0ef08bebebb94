"""Protocols of tasks that can use models of other libraries, with their heads and tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable


@runtime_checkable
class ImportsModels(Protocol):
    """A task that can use models trained with another library."""

    Recipe: ClassVar[Any]

    @staticmethod
    def checkpoint_files(shape: Any, tokenizer: Any, notes: Sequence[str] = (), **head: Any) -> dict[str, Any]:
        """Return the checkpoint files other than the weights."""


@runtime_checkable
class ImportsHeads(ImportsModels, Protocol):
    """A task that also takes over the labels of such a model."""

    @classmethod
    def holds(cls, shape: Any) -> bool:
        """True if a model of this config belongs to this task rather than to another with the same models."""


@runtime_checkable
class AddsTokens(Protocol):
    """A task that adds tokens to the vocabulary of a pre-trained model."""

    @staticmethod
    def added_token_ids(tokenizer: Any) -> Sequence[int]:
        """Return the ids of the tokens that the task added to a tokenizer."""


@runtime_checkable
class SaysUse(Protocol):
    """A task whose models are used in different ways, depending on their config."""

    @classmethod
    def use(cls, shape: Any) -> tuple[str, str]:
        """Return how to use such a model: the command, and the Python code."""
