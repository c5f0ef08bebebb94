"""Draws by kernels with Triton's interpreter in place of a GPU, against the plain ones with the same random numbers."""

from __future__ import annotations

import math

import torch

from regard.decoding import draws
from regard.decoding.constraints import Forbid
from regard.decoding.generate import SamplingPolicy
from regard.decoding.ranking import Front
from regard.decoding.sampling import Sampler

VOCAB = 70
WARPINGS: list[dict[str, float | int]] = [
    {},
    {"temperature": 0.7},
    {"top_k": 1},
    {"top_k": 7, "temperature": 3.0},
    {"top_p": 0.9},
    {"top_p": 0.3, "temperature": 0.5},
    {"top_k": 20, "top_p": 0.8},
    {"min_p": 0.1},
    {"min_p": 1.0},
    {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.02},
    {"top_p": 1e-6},
    {"temperature": 1e-30, "top_p": 0.5},
]


def shares(logits: torch.Tensor, pick: Sampler | None) -> tuple[float, float]:
    """Of draws with the same numbers, how many are the same; and how far off scores are at most."""
    batch, beams, _ = logits.shape
    never = [[2], [40], [VOCAB - 1]] if pick is not None and pick.temperature < 1 else []
    policy = SamplingPolicy(beams, -1, pick, [Forbid(never)] if never else [])
    noise, total = torch.rand(batch, beams, 3), torch.randn(batch, beams)
    chosen = policy.choose(logits, Front(torch.arange(batch), total, torch.zeros(batch, beams, 0), noise[..., 1]))
    clock, length = torch.full((batch,), 5), torch.ones(batch, dtype=torch.int64)
    record = torch.zeros(4, batch, 3, beams, dtype=torch.int32)
    forbidden = policy._forbidden_mask(logits)
    seats = draws.Seats(total, torch.zeros(batch, beams, dtype=torch.int64), length, noise, forbidden)
    draws.draw(logits.clone(), seats, record, clock, None if pick is None else draws.Warping(*pick.warping))
    same = seats.tokens == chosen.tokens
    found = record[5 % 4]
    assert clock.tolist() == [6] * batch
    assert length.tolist() == [2] * batch
    assert found[:, 2].tolist() == seats.tokens.tolist()
    assert found[:, 1].tolist() == torch.arange(beams).expand(batch, beams).tolist()
    assert found[:, 0].contiguous().view(torch.float32).tolist() == total.tolist()
    return float(same.float().mean()), float((total - chosen.total)[same].abs().max())


def run() -> None:
    """Every way to warp, and one token that is certain."""
    # Several parts of a small vocabulary, whose scores lie further apart.
    draws.FEW, draws.MANY = draws.Search(32, 32, 4, 4), draws.Search(16, 8, 6, 4)
    torch.manual_seed(0)
    for number, given in enumerate([None, *WARPINGS]):
        pick = None if given is None else Sampler(**given, generator=torch.Generator())
        draws.CROWD = 2 if number % 4 < 2 else 3
        same, apart = shares((0.1, 5.0)[number % 2] * torch.randn(2, 1, VOCAB), pick)
        assert same == 1.0, given
        assert apart < 1e-4, given
    sure = torch.full((1, 1, VOCAB), -math.inf)
    sure[..., 41] = 3.0
    assert shares(sure, Sampler(top_p=0.9, top_k=5, generator=torch.Generator())) == (1.0, 0.0)
