"""Pictures of attention: alignments and position tables, drawn without a screen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jaxtyping import Float
from torch import Tensor

from regard.interpret.items import SIDES

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def alignment(
    weights: Float[Tensor, "query key"],
    *,
    queries: Sequence[str],
    keys: Sequence[str],
    title: str = "",
    sides: tuple[str, str] = ("target", "source"),
) -> Figure:
    """A matrix of where each query looked among the keys: one line per query; `sides` are the names of both lists."""
    from matplotlib.figure import Figure

    rows, columns = weights.shape
    figure = Figure(figsize=(max(3.5, 0.42 * columns + 1.8), max(2.5, 0.36 * rows + 1.4)), layout="constrained")
    axes = figure.add_subplot()
    shown = axes.imshow(weights.float().numpy(), cmap="cividis", vmin=0.0, vmax=max(float(weights.max()), 1e-6))
    axes.set_xticks(range(columns), [_visible(key) for key in keys], rotation=60, ha="left", rotation_mode="anchor")
    axes.set_yticks(range(rows), [_visible(query) for query in queries])
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set_xlabel(SIDES.get(sides[1], sides[1]))
    axes.xaxis.set_label_position("top")
    axes.set_ylabel(SIDES.get(sides[0], sides[0]))
    figure.colorbar(shown, ax=axes, shrink=0.8, label="attention weight")
    if title:
        figure.suptitle(title, fontsize=10)
    return figure


def positions(table: Float[Tensor, "place width"], *, title: str = "") -> Figure:
    """A heat map of a position table: one line per place, one column per feature."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    shown = axes.imshow(table.float().numpy(), aspect="auto", cmap="cividis", interpolation="nearest")
    axes.set_xlabel("feature")
    axes.set_ylabel("place")
    figure.colorbar(shown, ax=axes, label="value")
    if title:
        figure.suptitle(title, fontsize=10)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write a picture in the format its name asks for."""
    known = figure.canvas.get_supported_filetypes()
    kind = path.suffix.lstrip(".").lower()
    if kind not in known:
        raise ValueError(f"{path}: cannot draw a {kind or 'nameless'} file, choose png, svg or pdf")
    figure.savefig(path, dpi=150)


def _visible(text: str) -> str:
    """A token as a label: spaces shown, dollar signs not taken for formulas."""
    return text.replace("$", r"\$").strip() or "␣"
