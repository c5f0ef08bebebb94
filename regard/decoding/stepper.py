"""What decoding knows of a model: how to start it, how to step it, and how its state moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor


@runtime_checkable
class State(Protocol):
    """What a model remembers between steps; its memory belongs to its newest descendant."""

    def reorder(self, parents: Int[Tensor, "batch beam"]) -> State:
        """Beam k of an example continues what its beam `parents[k]` was."""
        ...

    def keep(self, rows: Int[Tensor, "kept"]) -> State:
        """Only these examples go on."""
        ...

    def join(self, other: Any) -> State:
        """The examples of another state appended, each at its own position."""
        ...


@runtime_checkable
class Stepper(Protocol):
    """A model that writes one token at a time; the beams of an example are an axis beside the batch."""

    def start(self, *inputs: Any, beams: int, limit: int) -> tuple[Float[Tensor, "batch beam vocab"], Any]:
        """Read the inputs; answer with the scores of the first token and a state with room for `limit` tokens."""
        ...

    def step(self, tokens: Int[Tensor, "batch beam"], state: Any) -> tuple[Float[Tensor, "batch beam vocab"], Any]:
        """Feed one token to every beam; answer with the scores of the next one."""
        ...


@runtime_checkable
class Fixed(State, Protocol):
    """A state whose tensors stay where they are: stepping and reordering write into them, and answer with the same."""

    def blank(self, rows: int, limit: int) -> Fixed:
        """A state like this one with so many rows that nobody has taken, and room for `limit` tokens."""
        ...

    def put(self, rows: Int[Tensor, "taken"], other: Any) -> None:
        """The examples of another state take these rows."""
        ...


@runtime_checkable
class Replayable(Stepper, Protocol):
    """A model with fixed states: its rounds can run ahead of the host, and a GPU can replay them."""

    tables: list[Any]
    """Rows and graphs of earlier searches: whoever owns the model owns them, and they die with it."""

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        ...


@runtime_checkable
class Measured(Stepper, Protocol):
    """A model that says beforehand how much memory an example takes."""

    def row_bytes(self, *, beams: int, written: int, prompt: int = 0, read: int = 0) -> int:
        """Return the memory of an answer of `written` tokens that goes on from a prompt and is about what was read."""
        ...


class Watcher(Protocol):
    """Collects the weights of attention of one search, step by step."""

    model: Any
    """The model that shows them."""

    def collect(self) -> AbstractContextManager[None]:
        """Collect what runs inside the block."""
        ...

    def weights(self, hypothesis: Any) -> Mapping[str, Tensor]:
        """Return the weights along the path of an answer, by the names of attentions."""
        ...

    def split_examples(self) -> Mapping[str, Sequence[Tensor]]:
        """Return the weights of one pass over several examples, by the names of attentions."""
        ...


@dataclass(frozen=True)
class Hypothesis:
    """One answer of a search."""

    tokens: list[int]
    """What was written, without the end token."""
    score: float
    """Its log-probability under the model, the end token included when it is finished."""
    path: list[int]
    """The beam it was in when each of its tokens was fed back; a token that was never fed has none."""
    finished: bool
    """Whether it ended by itself, rather than at its limit or where no constraint let it go on."""
    normalized: float
    """The score it was ranked by."""
    weights: Mapping[str, Tensor] | None = field(default=None, compare=False, repr=False)
    """Where each attention looked as it was written, (heads, query, key) by name; None unless asked for."""
    token_scores: tuple[float, ...] = field(default=(), compare=False, repr=False)
    """The log-probability of each token of an answer that was scored."""
    choices: tuple[Sequence[tuple[int, float]], ...] = field(default=(), compare=False, repr=False)
    """The likeliest tokens at each place of an answer that was scored, with their log-probabilities."""


def limits(limit: int | Sequence[int], examples: int) -> list[int]:
    """The most tokens each example may be given, the end token included."""
    per_example = [limit] * examples if isinstance(limit, int) else list(limit)
    if len(per_example) != examples:
        raise ValueError(f"{len(per_example)} limits for {examples} examples: give one each, or one number for all")
    if per_example and min(per_example) < 1:
        raise ValueError(f"limit {min(per_example)} leaves no room for a single token: give at least 1")
    return per_example


def most(limit: int | Sequence[int]) -> int:
    """The room that the longest answer may need."""
    return limit if isinstance(limit, int) else max(limit, default=1)
