"""Dropout by its kernel, with Triton's interpreter in place of a GPU."""

from __future__ import annotations

import torch

from regard.models.bits import draw_bits
from regard.models.dropout import STEPS, WORD, dropped


def main() -> None:
    """Shares, independence, scaling and gradients."""
    words = draw_bits(torch.tensor([7]), 6000, round(0.9 * STEPS))
    bits = (words[:, None] >> torch.arange(WORD, dtype=torch.int32)) & 1
    share = bits.double().mean(0)
    assert (share - 0.9).abs().max() < 5 * (0.09 / 6000) ** 0.5, "each bit of a word"
    together = (bits.double().T @ bits.double()) / 6000 - 0.81
    assert together.fill_diagonal_(0).abs().max() < 6 * (0.81 * 0.19 / 6000) ** 0.5, "no two bits of a word go together"
    assert words.unique().numel() > 2500, "words differ"
    assert draw_bits(torch.tensor([7]), 6000, round(0.9 * STEPS)).equal(words), "the seed decides"
    assert not draw_bits(torch.tensor([8]), 6000, round(0.9 * STEPS)).equal(words)
    assert draw_bits(torch.tensor([1]), 3, STEPS).eq(-1).all()
    assert draw_bits(torch.tensor([1]), 3, 0).eq(0).all()

    torch.manual_seed(3)
    x = torch.full((37, 55), 2.0, requires_grad=True)  # not a whole number of words
    y = dropped(x, 0.25)
    kept = y != 0
    assert 0.70 < kept.double().mean() < 0.80
    assert torch.allclose(y[kept], torch.tensor(2 / 0.75), rtol=1e-4)
    y.sum().backward()
    assert x.grad is not None
    assert x.grad[~kept].eq(0).all()
    assert torch.allclose(x.grad[kept], torch.tensor(1 / 0.75), rtol=1e-4)
    assert not dropped(x, 0.25).ne(0).equal(kept), "drawn anew"
    torch.manual_seed(3)
    assert dropped(x, 0.25).equal(y), "from torch's own seed"


if __name__ == "__main__":
    main()
