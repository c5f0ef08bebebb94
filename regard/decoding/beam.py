"""Beam search: the few best beginnings of an answer, extended together until none can become better.

One round scores every next token of every live hypothesis and ranks them all, endings among the others. An ending
within the first `beams` is set aside as an answer; the best `beams` that go on are the next round's hypotheses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from regard.decoding.batch import stream
from regard.decoding.constraints import Constraint
from regard.decoding.lane import Group
from regard.decoding.ledger import Beam, BeamState
from regard.decoding.ranking import DEAD, Chosen, Front, advance, rank
from regard.decoding.stepper import Hypothesis, Stepper, limits

__all__ = ["STANDARD", "Beam", "Searching", "search"]
STANDARD = Beam()


@dataclass(frozen=True)
class Searching:
    """Tokens chosen by beam search, as a policy of a lane."""

    beam: Beam
    eos: int
    constraints: Sequence[Constraint] = ()
    draws: ClassVar[bool] = False

    @property
    def beams(self) -> int:
        """Hypotheses of an example side by side."""
        return self.beam.beams

    @property
    def key(self) -> tuple[Any, ...]:
        """All that the device knows of it."""
        return "search", self.beams, self.eos, list(self.constraints)

    @property
    def reorders(self) -> bool:
        """Whether a beam may go on from another one."""
        return self.beams > 1

    def first(self, batch: int, device: torch.device) -> Float[Tensor, "batch beam"]:
        """One empty hypothesis for each example."""
        total = torch.full((batch, self.beams), DEAD, device=device)
        total[:, 0] = 0.0  # beams start equal: let only the first one speak
        return total

    def choose(self, logits: Float[Tensor, "batch beam vocab"], front: Front) -> Chosen:
        """All that may come next, ranked, and the best that go on."""
        ranked = rank(logits, front, self.constraints, eos=self.eos)
        return Chosen(ranked, *advance(ranked, self.beams, eos=self.eos))

    @property
    def free(self) -> bool:
        """Whether nothing but scores decides."""
        return not self.constraints

    def choices(self, vocab: int) -> int:
        """Twice as many as beams, or all there are."""
        return self.beams * min(2, vocab)

    def choose_in_place(self, logits: Tensor, lines: Any, record: Tensor, clock: Tensor) -> None:
        """The same in one go by kernels."""
        from regard.decoding.kernels import choose

        choose(logits, lines.total, lines.tokens, lines.parents, record, clock, eos=self.eos)

    def book(self, limits: Sequence[int], longest: int | None = None) -> BeamState:
        """Answers so far and what may still become one."""
        return BeamState(self.beam, limits, eos=self.eos, longest=longest)


def search(
    model: Stepper,
    inputs: Sequence[Any],
    beam: Beam = STANDARD,
    *,
    limit: int | Sequence[int],
    eos: int | None,
    constraints: Sequence[Constraint] = (),
) -> list[list[Hypothesis]]:
    """The `nbest` best answers to each example, finished ones first, then by normalized score; fewer if no more exist.

    An answer has at most `limit` tokens, its end included; what has not ended by then is returned as unfinished, with
    its true score. An example's answers never depend on the batch it is in: it collects nothing once it is done.
    """
    policy = Searching(beam, -1 if eos is None else eos, tuple(constraints))
    return stream(model, [Group(inputs, limits(limit, len(inputs[0])))], policy)[0]
