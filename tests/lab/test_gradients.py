"""How far gradients reach, against products of Jacobians that can be written down."""

import json
from pathlib import Path

import pytest
import torch

from regard.cli import run
from regard.lab.gradients.reach import compare, reach


def test_a_linear_recurrence_reaches_as_far_as_its_powers():
    matrix = torch.diag(torch.tensor([0.5, 0.9])).double()

    def layer(x):
        h, seen = torch.zeros_like(x[:, 0]), []
        for place in range(x.shape[1]):
            h = h @ matrix.T + x[:, place]
            seen.append(h)
        return torch.stack(seen, 1)

    found = reach(layer, torch.randn(3, 6, 2).double())
    assert found.tolist() == pytest.approx([torch.linalg.matrix_power(matrix, d).norm().item() for d in range(6)])


def test_an_even_look_gives_every_distance_the_same():
    found = reach(lambda x: x.cumsum(1) / torch.arange(1, 6)[:, None], torch.randn(2, 5, 3))
    assert found.tolist() == pytest.approx([3**0.5 / 5] * 5)


def test_recurrent_gradients_vanish_the_plain_ones_first_and_those_of_attention_stay():
    found = compare(length=32, width=16, inputs=4)
    left = {name: float(norms[31] / norms[1]) for name, norms in found.items()}
    assert left["RNN"] < 1e-6
    assert left["RNN"] < left["GRU"] < 1e-2
    assert left["RNN"] < left["LSTM"] < 1e-2
    assert 0.3 < left["self-attention"] < 3
    again = compare(length=32, width=16, inputs=4)
    assert all(torch.equal(found[name], again[name]) for name in found)


def test_comparing_leaves_the_random_state_alone():
    torch.manual_seed(3)
    expected = torch.randn(2)
    torch.manual_seed(3)
    compare(length=3, width=4, inputs=1)
    assert torch.equal(torch.randn(2), expected)


@pytest.mark.parametrize("columns", [50, 80, 120])
def test_the_table_fits_the_terminal_with_every_number_whole(columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert run(["lab", "gradients", "--width", "8"]) == 0
    shown = capsys.readouterr().out
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= columns
    heads = next(line for line in shown.splitlines() if "layer" in line)
    distances = [int(cell) for cell in heads.split()[1:]]
    assert (distances[:2], distances[-1]) == ([0, 1], 63)
    assert len(distances) == {50: 4, 80: 7, 120: 8}[columns]


def test_more_steps_than_a_minute_allows_are_refused_in_one_line(capsys):
    assert run(["lab", "gradients", "--length", "100000"]) == 2
    error = capsys.readouterr().err
    assert "--length" in error
    assert " 1000 " in error.replace("=", " ").replace(".", " ")
    assert error.count("\n") == 1


def test_the_command_shows_a_table_or_json_and_draws(tmp_path: Path, capsys):
    small = ["lab", "gradients", "--length", "5", "--width", "8"]
    assert run([*small, "-o", str(tmp_path / "g.png")]) == 0
    assert "self-attention" in capsys.readouterr().out
    assert (tmp_path / "g.png").stat().st_size > 1000
    assert run([*small, "--json", "-o", str(tmp_path / "g.svg")]) == 0
    shown = capsys.readouterr()
    norms = json.loads(shown.out)["norms"]
    assert set(norms) == {"RNN", "GRU", "LSTM", "self-attention"}
    assert all(len(each) == 5 for each in norms.values())
    assert "g.svg" in shown.err
    assert run([*small[:-1], "6"]) == 1
    assert capsys.readouterr().err == "regard: --width 6: give a multiple of 4, the heads of the attention\n"
