"""Axial attention: along the rows of a picture, then along its columns (Ho et al. 2019).

Pixels lie as (batch, row, column, width). A line of them, a row or a column, is a sequence like any other, and all
lines of a picture are a batch: what attends along them is the attention of texts, under the masks of texts.

    along rows       rows x columns^2 pairs
    along columns    rows^2 x columns pairs
    all at once      (rows x columns)^2 pairs

A pixel that has looked along its row, and then along its column, has been reached by every other.
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
    """The pixels after `change`, an attention or a block with one, has been through every row, or every column."""
    lines = x if axis == "row" else x.transpose(1, 2)
    changed = change(lines.flatten(0, 1)).unflatten(0, lines.shape[:2])
    return changed if axis == "row" else changed.transpose(1, 2)


def axial_pairs(rows: int, columns: int) -> int:
    """Pairs of pixels of which one looks at the other, along rows and along columns."""
    return rows * columns * (rows + columns)


def full_pairs(rows: int, columns: int) -> int:
    """Pairs of pixels where all look at all."""
    return (rows * columns) ** 2
