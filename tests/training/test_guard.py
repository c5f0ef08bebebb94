"""Numbers that are not finite never reach the weights; steps that leap or keep failing are gone around, exactly."""

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
from regard.training.guard import LOOK, Guard, watched
from regard.training.loop import Step
from regard.training.optim import OptimConfig
from tests.training.conftest import Rivals
from tests.training.lines import Lines, Numbered, counted, ending, equal, records, state

NAN, INF = float("nan"), float("inf")
SEED = int(os.environ.get("REGARD_FAULT_SEED", "0"))
SGD = OptimConfig(name="sgd", momentum=0.9, rate=0.01)


def said(run: Any) -> str:
    return (run.folder / "train.log").read_text()


# One bad step.


@pytest.mark.parametrize("hurt", [NAN, INF, -INF])
@pytest.mark.parametrize("optim", [OptimConfig(rate=0.05, warmup=2), OptimConfig(name="adamw", weight_decay=0.1), SGD])
def test_a_bad_number_in_the_data_changes_neither_weights_nor_optimizer(
    hurt: float, optim: OptimConfig, train: Any
) -> None:
    result, run = train(Numbered(bad=[3], hurt=hurt), save=1, keep_every=1, optim=optim)
    assert equal(state(run, 4), state(run, 3))
    assert not equal(state(run, 5), state(run, 4)), "the next row should be learnt from"
    assert result.faults.skipped == 1
    assert counted(run) == asdict(result.faults)
    assert "step 4: loss" in said(run)
    assert "no update; row 3 (train.tsv:13, train.tsv:14, train.tsv:15 and 1 more)" in said(run)


class Flat(Numbered):
    """Adds to the loss a number from the data that no weight can change: infinite loss, finite gradient."""

    def step(self, batch: Lines, part: str) -> Step:
        hurt = torch.where(batch.targets.isfinite(), 0.0, batch.targets).sum()
        targets = torch.where(batch.targets.isfinite(), batch.targets, 0.0)
        step = super().step(batch._replace(targets=targets), part)
        return Step(step.loss + hurt, step.weight, step.counts)


class Steep(Numbered):
    """A loss whose value hides what its gradient is: where the target is bad, the gradient is infinite at 0."""

    def step(self, batch: Lines, part: str) -> Step:
        bad = not batch.targets.isfinite().all()
        targets = torch.where(batch.targets.isfinite(), batch.targets, 0.0)
        step = super().step(batch._replace(targets=targets), part)
        weight = next(iter(self.model.parameters()))
        return Step(step.loss + (weight - weight.detach()).abs().sum().sqrt(), step.weight) if bad else step


@pytest.mark.parametrize(("kind", "words"), [(Flat, "loss inf is not finite"), (Steep, "the gradient is not finite")])
def test_loss_and_gradient_are_both_looked_at(kind: type[Numbered], words: str, train: Any) -> None:
    result, run = train(kind(bad=[3], dropout=0.0), save=1, keep_every=1)
    assert equal(state(run, 4), state(run, 3))
    assert result.faults.skipped == 1
    assert f"step 4: {words}, no update; row 3 (train.tsv:13" in said(run)


def test_of_several_rows_only_the_bad_one_is_named(train: Any) -> None:
    _, run = train(Numbered(bad=[7]), accumulate=3)
    assert "no update; row 7 (train.tsv:29" in said(run)
    assert "row 6" not in said(run)


def test_a_bad_step_leaves_the_reported_loss_a_number(train: Any) -> None:
    _, run = train(Numbered(bad=[0, 2, 3]), log=2, evaluate=6)
    losses = [record["loss"] for record in records(run) if record["kind"] == "training"]
    assert [loss is None for loss in losses] == [False, True, False]


def test_only_the_part_that_is_bad_stands_still(train: Any) -> None:
    task = Rivals()
    step = task.step
    task.step = lambda batch, part: Step(step(batch, part).loss * (NAN if part == "artist" else 1), 4.0)  # type: ignore
    before = {name: tensor.clone() for name, tensor in task.model.state_dict().items()}
    result, run = train(task, steps=2)
    after = checkpoint.read(run.directory(2)).tensors()
    moved = {name.partition(".")[0] for name in before if not torch.equal(before[name], after[name])}
    assert (moved, result.faults.skipped) == ({"judge"}, 2)
    assert "no update; row 0\n" in said(run), "this task knows no places"


