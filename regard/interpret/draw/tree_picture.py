"""The tree of a beam search as a picture: a column for every step, with its hypotheses from the best down."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from regard.decoding.search_tree import SearchTree, TreeNode
from regard.interpret.draw.plots import set_title
from regard.interpret.draw.tree_text import describe_search, spell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMN, ROW = 1.15, 0.5  # inches of a step and of a hypothesis
MARGIN, HEADING = 0.6, 1.6  # inches around the tree, and above it
BOX = 0.78, 0.68  # part of a step and of a row that a box takes
LETTERS = 10  # of a token in its box
LINE_LETTERS = 15  # of the explanation for every inch
STYLES: dict[str, dict[str, Any]] = {
    "best": {"facecolor": "#0b5394", "edgecolor": "#0b5394", "linewidth": 2.0},
    "kept": {"facecolor": "#dceafa", "edgecolor": "#0b5394", "linewidth": 1.2},
    "ended": {"facecolor": "#ffffff", "edgecolor": "#15202b", "linewidth": 2.4},
    "pruned": {"facecolor": "#ffffff", "edgecolor": "#7b8794", "linewidth": 1.0, "linestyle": (0, (3, 2))},
}
"""Fates differ by frame and filling, not by hue: full for the answer, light for what was kept, dashed for the rest."""


def plot_tree(tree: SearchTree) -> Figure:
    """Plot a search."""
    from matplotlib.figure import Figure

    rows = place_rows(tree)
    steps, height = max(node.step for node in tree.nodes), max(rows) + 1
    width = max(6.0, COLUMN * (steps + 1) + 2 * MARGIN)
    figure = Figure(figsize=(width, ROW * height + HEADING + MARGIN), layout="constrained")
    axes = figure.add_subplot()
    axes.set_xlim(-0.6, max(steps, width / COLUMN - 1.5) + 0.6)
    axes.set_ylim(height - 0.4, -0.9)
    axes.set_axis_off()
    for step in range(1, steps + 1):
        axes.text(step, -0.7, str(step), ha="center", color="#52606d")
    for place, node in enumerate(tree.nodes):
        _plot_node(axes, tree, place, rows)
        if node.parent >= 0:
            _plot_line(axes, node, rows[place], tree.nodes[node.parent].step, rows[node.parent])
    note = (
        "Filled: the answer. Light: kept. Thick frame: ended. Dashed: left out. Under a token its total; ended: score."
    )
    words = textwrap.fill(f"{describe_search(tree)} {note}", max(40, int(LINE_LETTERS * width)))
    set_title(figure, f"{tree.text}\n{tree.answer}")
    figure.supxlabel(words, fontsize=9, x=0.01, ha="left")
    return figure


def place_rows(tree: SearchTree) -> list[int]:
    """Return the row of every hypothesis: its place in the ranking of its round."""
    rows, lengths = [], dict[int, int]()
    for node in tree.nodes:
        rows.append(lengths.get(node.step, 0))
        lengths[node.step] = rows[-1] + 1
    return rows


def _plot_node(axes: Any, tree: SearchTree, place: int, rows: list[int]) -> None:
    """Plot the box of a hypothesis, with its token and its total or score."""
    from matplotlib.patches import FancyBboxPatch

    node, (width, height) = tree.nodes[place], BOX
    style = STYLES["best" if node.is_best else node.fate]
    corner = node.step - width / 2, rows[place] - height / 2
    shape = "square,pad=0" if node.fate == "ended" else "round,pad=0,rounding_size=0.12"
    axes.add_patch(FancyBboxPatch(corner, width, height, boxstyle=shape, zorder=2, **style))
    colour = "#ffffff" if node.is_best else "#15202b"
    number = node.total if node.normalized is None else node.normalized
    text = spell(tree, place, room=LETTERS) if place else "start"
    words = {"ha": "center", "va": "center", "color": colour, "zorder": 3, "parse_math": False}
    axes.text(node.step, rows[place] - 0.14, text, fontsize=9, **words)
    if place:
        axes.text(node.step, rows[place] + 0.18, f"{number:.3f}", fontsize=7, **words)


def _plot_line(axes: Any, node: TreeNode, row: int, parent_step: int, parent_row: int) -> None:
    """Plot the line from a parent to its continuation."""
    style: dict[str, Any] = {"color": "#7b8794", "linewidth": 0.8, "zorder": 1}
    if node.is_best:
        style |= {"color": "#0b5394", "linewidth": 2.4}
    elif node.fate == "pruned":
        style["linestyle"] = (0, (3, 2))
    half = BOX[0] / 2
    axes.plot([parent_step + half, node.step - half], [parent_row, row], **style)
