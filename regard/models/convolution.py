"""Convolutions over text: filters of several widths that slide along its words (Kim 2014)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F


class TextConvolution(nn.Module):
    """`relu(W [x_i ... x_{i+k-1}] + b)` around every word, for filters of several widths k, side by side.

    Beyond the ends of a text, and on padding, there are zeros: a text shorter than a filter is read all the same. A
    width may be given several times (Zhang and Wallace 2017).
    """

    def __init__(self, inputs: int, maps: int, widths: Sequence[int]):
        super().__init__()
        self.filters = nn.ModuleList(nn.Conv1d(inputs, maps, width) for width in widths)
        self.features = maps * len(widths)

    def forward(
        self, x: Float[Tensor, "batch time inputs"], filled: Bool[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time features"]:
        """What the filters see around every word."""
        x = x.masked_fill(~filled[..., None], 0.0).mT
        seen = []
        for each in self.filters:
            assert isinstance(each, nn.Conv1d)
            beyond = each.kernel_size[0] - 1
            seen.append(F.relu(each(F.pad(x, (beyond // 2, beyond - beyond // 2)))))
        return torch.cat(seen, 1).mT
