"""Packed rows as padded batches, for networks that read every sequence on a line of its own."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from regard.attention.masks import Grid, Row


def spread(
    x: Shaped[Tensor, "*laid"], layout: Row | Grid
) -> tuple[Shaped[Tensor, "line time *features"], Grid, Int[Tensor, "token"] | None]:
    """What lies in a packed row as a padded batch, with the way back; a padded batch as it is.

    The tail of a row whose bounds are known is left out: nobody reads what comes back for it.
    """
    if isinstance(layout, Grid):
        return x, layout, None
    if layout.most is not None:
        lines, longest = layout.most, layout.longest
        cells = layout.offsets[:lines, None].long() + torch.arange(longest, device=x.device)
        back = (layout.segment * longest + layout.place).clamp(max=lines * longest - 1)
        return x[cells.clamp(max=len(x) - 1)], Grid(layout.lengths[:lines], longest), back
    longest = int(layout.lengths.max()) if len(layout.lengths) else 0  # every column is a step: worth the measuring
    cells, back, grid = replace(layout, longest=longest).grid
    return x.index_select(0, cells).unflatten(0, (len(grid.lengths), grid.longest)), grid, back
