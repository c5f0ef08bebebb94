"""Several models that share a vocabulary, decoded together: the mean of their probabilities of every next token.

`log p(y) = log (p_1(y) + ... + p_n(y)) / n`, an arithmetic mean as fairseq and the ensembles of convolutional
sequence-to-sequence models have it (Gehring et al. 2017).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.hardware import device_of
from regard.models.inference.fast_path import FastPath
from regard.models.interface import TokenModel


@dataclass(frozen=True)
class EnsembleSizes:
    """What decoding asks of the config of a model."""

    context: int
    """The longest sequence that all of the models read, in tokens."""


@dataclass(frozen=True)
class EnsembleState:
    """The decoding states of all members, with the decoder that advances each."""

    steppers: tuple[Any, ...]
    states: tuple[Any, ...]

    def reorder(self, parents: Int[Tensor, "batch beam"]) -> EnsembleState:
        """Let beam k continue beam `parents[k]`."""
        return EnsembleState(self.steppers, tuple(state.reorder(parents) for state in self.states))

    def keep(self, rows: Int[Tensor, "kept"]) -> EnsembleState:
        """Keep only these examples."""
        return EnsembleState(self.steppers, tuple(state.keep(rows) for state in self.states))

    def join(self, other: EnsembleState) -> EnsembleState:
        """Append the examples of another state, each at its own position."""
        pairs = zip(self.states, other.states, strict=True)
        return EnsembleState(self.steppers, tuple(state.join(added) for state, added in pairs))


class Ensemble(TokenModel):
    """Encoder-decoders with the same vocabulary, read and stepped side by side; its logits are log-probabilities."""

    def __init__(self, members: Sequence[Any]):
        super().__init__()
        self.members = nn.ModuleList(members)
        self.config = EnsembleSizes(min(int(member.config.context) for member in members))
        self._fast_paths = [FastPath(member) for member in members]

    @property
    def prediction(self) -> Float[Tensor, "vocab width"]:
        """The output matrix of the first model, which has one row per token of the vocabulary."""
        first: Any = self.members[0]
        return first.prediction

    def forward(self, *inputs: Tensor, **layouts: Any) -> Float[Tensor, "*target width"]:
        """Return the features of every target position, concatenated over all models."""
        return torch.cat([member(*inputs, **layouts) for member in self.members], -1)

    def logits(self, features: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch vocab"]:
        """Log-probabilities of every next token, from the features of all models."""
        models: list[Any] = list(self.members)
        parts = features.split([model.prediction.shape[1] for model in models], -1)
        return average_probabilities([model.logits(part) for model, part in zip(models, parts, strict=True)])

    @torch.no_grad()
    def start(
        self, *inputs: Tensor, beams: int = 1, limit: int
    ) -> tuple[Float[Tensor, "batch beam vocab"], EnsembleState]:
        """Read the source and the beginning of the target with every model."""
        steppers = self._choose_steppers(len(inputs[0]))
        started = [stepper.start(*inputs, beams=beams, limit=limit) for stepper in steppers]
        states = tuple(state for _, state in started)
        return average_probabilities([logits for logits, _ in started]), EnsembleState(steppers, states)

    @torch.no_grad()
    def step(
        self, tokens: Int[Tensor, "batch beam"], state: EnsembleState
    ) -> tuple[Float[Tensor, "batch beam vocab"], EnsembleState]:
        """Feed one more token to every beam of every model."""
        pairs = zip(state.steppers, state.states, strict=True)
        stepped = [stepper.step(tokens, member_state) for stepper, member_state in pairs]
        states = tuple(member_state for _, member_state in stepped)
        return average_probabilities([logits for logits, _ in stepped]), EnsembleState(state.steppers, states)

    def _choose_steppers(self, examples: int) -> tuple[Any, ...]:
        """Return the decoder of each member: its fast path on a CPU, the member itself on a GPU."""
        if device_of(self).type != "cpu":
            return tuple(self.members)
        return tuple(path(examples) for path in self._fast_paths)


def average_probabilities(logits: Sequence[Float[Tensor, "*batch vocab"]]) -> Float[Tensor, "*batch vocab"]:
    """Return the logarithm of the mean of the probabilities that several models give to every token."""
    log_probabilities = [model_logits.float().log_softmax(-1) for model_logits in logits]
    return reduce(torch.logaddexp, log_probabilities) - math.log(len(log_probabilities))
