"""A warm-up fits into a time limit, resumed runs keep what was decided, and a run that ended in it says so."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch

from regard import checkpoint
from regard.training import bookkeeping
from regard.training.loop import TrainingConfig
from regard.training.optim import OptimConfig
from regard.training.pace import scale_warmup
from regard.training.resume import NUMBERS
from regard.training.warmup import STEPS, SpeedGauge, affordable_warmup
from tests.training.test_loop import records, weights

SLOW = OptimConfig(learning_rate=0.05, warmup=400)


def notes(run: Any) -> str:
    return (run.folder / "train.log").read_text(encoding="utf-8")


def timed(patch: Any, task: Any, seconds_per_step: float, *, dies_after: int | None = None) -> Any:
    """Give a task a clock on which every step takes this long and nothing else does; it may die after some step."""
    began, step, steps = time.monotonic(), task.step, []
    patch.setattr(bookkeeping.time, "monotonic", lambda: began + seconds_per_step * len(steps))

    def counted(batch: Any, part: str) -> Any:
        if len(steps) == dies_after:
            raise MemoryError
        steps.append(part)
        return step(batch, part)

    task.step = counted
    return task


def test_the_speed_is_known_after_some_steps_without_the_first() -> None:
    gauge = SpeedGauge(limit=1000.0)
    assert gauge.estimate_steps(1, elapsed=40.0) is None, "compiling"
    found = [gauge.estimate_steps(step, elapsed=40.0 + 0.1 * (step - 1)) for step in range(2, STEPS + 2)]
    assert found[:-1] == [None] * (STEPS - 1)
    assert found[-1] == pytest.approx(9600, abs=2), "958 seconds are left, a tenth of a second each"


def test_slow_steps_are_counted_as_soon_as_a_twentieth_of_the_time_is_gone() -> None:
    gauge = SpeedGauge(limit=60.0)
    assert gauge.estimate_steps(1, elapsed=7.5) is None
    assert gauge.estimate_steps(2, elapsed=15.0) == 8


def test_a_time_that_is_over_allows_no_further_step() -> None:
    gauge = SpeedGauge(limit=10.0)
    gauge.estimate_steps(1, elapsed=5.0)
    assert gauge.estimate_steps(2, elapsed=12.0) == 2


def test_a_quarter_of_a_run_may_be_warm_up() -> None:
    assert [affordable_warmup(steps) for steps in (1, 8, 62, 10_000)] == [1, 2, 16, 2500]
    assert scale_warmup(OptimConfig(), TrainingConfig(steps=100), rows=10).warmup == affordable_warmup(100)


def test_a_warm_up_longer_than_the_time_is_shortened_and_the_rate_reaches_its_peak(
    regression: Any, train: Any, monkeypatch: Any
) -> None:
    task = timed(monkeypatch, regression(), seconds_per_step=1.0)
    result, run = train(task, optim=SLOW, steps=10_000, seconds=62.0, log_every=1, eval_every=10**6, save_every=10**6)
    assert result.reason == "seconds"
    rates = [record["rate"] for record in records(run) if record["kind"] == "training"]
    assert max(rates) == pytest.approx(SLOW.learning_rate)
    assert rates.index(max(rates)) < 0.3 * result.step
    assert "fit into 62 s: warm-up shortened from 400 steps to 1" in notes(run)
    assert "still warming up" not in notes(run)


def test_a_warm_up_that_fits_stays_as_it_was_named(regression: Any, train: Any, monkeypatch: Any) -> None:
    task = timed(monkeypatch, regression(), seconds_per_step=0.01)
    _, run = train(
        task, optim=OptimConfig(learning_rate=0.05, warmup=30), steps=10_000, seconds=2.0, log_every=1, save_every=10**6
    )
    rates = [record["rate"] for record in records(run) if record["kind"] == "training"]
    assert rates[:30] == pytest.approx([0.05 * step / 30 for step in range(1, 31)])
    assert "fit into" not in notes(run)


def test_a_run_that_ended_in_its_warm_up_says_so(regression: Any, train: Any) -> None:
    _, run = train(regression(), optim=SLOW, steps=6)
    assert "the learning rate was still warming up (step 6 of 400), so this model has hardly learnt" in notes(run)
    _, other = train(regression(), "other", steps=6)
    assert "warming up" not in notes(other)


def test_a_resumed_run_has_the_rates_of_an_uninterrupted_one(regression: Any, train: Any, monkeypatch: Any) -> None:
    settings = {"optim": SLOW, "steps": 30, "seconds": 40.0, "save_every": 5, "keep": 99}
    with monkeypatch.context() as patch:
        _, whole = train(timed(patch, regression(), 1.0), "whole", **settings)
    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        train(timed(patch, regression(), 1.0, dies_after=13), "parts", **settings)
    with monkeypatch.context() as patch:
        _, parts = train(timed(patch, regression(), 0.01), "parts", resume=True, **settings)  # on a faster machine
    decided = [checkpoint.read(run.directory(30)).json(NUMBERS)["progress"]["longest_warmup"] for run in (whole, parts)]
    assert decided == [10, 10]
    found, expected = weights(parts, 30), weights(whole, 30)
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())
