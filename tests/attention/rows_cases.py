"""Packed rows through the kernel and through the plain path: outputs and gradients, over many layouts."""

from __future__ import annotations

import random
import sys

import torch

from regard.attention.attend import AttentionSpec, attend_row
from regard.attention.kernels.rows import attend_rows
from regard.attention.masks import Mask, Row, between, causal
from tests.interpreted import read_bounds_as_scalars


def rows(chance: random.Random, *, fixed: bool) -> tuple[Row, Row]:
    """Two rows with the same number of sequences, some of them empty on one side; fixed ones have tails."""
    count = chance.randint(1, 12)
    longest = chance.choice([3, 20, 90])
    sides = [[chance.randint(0, longest) for _ in range(count)] for _ in range(2)]
    sides[0][0] = sides[1][-1] = longest
    size = max(map(sum, sides)) + chance.randint(0, 50)
    shape = {"size": size, "segments": count + size // longest + 2} if fixed else {}
    first, second = (Row.of(lengths, longest=longest, **shape) for lengths in sides)
    return first, second


def differences(seed: int, device: str, dtype: torch.dtype) -> list[float]:
    """How far the kernel is from the plain path in float64, relative to the largest number, per output and gradient."""
    chance = random.Random(seed)
    kind = chance.choice(["itself", "causal", "other"])
    one, other = (row.to(device) for row in rows(chance, fixed=chance.random() < 0.7))
    seen = other if kind == "other" else one
    groups, shared, depth = chance.choice([1, 2]), chance.choice([1, 2]), chance.choice([16, 32, 64])
    torch.manual_seed(seed)
    # As a joint projection lays them out: queries, keys and values of a token side by side.
    heads = groups * shared
    queries = torch.randn(len(one.segment), heads, depth, device=device, dtype=dtype).transpose(0, 1)
    both = torch.randn(len(seen.segment), 2 * groups, depth, device=device, dtype=dtype).transpose(0, 1)
    inputs = [queries, both[:groups], both[groups:]]
    mask: Mask = between(one, seen) & causal() if kind == "causal" else between(one, seen)
    slope = torch.randn(len(one.segment), heads, depth, device=device, dtype=dtype).transpose(0, 1)
    fast = [each.detach().requires_grad_() for each in inputs]
    plain = [each.detach().double().requires_grad_() for each in inputs]
    segments, offsets = (one.segment, seen.segment), (one.offsets, seen.offsets)
    scale = chance.choice([None, 1.0 / depth])
    if kind != "other" and chance.random() < 0.7:  # a number for every head and distance
        table = torch.randn(heads, 2 * one.longest - 1, device=device)
        fast, plain = [*fast, table.requires_grad_()], [*plain, table.detach().double().requires_grad_()]
    ours = attend_rows(
        *fast[:3], segments, offsets, causal=kind == "causal", scale=scale, bias=fast[3] if len(fast) > 3 else None
    )

    def bias(distance: torch.Tensor) -> torch.Tensor:
        return plain[3][:, distance.clamp(1 - one.longest, one.longest - 1) + one.longest - 1]

    way = AttentionSpec(bias=bias if len(plain) > 3 else None)
    stretched = plain[0] if scale is None else plain[0] * scale * depth**0.5
    theirs = attend_row(stretched, plain[1], plain[2], mask=mask, way=way)
    found = [ours.detach(), *torch.autograd.grad(ours, fast, slope)]
    expected = [theirs.detach(), *torch.autograd.grad(theirs, plain, slope.double())]
    scale = max(1.0, *(float(each.abs().max()) for each in expected if each.numel()))
    return [float((a - b).abs().max()) / scale for a, b in zip(found, expected, strict=True) if a.numel()]


if __name__ == "__main__":
    read_bounds_as_scalars()
    worst = max(max(differences(seed, "cpu", torch.float32)) for seed in range(int(sys.argv[1])))
    print(worst)
    sys.exit(worst > 1e-5)
