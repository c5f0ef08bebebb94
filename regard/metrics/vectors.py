"""How good word vectors are: neighbours by cosine, agreement with people, analogies solved."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

Vectors = Float[np.ndarray, "vocab width"]
TOGETHER = 1 << 24  # scores held at once


def unit(vectors: Vectors) -> Vectors:
    """Every vector at length 1, so that a product of two is their cosine; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.maximum(lengths, np.finfo(np.float32).tiny)).astype(np.float32)


def nearest(
    units: Vectors, query: Float[np.ndarray, "width"], *, count: int, without: list[int]
) -> list[tuple[int, float]]:
    """The words whose vectors point most nearly as the query does, with their cosines, best first."""
    scores = units @ (query / max(float(np.linalg.norm(query)), np.finfo(np.float32).tiny))
    scores[without] = -np.inf
    count = min(count, len(scores) - len(set(without)))
    best = np.argpartition(-scores, max(count - 1, 0))[:count]
    best = best[np.argsort(-scores[best], kind="stable")]
    return [(int(place), float(scores[place])) for place in best]


def solve(units: Vectors, questions: Int[np.ndarray, "question 3"]) -> Int[np.ndarray, "question"]:
    """For every question "a is to b as c is to what?" the word nearest to b - a + c, itself none of the three."""
    found = np.empty(len(questions), np.int64)
    size = max(1, TOGETHER // len(units))
    for start in range(0, len(questions), size):
        asked = questions[start : start + size]
        wanted = units[asked[:, 1]] - units[asked[:, 0]] + units[asked[:, 2]]
        scores = wanted @ units.T
        np.put_along_axis(scores, asked, -np.inf, axis=1)
        found[start : start + size] = scores.argmax(axis=1)
    return found


def spearman(first: Float[np.ndarray, "value"], second: Float[np.ndarray, "value"]) -> float:
    """Rank correlation: Pearson's of the ranks, equal values sharing theirs; nan where one side does not vary."""
    one, other = _ranks(first), _ranks(second)
    one, other = one - one.mean(), other - other.mean()
    size = float(np.sqrt((one @ one) * (other @ other)))
    return float(one @ other) / size if size else float("nan")


def _ranks(values: Float[np.ndarray, "value"]) -> Float[np.ndarray, "value"]:
    _, place, times = np.unique(values, return_inverse=True, return_counts=True)
    after = np.cumsum(times)
    return ((after - times + after - 1) / 2.0)[place]
