"""Convolutions over text: filters of several widths that slide along its words (Kim 2014)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F


class TextConvolution(nn.Module):
    """`relu(W [x_i ... x_{i+k-1}] + b)` around every word, for filters of several widths k, concatenated.

    Texts may be in one packed row or in a batch: `segment` has the text of every word, and beyond the ends of a text
    there are zeros, so a text shorter than a filter can be read too. A width may be given several times (Zhang and
    Wallace 2017).
    """

    def __init__(self, inputs: int, maps: int, widths: Sequence[int]):
        super().__init__()
        self.filters = nn.ModuleList(nn.Conv1d(inputs, maps, width) for width in widths)
        self.features = maps * len(widths)

    def forward(
        self, x: Float[Tensor, "*token inputs"], segment: Int[Tensor, "*token"]
    ) -> Float[Tensor, "*token features"]:
        """Return the outputs of the filters around every word."""
        words, texts = x.flatten(0, -2), segment.flatten()
        around: dict[int, Tensor] = {0: words}
        outputs = []
        for convolution in self.filters:
            assert isinstance(convolution, nn.Conv1d)
            assert convolution.bias is not None
            total, before = convolution.bias, (convolution.kernel_size[0] - 1) // 2
            for place, weight in enumerate(convolution.weight.unbind(-1)):
                away = place - before
                if away not in around:
                    around[away] = _shift_words(words, texts, away)
                total = total + F.linear(around[away], weight)
            outputs.append(F.relu(total))
        return torch.cat(outputs, -1).reshape(*x.shape[:-1], self.features)


def _shift_words(
    x: Float[Tensor, "token inputs"], segment: Int[Tensor, "token"], away: int
) -> Float[Tensor, "token inputs"]:
    """Return at every word the vector `away` words further, or zeros if that is in another text."""
    ends = (0, 0, 0, away) if away > 0 else (0, 0, -away, 0)
    there = F.pad(x, ends)[away:] if away > 0 else F.pad(x, ends)[:away]
    texts = F.pad(segment, ends[2:], value=-1)
    same = (texts[away:] if away > 0 else texts[:away]) == segment
    return there.masked_fill(~same[:, None], 0.0)
