"""Beam search: the few best beginnings of an answer, extended together until none can become better.

One round scores every next token of every live hypothesis and ranks them all, endings among the others. An ending
within the first `beams` is set aside as an answer; the best `beams` that go on are the next round's hypotheses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from regard.decoding import engine
from regard.decoding.batching import staying
from regard.decoding.constraints import Constraint
from regard.decoding.ledger import Beam, Ledger, Round
from regard.decoding.ranking import Front, advance, rank
from regard.decoding.stepper import Hypothesis, Stepper, limits, most

__all__ = ["STANDARD", "Beam", "search"]
STANDARD = Beam()


@torch.no_grad()
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
    if engine.fit(model) and not constraints:
        return engine.search(model, inputs, beam, limit=limit, eos=eos)
    end = -1 if eos is None else eos
    logits, state = model.start(*inputs, beams=beam.beams, limit=most(limit))
    ledger = Ledger(beam, limits(limit, len(logits)), eos=end)
    for constraint in constraints:
        constraint.check(len(logits), logits.shape[-1])
    front, rows = Front.first(logits), np.arange(len(logits))
    while True:
        ranked = rank(logits.float(), front, constraints, eos=end)
        ledger.record(rows, Round.of(ranked))
        stay = staying(ledger.going[rows].tolist())
        if stay == []:
            return ledger.answers(np.arange(len(ledger.limit)))
        total, parents, tokens = advance(ranked, beam.beams, eos=end)
        front = front.extend(total, parents, tokens)
        if stay is not None:
            kept = torch.tensor(stay, device=logits.device)
            state, front, parents, rows = state.keep(kept), front.keep(kept), parents[kept], rows[stay]
        logits, state = model.step(front.written[..., -1], state.reorder(parents))
