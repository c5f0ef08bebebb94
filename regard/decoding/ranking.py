"""Ranking of all next tokens of all live hypotheses, end tokens included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.decoding.constraints import Constraint, Goal, constrain

DEAD = float("-inf")  # the score of a beam that holds no hypothesis
CHUNK = 128


class Front(NamedTuple):
    """The live hypotheses: their examples, scores and texts, and a random number for each if tokens are sampled."""

    rows: Int[Tensor, "batch"]
    total: Float[Tensor, "batch beam"]
    written: Int[Tensor, "batch beam length"]
    noise: Float[Tensor, "batch beam"] | None = None


class Ranked(NamedTuple):
    """The next tokens of each example, best first, and the hypotheses that cannot go on."""

    score: Float[Tensor, "batch choice"]
    parent: Int[Tensor, "batch choice"]
    token: Int[Tensor, "batch choice"]
    progress: Int[Tensor, "batch choice"]
    stuck: Bool[Tensor, "batch beam"]


class Chosen(NamedTuple):
    """The ranking, and the hypotheses that go on: their scores, parent beams and newest tokens."""

    ranked: Ranked
    total: Float[Tensor, "batch beam"]
    parents: Int[Tensor, "batch beam"]
    tokens: Int[Tensor, "batch beam"]


def rank(
    logits: Float[Tensor, "batch beam vocab"], front: Front, constraints: Sequence[Constraint] = (), *, eos: int
) -> Ranked:
    """Rank next tokens, twice as many as beams, so that enough go on even if every beam may end.

    Without constraints the logits are not copied: within a beam they rank as probabilities do, and only the few best
    are normalised.
    """
    beams = logits.shape[1]
    scores = constrain(logits, constraints, front.written, front.rows, eos)
    value, token = top(scores, min(2 * beams, scores.shape[-1]))
    stuck = value[..., 0].isneginf() & ~front.total.isneginf()
    goals = [constraint for constraint in constraints if isinstance(constraint, Goal)]
    if goals:
        value, token = _add_goal_tokens(
            scores, value, token, [goal.next_tokens(front.written, front.rows) for goal in goals]
        )
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
    score, token, progress = (tensor.gather(1, order) for tensor in (score, token.flatten(1), progress))
    return Ranked(score, parent, token, progress, stuck)


def advance(
    ranked: Ranked, beams: int, *, eos: int
) -> tuple[Float[Tensor, "batch beam"], Int[Tensor, "batch beam"], Int[Tensor, "batch beam"]]:
    """Return the best hypotheses that go on: their scores, parent beams and newest tokens."""
    stops = ranked.token == eos
    order = stops.long().sort(dim=1, stable=True).indices[:, :beams]
    score, parent, token = (tensor.gather(1, order) for tensor in (ranked.score, ranked.parent, ranked.token))
    return score.masked_fill(stops.gather(1, order), DEAD), parent, token


def _add_goal_tokens(scores: Tensor, value: Tensor, token: Tensor, goal_tokens: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Add the tokens that a goal needs to the most probable tokens of each beam."""
    extra = torch.cat(goal_tokens, -1)
    twice = (extra[..., :, None] == extra[..., None, :]).tril(-1).any(-1)
    present = (extra[..., :, None] == token[..., None, :]).any(-1)
    place = extra.clamp(min=0)
    added = scores.gather(-1, place).masked_fill(twice | present | (extra < 0), DEAD)
    return torch.cat([value, added], -1), torch.cat([token, place], -1)


def top(
    scores: Float[Tensor, "*batch vocab"], count: int
) -> tuple[Float[Tensor, "*batch count"], Int[Tensor, "*batch count"]]:
    """Return the best of each row as `topk` does; several times faster on a CPU with a large vocabulary."""
    chunks = scores.shape[-1] // CHUNK
    if scores.is_cuda or chunks < 4 * count:
        values, tokens = scores.topk(count)
        return values, tokens
    split = scores[..., : chunks * CHUNK].unflatten(-1, (chunks, CHUNK))
    best = split.amax(-1).topk(count).indices  # the best tokens lie in the chunks with the best maxima
    inside = split.gather(-2, best[..., None].expand(*best.shape, CHUNK)).flatten(-2)
    tokens = (best[..., None] * CHUNK + torch.arange(CHUNK, device=scores.device)).flatten(-2)
    rest = torch.arange(chunks * CHUNK, scores.shape[-1], device=scores.device).expand(*tokens.shape[:-1], -1)
    values, places = torch.cat([inside, scores[..., chunks * CHUNK :]], -1).topk(count)
    return values, torch.cat([tokens, rest], -1).gather(-1, places)


def share(score: Float[Tensor, "batch choice"], progress: Int[Tensor, "batch choice"]) -> Int[Tensor, "batch choice"]:
    """Return an order that takes from each level of progress in turn, the best of the furthest level first.

    Without it, hypotheses that pay for a required word are crowded out by those that put it off.
    """
    score, order = score.sort(dim=1, descending=True, stable=True)
    level, members = (-progress.gather(1, order)).sort(dim=1, stable=True)  # the furthest first, then by score
    turn = torch.arange(level.shape[1], device=level.device) - torch.searchsorted(level, level)
    turn = turn.masked_fill(score.gather(1, members).isneginf(), level.shape[1])
    return order.gather(1, members.gather(1, turn.sort(dim=1, stable=True).indices))
