"""Requests: the input of one example and how to decode it; all that may differ between two answers belongs to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.decoding.batching import round_up
from regard.decoding.constraints import Constraint
from regard.decoding.ledger import Beam
from regard.decoding.sampling import Distribution


@dataclass(frozen=True, kw_only=True)
class Sampling(Distribution):
    """Settings of sampling: each next token is drawn at random."""

    samples: int = 1
    """Number of independent samples."""

    def __post_init__(self) -> None:
        """Check that at least one sample is requested."""
        super().__post_init__()
        if self.samples < 1:
            raise ValueError(f"{self.samples} samples: ask for at least 1")


@dataclass(frozen=True)
class Score:
    """Settings of scoring: nothing is generated, the log-probabilities of given targets are returned."""

    targets: Sequence[Sequence[int]]
    top: int = 0
    """Number of most probable tokens to return at each position of a target."""

    def __post_init__(self) -> None:
        """Check that every target has tokens and that `top` is not negative."""
        if not self.targets or not all(self.targets):
            raise ValueError("an answer of no tokens has no score: give at least one token in each target")
        if self.top < 0:
            raise ValueError(f"the {self.top} likeliest tokens: ask for 0 or more")


How = Beam | Sampling | Score
STANDARD = Beam()


@dataclass(frozen=True, eq=False, kw_only=True)
class Request:
    """One example and how to decode it."""

    inputs: tuple[Tensor, ...]
    """The inputs of the model's `start` without the batch axis: tokens, their number, features."""
    limit: int
    """Most tokens of an answer, including the end token."""
    how: How = STANDARD
    rules: tuple[Constraint, ...] = ()
    """Constraints on the answer."""
    seed: int = 0
    """Random seed."""
    weights: bool | tuple[str, ...] = False
    """True to return all attention weights, or the names of the attentions whose weights to return.

    Such a request is decoded alone, without the fast path.
    """

    def __post_init__(self) -> None:
        """Check that the limit leaves room for a token and that no input is empty."""
        if self.limit < 1:
            raise ValueError(f"limit {self.limit} leaves no room for a single token: give at least 1")
        if not self.inputs or any(tensor.dim() and not len(tensor) for tensor in self.inputs):
            raise ValueError("a request without input: give a source or a beginning of at least one token")

    @property
    def attention_names(self) -> tuple[str, ...] | None:
        """The names of the attentions whose weights are requested; None for all of them."""
        return self.weights if isinstance(self.weights, tuple) else None

    @property
    def longest(self) -> int:
        """The maximum number of tokens of an answer: the limit, or the longest target when scoring."""
        return max(map(len, self.how.targets)) if isinstance(self.how, Score) else self.limit

    @property
    def prompt(self) -> int:
        """The number of prompt tokens: the length of the last input that is a row of tokens."""
        return next((len(tensor) for tensor in reversed(self.inputs) if tensor.dim() == 1), 0)

    @property
    def source(self) -> int:
        """The number of source tokens or regions: the lengths of all other inputs."""
        rows = [len(tensor) for tensor in self.inputs if tensor.dim()]
        return sum(rows) - self.prompt

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes that requests must share to be batched; an input that may be padded counts as (0,)."""
        return tuple(
            (0,) if padded else tuple(tensor.shape) for tensor, padded in zip(self.inputs, self.padded, strict=True)
        )

    @property
    def padded(self) -> list[bool]:
        """True for each input that may be padded, because its length follows it as a scalar input."""
        return [
            bool(tensor.dim()) and place + 1 < len(self.inputs) and not self.inputs[place + 1].dim()
            for place, tensor in enumerate(self.inputs)
        ]


def stack_inputs(
    requests: Sequence[Request], step: int = 1, *, least: int = 0, most: int | None = None
) -> tuple[Tensor, ...]:
    """Return the inputs of requests of the same shapes as one batch.

    Rows of tokens are padded at their end to a multiple of `step`, but not beyond `most` tokens, and to at least
    `least`.
    """
    columns = zip(*(request.inputs for request in requests), strict=True)
    return tuple(
        _pad(column, step, least, most) if padded else torch.stack(list(column))
        for column, padded in zip(columns, requests[0].padded, strict=True)
    )


def _pad(rows: Sequence[Tensor], step: int, least: int, most: int | None) -> Tensor:
    batch = pad_sequence(list(rows), batch_first=True)
    size = round_up(batch.shape[1], step)
    missing = max(least, batch.shape[1], size if most is None else min(size, most)) - batch.shape[1]
    return torch.cat([batch, batch.new_zeros(len(batch), missing, *batch.shape[2:])], 1) if missing else batch
