"""The area under the ROC curve against counting every pair, and scikit-learn where it is installed."""

import math

import numpy as np
import pytest

from regard.metrics.auc import auc, mean_auc


def test_auc_is_the_share_of_pairs_in_order_with_ties_as_half():
    draw = np.random.default_rng(0)
    scores, truths = draw.integers(0, 6, 40).astype(float), draw.random(40) < 0.4
    pairs = [(scores[i] > scores[j]) + (scores[i] == scores[j]) / 2 for i in range(40) for j in range(40)
             if truths[i] and not truths[j]]  # fmt: skip
    assert auc(scores, truths) == pytest.approx(np.mean(pairs))
    assert auc(np.arange(4.0), np.array([0, 0, 1, 1])) == 1.0
    assert auc(np.zeros(4), np.array([0, 1, 0, 1])) == 0.5
    assert math.isnan(auc(np.zeros(2), np.ones(2)))


def test_auc_of_several_classes_is_scikit_learns():
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    draw = np.random.default_rng(1)
    chances, truths = draw.dirichlet([1, 1, 1], 50), draw.integers(0, 3, 50)
    assert mean_auc(chances, truths) == pytest.approx(metrics.roc_auc_score(truths, chances, multi_class="ovr"))
    two = chances[:, :2] / chances[:, :2].sum(1, keepdims=True)
    assert mean_auc(two, truths % 2) == pytest.approx(metrics.roc_auc_score(truths % 2, two[:, 1]))


def test_a_class_that_nobody_has_is_left_out_of_the_mean():
    chances = np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.3, 0.6, 0.1]])
    assert mean_auc(chances, np.array([0, 1, 1])) == 1.0
