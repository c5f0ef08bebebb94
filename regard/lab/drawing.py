"""The picture of a demonstration: its matrices as heat maps with their numbers, its charts as curves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from regard.interpret.draw.curves import looks, tidy
from regard.lab.demonstration import Chart, Demonstration, LabelledMatrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CELL_WIDTH, CELL_HEIGHT = 0.62, 0.42  # inches of a cell of a matrix
SMALL_CELL = 0.24  # inches of a cell without a number
LABEL_WIDTH = 1.2  # inches for the names of rows
CHART_WIDTH, CHART_HEIGHT = 4.8, 3.6
MAX_MARKED = 24  # points of a curve that are marked
MAX_PER_LINE = 4  # panels side by side
NUMBERED_CELLS = 100  # cells of a matrix that has its numbers written in


def draw_demonstration(demonstration: Demonstration) -> Figure:
    """Return a figure of all matrices and charts of a demonstration, side by side."""
    from matplotlib.figure import Figure

    panels: list[LabelledMatrix | Chart] = [*demonstration.matrices, *demonstration.charts]
    across = math.ceil(len(panels) / math.ceil(len(panels) / MAX_PER_LINE))
    lines = [panels[start : start + across] for start in range(0, len(panels), across)]
    width = max(sum(_panel_size(panel)[0] for panel in line) for line in lines)
    heights = [max(_panel_size(panel)[1] for panel in line) for line in lines]
    figure = Figure(figsize=(max(width, 5.0), sum(heights) + 0.5), layout="constrained")
    rows = figure.subfigures(len(lines), 1, squeeze=False, height_ratios=heights)[:, 0]
    for line, subfigure in zip(lines, rows, strict=True):
        ratios = [_panel_size(panel)[0] for panel in line]
        if (blank := width - sum(ratios)) > CELL_WIDTH:
            ratios.append(blank)  # so that the panels of a shorter line are no wider than the others
        places = subfigure.subplots(1, len(ratios), squeeze=False, width_ratios=ratios)[0]
        for axes in places[len(line) :]:
            axes.set_axis_off()
        for panel, axes in zip(line, places, strict=False):
            if isinstance(panel, LabelledMatrix):
                plot_matrix(axes, panel)
            else:
                plot_chart(axes, panel)
    figure.suptitle(demonstration.title, fontsize=11, parse_math=False)
    return figure


def plot_matrix(axes: Axes, matrix: LabelledMatrix) -> None:
    """Plot a matrix as a heat map; a small one has its numbers in its cells."""
    values = [[float(value) for value in row] for row in matrix.values]
    flat = [value for row in values for value in row]
    bound = max(1e-9, *map(abs, flat))
    colours: dict[str, Any] = {"cmap": "Blues", "vmin": 0, "vmax": bound}
    if min(flat) < 0:
        colours = {"cmap": "RdBu", "vmin": -bound, "vmax": bound}
    axes.imshow(values, aspect="auto", interpolation="nearest", **colours)
    axes.set_xticks(range(len(matrix.columns)), matrix.columns, fontsize=9)
    axes.set_yticks(range(len(matrix.rows)), matrix.rows, fontsize=9)
    if max(map(len, matrix.columns), default=0) > 6 and len(matrix.columns) > 2:
        axes.tick_params(axis="x", labelrotation=40)
        for label in axes.get_xticklabels():
            label.set_horizontalalignment("right")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(matrix.title, fontsize=9, parse_math=False)
    if len(flat) <= NUMBERED_CELLS:
        for row, numbers in enumerate(values):
            for column, value in enumerate(numbers):
                dark = abs(value) > 0.6 * bound
                text = f"{value:.{2 if matrix.digits is None else matrix.digits}f}"
                axes.text(column, row, text, ha="center", va="center", fontsize=8, color="white" if dark else "black")


def plot_chart(axes: Axes, chart: Chart) -> None:
    """Plot the curves of a chart."""
    for name, style in looks(list(chart.curves)).items():
        points = {"marker": ""} if len(chart.x) > MAX_MARKED else {}
        axes.plot(chart.x, chart.curves[name], **(style | points), linewidth=1.6, markersize=4)
    axes.set_xscale(chart.x_scale)
    axes.set_yscale(chart.y_scale)
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)
    axes.set_title(chart.title, fontsize=10, parse_math=False)
    if len(chart.curves) > 1:
        axes.legend(frameon=False, fontsize=8)
    tidy(axes)


def _panel_size(panel: LabelledMatrix | Chart) -> tuple[float, float]:
    """Return the width and the height of a panel in inches."""
    if isinstance(panel, Chart):
        return CHART_WIDTH, CHART_HEIGHT
    longest_row = max((len(name) for name in panel.rows), default=0)
    numbered = len(panel.rows) * len(panel.columns) <= NUMBERED_CELLS
    cell_width, cell_height = (CELL_WIDTH, CELL_HEIGHT) if numbered else (SMALL_CELL, SMALL_CELL)
    title_width = 0.085 * len(panel.title)
    width = max(len(panel.columns) * cell_width, title_width) + min(LABEL_WIDTH, 0.2 + 0.09 * longest_row)
    return width, max(len(panel.rows) * cell_height, 0.8) + 0.9
