"""Labels against the truth: counted by hand, and as scikit-learn counts where it is installed."""

import numpy as np
import pytest

from regard.metrics.labels import judge

TRUTH = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 0])
ANSWERS = np.array([0, 0, 1, 1, 0, 2, 2, 1, 2, 0])


def test_confusion_precision_recall_and_f1_by_hand():
    found = judge(TRUTH, ANSWERS, ["a", "b", "c"])
    assert found.confusion.tolist() == [[3, 1, 0], [1, 1, 0], [0, 1, 3]]
    assert found.accuracy == pytest.approx(0.7)
    a, b, c = found.labels
    assert (a.count, a.precision, a.recall) == (4, 0.75, 0.75)
    assert (b.count, b.precision, b.recall) == (2, pytest.approx(1 / 3), 0.5)
    assert (c.precision, c.recall, c.f1) == (1.0, 0.75, pytest.approx(6 / 7))
    assert found.f1 == pytest.approx((0.75 + 0.4 + 6 / 7) / 3)
    assert found.mistakes == [("a", "b", 1), ("b", "a", 1), ("c", "b", 1)]


def test_a_label_never_met_and_never_said_counts_nothing_and_nothing_divides_by_zero():
    found = judge(np.array([0, 0]), np.array([0, 1]), ["a", "b", "c"])
    assert found.f1 == pytest.approx((2 / 3 + 0) / 2)
    assert [label.f1 for label in found.labels][1:] == [0.0, 0.0]
    assert judge(np.zeros(0, int), np.zeros(0, int), ["a", "b"]).accuracy == 0.0


def test_scores_are_those_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    chance = np.random.default_rng(0)
    truth, answers = chance.integers(0, 5, 400), chance.integers(0, 5, 400)
    found = judge(truth, answers, list("abcde"))
    assert found.f1 == pytest.approx(metrics.f1_score(truth, answers, average="macro"))
    assert found.accuracy == pytest.approx(metrics.accuracy_score(truth, answers))
    assert (found.confusion == metrics.confusion_matrix(truth, answers)).all()
