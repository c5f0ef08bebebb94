"""Scores of word vectors are those that others compute."""

import numpy as np
import pytest

from regard.metrics.vectors import nearest_words, solve_analogies, spearman, unit


def some(words: int = 50, width: int = 6) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(words, width)).astype(np.float32)


def test_rank_correlation_is_scipys_ties_included():
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed (it comes with gensim)")
    chance = np.random.default_rng(0)
    for _ in range(20):
        one, other = chance.integers(0, 6, 30).astype(float), chance.normal(size=30)
        other[3] = other[7]
        assert spearman(one, other) == pytest.approx(stats.spearmanr(one, other)[0])
    assert spearman(np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0, 21.0])) == pytest.approx(1)
    assert np.isnan(spearman(np.ones(3), np.arange(3.0)))


def test_the_nearest_are_those_of_the_largest_cosine():
    vectors = some()
    units = unit(vectors)
    np.testing.assert_allclose(np.linalg.norm(units, axis=1), 1, rtol=1e-6)
    cosines = [float(v @ vectors[4] / np.linalg.norm(v) / np.linalg.norm(vectors[4])) for v in vectors]
    order = sorted((place for place in range(50) if place not in (4, 9)), key=lambda place: -cosines[place])
    found = nearest_words(units, 3 * vectors[4], count=7, without=[4, 9])
    assert [place for place, _ in found] == order[:7]
    np.testing.assert_allclose([cosine for _, cosine in found], [cosines[place] for place in order[:7]], rtol=1e-4)
    assert len(nearest_words(units, vectors[0], count=500, without=[0])) == 49


def test_zeros_have_no_direction_and_do_no_harm():
    units = unit(np.zeros((3, 4), np.float32))
    assert (units == 0).all()
    assert [cosine for _, cosine in nearest_words(units, units[0], count=2, without=[0])] == [0, 0]


def test_analogies_are_solved_by_the_nearest_word_that_was_not_asked_for(monkeypatch):
    units = unit(some())
    questions = np.random.default_rng(1).integers(0, 50, (40, 3))
    monkeypatch.setattr("regard.metrics.vectors.CHUNK_SCORES", 50 * 7)
    for question, answer in zip(questions, solve_analogies(units, questions), strict=True):
        a, b, c = question
        scores = units @ (units[b] - units[a] + units[c])
        scores[question] = -np.inf
        assert answer == scores.argmax()
    assert len(solve_analogies(units, np.zeros((0, 3), np.int64))) == 0


def test_a_square_of_words_is_an_analogy():
    corners = np.array([[1, 0, 0.2], [1, 1, 0.2], [0, 0.1, 1], [0, 1.1, 1], [-1, -1, 0]], np.float32)
    assert solve_analogies(corners, np.array([[0, 1, 2]])).tolist() == [3]
