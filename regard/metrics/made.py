"""How good made pictures are, from features of them and of real ones: their distance, variety, nearest neighbours."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

CHUNK = 64  # made pictures compared with all others at a time
GROUND = 0.01  # what every vector shares, in shades: pictures of a single shade are alike, not unlike


def frechet(one: Float[np.ndarray, "some features"], other: Float[np.ndarray, "others features"]) -> float:
    """`|m - n|^2 + tr(A + B - 2 (A B)^(1/2))` of means and covariances: the distance of two normal distributions."""
    (m, a), (n, b) = (_moments(each) for each in (one, other))
    values, vectors = np.linalg.eigh(a)
    root = (vectors * np.sqrt(values.clip(min=0))) @ vectors.T
    shared = np.sqrt(np.linalg.eigvalsh(root @ b @ root).clip(min=0)).sum()
    return float(max(0.0, ((m - n) ** 2).sum() + np.trace(a) + np.trace(b) - 2 * shared))


def variety(features: Float[np.ndarray, "pictures features"], labels: Int[np.ndarray, "pictures"]) -> float:
    """How unlike pictures of one class are: 1 less the mean cosine of two of them, each less its own mean shade.

    It is 0 where all pictures of each class are the same, whatever their contrast. A class needs two pictures.
    """
    each = np.asarray(features, np.float64)
    each = np.column_stack([each - each.mean(1, keepdims=True), np.full(len(each), GROUND * each.shape[1] ** 0.5)])
    each /= np.linalg.norm(each, axis=1, keepdims=True)
    found = []
    for label in np.unique(labels):
        own = each[labels == label]
        if (count := len(own)) > 1:
            alike = (np.square(own.sum(0)).sum() - count) / (count * (count - 1))
            found.append(1.0 - alike)
    return float(max(0.0, np.mean(found))) if found else 1.0


def nearest(
    some: Float[np.ndarray, "some features"], among: Float[np.ndarray, "others features"]
) -> tuple[Int[np.ndarray, "some"], Float[np.ndarray, "some"]]:
    """Which of the others is nearest to each, and how far: the root of the mean square difference of a feature."""
    squares, places, distances = np.square(among).sum(1), [], []
    for first in range(0, len(some), CHUNK):
        own = some[first : first + CHUNK]
        far = squares - 2 * own @ among.T
        place = far.argmin(1)
        places.append(place)
        distances.append(np.sqrt(np.square(own - among[place]).mean(1)))
    return np.concatenate(places), np.concatenate(distances)


def _moments(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance in double precision."""
    if len(features) < 2:
        raise ValueError(f"a distance between distributions needs two pictures on each side, not {len(features)}")
    own = np.asarray(features, np.float64)
    return own.mean(0), np.atleast_2d(np.cov(own, rowvar=False))
