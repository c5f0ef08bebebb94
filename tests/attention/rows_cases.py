"""Packed rows through the kernel and through the plain path: outputs and gradients, over many layouts."""

from __future__ import annotations

import random
from dataclasses import replace

import torch

from regard.attention.attend import AttentionSpec, attend_row
from regard.attention.kernels import rows as kernels
from regard.attention.kernels.rows import LONG, Tiles, attend_rows
from regard.attention.masks import Mask, Row, causal, mask_between

# Itself, the past and another row; no bias, slopes, a table and one that learns; tiles of one sequence and of several.
SEEDS = (0, 1, 5, 6, 11, 16, 17, 36, 53, 60, 66, 82, 85)


def rows(chance: random.Random, *, fixed: bool, few: bool) -> tuple[Row, Row]:
    """Two rows with the same number of sequences, some of them empty on one side; fixed ones have tails."""
    count = chance.randint(1, 6 if few else 12)
    longest = chance.choice([3, 20, 70, 70] if few else [3, 20, 90, 90])
    sides = [[chance.randint(0, longest) for _ in range(count)] for _ in range(2)]
    sides[0][0] = sides[1][-1] = longest
    size = max(map(sum, sides)) + chance.randint(0, 30 if few else 50)
    shape = {"size": size, "segments": count + size // longest + 2} if fixed else {}
    first, second = (Row.of(lengths, longest=longest, **shape) for lengths in sides)
    return first, second


def differences(seed: int, device: str, dtype: torch.dtype, *, few: bool = False) -> list[float]:
    """How far the kernel is from the plain path in float64, relative to the largest number, per output and gradient."""
    chance = random.Random(seed)
    kind = chance.choice(["itself", "causal", "other"])
    one, other = (row.to(device) for row in rows(chance, fixed=chance.random() < 0.7, few=few))
    seen = other if kind == "other" else one
    groups, shared, depth = chance.choice([1, 2]), chance.choice([1, 2]), chance.choice([16, 32, 64])
    torch.manual_seed(seed)
    # As a joint projection lays them out: queries, keys and values of a token side by side.
    heads = groups * shared
    queries = torch.randn(len(one.segment), heads, depth, device=device, dtype=dtype).transpose(0, 1)
    both = torch.randn(len(seen.segment), 2 * groups, depth, device=device, dtype=dtype).transpose(0, 1)
    inputs = [queries, both[:groups], both[groups:]]
    mask: Mask = mask_between(one, seen) & causal() if kind == "causal" else mask_between(one, seen)
    slope = torch.randn(len(one.segment), heads, depth, device=device, dtype=dtype).transpose(0, 1)
    fast = [each.detach().requires_grad_() for each in inputs]
    plain = [each.detach().double().requires_grad_() for each in inputs]
    scale = chance.choice([None, 1.0 / depth])
    biased = "none" if kind == "other" else chance.choice(["none", "fixed", "learnt", "slopes"])
    table = torch.randn(heads, 2 * one.longest - 1, device=device)  # a number for every head and distance
    if biased == "learnt":
        fast, plain = [*fast, table.requires_grad_()], [*plain, table.detach().double().requires_grad_()]
    slopes = torch.rand(heads, device=device) if biased == "slopes" else None
    given = None if biased == "none" else table if slopes is None else slopes
    known = chance.choice([one.longest, LONG])  # which decides on the tiles
    layout = replace(one, longest=known), replace(seen, longest=known)
    ours = attend_rows(*fast[:3], layout, causal=kind == "causal", scale=scale, bias=given)

    def bias(distance: torch.Tensor) -> torch.Tensor:
        if slopes is not None:
            return -slopes[:, None, None].double() * distance.abs().unsqueeze(-3)
        held = plain[3] if biased == "learnt" else table.double()
        return held[:, distance.clamp(1 - one.longest, one.longest - 1) + one.longest - 1].movedim(0, -3)

    way = AttentionSpec(bias=None if biased == "none" else bias)
    stretched = plain[0] if scale is None else plain[0] * scale * depth**0.5
    theirs = attend_row(stretched, plain[1], plain[2], mask=mask, way=way)
    found = [ours.detach(), *torch.autograd.grad(ours, fast, slope)]
    expected = [theirs.detach(), *torch.autograd.grad(theirs, plain, slope.double())]
    scale = max(1.0, *(float(each.abs().max()) for each in expected if each.numel()))
    return [float((a - b).abs().max()) / scale for a, b in zip(found, expected, strict=True) if a.numel()]


def run() -> None:
    """All seeds, with small tiles."""
    kernels.OWN = {name: Tiles(32, 16) for name in kernels.OWN}  # so that short sequences fill several
    worst = 0.0
    for seed in SEEDS:
        kernels.SQUARE = Tiles(64, 64) if seed % 2 else Tiles(32, 32)
        kernels.SHARED = {
            **dict.fromkeys(kernels.SHARED, kernels.SQUARE),
            "key": Tiles(kernels.SQUARE.resident_tokens, 32),
        }
        worst = max(worst, *differences(seed, "cpu", torch.float32, few=True))
    assert worst <= 1e-5, worst
