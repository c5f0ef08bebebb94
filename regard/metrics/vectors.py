"""Evaluation of word vectors: neighbours by cosine, rank correlation with human judgements, and analogies."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

Vectors = Float[np.ndarray, "vocab width"]
CHUNK_SCORES = 1 << 24  # scores held at once


def unit(vectors: Vectors) -> Vectors:
    """Normalise every vector to length 1, so that the product of two is their cosine; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.maximum(lengths, np.finfo(np.float32).tiny)).astype(np.float32)


def nearest_words(
    units: Vectors, query: Float[np.ndarray, "width"], *, count: int, without: list[int]
) -> list[tuple[int, float]]:
    """Return the words whose vectors are most similar to the query, with their cosines, best first."""
    scores = units @ (query / max(float(np.linalg.norm(query)), np.finfo(np.float32).tiny))
    scores[without] = -np.inf
    count = min(count, len(scores) - len(set(without)))
    best = np.argpartition(-scores, max(count - 1, 0))[:count]
    best = best[np.argsort(-scores[best], kind="stable")]
    return [(int(index), float(scores[index])) for index in best]


def solve_analogies(units: Vectors, questions: Int[np.ndarray, "question 3"]) -> Int[np.ndarray, "question"]:
    """Return for every question "a is to b as c is to what?" the word nearest to b - a + c, other than the three."""
    answers = np.empty(len(questions), np.int64)
    size = max(1, CHUNK_SCORES // len(units))
    for start in range(0, len(questions), size):
        block = questions[start : start + size]
        targets = units[block[:, 1]] - units[block[:, 0]] + units[block[:, 2]]
        scores = targets @ units.T
        np.put_along_axis(scores, block, -np.inf, axis=1)
        answers[start : start + size] = scores.argmax(axis=1)
    return answers


def spearman(first: Float[np.ndarray, "value"], second: Float[np.ndarray, "value"]) -> float:
    """Return the rank correlation, equal values sharing their mean rank; NaN if one side is constant."""
    first_ranks, second_ranks = _ranks(first), _ranks(second)
    first_ranks, second_ranks = first_ranks - first_ranks.mean(), second_ranks - second_ranks.mean()
    norm = float(np.sqrt((first_ranks @ first_ranks) * (second_ranks @ second_ranks)))
    return float(first_ranks @ second_ranks) / norm if norm else float("nan")


def _ranks(values: Float[np.ndarray, "value"]) -> Float[np.ndarray, "value"]:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    after = np.cumsum(counts)
    return ((after - counts + after - 1) / 2.0)[inverse]
