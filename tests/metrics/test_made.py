"""Measures of made pictures: the distance of two distributions, variety, nearest neighbours."""

from __future__ import annotations

import numpy as np
import pytest

from regard.metrics.made import frechet_distance, nearest_neighbours, variety


def test_the_distance_is_that_of_two_normal_distributions():
    linalg = pytest.importorskip("scipy.linalg", reason="scipy is not installed")
    draw = np.random.default_rng(0)
    one = draw.normal(size=(200, 5)) @ draw.normal(size=(5, 5))
    other = draw.normal(size=(300, 5)) @ draw.normal(size=(5, 5)) + 1
    a, b = np.cov(one, rowvar=False), np.cov(other, rowvar=False)
    root = linalg.sqrtm(a @ b).real
    known = np.square(one.mean(0) - other.mean(0)).sum() + np.trace(a + b - 2 * root)
    assert frechet_distance(one, other) == pytest.approx(known, rel=1e-8)
    assert frechet_distance(one, other) == pytest.approx(frechet_distance(other, one), rel=1e-8)
    assert frechet_distance(one, one) == pytest.approx(0, abs=1e-6)
    assert frechet_distance(one, one + np.array([3, 0, 0, 0, 0])) == pytest.approx(9, rel=1e-6)
    with pytest.raises(ValueError, match="needs two pictures"):
        frechet_distance(one[:1], other)


def test_variety_is_nothing_where_all_pictures_of_a_class_are_the_same():
    draw = np.random.default_rng(0)
    labels = np.arange(40) % 4
    same = draw.normal(size=(4, 16))[labels]
    assert variety(same, labels) == pytest.approx(0, abs=1e-9)
    assert variety(same * np.linspace(0.5, 2, 40)[:, None], labels) < 1e-3, "contrast alone is no variety"
    assert variety(np.full((40, 16), -1.0), labels) == pytest.approx(0, abs=1e-9), "nor are blank pictures"
    assert variety(draw.normal(size=(40, 16)), labels) == pytest.approx(1, abs=0.1)
    assert variety(same, np.arange(40)) == 1.0, "one picture cannot vary"


def test_neighbours_are_the_nearest_and_a_copy_is_found():
    draw = np.random.default_rng(0)
    among = draw.random((150, 9))
    some = np.concatenate([among[[7, 3]], draw.random((80, 9))])
    places, far = nearest_neighbours(some, among)
    every = np.sqrt(np.square(some[:, None] - among[None]).mean(-1))
    np.testing.assert_array_equal(places, every.argmin(1))
    np.testing.assert_allclose(far, every.min(1), atol=1e-12)
    assert places[:2].tolist() == [7, 3]
