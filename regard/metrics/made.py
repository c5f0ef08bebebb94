"""Quality of generated images from features of them and of real ones: distance, variety, nearest neighbours."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

CHUNK = 64  # generated images compared with all others at a time
SHARED_COMPONENT = 0.01  # a component all vectors share, in shades: images of a single shade then count as alike


def frechet_distance(first: Float[np.ndarray, "some features"], second: Float[np.ndarray, "others features"]) -> float:
    """Return `|m - n|^2 + tr(A + B - 2 (A B)^(1/2))` of means and covariances, as between normal distributions."""
    (m, a), (n, b) = (_moments(features) for features in (first, second))
    values, vectors = np.linalg.eigh(a)
    root = (vectors * np.sqrt(values.clip(min=0))) @ vectors.T
    shared = np.sqrt(np.linalg.eigvalsh(root @ b @ root).clip(min=0)).sum()
    return float(max(0.0, ((m - n) ** 2).sum() + np.trace(a) + np.trace(b) - 2 * shared))


def variety(features: Float[np.ndarray, "pictures features"], labels: Int[np.ndarray, "pictures"]) -> float:
    """Return how different images of one class are: 1 minus the mean cosine of two of them, each minus its mean shade.

    It is 0 if all images of each class are the same, whatever their contrast. A class needs two images.
    """
    unit_features = np.asarray(features, np.float64)
    unit_features = np.column_stack(
        [
            unit_features - unit_features.mean(1, keepdims=True),
            np.full(len(unit_features), SHARED_COMPONENT * unit_features.shape[1] ** 0.5),
        ]
    )
    unit_features /= np.linalg.norm(unit_features, axis=1, keepdims=True)
    varieties = []
    for label in np.unique(labels):
        class_features = unit_features[labels == label]
        if (count := len(class_features)) > 1:
            similarity = (np.square(class_features.sum(0)).sum() - count) / (count * (count - 1))
            varieties.append(1.0 - similarity)
    return float(max(0.0, np.mean(varieties))) if varieties else 1.0


def nearest_neighbours(
    queries: Float[np.ndarray, "some features"], candidates: Float[np.ndarray, "others features"]
) -> tuple[Int[np.ndarray, "some"], Float[np.ndarray, "some"]]:
    """Return the index of each query's nearest candidate and its distance, the root mean square difference."""
    squares, indices, distances = np.square(candidates).sum(1), [], []
    for first in range(0, len(queries), CHUNK):
        block = queries[first : first + CHUNK]
        relative_distances = squares - 2 * block @ candidates.T
        index = relative_distances.argmin(1)
        indices.append(index)
        distances.append(np.sqrt(np.square(block - candidates[index]).mean(1)))
    return np.concatenate(indices), np.concatenate(distances)


def _moments(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and covariance in double precision."""
    if len(features) < 2:
        raise ValueError(f"a distance between distributions needs two pictures on each side, not {len(features)}")
    doubles = np.asarray(features, np.float64)
    return doubles.mean(0), np.atleast_2d(np.cov(doubles, rowvar=False))
