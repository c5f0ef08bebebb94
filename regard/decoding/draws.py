"""Greedy choice and sampling of the next tokens as Triton kernels that read the logits and sort nothing.

Top-k and top-p keep the tokens above a threshold, which is found by trying several thresholds at once and going on
between the last that keeps enough and the first that does not. The kept tokens are laid end to end in the order of the
vocabulary, and a uniform number selects one of them, as `sampling` does in plain PyTorch. Imported only where Triton is
installed and a CUDA device is used.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

REACH = 24.0  # distance of the lowest threshold from the best logit, over the temperature
FINER = 2  # additional rounds where tokens are counted, as the count must be exact


class Search(NamedTuple):
    """The plan of a threshold search, which is precise to `REACH / ways ** rounds` of a logit."""

    part: int
    """Tokens per program of the kernel."""
    ways: int
    """Thresholds tried per round."""
    rounds: int
    warps: int


FEW = Search(part=1024, ways=32, rounds=5, warps=4)  # for few rows: starting a round takes most of the time
MANY = Search(part=2048, ways=16, rounds=4, warps=4)  # for many rows: trying thresholds takes most of the time
CROWD = 8  # rows from which the plan MANY is used


class Warping(NamedTuple):
    """The settings of a distribution, as a sampler has them."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None

    @property
    def searches(self) -> list[tuple[bool, float]]:
        """The thresholds to find, in order: True if tokens are counted (top-k), and how much to keep."""
        counted = [] if self.top_k is None else [(True, float(self.top_k))]
        return counted + ([] if self.top_p is None or self.top_p >= 1 else [(False, self.top_p)])


class Seats(NamedTuple):
    """The tensors that a round updates (scores, newest tokens, lengths), and the random numbers of all rounds."""

    total: Tensor
    tokens: Tensor
    length: Tensor
    noise: Tensor
    forbidden: Tensor | None = None
    """Mask of forbidden tokens, as bytes other than 0."""


def draw(logits: Tensor, seats: Seats, record: Tensor, clock: Tensor, warping: Warping | None) -> None:
    """Choose a token for every sample, write it and its score, and record both where the clock points.

    Without a warping the best token is chosen. The logits may be overwritten: forbidden tokens are set to -inf.
    """
    batch, beams, vocab = logits.shape
    rows = batch * beams
    plan = FEW if rows < CROWD else MANY
    parts, ways, rounds = triton.cdiv(vocab, plan.part), plan.ways, plan.rounds
    logits, device = logits.contiguous(), logits.device
    peaks = torch.empty(rows, parts, 3, device=device)
    best = torch.empty(rows, parts, dtype=torch.int32, device=device)
    sizes = {"PART": plan.part, "PARTS": triton.next_power_of_2(parts)}
    scan_inputs = logits, seats.forbidden, peaks, best, seats.length, clock, vocab
    _scan[(rows, parts)](*scan_inputs, BEAMS=beams, PART=plan.part, num_warps=4)
    weights = thresholds = bounds = sums = None
    distribution, rounds_done = warping or Warping(), 0
    inverse = min(1 / distribution.temperature, 1e30)
    if warping is not None:
        bounds = torch.empty(2 * rounds + FINER, rows, 3, device=device)
        sums = torch.empty(2 * rounds + FINER, rows, parts, ways, device=device)
        search_inputs = logits, peaks, bounds, sums
        for counted, share in distribution.searches:
            for number in range(rounds + FINER * counted):
                fresh = {"FIRST": rounds_done == 0, "NEXT": rounds_done > 0 and number == 0, "ENTRY": number == 0}
                search = {**fresh, "COUNTED": counted, "WAYS": ways, "REACH": REACH}
                _narrow[(rows, parts)](
                    *search_inputs, rounds_done, vocab, parts, inverse, share, **search, **sizes, num_warps=plan.warps
                )
                rounds_done += 1
        if (
            distribution.min_p or not distribution.searches or distribution.searches[-1][0]
        ):  # otherwise the last round has already summed what is kept
            weights, thresholds = torch.empty(rows, parts, device=device), torch.empty(rows, device=device)
            least = math.log(distribution.min_p) if distribution.min_p else float("-inf")
            rest = weights, thresholds, rounds_done, vocab, parts, inverse, least
            _weigh[(rows, parts)](*search_inputs, *rest, SEARCHED=rounds_done > 0, WAYS=ways, **sizes, num_warps=4)
    room, span = seats.noise.shape[2], len(record)
    written = seats.total, seats.tokens, seats.length, seats.noise, record, clock
    take_inputs = logits, peaks, best, bounds, sums, weights, thresholds
    drawn = {"DRAWN": warping is not None, "WAYS": ways}
    _take[(batch, beams)](
        *take_inputs, *written, rounds_done, span, room, vocab, parts, inverse, **drawn, **sizes, num_warps=4
    )


