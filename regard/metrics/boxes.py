"""How well one box covers another; a box is left, top, right, bottom."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def iou(box: Float[Tensor, "*batch 4"], other: Float[Tensor, "*batch 4"]) -> Float[Tensor, "*batch"]:
    """Intersection over union: 1 for equal boxes, 0 for boxes apart; a box turned inside out covers nothing."""
    both, either, _ = _areas(box, other)
    return both / either.clamp(min=torch.finfo(box.dtype).tiny)


def giou_loss(box: Float[Tensor, "*batch 4"], other: Float[Tensor, "*batch 4"]) -> Float[Tensor, "*batch"]:
    """A loss from 0 to 2 that grows also for boxes apart: 1 less the generalised overlap (Rezatofighi et al. 2019).

    The generalised overlap is intersection over union less the empty share of the rectangle around both.
    """
    both, either, around = _areas(box, other)
    smallest = torch.finfo(box.dtype).tiny
    return 1 - both / either.clamp(min=smallest) + (around - either) / around.clamp(min=smallest)


def _areas(box: Tensor, other: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What both cover, what either covers, and the rectangle around the two."""

    def area(start: Tensor, end: Tensor) -> Tensor:
        return (end - start).clamp(min=0).prod(-1)

    (start, end), (begin, finish) = (each.split(2, -1) for each in (box, other))
    both = area(torch.maximum(start, begin), torch.minimum(end, finish))
    around = area(torch.minimum(start, begin), torch.maximum(end, finish))
    return both, area(start, end) + area(begin, finish) - both, around