# Going back.


class Shifted(Numbered):
    """The same lines without the rows in between, as if they had never been there."""

    def __init__(self, *gaps: tuple[int, int], **settings: Any) -> None:
        super().__init__(**settings)
        self.gaps = gaps

    def batch(self, row: int) -> Lines:
        for start, rows in self.gaps:
            row += rows if row >= start else 0
        return super().batch(row)


def test_after_failures_in_a_row_it_goes_back_and_on_past_that_data(train: Any) -> None:
    settings = {"steps": 12, "save": 2, "evaluate": 6, "keep": 99}
    result, run = train(Numbered(bad=range(5, 10), dropout=0.0), "bad", **settings)
    _, clean = train(Shifted((4, 6), dropout=0.0), "clean", **settings)
    assert equal(state(run, 12), state(clean, 12)), "training should have gone on from step 4 with row 10"
    assert (result.step, result.reason) == (12, "steps")
    assert asdict(result.faults) == {"skipped": 5, "spikes": 0, "split": 0, "dropped": 0, "rolled_back": 1}
    assert counted(run) == asdict(result.faults)
    assert "step 10: 5 updates in a row failed: back to step 4, and on with the rows after these" in said(run)
    steps = [record["step"] for record in records(run) if record["kind"] == "training"]
    assert steps == [2, 4, 6, 8, 10, 12], "no step is told twice"


def test_each_time_in_vain_it_goes_back_one_further(train: Any) -> None:
    settings = {"steps": 12, "save": 2, "evaluate": 6, "keep": 99, "failures": 2}
    result, run = train(Numbered(bad=range(8, 14), dropout=0.0), "bad", **settings)
    assert [f"back to step {step}" in said(run) for step in (8, 6, 4, 2)] == [True, True, True, False]
    _, clean = train(Shifted((4, 10), dropout=0.0), "clean", **settings)
    assert equal(state(run, 12), state(clean, 12))
    assert (result.faults.rolled_back, result.reason) == (3, "steps")


def test_getting_further_gives_new_chances(train: Any) -> None:
    bad = [row for start in range(4, 60, 7) for row in (start, start + 1)]
    result, _ = train(Numbered(bad=bad), steps=30, save=2, failures=2, retreats=1)
    assert result.reason == "steps"
    assert result.faults.rolled_back > 3


@pytest.mark.parametrize("retreats", [0, 1, 3])
def test_where_everything_fails_it_stops_with_a_reason_and_a_good_checkpoint(retreats: int, train: Any) -> None:
    result, run = train(Numbered(bad=range(9, 999)), steps=50, save=2, evaluate=4, failures=3, retreats=retreats)
    assert result.failed
    assert result.reason.startswith(f"diverged: 3 updates in a row failed at step {12 if retreats == 0 else ''}")
    assert "lower optim.rate, raise optim.warmup, or look at" in result.reason
    assert f" {result.reason}\n" in said(run)
    assert "(diverged) after" in said(run)
    assert result.faults.rolled_back == retreats
    assert counted(run) == asdict(result.faults)
    assert result.best is not None
    assert all(tensor.isfinite().all() for step in run.steps() for tensor in state(run, step).values())
    again, run = train(Numbered(), steps=50, save=2, evaluate=4, failures=3, resume=True)
    assert (again.step, again.reason) == (50, "steps"), "with the cause removed it should go on"


def test_without_a_checkpoint_there_is_nothing_to_go_back_to(train: Any) -> None:
    result, run = train(Numbered(bad=range(99)), steps=50, save=20)
    assert result.reason.startswith("diverged: 5 updates in a row failed at step 5, with no checkpoint to go back to")
    assert run.steps() == []


