"""Maps of word vectors: projections to two dimensions in which neighbours stay close."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from regard.interpret.draw.curves import COLOURS, MARKERS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Places = Float[np.ndarray, "word 2"]
Box = tuple[float, float, float, float]
SIZE = 9  # font size of the labels


def project(vectors: Float[np.ndarray, "word width"], *, method: str = "pca", seed: int = 0) -> Places:
    """Project vectors to two dimensions: by principal components, or by t-SNE, which preserves neighbours."""
    if len(vectors) < 3:
        raise ValueError(
            f"a map of {len(vectors)} word{'' if len(vectors) == 1 else 's'} says nothing: name at least three"
        )
    if method not in ("pca", "tsne"):
        raise ValueError(f"no way to draw a map is called {method!r}: take pca or tsne")
    if method == "tsne":
        return _tsne(vectors, seed)
    centred = (vectors - vectors.mean(axis=0)).astype(np.float64)
    left_vectors, singular_values, right_vectors = np.linalg.svd(centred, full_matrices=False)
    signs = np.sign(
        right_vectors[:2][np.arange(2), np.abs(right_vectors[:2]).argmax(axis=1)]
    )  # the sign of a component is arbitrary
    return left_vectors[:, :2] * singular_values[:2] * signs


def explained_variance(vectors: Float[np.ndarray, "word width"]) -> float:
    """Return the share of the variance that the first two principal components explain."""
    sizes = np.linalg.svd((vectors - vectors.mean(axis=0)).astype(np.float64), compute_uv=False) ** 2
    return float(sizes[:2].sum() / max(sizes.sum(), np.finfo(np.float64).tiny))


def plot_words(places: Places, words: Sequence[str], groups: Sequence[int], *, title: str = "") -> Figure:
    """Plot a labelled point for every word, with one colour and marker per group."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 7), layout="constrained")
    axes = figure.add_subplot()
    for group in sorted(set(groups)):
        chosen = [place for place, word_group in enumerate(groups) if word_group == group]
        colour, marker = COLOURS[group % len(COLOURS)], MARKERS[group % len(MARKERS)]
        axes.scatter(places[chosen, 0], places[chosen, 1], s=22, color=colour, marker=marker)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.08)
    axes.spines[:].set_visible(False)
    if title:
        figure.suptitle(title.replace("$", r"\$"), fontsize=10)
    figure.draw_without_rendering()  # settles the positions of the points on the page
    points = axes.transData.transform(places) * 72 / figure.dpi
    for word, place, offset in zip(words, places, _place_labels(points, words), strict=True):
        spot = (float(place[0]), float(place[1]))
        axes.annotate(word.replace("$", r"\$"), spot, offset, textcoords="offset points", fontsize=SIZE)
    return figure


def _place_labels(points: Places, words: Sequence[str]) -> list[tuple[float, float]]:
    """Return the offset of each label from its point, in points: the first without overlap, or with the least."""
    occupied = [(x - 3, y - 3, x + 3, y + 3) for x, y in points]
    chosen = []
    for (x, y), word in zip(points, words, strict=True):
        wide, high = 0.58 * SIZE * len(word), 1.1 * SIZE
        sides = [(5.0, -high / 3), (-5 - wide, -high / 3), (-wide / 2, 5.0), (-wide / 2, -3 - high)]
        corners = [(4.0, 3.0), (-4 - wide, 3.0), (4.0, -high), (-4 - wide, -high)]
        boxes = [(x + right, y + up, x + right + wide, y + up + high) for right, up in (*sides, *corners)]
        covered = [sum(_overlap_area(box, other) for other in occupied) for box in boxes]
        best = int(np.argmin(covered))
        occupied.append(boxes[best])
        chosen.append((*sides, *corners)[best])
    return chosen


def _overlap_area(first: Box, second: Box) -> float:
    """Return the area of the intersection of two boxes."""
    wide, high = (min(first[side + 2], second[side + 2]) - max(first[side], second[side]) for side in (0, 1))
    return max(0.0, wide) * max(0.0, high)


def _tsne(vectors: Float[np.ndarray, "word width"], seed: int) -> Places:
    try:
        from sklearn.manifold import TSNE
    except ImportError:
        raise ValueError("t-SNE needs scikit-learn: pip install scikit-learn, or take --method pca") from None
    around = min(30.0, (len(vectors) - 1) / 3)
    coordinates = TSNE(2, perplexity=around, metric="cosine", init="random", random_state=seed).fit_transform(vectors)
    return np.asarray(coordinates, np.float64)
