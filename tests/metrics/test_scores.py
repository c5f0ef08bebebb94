"""Scores of any task: a table, intervals that resampling gives, the worst answers first, two systems compared."""

import math
from dataclasses import replace

import numpy as np
import pytest

from regard.metrics.scores import Judged, Scores, compare
from regard.metrics.significance import mean_statistics


def scores(name, right):
    """A system of which each answer is right (1) or wrong (0)."""
    examples = [Judged(n + 1, f"text {n}", "a", "a" if one else "b", float(one)) for n, one in enumerate(right)]
    return Scores(
        name, "classification", {"accuracy, %": mean_statistics([100.0 * one for one in right])}, examples, unit="text"
    )


def test_a_mean_has_the_interval_of_the_bootstrap():
    right = np.random.default_rng(0).random(400) < 0.8
    found = scores("one", right)
    assert found.metrics["accuracy, %"] == pytest.approx(100 * right.mean())
    deviation = 100 * np.sqrt(right.mean() * (1 - right.mean()) / len(right))
    assert found.intervals["accuracy, %"].half == pytest.approx(1.96 * deviation, rel=0.1)


def test_scores_show_themselves_as_a_table_not_as_what_was_counted():
    shown = repr(scores("one", [1, 0, 1, 1]))
    assert [line.split()[:2] for line in shown.splitlines()] == [["system", "one"], ["texts", "4"], ["accuracy,", "%"]]
    assert "array" not in shown


def test_the_worst_answers_come_first_and_in_the_order_of_the_file():
    found = scores("one", [1, 0, 1, 0])
    assert [one.number for one in found.worst(3)] == [2, 4], "right answers are none of them"


def test_two_systems_are_held_together_on_the_same_examples():
    """Against the sign test, which is exact: randomisation of pairs that are right or wrong is just that."""
    right, other = [1] * 20 + [0] * 20, [1] * 14 + [0] * 6 + [1] * 3 + [0] * 17  # 6 examples against 3
    found = compare([scores("a", right), scores("b", other)])
    [_, verdict] = found.randomisation["accuracy, %"]
    exact = sum(math.comb(9, k) for k in range(10) if abs(2 * k - 9) >= 3) / 2**9
    assert verdict.difference == pytest.approx(-7.5)
    assert verdict.p == pytest.approx(exact, abs=0.02)
    assert found.lines()[2][0] == "accuracy, %"


def test_other_references_and_other_tasks_are_not_compared():
    one = scores("a", [1, 0])
    other = replace(one, examples=[replace_right(each) for each in one.examples])
    with pytest.raises(ValueError, match="other references"):
        compare([one, other])
    with pytest.raises(ValueError, match="no metric in common"):
        compare([one, replace(one, statistics={"mae": mean_statistics([1.0, 2.0], lower=True)})])


def replace_right(judged):
    return judged._replace(right="c")
