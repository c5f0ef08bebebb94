"""Unpacking of packed rows into padded batches, for networks that read every sequence on its own line."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from regard.attention.masks import Grid, Row


def spread(
    x: Shaped[Tensor, "*laid"], layout: Row | Grid
) -> tuple[Shaped[Tensor, "line time *features"], Grid, Int[Tensor, "token"] | None]:
    """Turn a packed row into a padded batch, and return the indices back; a padded batch is returned unchanged.

    The tail of a row of fixed shape is left out, as its results are not used.
    """
    if isinstance(layout, Grid):
        return x, layout, None
    if layout.most is not None:
        lines, longest = layout.most, layout.longest
        cells = layout.offsets[:lines, None].long() + torch.arange(longest, device=x.device)
        back = (layout.segment * longest + layout.place).clamp(max=lines * longest - 1)
        return x[cells.clamp(max=len(x) - 1)], Grid(layout.lengths[:lines], longest), back
    longest = int(layout.lengths.max()) if len(layout.lengths) else 0  # every column is a step: worth a sync
    cells, back, grid = replace(layout, longest=longest).grid
    return x.index_select(0, cells).unflatten(0, (len(grid.lengths), grid.longest)), grid, back


def first(features: Float[Tensor, "*token width"], layout: Row | Grid) -> Float[Tensor, "text width"]:
    """Return the first token of each text; a row of fixed shape has its maximal number of texts."""
    if isinstance(layout, Grid):
        return features[:, 0]
    return features.index_select(0, layout.offsets[: _texts(layout)].long().clamp(max=len(features) - 1))


def last(features: Float[Tensor, "*token width"], layout: Row | Grid) -> Float[Tensor, "text width"]:
    """Return the last token of each text."""
    if isinstance(layout, Grid):
        return features[torch.arange(len(features), device=features.device), (layout.lengths - 1).clamp(min=0)]
    return features.index_select(0, (layout.offsets[1 : _texts(layout) + 1].long() - 1).clamp(min=0))


def mean(features: Float[Tensor, "*token width"], layout: Row | Grid) -> Float[Tensor, "text width"]:
    """Return the mean over the tokens of each text; texts of a row of fixed shape may be empty."""
    lines, grid, _ = spread(features, layout)
    total = lines.masked_fill(~grid.filled[..., None], 0.0).sum(1)
    return total / grid.lengths[:, None].clamp(min=1).to(lines.dtype)


def highest(features: Float[Tensor, "*token width"], layout: Row | Grid) -> Float[Tensor, "text width"]:
    """Return the maximum over the tokens of each text."""
    lines, grid, _ = spread(features, layout)
    return lines.masked_fill(~grid.filled[..., None], torch.finfo(lines.dtype).min).amax(1)


def _texts(layout: Row) -> int:
    """Return the maximal number of texts in a row."""
    return len(layout.lengths) if layout.most is None else layout.most