@triton.jit
def _scan(logits, forbidden, peaks, best, length, clock, vocab, BEAMS: tl.constexpr, PART: tl.constexpr):
    """Store the best allowed score of each part and its token, the highest score, and the sum of exponentials.

    Forbidden tokens are set to -inf in the logits, for the kernels that follow. Lengths and clocks are advanced here
    already, since no other program reads them meanwhile.
    """
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    if (part == 0) & (row % BEAMS == 0):
        tl.store(clock + row // BEAMS, tl.load(clock + row // BEAMS) + 1)
        tl.store(length + row // BEAMS, tl.load(length + row // BEAMS) + 1)
    token = part * PART + tl.arange(0, PART)
    score = tl.load(logits + row * vocab + token, mask=token < vocab, other=float("-inf"))
    level = tl.max(score, 0)
    level = tl.where(level == float("-inf"), 0.0, level)
    at = row * tl.num_programs(1) + part
    tl.store(peaks + 3 * at + 1, level)
    tl.store(peaks + 3 * at + 2, tl.sum(tl.exp(score - level), 0))
    if forbidden is not None:
        never = tl.load(forbidden + token, mask=token < vocab, other=0) != 0
        score = tl.where(never, float("-inf"), score)
        tl.store(logits + row * vocab + token, score, mask=never)
    highest = tl.max(score, 0)
    tl.store(peaks + 3 * at, highest)
    tl.store(best + at, tl.min(tl.where(score == highest, token, vocab - 1), 0))


@triton.jit
def _scale_scores(
    logits, peaks, row, part, vocab, parts, inverse, PART: tl.constexpr, PARTS: tl.constexpr
):  # fmt: skip
    """Return the scores of a part relative to the best of the row, divided by the temperature."""
    number = tl.arange(0, PARTS)
    highest = tl.max(tl.load(peaks + 3 * (row * parts + number), mask=number < parts, other=float("-inf")), 0)
    token = part * PART + tl.arange(0, PART)
    score = tl.load(logits + row * vocab + token, mask=token < vocab, other=float("-inf"))
    return (score - highest) * inverse


@triton.jit
def _between(bounds, sums, row, rows, parts, rounds_done, WAYS: tl.constexpr, PARTS: tl.constexpr):
    """Return the last threshold that keeps enough, the first that does not, and how much is enough.

    The fourth value is the index of the last threshold that keeps enough.
    """
    low = tl.load(bounds + ((rounds_done - 1) * rows + row) * 3)
    high = tl.load(bounds + ((rounds_done - 1) * rows + row) * 3 + 1)
    enough = tl.load(bounds + ((rounds_done - 1) * rows + row) * 3 + 2)
    way, number = tl.arange(0, WAYS), tl.arange(0, PARTS)
    place = (((rounds_done - 1) * rows + row) * parts + number)[:, None] * WAYS + way[None, :]
    kept_mass = tl.sum(tl.load(sums + place, mask=(number < parts)[:, None], other=0.0), 0)
    all_kept = tl.sum(tl.where(way == 0, kept_mass, 0.0), 0)  # by the lowest threshold
    enough = tl.where(enough < 0.0, -enough * all_kept, enough)
    tried = low + (high - low) * way.to(tl.float32) / WAYS
    above = tl.min(tl.where(kept_mass < enough, tried, high), 0)
    way = tl.maximum(tl.sum((kept_mass >= enough).to(tl.int32), 0) - 1, 0)
    return tl.max(tl.where(kept_mass >= enough, tried, low), 0), above, enough, way


@triton.jit
def _narrow(
    logits, peaks, bounds, sums, rounds_done, vocab, parts, inverse, share,
    FIRST: tl.constexpr, NEXT: tl.constexpr, ENTRY: tl.constexpr, COUNTED: tl.constexpr, WAYS: tl.constexpr,
    REACH: tl.constexpr, PART: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Store how much of a part each of the next thresholds keeps.

    The share of top-p refers to what the lowest threshold keeps; until that is known, it is stored as a negative
    number.
    """
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    low, high, enough = -REACH, 1e-6, 0.0
    if not FIRST:
        low, high, enough, _ = _between(bounds, sums, row, tl.num_programs(0), parts, rounds_done, WAYS, PARTS)
    if NEXT:
        high = 1e-6
    if ENTRY:
        enough = share if COUNTED else -share
    tl.store(bounds + (rounds_done * tl.num_programs(0) + row) * 3, low)
    tl.store(bounds + (rounds_done * tl.num_programs(0) + row) * 3 + 1, high)
    tl.store(bounds + (rounds_done * tl.num_programs(0) + row) * 3 + 2, enough)
    score = _scale_scores(logits, peaks, row, part, vocab, parts, inverse, PART, PARTS)
    way = tl.arange(0, WAYS)
    tried = low + (high - low) * way.to(tl.float32) / WAYS
    worth = tl.full((PART,), 1.0, tl.float32) if COUNTED else tl.exp(score)
    kept_mass = tl.sum(tl.where(score[None, :] >= tried[:, None], worth[None, :], 0.0), 1)
    tl.store(sums + ((rounds_done * tl.num_programs(0) + row) * parts + part) * WAYS + way, kept_mass)


@triton.jit
def _weigh(
    logits, peaks, bounds, sums, weights, thresholds, rounds_done, vocab, parts, inverse, least,
    SEARCHED: tl.constexpr, WAYS: tl.constexpr, PART: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Store the unnormalised probability of the tokens of a part that are kept."""
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    threshold = least
    if SEARCHED:
        low, _, _, _ = _between(bounds, sums, row, tl.num_programs(0), parts, rounds_done, WAYS, PARTS)
        threshold = tl.maximum(low, least)
    score = _scale_scores(logits, peaks, row, part, vocab, parts, inverse, PART, PARTS)
    tl.store(weights + row * parts + part, tl.sum(tl.where(score >= threshold, tl.exp(score), 0.0), 0))
    tl.store(thresholds + row, threshold)


@triton.jit
def _take(
    logits, peaks, best, bounds, sums, weights, thresholds, total, tokens, length, noise, record, clock,
    rounds_done, span, room, vocab, parts, inverse, DRAWN: tl.constexpr, WAYS: tl.constexpr, PART: tl.constexpr,
    PARTS: tl.constexpr,
):  # fmt: skip
    """Choose the token of one sample of an example, update its score, and record both."""
    example, beam, beams = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.num_programs(1)
    row = example * beams + beam
    number, lane = tl.arange(0, PARTS), tl.arange(0, PART)
    level = tl.load(peaks + 3 * (row * parts + number) + 1, mask=number < parts, other=float("-inf"))
    mass = tl.load(peaks + 3 * (row * parts + number) + 2, mask=number < parts, other=0.0)
    whole = tl.max(level, 0) + tl.log(tl.sum(mass * tl.exp(level - tl.max(level, 0)), 0))
    if not DRAWN:
        peak = tl.load(peaks + 3 * (row * parts + number), mask=number < parts, other=float("-inf"))
        part = tl.min(tl.where(peak == tl.max(peak, 0), number, parts - 1), 0)
        token = tl.load(best + row * parts + part)
    else:
        if weights is None:
            rows = tl.num_programs(0) * beams
            threshold, _, _, way = _between(bounds, sums, row, rows, parts, rounds_done, WAYS, PARTS)
            weight_pointer = sums + (((rounds_done - 1) * rows + row) * parts + number) * WAYS + way
        else:
            threshold = tl.load(thresholds + row)
            weight_pointer = weights + row * parts + number
        weight = tl.load(weight_pointer, mask=number < parts, other=0.0)
        reached = tl.cumsum(weight, 0)
        place = tl.load(noise + row * room + tl.minimum(tl.load(length + example), room) - 1) * tl.max(reached, 0)
        last = tl.max(tl.where(weight > 0.0, number, 0), 0)  # rounding may move a number beyond the last token
        part = tl.minimum(tl.sum((reached <= place).to(tl.int32), 0), last)
        before = tl.max(tl.where(number < part, reached, 0.0), 0)
        score = _scale_scores(logits, peaks, row, part, vocab, parts, inverse, PART, PARTS)
        weight = tl.where(score >= threshold, tl.exp(score), 0.0)
        last = tl.max(tl.where(weight > 0.0, lane, 0), 0)
        inside = tl.sum((before + tl.cumsum(weight, 0) <= place).to(tl.int32), 0)
        token = part * PART + tl.minimum(inside, last)
    score = tl.load(total + row) + tl.load(logits + row * vocab + token) - whole
    now = tl.load(clock + example) - 1
    at = record + ((now % span) * tl.num_programs(0) + example) * 3 * beams + beam
    tl.store(at, score.to(tl.int32, bitcast=True))
    tl.store(at + beams, beam)
    tl.store(at + 2 * beams, token.to(tl.int32))
    tl.store(total + row, score)
    tl.store(tokens + row, token.to(tl.int64))
