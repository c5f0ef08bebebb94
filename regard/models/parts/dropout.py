"""Dropout whose random bits come from a separate kernel when a step is compiled for a GPU.

A compiler draws a random number for every feature inside the kernel that needs it, which takes longer than all the rest
of that kernel. Here one draw serves eight features, and a mask has one bit per feature until it is needed.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.hardware import kernels_run

WORD = 32  # bits of a word
STEPS = 1 << 16  # resolution of a probability


class Dropout(nn.Dropout):
    """Dropout: sets features to zero with a given probability in training, and scales up the others."""

    def forward(self, input: Tensor) -> Tensor:
        """Apply dropout as `nn.Dropout` does, with other random numbers when compiled for a GPU."""
        if self.training and 0 < self.p < 1 and torch.compiler.is_compiling() and kernels_run(input):
            return drop_features(input, self.p)
        return super().forward(input)


def drop_features(x: Tensor, share: float) -> Tensor:
    """Set about `share` of the features to zero and scale up the others."""
    from regard.models.parts.random_bits import draw_bits

    keep_steps = round((1 - share) * STEPS)
    seed = torch.randint(1 << 62, (1,), device=x.device)
    words = draw_bits(seed, -(-x.numel() // WORD), keep_steps)
    bits = (words[:, None] >> torch.arange(WORD, dtype=torch.int32, device=x.device)) & 1
    mask = bits.bool().flatten()[: x.numel()].view(x.shape)  # a byte each where the compiler keeps them
    return torch.where(mask, x * (STEPS / keep_steps), 0)
