"""Beam search: the best hypotheses of an answer are extended together until none can become better.

One round scores every next token of every live hypothesis and ranks them all, end tokens included. A hypothesis that
ends within the first `beams` is set aside as an answer; the best `beams` that go on are the next round's hypotheses.
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
from regard.decoding.search_tree import open_book
from regard.decoding.stepper import Hypothesis, Stepper, limits

__all__ = ["STANDARD", "Beam", "SearchPolicy", "search"]
STANDARD = Beam()


@dataclass(frozen=True)
class SearchPolicy:
    """The policy of a lane that chooses tokens by beam search."""

    beam: Beam
    eos: int
    constraints: Sequence[Constraint] = ()
    draws: ClassVar[bool] = False

    @property
    def beams(self) -> int:
        """The number of hypotheses of each example."""
        return self.beam.beams

    @property
    def key(self) -> tuple[Any, ...]:
        """The settings that a table on the device depends on."""
        return "search", self.beams, self.eos, list(self.constraints)

    @property
    def reorders(self) -> bool:
        """True if a beam may continue another one."""
        return self.beams > 1

    def first(self, batch: int, device: torch.device) -> Float[Tensor, "batch beam"]:
        """Return the initial scores: one empty hypothesis for each example."""
        total = torch.full((batch, self.beams), DEAD, device=device)
        total[:, 0] = 0.0  # all beams start equal, so only the first one is alive
        return total

    def choose(self, logits: Float[Tensor, "batch beam vocab"], front: Front) -> Chosen:
        """Rank all next tokens and choose the best hypotheses that go on."""
        ranked = rank(logits, front, self.constraints, eos=self.eos)
        return Chosen(ranked, *advance(ranked, self.beams, eos=self.eos))

    @property
    def free(self) -> bool:
        """True if tokens are chosen by scores alone."""
        return not self.constraints

    def choices(self, vocab: int) -> int:
        """Return the number of next tokens to rank: twice as many as beams, or all there are."""
        return self.beams * min(2, vocab)

    def choose_in_place(self, logits: Tensor, lines: Any, record: Tensor, clock: Tensor) -> None:
        """Choose the next hypotheses in place with Triton kernels, as `choose` does."""
        from regard.decoding.kernels import choose

        choose(logits, lines.total, lines.tokens, lines.parents, record, clock, eos=self.eos)

    def book(self, limits: Sequence[int], longest: int | None = None) -> BeamState:
        """Return the host state of the examples: their answers so far and their live hypotheses."""
        return open_book(self.beam, limits, eos=self.eos, longest=longest)


def search(
    model: Stepper,
    inputs: Sequence[Any],
    beam: Beam = STANDARD,
    *,
    limit: int | Sequence[int],
    eos: int | None,
    constraints: Sequence[Constraint] = (),
) -> list[list[Hypothesis]]:
    """Return the `nbest` best answers to each example, finished ones first, then by normalized score.

    There are fewer if no more exist. An answer has at most `limit` tokens, its end token included; one that has not
    ended by then is returned as unfinished, with its true score. The answers to an example do not depend on the batch
    it is in: it collects nothing once it is done.
    """
    policy = SearchPolicy(beam, -1 if eos is None else eos, tuple(constraints))
    return stream(model, [Group(inputs, limits(limit, len(inputs[0])))], policy)[0]
