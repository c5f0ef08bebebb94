"""Writing one token after another, the best or a random one, several answers side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.decoding.batching import staying
from regard.decoding.constraints import Constraint, Goal, constrain
from regard.decoding.sampling import Sampler, draw
from regard.decoding.stepper import Hypothesis, Stepper, limits, most

UNWRITTEN = Hypothesis([], 0.0, [], False, 0.0)


@torch.no_grad()
def generate(
    model: Stepper,
    inputs: Sequence[Any],
    *,
    limit: int | Sequence[int],
    eos: int | None,
    pick: Sampler | None = None,
    samples: int = 1,
    constraints: Sequence[Constraint] = (),
) -> list[list[Hypothesis]]:
    """`samples` answers to each example, in no order, by the best token each time or as `pick` draws it.

    Their scores are log-probabilities under the model itself, whatever temperature or filter the draw was made with.
    An answer has at most `limit` tokens, its end included.
    """
    if any(isinstance(constraint, Goal) for constraint in constraints):
        raise ValueError("forced phrases cannot be aimed at one token at a time: use a beam search")
    if samples < 1:
        raise ValueError(f"{samples} samples of each example: ask for at least 1")
    logits, state = model.start(*inputs, beams=samples, limit=most(limit))
    draft = _Draft.blank(logits, limits(limit, len(logits)))
    for constraint in constraints:
        constraint.check(len(logits), logits.shape[-1])
    noise = None if pick is None else pick.noise(draft.room.tolist(), samples).to(logits.device)
    while True:
        logits, length = logits.float(), draft.written.shape[-1]
        scores = constrain(logits, constraints, draft.written, draft.rows, -1 if eos is None else eos)
        if pick is None or noise is None:
            tokens = scores.argmax(-1)
        else:
            tokens = draw(pick.warp(scores), noise[draft.rows, :, length])
        draft.extend(
            tokens, gain=_at(logits, tokens) - logits.logsumexp(-1), stuck=_at(scores, tokens).isneginf(), eos=eos
        )
        rows = staying(draft.open.any(-1).tolist())
        if rows == []:
            return draft.answers
        if rows is not None:
            kept = torch.tensor(rows, device=logits.device)
            tokens, state = tokens[kept], state.keep(kept)
            draft.keep(kept)
        logits, state = model.step(tokens, state)


@dataclass
class _Draft:
    """Answers being written: a row for each example still in the batch, a column for each sample."""

    written: Int[Tensor, "batch beam length"]
    total: Float[Tensor, "batch beam"]
    open: Bool[Tensor, "batch beam"]
    rows: Int[Tensor, "batch"]
    room: Int[Tensor, "examples"]
    answers: list[list[Hypothesis]]

    @classmethod
    def blank(cls, logits: Float[Tensor, "batch beam vocab"], room: list[int]) -> _Draft:
        """Nothing written yet."""
        batch, beams, _ = logits.shape
        device = logits.device
        return cls(
            written=torch.zeros(batch, beams, 0, dtype=torch.int64, device=device),
            total=torch.zeros(batch, beams, device=device),
            open=torch.ones(batch, beams, dtype=torch.bool, device=device),
            rows=torch.arange(batch, device=device),
            room=torch.tensor(room, dtype=torch.int64, device=device),
            answers=[[UNWRITTEN] * beams for _ in range(batch)],
        )

    def extend(self, tokens: Tensor, *, gain: Tensor, stuck: Tensor, eos: int | None) -> None:
        """Write one more token everywhere, and close what has ended, is full or cannot go on."""
        fed = self.written.shape[-1]
        ended = ~stuck & (tokens == (-1 if eos is None else eos))
        full = (self.room[self.rows] <= fed + 1)[:, None]
        self.written = torch.cat([self.written, tokens[..., None]], -1)
        self.total = torch.where(stuck, self.total, self.total + gain)
        closing = self.open & (ended | stuck | full)
        self.open = self.open & ~closing
        row, column = closing.nonzero(as_tuple=True)
        cut = torch.where(ended | stuck, fed, fed + 1)
        facts = (self.rows[row], column, *(each[row, column] for each in (self.written, self.total, ended, cut)))
        for example, sample, text, score, finished, length in zip(*(fact.tolist() for fact in facts), strict=True):
            self.answers[example][sample] = Hypothesis(text[:length], score, [sample] * fed, finished, score)

    def keep(self, rows: Int[Tensor, "kept"]) -> None:
        """Only these examples go on."""
        self.written, self.total, self.open = self.written[rows], self.total[rows], self.open[rows]
        self.rows = self.rows[rows]


def _at(scores: Float[Tensor, "batch beam vocab"], tokens: Int[Tensor, "batch beam"]) -> Float[Tensor, "batch beam"]:
    """The scores of these tokens."""
    return scores.gather(-1, tokens[..., None])[..., 0]
