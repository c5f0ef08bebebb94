"""Correlations from sums: numpy's, of numbers and of ranks; Matthews' by its definition for two labels."""

import numpy as np
import pytest

from regard.metrics.correlation import pearson, ranks, spearman
from regard.metrics.significance import Statistics, interval


def drawn() -> tuple[np.ndarray, np.ndarray]:
    chance = np.random.default_rng(0)
    truth = chance.integers(0, 5, 200) / 2 + 1000.0
    return truth * 3 + chance.normal(size=200), truth


def test_pearson_is_numpys():
    answers, truth = drawn()
    found = pearson(answers, truth)
    assert found.score == pytest.approx(np.corrcoef(answers, truth)[0, 1], abs=1e-9)
    half = found.some(range(100))
    assert half.score == pytest.approx(np.corrcoef(answers[:100], truth[:100])[0, 1], abs=1e-9)
    spread = interval(found)
    assert spread.low < found.score < spread.high


def test_ranks_of_equal_numbers_are_shared_and_spearman_is_their_correlation():
    assert ranks([3, 1, 3, 2]).tolist() == [3.5, 1, 3.5, 2]
    answers, truth = drawn()
    assert spearman(answers, truth).score == pytest.approx(np.corrcoef(ranks(answers), ranks(truth))[0, 1], abs=1e-9)
    assert spearman(np.exp(answers / 1000), truth).score == pytest.approx(spearman(answers, truth).score, abs=1e-9)


def test_what_never_varies_goes_together_with_nothing():
    assert pearson([1, 1, 1], [1, 2, 3]).score == 0


def test_matthews_of_two_labels_is_its_formula():
    confusion = np.array([[5, 2], [1, 7]])  # truth, answer
    cells = np.repeat(np.arange(4), confusion.ravel())
    found = Statistics("matthews", np.eye(4)[cells])
    right, missed, false, negative = 7, 1, 2, 5
    wanted = (right * negative - false * missed) / np.sqrt(
        (right + false) * (right + missed) * (negative + false) * (negative + missed)
    )
    assert found.score == pytest.approx(wanted)
    assert Statistics("matthews", np.eye(4)[[0, 0, 2]]).score == 0
