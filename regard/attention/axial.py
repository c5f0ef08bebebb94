"""Axial attention: along the rows of an image, then along its columns (Ho et al. 2019).

Pixels are (batch, row, column, width). Each row or column is a sequence, and all rows or columns of an image are a
batch, so the attention and the masks of texts apply.

    along rows       rows x columns^2 pairs
    along columns    rows^2 x columns pairs
    all at once      (rows x columns)^2 pairs

After attention along rows and then along columns, every pixel has received information from every other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from jaxtyping import Float
from torch import Tensor

Axis = Literal["row", "column"]
Change = Callable[[Float[Tensor, "line place width"]], Tensor]


def along(
    axis: Axis, change: Change, x: Float[Tensor, "batch row column width"]
) -> Float[Tensor, "batch row column width"]:
    """Apply `change`, an attention or a block with one, to every row, or to every column, of the pixels."""
    lines = x if axis == "row" else x.transpose(1, 2)
    changed = change(lines.flatten(0, 1)).unflatten(0, lines.shape[:2])
    return changed if axis == "row" else changed.transpose(1, 2)


def axial_pairs(rows: int, columns: int) -> int:
    """Return the number of pairs of pixels that attend to each other along rows and along columns."""
    return rows * columns * (rows + columns)


def full_pairs(rows: int, columns: int) -> int:
    """Return the number of pairs of pixels where all attend to all."""
    return (rows * columns) ** 2
