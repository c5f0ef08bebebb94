"""Beams, forcing, pooling and graphs: their numbers against enumeration and formulas, and controls without effect."""

import itertools

import numpy as np
import pytest
import torch

from regard.cli import run
from regard.lab import beams, forcing, graph, pooling


def test_the_likeliest_text_of_a_chain_is_that_of_enumeration():
    chains = beams.random_chains(dependent=True)
    first, following = chains.first[0].double(), chains.following[0].double()
    scores = [
        float(first[a] + following[a, b] + following[b, c])
        for a, b, c in itertools.product(range(beams.VOCABULARY), repeat=3)
    ]
    assert float(chains.best_scores(3)[0]) == pytest.approx(max(scores), abs=1e-5)
    assert float(chains.search_scores(beams.VOCABULARY**2, 3)[0]) == pytest.approx(max(scores), abs=1e-4)


def test_greedy_search_takes_the_wrong_branch_and_two_beams_the_right_one():
    assert beams.search_tree(1) == (["big", "dog"], pytest.approx(0.5 * 0.4))
    assert beams.search_tree(2) == (["dog", "barks"], pytest.approx(0.4 * 0.9))
    assert all(sum(followers.values()) == pytest.approx(1) for followers in beams.TREE.values())


def test_more_beams_miss_less_and_independent_words_are_never_missed():
    shown = beams.compare_searches()
    dependent, independent = shown.charts[0].curves.values()
    assert list(dependent) == sorted(dependent, reverse=True)
    assert dependent[0] > 20
    assert set(independent) == {0}


def test_errors_add_up_only_where_answers_are_read():
    shown = forcing.compare_forcing()
    curves = {name: np.array(curve) for name, curve in shown.charts[0].curves.items()}
    forced, free = curves["running sum, teacher forcing"], curves["running sum, free running"]
    assert forced[0] == free[0]  # nothing has been written yet
    assert free[-1] < 0.4 < 0.7 < forced[-1]
    [measurement] = shown.measurements
    assert measurement.value > 0.3
    assert abs(measurement.control) < 0.02


def test_the_mean_of_a_class_activation_map_is_the_logit_of_global_average_pooling():
    torch.manual_seed(0)
    model = pooling.PooledClassifier().double()
    picture = pooling.make_picture((2, 3))
    torch.testing.assert_close(
        model.features(picture).mean((1, 2)),
        torch.nn.AdaptiveAvgPool2d(1)(torch.relu(model.convolution(picture)))[0, :, 0, 0],
    )
    means = torch.stack([model.activation_map(picture, label).mean() for label in range(pooling.CLASSES)])
    torch.testing.assert_close(means + model.head.bias, model.average(picture))
    for measurement in pooling.compare_pooling().measurements:
        assert measurement.value > 0.01
        assert measurement.control < 1e-12


def test_neighbours_help_and_attention_tells_them_apart():
    shown = graph.compare_weighing()
    by_attention, by_degree, differences = shown.measurements
    assert by_attention.value > by_degree.value > by_attention.control
    assert differences.value > 0.05
    assert differences.control < 1e-6
    [matrix] = shown.matrices
    np.testing.assert_allclose(np.sum(matrix.values, 1), 1, atol=1e-5)


@pytest.mark.parametrize("name", ["forcing", "beams", "pooling", "graph"])
def test_an_experiment_prints_its_control_and_draws(name, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["lab", name, "-o", str(tmp_path / "a.png")]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert any(line.startswith("control ") for line in printed)
    assert max(map(len, printed[:-1])) <= 80
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
