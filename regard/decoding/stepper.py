"""Protocols between decoding and models: start a model, step it, and reorder its state."""

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
    """The state of a model between steps; its memory belongs to the newest state derived from it."""

    def reorder(self, parents: Int[Tensor, "batch beam"]) -> State:
        """Let beam k of each example continue its beam `parents[k]`."""
        ...

    def keep(self, rows: Int[Tensor, "kept"]) -> State:
        """Keep only these examples."""
        ...

    def join(self, other: Any) -> State:
        """Append the examples of another state, each at its own position."""
        ...


@runtime_checkable
class Stepper(Protocol):
    """A model that generates one token at a time; the beams of an example are an axis beside the batch."""

    def start(self, *inputs: Any, beams: int, limit: int) -> tuple[Float[Tensor, "batch beam vocab"], Any]:
        """Read the inputs; return the logits of the first token and a state with room for `limit` tokens."""
        ...

    def step(self, tokens: Int[Tensor, "batch beam"], state: Any) -> tuple[Float[Tensor, "batch beam vocab"], Any]:
        """Feed one token to every beam; return the logits of the next one and the new state."""
        ...


@runtime_checkable
class Fixed(State, Protocol):
    """A state whose tensors stay in place: stepping and reordering write into them and return the same state."""

    def blank(self, rows: int, limit: int) -> Fixed:
        """Return a state like this one with `rows` free rows and room for `limit` tokens."""
        ...

    def put(self, rows: Int[Tensor, "taken"], other: Any) -> None:
        """Write the examples of another state into these rows."""
        ...


@runtime_checkable
class Replayable(Stepper, Protocol):
    """A model with fixed states: its rounds can run ahead of the host, and a GPU can replay them as graphs."""

    tables: list[Any]
    """Rows and graphs of earlier searches, which belong to the model and are freed with it."""

    @property
    def device(self) -> torch.device:
        """The device on which the model runs."""
        ...


@runtime_checkable
class Measured(Stepper, Protocol):
    """A model that can tell beforehand how much memory an example takes."""

    def row_bytes(self, *, beams: int, written: int, prompt: int = 0, read: int = 0) -> int:
        """Return the bytes of memory of an answer of `written` tokens after a prompt and `read` source tokens."""
        ...


class Watcher(Protocol):
    """Collects the attention weights of one search, step by step."""

    model: Any
    """The model whose attention is collected."""

    def collect(self) -> AbstractContextManager[None]:
        """Collect the weights of all that runs inside the `with` block."""
        ...

    def weights(self, hypothesis: Any) -> Mapping[str, Tensor]:
        """Return the weights along the path of an answer, by the name of the attention."""
        ...

    def split_examples(self) -> Mapping[str, Sequence[Tensor]]:
        """Return the weights of one pass over several examples, by the name of the attention."""
        ...


@dataclass(frozen=True)
class Hypothesis:
    """One answer of a search."""

    tokens: list[int]
    """The generated tokens, without the end token."""
    score: float
    """The log-probability of the answer, including the end token if it is finished."""
    path: list[int]
    """The beam of the hypothesis at each step in which one of its tokens was fed back."""
    finished: bool
    """True if it ended with the end token, rather than at its limit or for lack of an allowed token."""
    normalized: float
    """The score used for ranking."""
    weights: Mapping[str, Tensor] | None = field(default=None, compare=False, repr=False)
    """Attention weights during generation, (heads, query, key) by name; None unless requested."""
    token_scores: tuple[float, ...] = field(default=(), compare=False, repr=False)
    """The log-probability of each token of a scored target."""
    choices: tuple[Sequence[tuple[int, float]], ...] = field(default=(), compare=False, repr=False)
    """The most probable tokens at each position of a scored target, with their log-probabilities."""


def limits(limit: int | Sequence[int], examples: int) -> list[int]:
    """Return the maximum number of tokens of each example, the end token included."""
    per_example = [limit] * examples if isinstance(limit, int) else list(limit)
    if len(per_example) != examples:
        raise ValueError(f"{len(per_example)} limits for {examples} examples: give one each, or one number for all")
    if per_example and min(per_example) < 1:
        raise ValueError(f"limit {min(per_example)} leaves no room for a single token: give at least 1")
    return per_example


def most(limit: int | Sequence[int]) -> int:
    """Return the largest limit."""
    return limit if isinstance(limit, int) else max(limit, default=1)
