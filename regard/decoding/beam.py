"""Beam search: the few best beginnings of an answer, extended together until none can become better.

One round scores every next token of every live hypothesis and ranks them all, endings among the others. An ending
within the first `beams` is set aside as an answer; the best `beams` that go on are the next round's hypotheses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.decoding.batching import staying
from regard.decoding.constraints import Constraint, Goal, constrain
from regard.decoding.stepper import Hypothesis, Stepper, limits, most

DEAD = float("-inf")  # the score of a beam that holds no hypothesis
CHUNK = 128


@dataclass(frozen=True, kw_only=True)
class Beam:
    """How wide to search, what to prefer and when to stop."""

    beams: int = 4
    """Hypotheses kept alive; 1 is greedy."""
    nbest: int = 1
    """Answers returned, at most `beams`."""
    length_penalty: float = 1.0
    """Answers are ranked by log-probability / length ** length_penalty; 0 ranks by probability, which prefers short."""
    patience: float = 1.0
    """Stops after patience x beams endings (Kasai et al. 2022); 0 at the first nbest, inf when no other can win."""

    def __post_init__(self) -> None:
        """Refuse a search that could not answer."""
        if not 1 <= self.nbest <= self.beams:
            raise ValueError(
                f"the {self.nbest} best of {self.beams} beams: nbest lies between 1 and the number of beams"
            )
        if not abs(self.length_penalty) < float("inf"):
            raise ValueError(f"length_penalty {self.length_penalty} is not a finite number: 0 turns it off")
        if not self.patience >= 0:
            raise ValueError(f"patience {self.patience} is negative: 0 stops at the first answers")

    def normalized(self, score: float, length: int) -> float:
        """The score that hypotheses are ranked by; the end token counts as one of the length."""
        return score / max(length, 1) ** self.length_penalty

    def hope(self, score: float, length: int, limit: int) -> float:
        """The most that a live hypothesis can still reach: no token adds to its score, the penalty is monotone."""
        return max(self.normalized(score, length + 1), self.normalized(score, limit))


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
    logits, state = model.start(*inputs, beams=beam.beams, limit=most(limit))
    found = [_Found(beam, room) for room in limits(limit, len(logits))]
    for constraint in constraints:
        constraint.check(len(logits), logits.shape[-1])
    front = _Front.first(logits)
    end = -1 if eos is None else eos
    while True:
        ranked = _rank(logits.float(), front, constraints, end)
        _collect_ended(found, front, ranked, end)
        front, parents = _advance(front, ranked, end)
        going = _settle(found, front)
        rows = staying(going)
        if rows == []:
            return [[answer for _, answer in answers.kept] for answers in found]
        if rows is not None:
            kept = torch.tensor(rows, device=logits.device)
            state, front, parents = state.keep(kept), front.keep(kept), parents[kept]
        logits, state = model.step(front.written[..., -1], state.reorder(parents))


class _Front(NamedTuple):
    """The live hypotheses."""

    rows: Int[Tensor, "batch"]
    total: Float[Tensor, "batch beam"]
    written: Int[Tensor, "batch beam length"]
    slots: Int[Tensor, "batch beam length"]
    progress: Int[Tensor, "batch beam"]
    """How much of what must be said is said; none where nothing must."""

    @classmethod
    def first(cls, logits: Float[Tensor, "batch beam vocab"]) -> _Front:
        """One empty hypothesis for each example."""
        batch, beams, _ = logits.shape
        total = torch.full((batch, beams), DEAD, device=logits.device)
        total[:, 0] = 0.0  # beams start equal: let only the first one speak
        nothing = torch.zeros(batch, beams, 0, dtype=torch.int64, device=logits.device)
        rows = torch.arange(batch, device=logits.device)
        return cls(rows, total, nothing, nothing, torch.zeros_like(total, dtype=torch.int64))

    def keep(self, rows: Int[Tensor, "kept"]) -> _Front:
        """Only these examples go on."""
        return _Front(*(each[rows] for each in self))


class _Ranked(NamedTuple):
    """Next tokens of each example, best first, and the hypotheses that nothing may follow."""

    score: Float[Tensor, "batch choice"]
    parent: Int[Tensor, "batch choice"]
    token: Int[Tensor, "batch choice"]
    progress: Int[Tensor, "batch choice"]
    stuck: Bool[Tensor, "batch beam"]


@dataclass
class _Found:
    """The answers to one example so far, best first, and what each is worth."""

    beam: Beam
    limit: int
    endings: int = 0
    kept: list[tuple[tuple[bool, int, float], Hypothesis]] = field(default_factory=list)

    def add(self, answer: Hypothesis, progress: int) -> None:
        """Keep an answer if it is among the best; an unfinished one is a last resort, however probable."""
        worth = (answer.finished, 0 if answer.finished else progress, answer.normalized)
        self.kept.append((worth, answer))
        self.kept.sort(key=lambda pair: pair[0], reverse=True)
        del self.kept[self.beam.nbest :]
        self.endings += answer.finished

    def could_gain(self, best: float, length: int) -> bool:
        """Whether a live hypothesis, the best of which has this score, may still change the answers."""
        if best == DEAD or length >= self.limit:
            return False
        (finished, _, least), _ = self.kept[-1] if self.kept else ((False, 0, DEAD), None)
        if len(self.kept) < self.beam.nbest or not finished:
            return True
        enough = max(self.beam.nbest, self.beam.patience * self.beam.beams)
        return self.endings < enough and self.beam.hope(best, length, self.limit) > least


def _rank(logits: Tensor, front: _Front, constraints: Sequence[Constraint], eos: int) -> _Ranked:
    """Twice as many next tokens as beams, so that enough go on even if every beam may end.

    The logits are never copied: within a beam they rank as probabilities do, and only the few best are normalised.
    """
    beams = logits.shape[1]
    scores = constrain(logits, constraints, front.written, front.rows, eos)
    value, token = top(scores, min(2 * beams, scores.shape[-1]))
    stuck = value[..., 0].isneginf() & ~front.total.isneginf()
    goals = [constraint for constraint in constraints if isinstance(constraint, Goal)]
    if goals:
        value, token = _with_wanted(scores, value, token, [goal.wanted(front.written, front.rows) for goal in goals])
    score = (front.total - logits.logsumexp(-1))[..., None] + value
    score = score.masked_fill_(value.isneginf(), DEAD).flatten(1)
    count = min(2 * beams, score.shape[1])
    if goals:
        progress = torch.stack([goal.progress(front.written, token, front.rows) for goal in goals]).sum(0).flatten(1)
        order = share(score, progress)[:, :count]
    else:
        progress = torch.zeros_like(token).flatten(1)
        order = score.topk(count).indices
    parent = order.div(token.shape[-1], rounding_mode="floor")
    score, token, progress = (each.gather(1, order) for each in (score, token.flatten(1), progress))
    return _Ranked(score, parent, token, progress, stuck)


def _with_wanted(scores: Tensor, value: Tensor, token: Tensor, wanted: list[Tensor]) -> tuple[Tensor, Tensor]:
    """The tokens that a goal wants, added to those of each beam that are probable anyway."""
    extra = torch.cat(wanted, -1)
    twice = (extra[..., :, None] == extra[..., None, :]).tril(-1).any(-1)
    known = (extra[..., :, None] == token[..., None, :]).any(-1)
    place = extra.clamp(min=0)
    added = scores.gather(-1, place).masked_fill(twice | known | (extra < 0), DEAD)
    return torch.cat([value, added], -1), torch.cat([token, place], -1)


def _collect_ended(found: list[_Found], front: _Front, ranked: _Ranked, eos: int) -> None:
    """Set aside the endings among the best, and what can neither end nor go on."""
    beams = front.total.shape[1]
    ended = (ranked.token == eos) & ~ranked.score.isneginf()
    row, place = ended[:, :beams].nonzero(as_tuple=True)
    _collect(found, front, row, ranked.parent[row, place], ranked.score[row, place], finished=True)
    row, place = ranked.stuck.nonzero(as_tuple=True)
    _collect(found, front, row, place, front.total[row, place], finished=False)


def _advance(front: _Front, ranked: _Ranked, eos: int) -> tuple[_Front, Tensor]:
    """The best that go on, and the beams that they come from."""
    beams = front.total.shape[1]
    stops = ranked.token == eos
    order = stops.long().sort(dim=1, stable=True).indices[:, :beams]
    score, parent, token, progress = (each.gather(1, order) for each in ranked[:4])
    total = score.masked_fill(stops.gather(1, order), DEAD)
    index = parent[..., None].expand(-1, -1, front.written.shape[-1])
    here = torch.arange(beams, device=token.device).expand_as(token)
    written = torch.cat([front.written.gather(1, index), token[..., None]], -1)
    slots = torch.cat([front.slots.gather(1, index), here[..., None]], -1)
    return _Front(front.rows, total, written, slots, progress), parent


def _settle(found: list[_Found], front: _Front) -> list[bool]:
    """Which examples go on; those at their limit give what they have, and the beams of all that are done die."""
    length = front.written.shape[-1]
    answers = [found[example] for example in front.rows.tolist()]
    full = torch.tensor([each.limit <= length for each in answers], dtype=torch.bool, device=front.total.device)
    row, place = (full[:, None] & ~front.total.isneginf()).nonzero(as_tuple=True)
    newest = front._replace(slots=front.slots[..., :-1])  # the last token is never fed
    _collect(found, newest, row, place, front.total[row, place], finished=False)
    best = front.total.amax(1).tolist()
    going = [each.could_gain(score, length) for each, score in zip(answers, best, strict=True)]
    front.total.masked_fill_(~torch.tensor(going, dtype=torch.bool, device=front.total.device)[:, None], DEAD)
    return going


def _collect(found: list[_Found], front: _Front, row: Tensor, place: Tensor, score: Tensor, *, finished: bool) -> None:
    """Add hypotheses, given by their row and beam, to the answers of their examples."""
    if len(row) == 0:
        return
    facts = (front.rows[row], *(each[row, place] for each in (front.written, front.slots, front.progress)), score)
    for example, tokens, path, progress, value in zip(*(fact.tolist() for fact in facts), strict=True):
        normalized = found[example].beam.normalized(value, len(tokens) + finished)
        found[example].add(Hypothesis(tokens, value, path, finished, normalized), progress)


def top(
    scores: Float[Tensor, "*batch vocab"], count: int
) -> tuple[Float[Tensor, "*batch count"], Int[Tensor, "*batch count"]]:
    """The best of each row, as `topk` gives them; several times faster on a CPU with a large vocabulary."""
    chunks = scores.shape[-1] // CHUNK
    if scores.is_cuda or chunks < 4 * count:
        values, tokens = scores.topk(count)
        return values, tokens
    split = scores[..., : chunks * CHUNK].unflatten(-1, (chunks, CHUNK))
    best = split.amax(-1).topk(count).indices  # what is among the best lies in a chunk whose maximum is
    inside = split.gather(-2, best[..., None].expand(*best.shape, CHUNK)).flatten(-2)
    tokens = (best[..., None] * CHUNK + torch.arange(CHUNK, device=scores.device)).flatten(-2)
    rest = torch.arange(chunks * CHUNK, scores.shape[-1], device=scores.device).expand(*tokens.shape[:-1], -1)
    values, places = torch.cat([inside, scores[..., chunks * CHUNK :]], -1).topk(count)
    return values, torch.cat([tokens, rest], -1).gather(-1, places)


def share(score: Float[Tensor, "batch choice"], progress: Int[Tensor, "batch choice"]) -> Int[Tensor, "batch choice"]:
    """An order that serves every level of progress in turn: the best of the furthest level first, then the next level.

    Without it, hypotheses that pay for a required word are crowded out by those that put it off.
    """
    score, order = score.sort(dim=1, descending=True, stable=True)
    level, members = (-progress.gather(1, order)).sort(dim=1, stable=True)  # the furthest first, then by score
    turn = torch.arange(level.shape[1], device=level.device) - torch.searchsorted(level, level)
    turn = turn.masked_fill(score.gather(1, members).isneginf(), level.shape[1])
    return order.gather(1, members.gather(1, turn.sort(dim=1, stable=True).indices))
