"""Gates, scales, clipping, training and windows: what they do to gradients, against what can be written down."""

import json

import numpy as np
import pytest
import torch

from regard.cli import run
from regard.lab.gradients import clipping, protection, recall, unrolled
from regard.lab.gradients.reach import reach


@pytest.mark.parametrize("scale", [0.5, 1.0, 1.5])
def test_a_linear_recurrence_multiplies_the_gradient_by_its_scale_at_every_step(scale):
    torch.manual_seed(0)
    layer = protection.recurrence_of_scale(scale, linear=True)
    norms = reach(layer, torch.randn(2, 8, protection.WIDTH, dtype=torch.float64))
    np.testing.assert_allclose(norms[1:] / norms[:-1], [scale] * 7)


def test_a_gate_held_open_keeps_the_gradient_and_a_half_open_one_halves_it():
    biases = {"half open": 0.0, "held open": protection.HELD_OPEN}
    makers = {name: lambda bias=bias: protection.lstm_with_forget_bias(bias) for name, bias in biases.items()}
    norms = protection.measure_reach(makers, length=24, seed=0)
    assert protection.share_left(norms["held open"]) > 0.5
    assert 1e-7 < protection.share_left(norms["half open"]) < 1e-3  # about a half at every one of 22 steps
    keeping = protection.measure_reach({"gru": lambda: protection.gru_with_keep_bias(5.0)}, length=24, seed=0)
    assert protection.share_left(keeping["gru"]) > 0.5


def test_clipping_bounds_steps_and_leaves_small_gradients_alone(monkeypatch):
    monkeypatch.setattr(clipping, "STEPS", 12)
    clipped = clipping.descend(clipping.LARGE, clipping.THRESHOLD)
    assert max(clipped.norms) > clipping.THRESHOLD
    assert max(clipped.moves) <= clipping.RATE * clipping.THRESHOLD * (1 + 1e-9)
    small = [clipping.descend(clipping.SMALL, threshold) for threshold in (None, clipping.THRESHOLD)]
    assert small[0] == small[1]
    assert max(small[0].norms) < clipping.THRESHOLD


@pytest.mark.parametrize("window", [1, 3, 5])
def test_a_window_cuts_gradients_and_nothing_else(window):
    whole, cut = unrolled.state_gradients(6, None).numpy(), unrolled.state_gradients(6, window).numpy()
    number = np.arange(6) // window
    np.testing.assert_allclose(cut, np.where(number[:, None] == number, whole, 0))
    assert (np.triu(whole, 1) == 0).all()
    assert (np.tril(whole) > 0).sum() == 21


def test_the_kept_results_belong_to_the_layers_of_today():
    kept = {result.name: result for result in recall.read_results()}
    assert tuple(kept) == recall.KINDS
    assert all(len(result.untrained) == len(result.trained) == recall.LENGTH for result in kept.values())
    torch.manual_seed(0)
    model = recall.Recaller("RNN")
    x, _ = recall.make_examples(recall.EXAMPLES, torch.Generator().manual_seed(0))
    np.testing.assert_allclose(recall.measure_norms(model, x[:4]), kept["RNN"].untrained, rtol=0.02)
    guessing = 1 / recall.CLASSES
    assert kept["LSTM"].accuracy < guessing + 0.05 < 0.95 < kept["LSTM, forget bias 3"].accuracy


def test_training_can_be_repeated_and_its_results_kept(tmp_path):
    [result] = [recall.train("LSTM, forget bias 3", steps=1, seed=0)]
    assert result.untrained[-1] > 0.1
    recall.write_results([result], tmp_path / "kept.json")
    [kept] = recall.read_results(tmp_path / "kept.json")
    np.testing.assert_allclose(kept.trained, result.trained, rtol=0.01)


@pytest.mark.parametrize("view", ["trained", "unrolled"])
def test_a_view_prints_its_control_and_draws(view, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    length = [] if view == "trained" else ["--length", "6"]
    assert run(["lab", "gradients", view, *length, "-o", str(tmp_path / "g.png")]) == 0
    printed = capsys.readouterr().out
    assert "\ncontrol " in printed
    assert (tmp_path / "g.png").read_bytes().startswith(b"\x89PNG")


def test_a_view_as_json_has_its_measurements(capsys):
    assert run(["lab", "gradients", "unrolled", "--length", "5", "--window", "2", "--json"]) == 0
    [measurement] = json.loads(capsys.readouterr().out)["measurements"]
    assert measurement["value"] > 0 == measurement["control"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gate"], "unknown view gate, did you mean gates?"),
        (
            ["unrolled", "--length", "4", "--window", "4"],
            "--window 4: give fewer than the 4 steps, so that something is cut",
        ),
        (["unrolled", "--length", "21"], "--length 21: a picture has room for 20 steps: give at most as many"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_one_line(words, message, capsys):
    assert run(["lab", "gradients", *words]) == 1
    assert capsys.readouterr().err == f"regard: {message}\n"
