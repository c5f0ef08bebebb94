"""A run that went around bad steps, interrupted anywhere or told of them late, ends as if it had never been."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from regard import checkpoint
from regard.training.guard import LOOK, Guard
from regard.training.optim import OptimConfig
from tests.training.lines import Lines, Numbered, counted, ending, equal, said, state

NAN, INF = float("nan"), float("inf")
SEED = int(os.environ.get("REGARD_FAULT_SEED", "0"))
SGD = OptimConfig(name="sgd", momentum=0.9, learning_rate=0.01)


# Interrupted anywhere: a run with faults ends as if it had never been.

EPISODES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "back": ({"bad": range(5, 10)}, {"keep": 2}),
    "single": ({"bad": range(5, 10)}, {"keep": 1, "save_every": 3}),
    "further": ({"bad": range(8, 14)}, {"failures": 2, "keep": 5}),
    "shallow": ({"bad": range(8, 14)}, {"failures": 2, "keep": 2, "save_every": 3}),
    "lost": ({"bad": range(8, 999)}, {"failures": 2, "retreats": 2}),
    "rows": ({"bad": range(11, 16)}, {"accumulate": 2, "failures": 3}),
}
SETTINGS = {"steps": 14, "save_every": 2, "eval_every": 3, "log_every": 4}


class Killed(BaseException):
    """Nothing runs after it."""


@contextmanager
def fragile(lives: int) -> Iterator[checkpoint.Disk]:
    """A disk whose process is killed at the operation of this number; from then on nothing is written."""
    disk, whole = checkpoint.Disk(), checkpoint.disk
    disk.done = 0  # type: ignore[attr-defined]

    def counting(action: Any) -> Any:
        def counted_action(*arguments: Any) -> Any:
            if disk.done >= lives:  # type: ignore[attr-defined]
                raise Killed
            disk.done += 1  # type: ignore[attr-defined]
            return action(*arguments)

        return counted_action

    for name in ("make", "write", "rename", "remove", "read"):
        setattr(disk, name, counting(getattr(disk, name)))
    checkpoint.disk = disk
    try:
        yield disk
    finally:
        checkpoint.disk = whole


def killed_at_operations(episode: str, train: Any, chosen: Any) -> int:
    """Kill a run at each chosen operation on the disk, resume it, and compare; how many operations there are."""
    data, changes = EPISODES[episode]
    settings = SETTINGS | changes
    with fragile(10**9) as disk:
        whole = train(Numbered(**data), f"{episode}-whole", **settings)
    expected, operations = ending(*whole), disk.done  # type: ignore[attr-defined]
    for number in chosen(operations):
        name = f"{episode}-{number}"
        with fragile(number), pytest.raises(Killed):
            train(Numbered(**data), name, **settings)
        found = ending(*train(Numbered(**data), name, resume=True, **settings))
        assert found == expected, f"killed at operation {number} of {operations}"
    return operations


def stopped_at_rows(episode: str, train: Any, rows: Any) -> None:
    """Ask a run to stop while it fetches each of these rows, resume it, and compare."""
    data, changes = EPISODES[episode]
    settings = SETTINGS | changes
    expected = ending(*train(Numbered(**data), f"{episode}-straight", **settings))
    for stop in rows:
        task = Numbered(**data)
        batch, name = task.batch, f"{episode}-stop-{stop}"

        def stopping(row: int, task: Any = task, batch: Any = batch, stop: int = stop) -> Lines:
            if row == stop:
                task.batch = batch
                os.kill(os.getpid(), signal.SIGTERM)
            return batch(row)

        task.batch = stopping  # type: ignore[method-assign]
        train(task, name, **settings)
        found = ending(*train(Numbered(**data), name, resume=True, **settings))
        once_more = {"steps", "records"} | ({"numbers"} if episode == "lost" else set())  # it saved and reported then
        found = {key: value for key, value in found.items() if key not in once_more}
        assert found == {key: expected[key] for key in found}, f"stopped at row {stop}"


@pytest.mark.parametrize("episode", EPISODES)
def test_killed_during_or_after_faults_a_run_ends_as_if_it_had_not_been(episode: str, train: Any) -> None:
    print(f"REGARD_FAULT_SEED={SEED}")
    draw = random.Random(SEED)
    assert killed_at_operations(episode, train, lambda operations: draw.sample(range(1, operations), 2)) > 50


@pytest.mark.parametrize("episode", EPISODES)
def test_asked_to_stop_during_faults_a_run_ends_as_if_it_had_not_been(episode: str, train: Any) -> None:
    stopped_at_rows(episode, train, (7, 11))


@pytest.mark.faults
@pytest.mark.parametrize("episode", EPISODES)
def test_killed_at_any_operation_or_stopped_at_any_row(episode: str, train: Any) -> None:
    killed_at_operations(episode, train, lambda operations: range(1, operations))
    stopped_at_rows(episode, train, range(1, 22))


def test_leaps_are_judged_after_a_resume_as_before_it(train: Any) -> None:
    settings = {"steps": 130, "save_every": 40, "eval_every": 75, "log_every": 50, "spike": 8.0}

    def task() -> Numbered:
        return Numbered(bad=[110, 125, 126], hurt=30.0)

    whole = ending(*train(task(), "whole", **settings))
    for stop in (112, 126):
        dying = task()
        batch = dying.batch

        def killed(row: int, batch: Any = batch, stop: int = stop) -> Lines:
            if row == stop:
                raise Killed
            return batch(row)

        dying.batch = killed  # type: ignore[method-assign]
        with pytest.raises(Killed):
            train(dying, f"parts-{stop}", **settings)
        assert ending(*train(task(), f"parts-{stop}", resume=True, **settings)) == whole
    assert whole["result"][2].spikes >= 2


def test_a_checkpoint_from_before_there_was_a_guard_can_be_resumed(train: Any) -> None:
    _, run = train(Numbered(), steps=4)
    found = checkpoint.read(run.directory(4))
    numbers = found.json("training.json")
    del numbers["health"]
    files = {name: found.data(name) for name in found.files if name != "training.json"}
    checkpoint.write(run.directory(4), {**files, "training.json": numbers}, facts={"step": 4})
    assert train(Numbered(), steps=6, resume=True)[0].step == 6


# A device that computes while the loop goes on: what happened is read when it is due.


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fused optimizers and late answers, as on CUDA."""
    monkeypatch.setattr(nn.Parameter, "is_cuda", True)
    begin = Guard.__init__

    def late(guard: Guard, *arguments: Any) -> None:
        begin(guard, *arguments)
        guard.every = LOOK

    monkeypatch.setattr(Guard, "__init__", late)


