"""Norms with running statistics: those of torch, untouched by how rows are dealt out, and by steps that fail."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from regard.models.parts.batch_norm import RunningNorm, forget, norms, settle, statistics
from regard.training import run as runs
from regard.training.ema import MovingAverage
from regard.training.loop import TrainingConfig, fit
from regard.training.optim import OptimConfig
from tests.training.lines import Narrow, Normed, equal, state

FINE, BROKEN = torch.tensor(False), torch.tensor(True)


def drawn(features: int = 3) -> tuple[RunningNorm, nn.BatchNorm2d]:
    own, theirs = RunningNorm(features, eps=1e-3), nn.BatchNorm2d(features, eps=1e-3)
    nn.init.normal_(own.weight)
    nn.init.normal_(own.bias)
    theirs.load_state_dict(own.state_dict(), strict=False)
    return own, theirs


def test_it_is_torchs_in_training_and_in_use():
    own, theirs = drawn()
    for _ in range(4):
        x = torch.randn(5, 3, 4, 4) * 3 + 1
        ours, other = x.clone().requires_grad_(), x.clone().requires_grad_()
        y, expected = own(ours), theirs(other)
        torch.testing.assert_close(y, expected)
        (y**3).sum().backward()
        (expected**3).sum().backward()
        torch.testing.assert_close(ours.grad, other.grad)
        torch.testing.assert_close(own.weight.grad, theirs.weight.grad)
        settle([own], veto=FINE)
        torch.testing.assert_close(own.running_mean, theirs.running_mean)
        torch.testing.assert_close(own.running_var, theirs.running_var)
    torch.testing.assert_close(own.eval()(x), theirs.eval()(x))


def test_the_order_and_the_number_of_rows_do_not_matter_and_pictures_weigh_alike():
    rows = [torch.randn(count, 3, 2, 2) + count for count in (4, 2, 6)]
    found = []
    for order in ([0, 1, 2], [2, 0, 1]):
        norm = RunningNorm(3)
        for row in order:
            norm(rows[row])
        settle([norm], veto=FINE)
        found.append(norm)
    torch.testing.assert_close(found[0].running_mean, found[1].running_mean)
    expected = 0.1 * sum(len(row) * row.mean((0, 2, 3)) for row in rows) / 12
    torch.testing.assert_close(found[0].running_mean, expected)


def test_a_step_that_fails_or_is_begun_again_leaves_no_trace():
    norm, x = RunningNorm(3), torch.randn(5, 3, 2, 2)
    before = {name: each.clone() for name, each in statistics(norm).items()}
    norm(x * float("nan"))
    settle([norm], veto=BROKEN)
    assert all(torch.equal(each, before[name]) for name, each in statistics(norm).items())
    norm(x * 7)
    forget([norm])
    settle([norm], veto=FINE)  # nothing was seen
    assert all(torch.equal(each, before[name]) for name, each in statistics(norm).items())


def test_frozen_weights_freeze_the_statistics():
    norm, x = RunningNorm(3).requires_grad_(False), torch.randn(5, 3, 2, 2)
    torch.testing.assert_close(norm(x), x / (1 + 1e-5) ** 0.5)
    assert not norm.seen.any()


def test_a_single_number_is_normalised_as_in_use():
    norm, x = RunningNorm(3), torch.randn(1, 3, 1, 1)
    torch.testing.assert_close(norm(x), x / (1 + 1e-5) ** 0.5)
    assert not norm.seen.any()


def test_statistics_of_half_precision_are_kept_in_float32():
    norm, x = RunningNorm(3), torch.randn(40, 3, 4, 4) + 1
    y = norm(x.half())
    settle([norm], veto=FINE)
    assert y.dtype == torch.float16
    assert {each.dtype for each in statistics(norm).values()} == {torch.float32}
    torch.testing.assert_close(norm.running_mean, 0.1 * x.half().float().mean((0, 2, 3)), rtol=1e-4, atol=1e-5)


def test_the_moving_average_follows_statistics_as_it_does_weights():
    model = nn.Sequential(nn.Conv2d(1, 3, 1), RunningNorm(3))
    average = MovingAverage(model, 0.5)
    assert {"1.running_mean", "1.running_var"} <= average.weights.keys()
    model(torch.randn(6, 1, 2, 2))
    settle(norms(model), veto=FINE)
    moved = model[1].running_var.clone()
    average.follow(1000)
    torch.testing.assert_close(average.weights["1.running_var"], (1 + moved) / 2)
    with average.apply():
        torch.testing.assert_close(model[1].running_var, (1 + moved) / 2)
    assert torch.equal(model[1].running_var, moved)


SETTINGS = {
    "accumulate": 2,
    "log_every": 2,
    "eval_every": 3,
    "save_every": 3,
    "device": "cpu",
    "tensorboard": False,
    "ema": 0.9,
}


def train(folder: Path, task, **changes):
    run = runs.start(folder, settings={"model": {"width": 5}}, resume=True)
    with run.log(quiet=True) as log:
        fit(task, TrainingConfig(**{**SETTINGS, **changes}), OptimConfig(learning_rate=0.05, warmup=2), run, log=log)
    return run


def test_a_resumed_run_has_the_same_statistics_to_the_bit(tmp_path):
    whole = train(tmp_path / "whole", Normed(bad=[8], hurt=float("nan")), steps=9)
    train(tmp_path / "parts", Normed(bad=[8], hurt=float("nan")), steps=6)
    parts = train(tmp_path / "parts", Normed(bad=[8], hurt=float("nan")), steps=9)
    found, expected = state(parts, 9), state(whole, 9)
    assert {"1.running_mean", "ema/1.running_mean"} <= expected.keys()
    assert equal(found, expected)
    assert expected["1.running_mean"].isfinite().all(), "a step that was skipped was seen"
    assert expected["1.running_mean"].any()


class Crowded(Narrow, Normed):
    """Rows that fail half-way, behind a norm that has seen them by then."""


def test_a_row_that_is_halved_is_seen_once(tmp_path):
    task = Crowded(most=2, when="backward", dropout=0.0)
    train(tmp_path / "run", task, steps=1, save_every=1, accumulate=1, ema=0.0)
    rows = task.batch(0).inputs
    first, norm = task.model[0], task.model[1]
    fresh = Crowded(most=2, dropout=0.0).model[0]  # as it was when the row was seen
    assert isinstance(norm, RunningNorm)
    assert first.weight.shape == fresh.weight.shape
    with torch.no_grad():
        halves = fresh(rows).split(2)
    torch.testing.assert_close(norm.running_mean, 0.1 * torch.cat(halves).mean(0))
    torch.testing.assert_close(norm.running_var, 0.9 + 0.1 * torch.stack([half.var(0) for half in halves]).mean(0))
