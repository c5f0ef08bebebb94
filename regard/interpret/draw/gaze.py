"""Plots of images side by side: lit by the labels asked about, and with an enlarged region."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jaxtyping import UInt8
from torch import Tensor

from regard.interpret.draw.plots import COLOURS, light_mask, outline_crops, set_title, visible_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.interpret.trace import Trace

Box = tuple[float, float, float, float]


def compare_questions(trace: Trace, *, name: str | None = None, title: str = "") -> Figure:
    """Plot the image, and next to it the image lit for each label; one row for every method, or for the named one."""
    from matplotlib.figure import Figure

    [(side, picture)] = trace.pictures.items()
    looks = [attention for attention in trace.weights if attention.query == "asked" and name in (None, attention.name)]
    if not looks:
        raise ValueError(f"{name}: it looks the same way whatever is asked; choose a map, or one --about")
    labels = trace.items["asked"]
    figure = Figure(figsize=(2 * len(labels) + 2, 2 * len(looks) + 0.9), layout="constrained")
    grid = figure.subplots(len(looks), len(labels) + 1, squeeze=False)
    shades = picture.float().numpy() / 255
    regions = [(number, item.box) for number, item in enumerate(trace.items[side]) if item.box is not None]
    for row, attention in enumerate(looks):
        grid[row][0].imshow(shades.squeeze(), cmap="gray", vmin=0, vmax=1)
        grid[row][0].set_ylabel(attention.name, fontsize=9)
        for axes, label, values in zip(grid[row][1:], labels, attention.values.float().mean(0), strict=True):
            axes.imshow((shades * light_mask(values, regions, picture.shape)).squeeze(), cmap="gray", vmin=0, vmax=1)
            axes.set_title(f"{visible_text(label.text)}?" if row == 0 else "", fontsize=10)
            axes.set_xlabel(f"highest {max(float(values[place]) for place, _ in regions):.1%}", fontsize=8)
    for axes in grid.flat:
        outline_crops(axes, trace.facts.get("crops", ()), picture.shape)
        axes.set(xticks=[], yticks=[])
    set_title(figure, title)
    return figure


def second_look(
    panels: Sequence[tuple[UInt8[Tensor, "channels height width"], str, str]], box: Box, *, title: str = ""
) -> Figure:
    """Plot images with headings and answers; the first has a box around the region that the second enlarges."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    figure = Figure(figsize=(3.2 * len(panels), 3.9), layout="constrained")
    for axes, (pixels, heading, answer) in zip(figure.subplots(1, len(panels)), panels, strict=True):
        axes.imshow(pixels.permute(1, 2, 0).numpy().squeeze(), cmap="gray", vmin=0, vmax=255)
        axes.set_title(heading, fontsize=10)
        axes.set_xlabel(visible_text(answer))
        axes.set(xticks=[], yticks=[])
    height, width = panels[0][0].shape[1:]
    left, top, right, bottom = box[0] * width, box[1] * height, box[2] * width, box[3] * height
    frame = Rectangle((left - 0.5, top - 0.5), right - left, bottom - top, fill=False, color=COLOURS[0], lw=2)
    figure.axes[0].add_patch(frame)
    set_title(figure, title)
    return figure
