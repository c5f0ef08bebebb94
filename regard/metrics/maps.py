"""Does a map lie where the thing is? A map is shares of 1 over the cells of a picture, a box shares of its sides."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.metrics.boxes import iou

LEVELS = tuple(tenth / 10 for tenth in range(1, 10))
Maps = Float[Tensor, "picture rows columns"]
Boxes = Float[Tensor, "picture 4"]


def pointing(maps: Maps, boxes: Boxes) -> Float[Tensor, "picture"]:
    """1 where the centre of the highest cell lies in the box; of several highest, the share of those that do."""
    highest = maps == maps.amax((1, 2), keepdim=True)
    return (highest & _inside(maps, boxes)).sum((1, 2)) / highest.sum((1, 2))


def inside(maps: Maps, boxes: Boxes) -> Float[Tensor, "picture"]:
    """Which share of a map lies in the box; cells on its border count by the part that does."""
    across, down = (_covered(maps.shape[axis], boxes[:, low], boxes[:, low + 2]) for axis, low in ((2, 0), (1, 1)))
    return (maps * down[:, :, None] * across[:, None, :]).sum((1, 2))


def boxed(maps: Maps, level: float = 0.5) -> Boxes:
    """The box around the largest patch of cells that have at least `level` of the highest."""
    found = []
    for one in (maps >= level * maps.amax((1, 2), keepdim=True)).cpu():
        rows, columns = largest(one).nonzero().unbind(1)
        height, width = one.shape
        sides = columns.min() / width, rows.min() / height, (columns.max() + 1) / width, (rows.max() + 1) / height
        found.append(torch.stack(sides))
    return torch.stack(found).to(maps)


def overlap(maps: Maps, boxes: Boxes) -> Float[Tensor, "picture"]:
    """IoU of the map's box and the true one, at the level that is best for the other half of the pictures.

    What suits one method is too high for another, so that one level for all would judge the level (Choe et al. 2020).
    """
    found = torch.stack([iou(boxed(maps, level), boxes) for level in LEVELS])
    even = torch.arange(len(maps), device=maps.device) % 2 == 0
    best = {half: found[:, even == half].mean(1).nan_to_num().argmax() for half in (True, False)}
    return torch.where(even, found[best[False]], found[best[True]])


def largest(cells: Bool[Tensor, "rows columns"]) -> Bool[Tensor, "rows columns"]:
    """The largest of the patches that hang together by their sides; of equal ones the first."""
    left, best = {(row, column) for row, column in cells.nonzero().tolist()}, set[tuple[int, int]]()
    for start in sorted(left):
        if start not in left:
            continue
        patch, waiting = set[tuple[int, int]](), [start]
        left.discard(start)
        while waiting:
            row, column = waiting.pop()
            patch.add((row, column))
            near = {(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)} & left
            left -= near
            waiting += near
        best = max(best, patch, key=len)
    found = torch.zeros_like(cells)
    if best:
        rows, columns = zip(*best, strict=True)
        found[list(rows), list(columns)] = True
    return found


def area(curve: Float[Tensor, "step picture"]) -> Float[Tensor, "picture"]:
    """The area under a curve over equal steps from 0 to 1."""
    return torch.trapezoid(curve, dx=1 / (len(curve) - 1), dim=0)


def _inside(maps: Maps, boxes: Boxes) -> Bool[Tensor, "picture rows columns"]:
    """Cells whose centre lies in the box."""
    _, height, width = maps.shape
    down, across = ((torch.arange(size, device=maps.device) + 0.5) / size for size in (height, width))
    left, top, right, bottom = boxes[:, :, None].unbind(1)
    rows, columns = (down >= top) & (down < bottom), (across >= left) & (across < right)
    return rows[:, :, None] & columns[:, None, :]


def _covered(cells: int, low: Tensor, high: Tensor) -> Float[Tensor, "picture cell"]:
    """Which part of each cell along a side lies between two places."""
    starts = torch.arange(cells, device=low.device) / cells
    return ((torch.minimum(high[:, None], starts + 1 / cells) - torch.maximum(low[:, None], starts)) * cells).clamp(
        min=0
    )
