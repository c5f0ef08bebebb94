"""A linear head is fitted to its one minimum."""

import numpy as np
import pytest

from regard.tasks.embedding.linear import cross_validate, fit, folds


def data(classes: int, texts: int = 40, width: int = 6) -> tuple[np.ndarray, np.ndarray]:
    chance = np.random.default_rng(classes)
    labels = np.arange(texts) % classes
    return chance.normal(size=(texts, width)).astype(np.float32) + labels[:, None] * 0.3, labels


def gradient(vectors: np.ndarray, labels: np.ndarray, head, penalty: float) -> np.ndarray:
    """Of the penalised loss by the weights and by the biases, in numpy."""
    wrong = head.probabilities(vectors) - np.eye(len(head.bias))[labels]
    strength = penalty * (2 if len(head.bias) == 2 else 1)
    by_weight = wrong.T @ vectors.astype(np.float64) + strength * head.weight
    return np.concatenate([by_weight.ravel(), wrong.sum(axis=0)])


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("penalty", [0.01, 1.0, 100.0])
def test_nothing_is_left_of_the_gradient(classes, penalty):
    vectors, labels = data(classes)
    head = fit(vectors, labels, classes, penalty=penalty)
    assert np.abs(gradient(vectors, labels, head, penalty)).max() < 1e-5
    assert head.slope < 1e-7


def test_texts_that_can_be_told_apart_are_and_their_order_means_nothing():
    vectors, labels = data(3)
    vectors = vectors + 5 * np.eye(6, dtype=np.float32)[labels]
    head = fit(vectors, labels, 3)
    assert (head.probabilities(vectors).argmax(axis=1) == labels).all()
    order = np.random.default_rng(0).permutation(len(labels))
    np.testing.assert_allclose(fit(vectors[order], labels[order], 3).weight, head.weight, atol=1e-5)


@pytest.mark.parametrize("classes", [2, 4])
def test_it_equals_the_regression_of_scikit_learn(classes):
    linear_model = pytest.importorskip("sklearn.linear_model", reason="scikit-learn is not installed")
    vectors, labels = data(classes)
    theirs = linear_model.LogisticRegression(C=2.0, tol=1e-10, max_iter=10_000).fit(vectors.astype(np.float64), labels)
    found = fit(vectors, labels, classes, penalty=0.5).probabilities(vectors)
    np.testing.assert_allclose(found, theirs.predict_proba(vectors.astype(np.float64)), atol=1e-4)


def test_every_text_is_judged_once_by_a_head_that_has_not_seen_it():
    labels = np.array([0, 0, 0, 1, 1, 1, 1, 2, 2, 2])
    parts = folds(labels)
    assert len(parts) == 3
    assert sorted(np.concatenate(parts)) == list(range(10))
    assert all(len(set(labels[part])) == 3 for part in parts)
    assert folds(np.array([0, 0, 1])) == []
    chance = np.random.default_rng(0)
    noise = chance.normal(size=(200, 50)).astype(np.float32)
    answers = cross_validate(noise, np.arange(200) % 2, 2)
    assert abs((answers == np.arange(200) % 2).mean() - 0.5) < 0.15, "noise says nothing of what was not seen"
    assert cross_validate(noise[:3], np.array([0, 0, 1]), 2) is None
