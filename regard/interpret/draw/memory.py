"""Plots of an external memory in use: inputs, outputs, and the read and write weights of its heads over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from jaxtyping import Float
from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDE = 12.0  # maximum width in inches
SPARE = 4  # memory locations shown beyond the last one in use
FAINT = 0.02  # weight below which a location counts as unused


def heads_over_time(
    vectors: Mapping[str, Float[Tensor, "step number"]],
    heads: Mapping[str, Float[Tensor, "heads step place"]],
    *,
    title: str = "",
) -> Figure:
    """Plot panels that share the time axis: vectors of bits by name, then the weights of every head.

    NaN values in the vectors stay blank, and unused locations at the end are cut off.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    used = max([_places_in_use(values) for values in heads.values()], default=0)
    panels = [(name, values, "bit") for name, values in vectors.items()]
    for kind, values in heads.items():
        several = len(values) > 1
        panels += [
            (f"{kind} weights{f' {n + 1}' if several else ''}", head[:, :used], "place")
            for n, head in enumerate(values)
        ]
    steps = max(len(values) for _, values, _ in panels)
    heights = [max(1.1, 0.11 * values.shape[1]) if axis == "bit" else 2.6 for _, values, axis in panels]
    width = min(WIDE, max(6.0, 0.09 * steps + 2.0))
    figure = Figure(figsize=(width, sum(heights) + 1.0), layout="constrained")
    grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (name, values, axis) in zip(grid, panels, strict=True):
        shown = axes.imshow(
            values.T.float().numpy(), cmap="cividis", aspect="auto", interpolation="nearest", vmin=0.0, vmax=1.0
        )
        axes.set_title(name, fontsize=9, loc="left")
        axes.set_ylabel(axis, fontsize=8)
        axes.tick_params(labelsize=7)
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    grid[-1].set_xlabel("step")
    grid[-1].xaxis.set_major_locator(MaxNLocator(12, integer=True))
    figure.colorbar(shown, ax=list(grid), shrink=0.5, label="bit, or weight")
    if title:
        figure.suptitle(title, fontsize=10)
    return figure


def _places_in_use(weights: Float[Tensor, "heads step place"]) -> int:
    """Return the number of locations to show: up to the last one in use, and a few more."""
    places = weights.amax((0, 1))
    looked_at = (places > FAINT).nonzero()
    return min(len(places), int(looked_at[-1]) + 1 + SPARE if len(looked_at) else SPARE)
