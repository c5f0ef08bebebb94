"""One round of a beam search as two Triton kernels: the best of each part of the vocabulary, then the best of those.

Imported only where Triton is installed and a CUDA device is used; `ranking` does the same in plain PyTorch.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

CHUNK = 128  # tokens per chunk, of which only the best is kept at first
CHUNKS = 16  # chunks per program


def choose(
    logits: Tensor, total: Tensor, tokens: Tensor, parents: Tensor, record: Tensor, clock: Tensor, *, eos: int
) -> None:
    """Rank the next tokens of all beams, write those that go on, and record the ranking where the clock points."""
    batch, beams, vocab = logits.shape
    count = record.shape[-1]
    chunks, parts = triton.cdiv(vocab, CHUNK), triton.cdiv(vocab, CHUNK * CHUNKS)
    logits = logits.contiguous()
    peaks = torch.empty(batch * beams, chunks, device=logits.device)
    mass = torch.empty(batch * beams, parts, 2, device=logits.device)
    _scan[(batch * beams, parts)](logits, peaks, mass, vocab, chunks, CHUNK=CHUNK, CHUNKS=CHUNKS, num_warps=4)
    _choose[(batch,)](
        *(logits, peaks, mass, total, tokens, parents, record, clock, len(record), parts, chunks, vocab, eos),
        BEAMS=beams,
        COUNT=count,
        ROWS=triton.next_power_of_2(beams),
        CHUNK=CHUNK,
        PEAKS=triton.next_power_of_2(chunks),
        PARTS=triton.next_power_of_2(parts),
        PLACES=triton.next_power_of_2(count),
        num_warps=1,
    )


@triton.jit
def _scan(logits, peaks, mass, vocab, chunks, CHUNK: tl.constexpr, CHUNKS: tl.constexpr):
    """Store the best score of each chunk, and what each part adds to the sum of exponentials."""
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    chunk = part * CHUNKS + tl.arange(0, CHUNKS)
    token = chunk[:, None] * CHUNK + tl.arange(0, CHUNK)[None, :]
    score = tl.load(logits + row * vocab + token, mask=token < vocab, other=float("-inf")).to(tl.float32)
    peak = tl.max(score, 1)
    tl.store(peaks + row * chunks + chunk, peak, mask=chunk < chunks)
    highest = tl.max(peak, 0)
    level = tl.where(highest == float("-inf"), 0.0, highest)
    at = mass + (row * tl.num_programs(1) + part) * 2
    tl.store(at, level)
    tl.store(at + 1, tl.sum(tl.sum(tl.exp(score - level), 1), 0))


@triton.jit
def _choose(
    logits, peaks, mass, total, tokens, parents, record, clock, span, parts, chunks, vocab, eos,
    BEAMS: tl.constexpr, COUNT: tl.constexpr, ROWS: tl.constexpr, CHUNK: tl.constexpr, PEAKS: tl.constexpr,
    PARTS: tl.constexpr, PLACES: tl.constexpr,
):  # fmt: skip
    """Rank one example's next tokens, which lie in the chunks with the best peaks, and update its beams in place."""
    example = tl.program_id(0).to(tl.int64)
    beam, part, chunk = tl.arange(0, ROWS), tl.arange(0, PARTS), tl.arange(0, PEAKS)
    row, real = example * BEAMS + beam, beam < BEAMS
    there = real[:, None] & (part < parts)[None, :]
    level = tl.load(mass + ((row * parts)[:, None] + part[None, :]) * 2, there, float("-inf"))
    sums = tl.load(mass + ((row * parts)[:, None] + part[None, :]) * 2 + 1, there, 0.0)
    highest = tl.where(real, tl.max(level, 1), 0.0)
    whole = highest + tl.log(tl.sum(sums * tl.exp(level - highest[:, None]), 1))
    so_far = tl.load(total + row, real, float("-inf")) - tl.where(real, whole, 0.0)
    there = real[:, None] & (chunk < chunks)[None, :]
    peak = tl.load(peaks + (row * chunks)[:, None] + chunk[None, :], there, float("-inf")) + so_far[:, None]
    rank, lane = tl.arange(0, PLACES), tl.arange(0, CHUNK)
    score = tl.full((PLACES, CHUNK), float("-inf"), tl.float32)
    origins, firsts = tl.zeros((PLACES,), tl.int32), tl.zeros((PLACES,), tl.int32)
    number = beam[:, None] * PEAKS + chunk[None, :]
    for slot in tl.static_range(COUNT):
        best = tl.max(tl.max(peak, 1), 0)
        where = tl.min(tl.min(tl.where(peak == best, number, ROWS * PEAKS), 1), 0)
        peak = tl.where(number == where, float("-inf"), peak)
        origin, first = tl.minimum(where // PEAKS, BEAMS - 1), tl.minimum(where % PEAKS, chunks - 1) * CHUNK
        inside = first + lane < tl.where(best > float("-inf"), vocab, 0)
        gain = tl.load(logits + (example * BEAMS + origin) * vocab + first + lane, inside, float("-inf")).to(tl.float32)
        gain += tl.sum(tl.where(beam == origin, so_far, 0.0), 0)
        score = tl.where((rank == slot)[:, None], gain[None, :], score)
        origins, firsts = tl.where(rank == slot, origin, origins), tl.where(rank == slot, first, firsts)
    token = tl.minimum(firsts[:, None] + lane[None, :], vocab - 1)
    number = rank[:, None] * CHUNK + lane[None, :]
    scores = tl.full((PLACES,), float("-inf"), tl.float32)
    chosen, parent = tl.zeros((PLACES,), tl.int32), tl.zeros((PLACES,), tl.int32)
    for slot in tl.static_range(COUNT):
        best = tl.max(tl.max(score, 1), 0)
        where = tl.min(tl.min(tl.where(score == best, number, PLACES * CHUNK), 1), 0)
        is_best = number == where
        score = tl.where(is_best, float("-inf"), score)
        scores = tl.where(rank == slot, best, scores)
        chosen = tl.where(rank == slot, tl.sum(tl.sum(tl.where(is_best, token, 0), 1), 0), chosen)
        parent = tl.where(rank == slot, tl.sum(tl.where(rank == where // CHUNK, origins, 0), 0), parent)
    listed = rank < COUNT
    now = tl.load(clock + example)
    at = record + ((now % span) * tl.num_programs(0) + example) * 3 * COUNT + rank
    tl.store(at, scores.to(tl.int32, bitcast=True), listed)
    tl.store(at + COUNT, parent, listed)
    tl.store(at + 2 * COUNT, chosen, listed)
    tl.store(clock + example, now + 1)
    goes, stops = listed & (chosen != eos), listed & (chosen == eos)
    order = tl.where(goes, tl.cumsum(goes.to(tl.int32), 0) - 1, PLACES)
    order = tl.where(stops, tl.sum(goes.to(tl.int32), 0) + tl.cumsum(stops.to(tl.int32), 0) - 1, order)
    stays = order < BEAMS
    tl.store(total + example * BEAMS + order, tl.where(stops, float("-inf"), scores), stays)
    tl.store(tokens + example * BEAMS + order, chosen.to(tl.int64), stays)
    tl.store(parents + example * BEAMS + order, parent.to(tl.int64), stays)
