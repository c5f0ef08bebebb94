"""Curves: translation scores against source length or training time, gradient norms against distance, and more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jaxtyping import Float
from torch import Tensor

from regard.metrics.lengths import Bucket

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from regard.lab.tokenizers import TokenizerResult

# Distinguishable with any colour vision (Okabe and Ito 2008), and in print by marker and line style.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "os^DvP*"
LINES = ("-", "--", "-.", ":")
FEW = 10  # sentences below which a score is unreliable: drawn hollow and without a line

Bounds = tuple[int, int | None]
Times = Sequence[tuple[float, float]]
"""(seconds, score) of one run, one after the other."""


def by_length(systems: Mapping[str, Sequence[Bucket]], *, score: str = "BLEU", title: str = "") -> Figure:
    """Plot each system's score against source length, with 95 % intervals and the number of sentences."""
    from matplotlib.figure import Figure

    order = _collect_buckets(systems)
    figure = Figure(figsize=(max(5.0, 0.9 * len(order) + 2), 4.4), layout="constrained")
    upper, lower = figure.subplots(2, sharex=True, height_ratios=(4, 1))
    _plot_lengths(upper, lower, systems, order, looks(systems))
    upper.set_ylabel(score)
    if len(systems) > 1:
        figure.legend(frameon=False, ncols=min(3, len(systems)), loc="outside upper center", fontsize="small")
    _set_title(figure, title)
    return figure


def by_time(systems: Mapping[str, Times], *, score: str = "BLEU", title: str = "") -> Figure:
    """Plot the score of each run against its training time in seconds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.add_subplot()
    _plot_times(axes, systems, looks(systems))
    axes.set_ylabel(score)
    if len(systems) > 1:
        axes.legend(frameon=False)
    _set_title(figure, title)
    return figure


def by_length_and_time(
    lengths: Mapping[str, Sequence[Bucket]], times: Mapping[str, Times], *, score: str = "BLEU", title: str = ""
) -> Figure:
    """Plot scores against source length on the left, and against training time on the right."""
    from matplotlib.figure import Figure

    order, styles = _collect_buckets(lengths), looks([*lengths, *times])
    wide = max(4.6, 0.9 * len(order) + 1)
    figure = Figure(figsize=(wide + 5.2, 4.6), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=(4, 1), width_ratios=(wide, 5.2))
    upper = figure.add_subplot(grid[0, 0])
    _plot_lengths(upper, figure.add_subplot(grid[1, 0], sharex=upper), lengths, order, styles)
    upper.tick_params(labelbottom=False)
    upper.set_ylabel(f"{score}, test")
    beside = figure.add_subplot(grid[:, 1])
    _plot_times(beside, times, styles)
    beside.set_ylabel(f"{score}, held-out pairs")
    handles, labels = upper.get_legend_handles_labels()
    more = [pair for pair in zip(*beside.get_legend_handles_labels(), strict=True) if pair[1] not in labels]
    drawn = [*zip(handles, labels, strict=True), *more]
    if len(drawn) > 1:
        figure.legend(*zip(*drawn, strict=True), frameon=False, ncols=min(4, len(drawn)), loc="outside lower center")
    _set_title(figure, title)
    return figure


def by_distance(layers: Mapping[str, Float[Tensor, "distance"]], *, title: str = "") -> Figure:
    """Plot the gradient norm of each layer against the distance in steps, on a logarithmic scale."""
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
    axes.legend(frameon=False)
    tidy(axes)
    _set_title(figure, title)
    return figure


def by_words_between(
    panels: Mapping[str, Mapping[str, Sequence[tuple[int, float, float, float]]]], *, longest: int
) -> Figure:
    """Plot the error rate in per cent against distance, one panel per condition: (distance, mean, min, max)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6 * len(panels), 4.0), layout="constrained")
    every = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    styles = looks([name for systems in panels.values() for name in systems])
    for axes, (title, systems) in zip(every, panels.items(), strict=True):
        for name, points in systems.items():
            if points:
                distances, means, least, most = zip(*points, strict=True)
                axes.plot(distances, means, **styles[name], linewidth=1.6, markersize=5)
                axes.fill_between(distances, least, most, color=styles[name]["color"], alpha=0.15, linewidth=0)
        axes.axhline(50, color="#999999", linewidth=0.8)
        axes.axvline(longest, color="#999999", linewidth=0.8, linestyle=":")
        axes.text(longest, 97, " longest met in training", fontsize=8, color="#555555", va="top")
        axes.text(
            0.99, 57, "guessing: 50", fontsize=8, color="#555555", ha="right", transform=axes.get_yaxis_transform()
        )
        axes.set_ylim(-2, 100)
        axes.set_xlim(left=0)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("words between subject and participle")
        tidy(axes)
    every[0].set_ylabel("errors in 100")
    every[0].legend(frameon=False, loc="upper left", bbox_to_anchor=(0.0, 0.93))
    return figure


