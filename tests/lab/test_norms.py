"""The norms of the lab are those of torch, on the matrix of the course."""

import json

import numpy as np
import torch
from torch import nn

from regard.cli import run
from regard.lab.norms import MATRIX, compare_norms, normalise


def test_the_means_and_deviations_are_those_of_the_course():
    x = torch.tensor(MATRIX, dtype=torch.float64)
    row_mean, row_deviation, _ = normalise(x, 1)
    column_mean, column_deviation, _ = normalise(x, 0)
    assert row_mean[:, 0].numpy().round(2).tolist() == [2.67, 2, 2, 3.67, 3.33, 1.33]
    assert row_deviation[:, 0].numpy().round(2).tolist() == [1.25, 0, 2.16, 2.05, 1.25, 1.25]
    assert column_mean[0].numpy().round(2).tolist() == [2.5, 2.33, 2.67]
    assert column_deviation[0].numpy().round(2).tolist() == [1.71, 1.89, 1.49]


def test_the_normalised_matrices_are_those_of_torch():
    x = torch.tensor(MATRIX, dtype=torch.float64)
    batch = nn.BatchNorm1d(6, dtype=torch.float64).train()(x.T).T
    layer = nn.LayerNorm(6, dtype=torch.float64)(x.T).T
    torch.testing.assert_close(normalise(x, 1)[2], batch.detach())
    torch.testing.assert_close(normalise(x, 0)[2], layer.detach())
    shown = {matrix.title: np.array(matrix.values) for matrix in compare_norms().matrices}
    np.testing.assert_allclose(shown["After batch norm"], batch.detach())
    np.testing.assert_allclose(shown["After layer norm"], layer.detach())


def test_only_batch_norm_lets_examples_change_one_another():
    [measurement] = compare_norms().measurements
    assert measurement.value > 0.1
    assert measurement.control == 0


def test_the_command_prints_every_step_and_draws(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["lab", "norms", "-o", str(tmp_path / "n.svg")]) == 0
    printed = capsys.readouterr().out
    assert "feature 2 has variance 0" in " ".join(printed.split())
    assert "\ncontrol " in printed
    assert (tmp_path / "n.svg").read_bytes().startswith(b"<?xml")
    assert run(["lab", "norms", "--matrix", "1 2; 3 5", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert "notes" not in record
    assert record["matrices"][0]["values"] == [[1, 2], [3, 5]]


def test_a_matrix_that_cannot_be_normalised_is_refused(capsys):
    assert run(["lab", "norms", "--matrix", "1 2"]) == 1
    assert capsys.readouterr().err == "regard: --matrix '1 2': give at least two features of two examples\n"
    assert run(["lab", "norms", "--matrix", "1 2; 3"]) == 1
    assert "give every vector as many numbers" in capsys.readouterr().err