def late_faults(train: Any, optim: OptimConfig, **settings: Any) -> None:
    settings |= {"steps": 106, "save_every": 20, "log_every": 30, "eval_every": 80, "optim": optim, "spike": 8.0}

    def task() -> Numbered:
        return Numbered(bad=[0, 17, *range(70, 103)], rows=400)

    result, run = train(task(), "whole", **settings)
    assert (result.faults.skipped, result.faults.rolled_back) == (2 + 30 + 3, 1)
    assert "step 100: 30 updates in a row failed: back to step 60" in said(run)
    assert counted(run) == asdict(result.faults)
    train(task(), "parts", **(settings | {"steps": 90}))
    again, parts = train(task(), "parts", resume=True, **settings)
    assert again.faults == result.faults
    assert equal(state(parts, 106), state(run, 106))


@pytest.mark.usefixtures("ahead")
def test_faults_that_are_heard_of_later_end_the_same(train: Any) -> None:
    late_faults(train, SGD)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("optim", [OptimConfig(learning_rate=0.05, warmup=2), SGD])
def test_faults_on_cuda_end_the_same(optim: OptimConfig, train: Any) -> None:
    late_faults(train, optim, device="cuda", compile="off", precision="float32")


class Reads(TorchDispatchMode):
    """Counts the numbers that are fetched from the device, each of which waits for it."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


def reads_before_rows(train: Any, name: str) -> list[int]:
    """How many numbers had been fetched when each row was asked for."""
    seen = []
    with Reads() as reads:

        class Watched(Numbered):
            """Notes it."""

            def batch(self, row: int) -> Lines:
                seen.append(reads.count)
                return super().batch(row)

        train(Watched(rows=400), name, steps=49, save_every=49, eval_every=49, log_every=49, spike=8.0)
    return seen


def test_an_ordinary_step_waits_for_nothing(train: Any, request: pytest.FixtureRequest) -> None:
    assert reads_before_rows(train, "here")[-1] >= 48, "on a CPU every update asks whether it may"
    request.getfixturevalue("ahead")
    assert set(reads_before_rows(train, "ahead")) == {0}
