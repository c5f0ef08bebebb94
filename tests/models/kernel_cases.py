"""Dropout and GELU by their kernels, with Triton's interpreter in place of a GPU."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from regard.models.parts.dropout import STEPS, WORD, drop_features
from regard.models.parts.gelu import biased_gelu
from regard.models.parts.random_bits import draw_bits

COUNT = 2500  # words whose bits are counted


def gelus() -> None:
    """Values and slopes of either GELU, also where tiles are not full, against torch in double precision."""
    torch.manual_seed(1)
    for approximate, rows, columns in ((False, 37, 300), (True, 19, 256), (False, 3, 8), (True, 1100, 10)):
        x, bias = (3 * torch.randn(rows, columns)).requires_grad_(), torch.randn(columns, requires_grad=True)
        slope = torch.randn(rows, columns)
        ours = biased_gelu(x, bias, approximate)
        found = [ours.detach(), *torch.autograd.grad(ours, (x, bias), slope)]
        wide = [each.detach().double().requires_grad_() for each in (x, bias)]
        theirs = F.gelu(wide[0] + wide[1], approximate="tanh" if approximate else "none")
        truth = [theirs.detach(), *torch.autograd.grad(theirs, wide, slope.double())]
        for name, own, other in zip(("value", "slope", "bias"), found, truth, strict=True):
            apart = (own - other).abs().max() / other.abs().max()
            assert apart < 3e-6, (approximate, rows, name, float(apart))
    half = torch.randn(2, 3, 16, dtype=torch.float16)
    assert biased_gelu(half, torch.zeros(16), False).dtype == torch.float16
    assert torch.allclose(biased_gelu(half, torch.zeros(16), False), F.gelu(half), atol=2e-3)


def bits() -> None:
    """Shares, independence, scaling and gradients of dropout."""
    words = draw_bits(torch.tensor([7]), COUNT, round(0.9 * STEPS))
    found = (words[:, None] >> torch.arange(WORD, dtype=torch.int32)) & 1
    share = found.double().mean(0)
    assert (share - 0.9).abs().max() < 5 * (0.09 / COUNT) ** 0.5, "each bit of a word"
    together = (found.double().T @ found.double()) / COUNT - 0.81
    assert together.fill_diagonal_(0).abs().max() < 6 * (0.81 * 0.19 / COUNT) ** 0.5, (
        "no two bits of a word go together"
    )
    assert words.unique().numel() > COUNT / 2.4, "words differ"
    assert draw_bits(torch.tensor([7]), COUNT, round(0.9 * STEPS)).equal(words), "the seed decides"
    assert not draw_bits(torch.tensor([8]), COUNT, round(0.9 * STEPS)).equal(words)
    assert draw_bits(torch.tensor([1]), 3, STEPS).eq(-1).all()
    assert draw_bits(torch.tensor([1]), 3, 0).eq(0).all()

    torch.manual_seed(3)
    x = torch.full((37, 55), 2.0, requires_grad=True)  # not a whole number of words
    y = drop_features(x, 0.25)
    kept = y != 0
    assert 0.70 < kept.double().mean() < 0.80
    assert torch.allclose(y[kept], torch.tensor(2 / 0.75), rtol=1e-4)
    y.sum().backward()
    assert x.grad is not None
    assert x.grad[~kept].eq(0).all()
    assert torch.allclose(x.grad[kept], torch.tensor(1 / 0.75), rtol=1e-4)
    assert not drop_features(x, 0.25).ne(0).equal(kept), "drawn anew"
    torch.manual_seed(3)
    assert drop_features(x, 0.25).equal(y), "from torch's own seed"


def run() -> None:
    """Both."""
    bits()
    gelus()