def by_clauses(panels: Mapping[str, Mapping[str, Sequence[tuple[int, float, float, float]]]]) -> Figure:
    """Plot the error rate in per cent against the number of clauses, one panel per condition."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6 * len(panels), 4.0), layout="constrained")
    grid = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
    styles = looks([name for systems in panels.values() for name in systems])
    for axes, (title, systems) in zip(grid, panels.items(), strict=True):
        for name, points in systems.items():
            clauses, means, least, most = zip(*points, strict=True)
            axes.plot(clauses, means, **styles[name], linewidth=1.6, markersize=5)
            axes.fill_between(clauses, least, most, color=styles[name]["color"], alpha=0.15, linewidth=0)
        axes.axhline(50, color="#999999", linewidth=0.8)
        axes.text(0, 52, "guessing: 50", fontsize=8, color="#555555")
        axes.axvline(2, color="#999999", linewidth=0.8, linestyle=":")
        axes.text(2, 97, " most met in training", fontsize=8, color="#555555", va="top")
        axes.set(ylim=(-2, 100), xticks=range(5))
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("relative clauses between subject and participle")
        tidy(axes)
    grid[0].set_ylabel("errors in 100")
    grid[0].legend(frameon=False, loc="upper left", bbox_to_anchor=(0.0, 0.93), fontsize=8)
    return figure


def by_vocabulary(results: Sequence[TokenizerResult]) -> Figure:
    """Plot tokens per line (left) and the share of unknown tokens (right) against vocabulary size."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter, ScalarFormatter

    figure = Figure(figsize=(9.2, 4.2), layout="constrained")
    tokens_axes, unknown_axes = figure.subplots(1, 2)
    for kind, style in looks([result.kind for result in results]).items():
        kind_results = [result for result in results if result.kind == kind]
        sizes = [result.vocab for result in kind_results]
        tokens_axes.plot(sizes, [result.per_line for result in kind_results], **style)
        unknown_axes.plot(sizes, [100 * result.unknown for result in kind_results], **style, clip_on=False)
    for axes, label in ((tokens_axes, "tokens of a line"), (unknown_axes, "unknown, of the tokens")):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.set_ylim(bottom=0)
        axes.set_xlabel("tokens of the vocabulary")
        axes.set_ylabel(label)
        tidy(axes)
    unknown_axes.yaxis.set_major_formatter(PercentFormatter(decimals=0))
    tokens_axes.legend(frameon=False)
    return figure


def looks(names: Sequence[str] | Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return colour, marker and line style for each name, by its position."""
    return {
        name: {
            "label": name.replace("$", r"\$"),
            "color": COLOURS[number % len(COLOURS)],
            "marker": MARKERS[number % len(MARKERS)],
            "linestyle": LINES[number % len(LINES)],
        }
        for number, name in enumerate(dict.fromkeys(names))
    }


def tidy(axes: Axes, *, across: bool = True) -> None:
    """Draw a light grid and remove the box; `across` draws the grid in both directions."""
    axes.grid(axis="both" if across else "y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _collect_buckets(systems: Mapping[str, Sequence[Bucket]]) -> dict[Bounds, Bucket]:
    """Return every bucket that any system has, ordered by length."""
    if not systems or not all(systems.values()):
        raise ValueError("no scores to draw: give at least one system with at least one bucket of sentences")
    every = {(bucket.low, bucket.high): bucket for buckets in systems.values() for bucket in buckets}
    return {bounds: every[bounds] for bounds in sorted(every, key=lambda span: (span[0], span[1] or float("inf")))}


def _plot_lengths(
    upper: Axes,
    lower: Axes,
    systems: Mapping[str, Sequence[Bucket]],
    order: Mapping[Bounds, Bucket],
    styles: Mapping[str, dict[str, Any]],
) -> None:
    """Plot scores by length into the upper axes, numbers of sentences into the lower ones."""
    places = {bounds: place for place, bounds in enumerate(order)}
    for number, (name, buckets) in enumerate(systems.items()):
        across = (number - (len(systems) - 1) / 2) * min(0.12, 0.6 / len(systems))  # separates error bars
        for few in (False, True):
            chosen = [length_bucket for length_bucket in buckets if (len(length_bucket.members) < FEW) is few]
            hollow = {"linestyle": "none", "markerfacecolor": "white", "label": None} if few else {}
            upper.errorbar(
                [places[length_bucket.low, length_bucket.high] + across for length_bucket in chosen],
                [length_bucket.score for length_bucket in chosen],
                yerr=[
                    [max(0.0, length_bucket.score - length_bucket.interval.low) for length_bucket in chosen],
                    [max(0.0, length_bucket.interval.high - length_bucket.score) for length_bucket in chosen],
                ],
                **{**styles[name], **hollow},
                capsize=3,
                linewidth=1.6,
                elinewidth=1.0,
            )
    upper.set_ylim(bottom=0)
    tidy(upper, across=False)
    counts = [len(bucket.members) for bucket in order.values()]
    drawn = lower.bar(range(len(order)), counts, color="#999999", width=0.6)
    lower.bar_label(drawn, fontsize=8)
    lower.set_ylim(top=1.35 * max(counts))
    lower.set_yticks([])
    lower.set_ylabel("sentences", fontsize=8)
    lower.set_xticks(range(len(order)), [bucket.name for bucket in order.values()])
    lower.set_xlabel("source length in words")
    lower.spines[["top", "right"]].set_visible(False)


def _plot_times(axes: Axes, systems: Mapping[str, Times], styles: Mapping[str, dict[str, Any]]) -> None:
    """Plot scores against seconds."""
    if not systems or not all(systems.values()):
        raise ValueError("no scores over time to draw: give at least one run with at least one evaluation")
    for name, points in systems.items():
        seconds, scores = zip(*points, strict=True)
        axes.plot(seconds, scores, **styles[name], linewidth=1.6, markersize=4)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("seconds of training")
    tidy(axes)


def _set_title(figure: Figure, title: str) -> None:
    if title:
        figure.suptitle(title.replace("$", r"\$"), fontsize=10)
