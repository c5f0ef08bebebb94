"""Calibration: the error by hand, and a temperature that undoes one, changes no answer and surprises least."""

import numpy as np
import pytest

from regard.metrics.calibration import (
    FEWEST,
    calibration_error,
    fit_temperature,
    negative_log_likelihood,
    probabilities,
)


def drawn(count: int = 4000, labels: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Logits, and labels that come as often as these say."""
    chance = np.random.default_rng(0)
    logits = chance.normal(size=(count, labels)) * 2
    truth = np.array([chance.choice(labels, p=row) for row in probabilities(logits)])
    return logits, truth


def test_the_error_is_the_distance_of_confidence_and_accuracy_by_bins():
    chances = np.array([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6], [0.3, 0.7]])
    truth = np.array([0, 1, 1, 0])
    by_hand = 2 / 4 * abs(0.9 - 0.5) + 1 / 4 * abs(0.6 - 1) + 1 / 4 * abs(0.7 - 0)
    assert calibration_error(chances, truth) == pytest.approx(by_hand)
    assert calibration_error(np.array([[1.0, 0.0]]), np.array([0])) == 0


@pytest.mark.parametrize("heat", [0.3, 1.0, 3.0])
def test_the_temperature_that_was_put_in_is_found(heat):
    logits, truth = drawn()
    found = fit_temperature(logits * heat, truth)
    assert found == pytest.approx(heat, rel=0.1)
    tried = [negative_log_likelihood(logits * heat, truth, found * by) for by in (0.97, 1.0, 1.03)]
    assert tried[1] == min(tried)
    before, after = (calibration_error(probabilities(logits * heat, each), truth) for each in (1.0, found))
    assert after < 0.03
    assert heat == 1.0 or after < before / 2
    assert (probabilities(logits, found).argmax(-1) == logits.argmax(-1)).all()


def test_without_a_mistake_nothing_can_be_said():
    logits = np.array([[2.0, 0.0], [0.0, 1.0]])
    assert fit_temperature(logits, np.array([0, 1])) == 1.0
    assert fit_temperature(logits, np.array([1, 0])) == 1.0


def test_a_temperature_is_fitted_to_some_hundred_examples_and_not_to_fewer():
    logits, truth = drawn(FEWEST)
    assert fit_temperature(3 * logits, truth) > 2
    assert fit_temperature(3 * logits[1:], truth[1:]) == 1.0


def test_fitting_to_enough_examples_costs_a_calibrated_model_little_and_helps_others():
    logits, truth = drawn(20 * FEWEST)
    for heat in (1.0, 0.7, 1.5):
        changes = []
        for first in range(0, 10 * FEWEST, FEWEST):
            held = slice(first, first + FEWEST)
            found = fit_temperature(heat * logits[held], truth[held])
            rest = slice(10 * FEWEST, None)
            before, after = (probabilities(heat * logits[rest], each) for each in (1.0, found))
            changes.append(calibration_error(after, truth[rest]) - calibration_error(before, truth[rest]))
        assert np.mean(changes) < (0.015 if heat == 1.0 else -0.02)
