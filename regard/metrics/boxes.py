"""Overlap of bounding boxes; a box is left, top, right, bottom."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def iou(box: Float[Tensor, "*batch 4"], other: Float[Tensor, "*batch 4"]) -> Float[Tensor, "*batch"]:
    """Return intersection over union: 1 for equal boxes, 0 for disjoint ones; an inverted box has no area."""
    intersection, union, _ = _overlap_areas(box, other)
    return intersection / union.clamp(min=torch.finfo(box.dtype).tiny)


def giou_loss(box: Float[Tensor, "*batch 4"], other: Float[Tensor, "*batch 4"]) -> Float[Tensor, "*batch"]:
    """Return 1 minus the generalised IoU: from 0 to 2, and growing for disjoint boxes too (Rezatofighi et al. 2019).

    The generalised IoU is the IoU minus the empty share of the smallest rectangle around both.
    """
    intersection, union, enclosing = _overlap_areas(box, other)
    smallest = torch.finfo(box.dtype).tiny
    return 1 - intersection / union.clamp(min=smallest) + (enclosing - union) / enclosing.clamp(min=smallest)


def _overlap_areas(box: Tensor, other: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the areas of the intersection, the union, and the smallest rectangle around both."""

    def area(start: Tensor, end: Tensor) -> Tensor:
        return (end - start).clamp(min=0).prod(-1)

    (start, end), (other_start, other_end) = (corners.split(2, -1) for corners in (box, other))
    intersection = area(torch.maximum(start, other_start), torch.minimum(end, other_end))
    enclosing = area(torch.minimum(start, other_start), torch.maximum(end, other_end))
    return intersection, area(start, end) + area(other_start, other_end) - intersection, enclosing
