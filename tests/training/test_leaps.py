"""A loss that leaps is left out, counted and named; what comes again and again becomes usual."""

from __future__ import annotations

import os
import random
from dataclasses import asdict
from typing import Any

import pytest
import torch

from regard.training.guard import judge_loss
from regard.training.optim import OptimConfig
from tests.training.lines import Numbered, counted, equal, said, state

NAN, INF = float("nan"), float("inf")
SEED = int(os.environ.get("REGARD_FAULT_SEED", "0"))
SGD = OptimConfig(name="sgd", momentum=0.9, learning_rate=0.01)


def history(values: list[float], weights: list[float] | None = None) -> tuple[Any, list[bool]]:
    past, sound = (0, *torch.zeros(3, dtype=torch.float64)), []
    for value, weight in zip(values, weights or [10] * len(values), strict=True):
        past, verdict = judge_loss(past, torch.tensor(value, dtype=torch.float64), weight, beyond=8.0)
        sound.append(bool(verdict.sound))
    return past, sound


def draws(count: int, seed: int = SEED) -> list[float]:
    generator = random.Random(seed)
    return [generator.gauss(3.0, 0.2) for _ in range(count)]


def test_the_running_mean_and_variance_are_those_of_the_first_hundred_losses() -> None:
    values = draws(100)
    (count, mean, variance, weight), _ = history(values, [5.0, 15.0] * 50)
    expected = torch.tensor(values, dtype=torch.float64)
    assert (count, weight.item()) == (100, pytest.approx(10))
    assert mean.item() == pytest.approx(expected.mean().item())
    assert variance.item() == pytest.approx(expected.var(unbiased=False).item())


def test_a_leap_is_seen_only_upwards_and_once_enough_is_known() -> None:
    _, early = history([*draws(50), 30.0])
    _, late = history([*draws(150), 30.0, -30.0, 3.0])
    assert early[-1]
    assert late[-3:] == [False, True, True]
    assert all(late[:-3])


def test_a_step_of_little_weight_may_deviate_more() -> None:
    values, weights = [*draws(150), 6.0], [400.0] * 150
    assert not history(values, [*weights, 400])[1][-1]
    assert not history(values, [*weights, 4000])[1][-1]
    assert history(values, [*weights, 80])[1][-1]


def test_what_is_not_finite_is_never_sound_and_does_not_count() -> None:
    values = draws(150)
    plain, _ = history(values)
    spoilt, sound = history([*values, NAN, INF, -INF])
    assert sound[-3:] == [False, False, False]
    assert spoilt[1:] == plain[1:]


def test_losses_that_hardly_vary_do_not_make_a_ripple_a_leap() -> None:
    _, sound = history([3.0 + 1e-7 * number for number in range(300)] + [3.01])
    assert all(sound)


def test_what_comes_back_every_forty_steps_becomes_usual_and_a_new_level_too() -> None:
    values = draws(3000)
    values[200::40] = [8.0] * len(values[200::40])
    _, sound = history(values)
    assert not sound[200]
    assert all(sound[1500:])
    _, sound = history([*draws(200), *(value + 4 for value in draws(100))])
    assert not sound[200]
    assert all(sound[220:])


def test_a_leap_is_left_out_counted_and_named(train: Any) -> None:
    settings = {"steps": 121, "save_every": 120, "eval_every": 121, "log_every": 11}
    result, run = train(Numbered(bad=[120], hurt=1000.0), **settings, spike=8.0)
    assert equal(state(run, 121), state(run, 120))
    assert (result.faults.spikes, result.faults.skipped) == (1, 0)
    assert counted(run) == asdict(result.faults)
    assert "leaps beyond" in said(run)
    assert "no update; row 120 (train.tsv:481, train.tsv:482, train.tsv:483 and 1 more)" in said(run)
    off, run = train(Numbered(bad=[120], hurt=1000.0), "off", **settings, spike=None)
    assert off.faults.spikes == 0
    assert not equal(state(run, 121), state(run, 120))


def test_of_several_rows_the_one_that_leapt_most_is_named(train: Any) -> None:
    _, run = train(Numbered(bad=[221], hurt=1000.0, dropout=0.0), steps=112, accumulate=2, save_every=99, spike=8.0)
    assert "no update; row 221 (" in said(run)