def test_a_damaged_checkpoint_is_passed_over_on_the_way_back(train: Any) -> None:
    task = Numbered(bad=range(7, 12), dropout=0.0)
    batch = task.batch

    def harmful(row: int) -> Lines:
        if row == 8:
            (run_folder / "checkpoints" / "step-6" / "model.safetensors").write_bytes(b"")
        return batch(row)

    settings = {"steps": 12, "save": 2, "evaluate": 6, "keep": 99}
    _, clean = train(Shifted((4, 8), dropout=0.0), "clean", **settings)
    run_folder = clean.folder.parent / "bad"
    task.batch = harmful  # type: ignore[method-assign]
    _, run = train(task, "bad", **settings)
    assert "back to step 4" in said(run)
    assert equal(state(run, 12), state(clean, 12))


def test_what_was_best_before_going_back_stays_the_best(train: Any) -> None:
    task = Numbered(bad=range(8, 13))
    task.scores = iter([5.0, 1.0, 4.0, 3.0])
    result, run = train(task, steps=12, save=3, evaluate=4, failures=4)  # at 4 and 8, then back to 6, at 8 and 12
    assert "back to step 6" in said(run)
    assert (result.best.step, result.best.metrics) == (8, {"loss": 1.0})
    assert checkpoint.read(run.best).metrics == {"loss": 1.0}


class Normed(Numbered):
    """A model that remembers what it saw: its running means follow the data without any gradient."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.model = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2))

    def batch(self, row: int) -> Lines:
        batch = super().batch(row)
        return batch._replace(inputs=torch.where(batch.targets.isfinite().all(), batch.inputs, NAN))


def test_no_checkpoint_ever_holds_what_a_forward_pass_spoilt(train: Any) -> None:
    result, run = train(Normed(bad=[5]), steps=12, save=4, evaluate=4)
    assert (result.reason, result.faults.rolled_back) == ("steps", 1)
    assert "0.running_mean is not finite: back to step 4" in said(run)
    assert all(tensor.isfinite().all() for step in run.steps() for tensor in state(run, step).values())
    ended, run = train(Normed(bad=[5]), "ended", steps=7, save=4, evaluate=99, retreats=0)
    assert (ended.failed, run.steps()) == (True, [4])


# Leaps.


def history(values: list[float], weights: list[float] | None = None) -> tuple[Any, list[bool]]:
    past, sound = (0, *torch.zeros(3, dtype=torch.float64)), []
    for value, weight in zip(values, weights or [10] * len(values), strict=True):
        past, verdict = watched(past, torch.tensor(value, dtype=torch.float64), weight, beyond=8.0)
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
    settings = {"steps": 121, "save": 120, "evaluate": 121, "log": 11}
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
    _, run = train(Numbered(bad=[221], hurt=1000.0, dropout=0.0), steps=112, accumulate=2, save=99, spike=8.0)
    assert "no update; row 221 (" in said(run)


# Interrupted anywhere: a run with faults ends as if it had never been.

EPISODES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "back": ({"bad": range(5, 10)}, {"keep": 2}),
    "single": ({"bad": range(5, 10)}, {"keep": 1, "save": 3}),
    "further": ({"bad": range(8, 14)}, {"failures": 2, "keep": 5}),
    "shallow": ({"bad": range(8, 14)}, {"failures": 2, "keep": 2, "save": 3}),
    "lost": ({"bad": range(8, 999)}, {"failures": 2, "retreats": 2}),
    "rows": ({"bad": range(11, 16)}, {"accumulate": 2, "failures": 3}),
}
SETTINGS = {"steps": 14, "save": 2, "evaluate": 3, "log": 4}


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
    settings = {"steps": 130, "save": 40, "evaluate": 75, "log": 50, "spike": 8.0}

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
    settings |= {"steps": 106, "save": 20, "log": 30, "evaluate": 80, "optim": optim, "spike": 8.0}

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
@pytest.mark.parametrize("optim", [OptimConfig(rate=0.05, warmup=2), SGD])
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

        train(Watched(rows=400), name, steps=49, save=49, evaluate=49, log=49, spike=8.0)
    return seen


def test_an_ordinary_step_waits_for_nothing(train: Any, request: pytest.FixtureRequest) -> None:
    assert reads_before_rows(train, "here")[-1] >= 48, "on a CPU every update asks whether it may"
    request.getfixturevalue("ahead")
    assert set(reads_before_rows(train, "ahead")) == {0}
