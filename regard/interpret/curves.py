"""Curves: how good translations are against how long their sources are, how much of a gradient is left how far back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from jaxtyping import Float
from torch import Tensor

from regard.metrics.lengths import Bucket

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Told apart by people of every colour vision (Okabe and Ito 2008), and by marker and line in print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "os^DvP*"
LINES = ("-", "--", "-.", ":")


def by_length(systems: Mapping[str, Sequence[Bucket]], *, score: str = "BLEU", title: str = "") -> Figure:
    """The score of each system against source length, with 95 % intervals, and how many sentences there are."""
    from matplotlib.figure import Figure

    if not systems or not all(systems.values()):
        raise ValueError("no scores to draw: give at least one system with at least one bucket of sentences")
    every = {(one.low, one.high): one for buckets in systems.values() for one in buckets}
    order = sorted(every, key=lambda bounds: (bounds[0], bounds[1] or float("inf")))
    places = {bounds: place for place, bounds in enumerate(order)}
    figure = Figure(figsize=(max(5.0, 0.9 * len(order) + 2), 4.4), layout="constrained")
    upper, lower = figure.subplots(2, sharex=True, height_ratios=(4, 1))
    for number, (name, buckets) in enumerate(systems.items()):
        across = (number - (len(systems) - 1) / 2) * min(0.12, 0.6 / len(systems))  # bars side by side stay readable
        upper.errorbar(
            [places[one.low, one.high] + across for one in buckets],
            [one.score for one in buckets],
            yerr=[
                [max(0.0, one.score - one.interval.low) for one in buckets],
                [max(0.0, one.interval.high - one.score) for one in buckets],
            ],
            label=name.replace("$", r"\$"),
            color=COLOURS[number % len(COLOURS)],
            marker=MARKERS[number % len(MARKERS)],
            linestyle=LINES[number % len(LINES)],
            capsize=3,
            linewidth=1.6,
            elinewidth=1.0,
        )
    upper.set_ylabel(score)
    upper.set_ylim(bottom=0)
    upper.grid(axis="y", alpha=0.3)
    if len(systems) > 1:
        upper.legend(frameon=False)
    counts = [len(every[bounds].members) for bounds in order]
    drawn = lower.bar(range(len(order)), counts, color="#999999", width=0.6)
    lower.bar_label(drawn, fontsize=8)
    lower.set_ylim(top=1.35 * max(counts))
    lower.set_yticks([])
    lower.set_ylabel("sentences", fontsize=8)
    lower.set_xticks(range(len(order)), [every[bounds].name for bounds in order])
    lower.set_xlabel("source length in words")
    for axes in (upper, lower):
        axes.spines[["top", "right"]].set_visible(False)
    if title:
        figure.suptitle(title.replace("$", r"\$"), fontsize=10)
    return figure


def by_distance(layers: Mapping[str, Float[Tensor, "distance"]], *, title: str = "") -> Figure:
    """The norm of each layer's gradient against the number of steps it has come, on a scale of powers of ten."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for number, (name, norms) in enumerate(layers.items()):
        axes.semilogy(
            norms.numpy(),
            label=name,
            color=COLOURS[number % len(COLOURS)],
            linestyle=LINES[number % len(LINES)],
            linewidth=1.8,
        )
    axes.set_xlabel("distance in steps")
    axes.set_ylabel("norm of the gradient")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    if title:
        figure.suptitle(title, fontsize=10)
    return figure
