"""Localisation by attention maps: a map is shares of 1 over the cells of an image, a box is shares of its sides."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.metrics.boxes import iou

LEVELS = tuple(tenth / 10 for tenth in range(1, 10))
Maps = Float[Tensor, "picture rows columns"]
Boxes = Float[Tensor, "picture 4"]


def pointing_game(maps: Maps, boxes: Boxes) -> Float[Tensor, "picture"]:
    """Return 1 if the centre of the highest cell is in the box; with several highest, the share of those that are."""
    highest = maps == maps.amax((1, 2), keepdim=True)
    return (highest & _cells_inside(maps, boxes)).sum((1, 2)) / highest.sum((1, 2))


def mass_inside(maps: Maps, boxes: Boxes) -> Float[Tensor, "picture"]:
    """Return the share of a map inside the box; cells on its border count by the part that is inside."""
    across, down = (_coverage(maps.shape[axis], boxes[:, low], boxes[:, low + 2]) for axis, low in ((2, 0), (1, 1)))
    return (maps * down[:, :, None] * across[:, None, :]).sum((1, 2))


def bounding_boxes(maps: Maps, level: float = 0.5) -> Boxes:
    """Return the box around the largest connected patch of cells with at least `level` of the maximum."""
    boxes = []
    for mask in (maps >= level * maps.amax((1, 2), keepdim=True)).cpu():
        rows, columns = largest_patch(mask).nonzero().unbind(1)
        height, width = mask.shape
        sides = columns.min() / width, rows.min() / height, (columns.max() + 1) / width, (rows.max() + 1) / height
        boxes.append(torch.stack(sides))
    return torch.stack(boxes).to(maps)


def best_iou(maps: Maps, boxes: Boxes) -> Float[Tensor, "picture"]:
    """Return the IoU of the map's box and the true one, at the level that is best for the other half of the images.

    The best level differs between methods, so one level for all would judge the level (Choe et al. 2020).
    """
    ious = torch.stack([iou(bounding_boxes(maps, level), boxes) for level in LEVELS])
    even = torch.arange(len(maps), device=maps.device) % 2 == 0
    best = {half: ious[:, even == half].mean(1).nan_to_num().argmax() for half in (True, False)}
    return torch.where(even, ious[best[False]], ious[best[True]])


def largest_patch(cells: Bool[Tensor, "rows columns"]) -> Bool[Tensor, "rows columns"]:
    """Return the largest patch of cells connected by their sides; of equal ones the first."""
    remaining, best = {(row, column) for row, column in cells.nonzero().tolist()}, set[tuple[int, int]]()
    for start in sorted(remaining):
        if start not in remaining:
            continue
        patch, stack = set[tuple[int, int]](), [start]
        remaining.discard(start)
        while stack:
            row, column = stack.pop()
            patch.add((row, column))
            neighbours = {(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)} & remaining
            remaining -= neighbours
            stack += neighbours
        best = max(best, patch, key=len)
    mask = torch.zeros_like(cells)
    if best:
        rows, columns = zip(*best, strict=True)
        mask[list(rows), list(columns)] = True
    return mask


def area_under_curve(curve: Float[Tensor, "step picture"]) -> Float[Tensor, "picture"]:
    """Return the area under a curve over equal steps from 0 to 1."""
    return torch.trapezoid(curve, dx=1 / (len(curve) - 1), dim=0)


def _cells_inside(maps: Maps, boxes: Boxes) -> Bool[Tensor, "picture rows columns"]:
    """Return True for cells whose centre is in the box."""
    _, height, width = maps.shape
    down, across = ((torch.arange(size, device=maps.device) + 0.5) / size for size in (height, width))
    x_min, y_min, x_max, y_max = boxes[:, :, None].unbind(1)
    rows, columns = (down >= y_min) & (down < y_max), (across >= x_min) & (across < x_max)
    return rows[:, :, None] & columns[:, None, :]


def _coverage(cells: int, low: Tensor, high: Tensor) -> Float[Tensor, "picture cell"]:
    """Return the share of each cell along a side that is between two positions."""
    starts = torch.arange(cells, device=low.device) / cells
    return ((torch.minimum(high[:, None], starts + 1 / cells) - torch.maximum(low[:, None], starts)) * cells).clamp(
        min=0
    )
