"""The loop: what an update is, when it evaluates, saves, averages and stops."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from regard import checkpoint, config
from regard.training import bookkeeping
from regard.training.guard import Guard
from regard.training.loop import Evaluation, Learner, TrainingConfig, hash64, mean
from regard.training.optim import OptimConfig


def weights(run: Any, step: int) -> dict[str, torch.Tensor]:
    return checkpoint.read(run.directory(step)).tensors()


def records(run: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]


def test_it_learns(regression: Any, train: Any) -> None:
    result, run = train(regression(dropout=0.0), steps=150, eval_every=50, save_every=150)
    losses = [record["loss"] for record in records(run) if record["kind"] == "evaluation"]
    assert losses[-1] < 0.1 * losses[0]
    assert result.reason == "steps"
    assert result.counts == {"tokens": 600.0}


def test_the_tasks_fit_the_protocol(regression: Any, rivals: Any) -> None:
    assert isinstance(regression(), Learner)
    assert isinstance(rivals(), Learner)


def test_two_rows_accumulated_equal_one_row_with_the_same_examples(regression: Any, train: Any) -> None:
    halves, wholes = regression(dropout=0.0, rows=2, size=4), regression(dropout=0.0, rows=1, size=8)
    _, split = train(halves, "split", accumulate=2)
    _, whole = train(wholes, "whole", accumulate=1)
    for name, tensor in weights(split, 6).items():
        assert torch.allclose(tensor, weights(whole, 6)[name], atol=1e-6)


def test_an_update_is_that_of_a_plain_loop(regression: Any, train: Any) -> None:
    plain = regression(dropout=0.3)
    optimizer = torch.optim.SGD(plain.model.parameters(), lr=0.05)
    for row in range(3):
        inputs, targets = plain.batch(row)
        torch.manual_seed(hash64(7, row, 0))
        optimizer.zero_grad()
        (plain.model(inputs) - targets).square().sum(-1).mean().backward()
        optimizer.step()
    optim = OptimConfig(name="sgd", learning_rate=0.05, warmup=0, schedule="constant")
    _, run = train(regression(dropout=0.3), steps=3, seed=7, clip=None, optim=optim)
    for name, tensor in weights(run, 3).items():
        assert torch.allclose(tensor, plain.model.state_dict()[name], atol=1e-6)


def test_each_part_has_an_optimizer_of_its_own(rivals: Any, train: Any) -> None:
    still = OptimConfig(name="sgd", learning_rate=1e-30)
    _, run = train(rivals(), optim={"judge": still, "artist": OptimConfig(learning_rate=0.1)})
    before, after = rivals().model.state_dict(), weights(run, 6)
    moved = {name.partition(".")[0] for name in before if not torch.equal(before[name], after[name])}
    assert moved == {"artist"}
    losses = [record for record in records(run) if record["kind"] == "training"]
    assert {"judge_loss", "artist_loss"} <= losses[0].keys()


def test_dropout_differs_between_rows_and_parts_but_not_between_runs() -> None:
    seeds = [hash64(seed, row, part) for seed in range(3) for row in range(50) for part in range(2)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert hash64(0, 1, 2) == hash64(0, 1, 2)


def test_it_evaluates_saves_and_reports_when_due_and_at_the_end(regression: Any, train: Any) -> None:
    result, run = train(regression(), steps=7, log_every=2, eval_every=3, save_every=4)
    kinds = [(record["kind"], record["step"]) for record in records(run)]
    assert [step for kind, step in kinds if kind == "training"] == [2, 3, 4, 6, 7]  # also before an evaluation
    assert [step for kind, step in kinds if kind == "evaluation"] == [3, 6, 7]
    assert run.steps() == [4, 7]
    assert sorted(path.name for path in (run.folder / "samples").iterdir()) == [
        "step-3.json",
        "step-6.json",
        "step-7.json",
    ]
    assert checkpoint.read(run.best).metrics == result.best.metrics


def test_gradients_take_no_memory_while_it_evaluates_or_saves(regression: Any, train: Any) -> None:
    task, seen = regression(), list[bool]()
    evaluate, contents = task.evaluate, task.contents

    def has_gradients() -> None:
        seen.append(any(parameter.grad is not None for parameter in task.model.parameters()))

    task.evaluate = lambda: has_gradients() or evaluate()
    task.contents = lambda: has_gradients() or contents()
    train(task, steps=4, eval_every=2, save_every=2)
    assert len(seen) >= 4
    assert not any(seen)


def test_it_saves_by_minutes_too_and_reads_the_weights_only_then(regression: Any, train: Any, monkeypatch: Any) -> None:
    """Looking at every weight costs as much as a step: not with every line of the log."""
    clock, read, saved = Clock(), [], []
    monkeypatch.setattr(bookkeeping.time, "monotonic", clock)
    unsound = Guard.find_non_finite
    monkeypatch.setattr(Guard, "find_non_finite", lambda guard: (read.append(clock.steps), unsound(guard))[1])
    save = bookkeeping.Bookkeeping.save
    monkeypatch.setattr(bookkeeping.Bookkeeping, "save", lambda books: (saved.append(clock.steps), save(books))[1])

    class Slow(regression):  # type: ignore[valid-type,misc]
        def step(self, batch: Any, part: str) -> Any:
            clock.steps += 1
            return super().step(batch, part)

    train(Slow(), steps=10, eval_every=100, save_every=100, save_minutes=3.0, log_every=1)
    assert saved == [3, 6, 9, 10]
    assert set(read) == {3, 6, 9, 10}


class Clock:
    """A minute goes by with every step."""

    steps = 0

    def __call__(self) -> float:
        return 60.0 * self.steps


def test_checkpoints_hold_what_the_task_says_and_what_training_needs(regression: Any, train: Any) -> None:
    _, run = train(regression())
    found = checkpoint.read(run.directory(6))
    use = {"config.yaml", "README.md", "model.safetensors", "metrics.json"}
    assert set(found.files) == use | {"training.json", "training.safetensors"}
    assert set(checkpoint.read(run.best).files) == use
    assert found.config == {"task": "regression"}


def test_the_last_checkpoints_and_every_nth_are_kept(regression: Any, train: Any) -> None:
    _, run = train(regression(), steps=12, save_every=1, keep=2, keep_every=5)
    assert run.steps() == [5, 10, 11, 12]


def test_it_stops_when_patience_is_at_an_end_and_keeps_the_best(regression: Any, train: Any) -> None:
    task = regression()
    task.scores = iter([3.0, 1.0, 2.0, float("nan"), 0.0])
    result, run = train(task, steps=100, eval_every=2, save_every=2, keep=9, patience=2)
    assert (result.step, result.reason) == (8, "patience")
    assert (result.best.step, result.best.metrics) == (4, {"loss": 1.0})
    best = checkpoint.read(run.best)
    assert best.step == 4
    assert all(torch.equal(tensor, weights(run, 4)[name]) for name, tensor in best.tensors().items())
    assert all(torch.equal(tensor, task.model.state_dict()[name]) for name, tensor in best.tensors().items())


def test_time_ends_it_whatever_was_reached(regression: Any, train: Any) -> None:
    result, run = train(regression(), steps=10**9, seconds=0.3, eval_every=10**9, save_every=10**9)
    assert result.reason == "seconds"
    assert 0 < result.step < 10**9
    assert run.steps() == [result.step]
    assert checkpoint.read(run.best).step == result.step
    assert result.seconds < 5


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_after_the_step_with_everything_saved(number: int, regression: Any, train: Any) -> None:
    task = regression()
    batch = task.batch

    def interrupting(row: int) -> Any:
        if row == 4:
            os.kill(os.getpid(), number)
        return batch(row)

    task.batch = interrupting
    result, run = train(task)
    assert (result.step, result.reason) == (5, "interrupted")
    assert run.steps() == [2, 4, 5]
    resumed, _ = train(regression(), resume=True)
    assert (resumed.step, resumed.reason) == (6, "steps")


def test_an_interrupted_evaluation_is_made_up_for(regression: Any, train: Any) -> None:
    settings = {"steps": 8, "eval_every": 4, "save_every": 8}
    _, whole = train(regression(), "whole", **settings)
    task = regression()
    evaluate = task.evaluate

    def interrupting() -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        return evaluate()

    task.evaluate = interrupting
    result, run = train(task, "parts", **settings)
    assert (result.step, result.reason, result.best) == (4, "interrupted", None)
    resumed, _ = train(regression(), "parts", resume=True, **settings)
    train(regression(), "parts", resume=True, **settings)  # there is nothing left to make up for
    assert [record["step"] for record in records(run) if record["kind"] == "evaluation"] == [4, 8]
    assert resumed.best is not None
    assert (run.best / "model.safetensors").read_bytes() == (whole.best / "model.safetensors").read_bytes()


@pytest.mark.parametrize("settings", [{"steps": 8}, {"steps": 99, "patience": 1, "eval_every": 4}], ids=str)
def test_a_run_that_is_over_is_not_evaluated_again(settings: dict[str, Any], regression: Any, train: Any) -> None:
    settings = {"save_every": 2, "eval_every": 3, **settings}
    for _ in range(3):
        task = regression()
        task.scores = iter([1.0, 2.0, 3.0, 4.0])
        _, run = train(task, **settings, resume=True)
    steps = [record["step"] for record in records(run) if record["kind"] == "evaluation"]
    assert steps == ([3, 6, 8] if settings["steps"] == 8 else [4, 8])


def test_the_checkpoint_of_an_interruption_neither_stays_nor_displaces_another(regression: Any, train: Any) -> None:
    settings = {"steps": 9, "save_every": 3, "keep": 2}
    for stop in (4, 5, 7, 8):
        train(regression(), **(settings | {"steps": stop}), resume=True)
    _, run = train(regression(), **settings, resume=True)
    assert run.steps() == [6, 9]


def test_the_mean_of_weights_is_their_mean() -> None:
    states = [
        {"a": torch.tensor([1.0, 2.0]), "n": torch.tensor(1)},
        {"a": torch.tensor([2.0, 4.0]), "n": torch.tensor(9)},
    ]
    found = mean(states)
    assert torch.equal(found["a"], torch.tensor([1.5, 3.0]))
    assert torch.equal(found["n"], torch.tensor(9)), "a count is not averaged"


def test_averaged_weights_become_the_best_when_they_are_better(regression: Any, train: Any) -> None:
    task = regression()
    task.scores = iter([3.0, 2.0, 1.0])  # two evaluations, then that of the average
    result, run = train(task, average=3)
    assert result.best.metrics == {"loss": 1.0}
    states = [weights(run, step) for step in (2, 4, 6)]
    for name, tensor in checkpoint.read(run.best).tensors().items():
        assert torch.allclose(tensor, sum(state[name] for state in states) / 3, atol=1e-7)
    assert [record["kind"] for record in records(run)][-1] == "average"


def test_averaged_weights_are_dropped_when_they_are_not(regression: Any, train: Any) -> None:
    task = regression()
    task.scores = iter([3.0, 1.0, 2.0])
    result, run = train(task, average=3)
    assert result.best.metrics == {"loss": 1.0}
    last = weights(run, 6)
    assert all(torch.equal(tensor, last[name]) for name, tensor in checkpoint.read(run.best).tensors().items())
    assert all(torch.equal(tensor, last[name]) for name, tensor in task.model.state_dict().items())


def test_averaged_weights_win_by_a_lower_loss_where_a_checkpoint_was_lucky(regression: Any, train: Any) -> None:
    task = regression()
    task.goal = ("bleu", "max")
    found = iter([{"loss": 3.0, "bleu": 40.0}, {"loss": 2.0, "bleu": 42.0}, {"loss": 1.9, "bleu": 41.5}])
    task.evaluate = lambda: Evaluation(next(found))
    result, run = train(task, average=3)
    assert result.best.metrics == {"loss": 1.9, "bleu": 41.5}
    task = regression()
    task.goal, task.evaluate = ("bleu", "max"), lambda: Evaluation({"loss": 1.0, "bleu": 41.0})
    result, run = train(task, steps=8, resume=True)
    assert result.best.metrics == checkpoint.read(run.best).metrics == {"loss": 1.9, "bleu": 41.5}


def test_updates_that_are_not_finite_are_skipped_and_counted(regression: Any, train: Any) -> None:
    task = regression()
    task.inputs[0, 0] = float("nan")  # one row of three
    result, run = train(task, steps=9)
    assert result.faults.skipped == 3
    assert all(tensor.isfinite().all() for tensor in weights(run, 9).values())
    assert result.best is None, "its evaluation is not a number"


def test_bfloat16_on_a_cpu_and_an_absent_device_are_refused(regression: Any, train: Any) -> None:
    with pytest.raises(ValueError, match="precision bfloat16 is not for cpu"):
        train(regression(), "a", precision="bfloat16")
    with pytest.raises(ValueError, match="is not on this machine"):
        train(regression(), "b", device="cuda:99")


def test_compiling_asked_for_on_a_cpu_is_ignored_aloud(regression: Any, train: Any) -> None:
    _, run = train(regression(), compile="on")
    assert "compile: on is ignored on cpu" in (run.folder / "train.log").read_text()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 0}, "steps must be a whole number from 1 to 1e12, not 0"),
        ({"seed": 10**22}, "seed must be a whole number from -9.2e18 to 9.2e18, not 1"),
        ({"clip": -1.0}, "clip must be a number above 0 and at most 1e30, not -1"),
        ({"average": 9}, "average 9 needs"),
        ({"failures": 0}, "failures must be a whole number from 1"),
        ({"spike": 0.0}, "spike must be a number above 0"),
        ({"retreats": -1}, "retreats must be a whole number from 0"),
    ],
)
def test_senseless_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config.build(TrainingConfig, settings)


def test_a_failed_save_is_said_in_one_line_and_leaves_the_last_checkpoint(
    regression: Any, train: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write = checkpoint.Disk.write

    def full(disk: Any, path: Path, data: bytes) -> None:
        if "step-4" in str(path):
            raise OSError(28, "No space left on device")
        write(disk, path, data)

    monkeypatch.setattr(checkpoint.Disk, "write", full)
    with pytest.raises(checkpoint.CheckpointError, match=r"step-4: not saved, No space left on device"):
        train(regression())
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-2"]
    monkeypatch.undo()
    assert train(regression(), resume=True)[0].step == 6
