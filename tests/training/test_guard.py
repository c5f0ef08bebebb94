"""Numbers that are not finite never reach the weights; steps that leap or keep failing are gone around, exactly."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

import pytest
import torch
from torch import nn

from regard import checkpoint
from regard.training.loop import Evaluation, Step
from regard.training.optim import OptimConfig
from tests.training.conftest import Rivals
from tests.training.lines import Lines, Numbered, counted, equal, records, said, state

NAN, INF = float("nan"), float("inf")
SEED = int(os.environ.get("REGARD_FAULT_SEED", "0"))
SGD = OptimConfig(name="sgd", momentum=0.9, learning_rate=0.01)


# One bad step.


@pytest.mark.parametrize("hurt", [NAN, INF, -INF])
@pytest.mark.parametrize(
    "optim", [OptimConfig(learning_rate=0.05, warmup=2), OptimConfig(name="adamw", weight_decay=0.1), SGD]
)
def test_a_bad_number_in_the_data_changes_neither_weights_nor_optimizer(
    hurt: float, optim: OptimConfig, train: Any
) -> None:
    result, run = train(Numbered(bad=[3], hurt=hurt), save_every=1, keep_every=1, optim=optim)
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
    result, run = train(kind(bad=[3], dropout=0.0), save_every=1, keep_every=1)
    assert equal(state(run, 4), state(run, 3))
    assert result.faults.skipped == 1
    assert f"step 4: {words}, no update; row 3 (train.tsv:13" in said(run)


def test_of_several_rows_only_the_bad_one_is_named(train: Any) -> None:
    _, run = train(Numbered(bad=[7]), accumulate=3)
    assert "no update; row 7 (train.tsv:29" in said(run)
    assert "row 6" not in said(run)


def test_a_bad_step_leaves_the_reported_loss_a_number(train: Any) -> None:
    _, run = train(Numbered(bad=[0, 2, 3]), log_every=2, eval_every=6)
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
    settings = {"steps": 12, "save_every": 2, "eval_every": 6, "keep": 99}
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
    settings = {"steps": 12, "save_every": 2, "eval_every": 6, "keep": 99, "failures": 2}
    result, run = train(Numbered(bad=range(8, 14), dropout=0.0), "bad", **settings)
    assert [f"back to step {step}" in said(run) for step in (8, 6, 4, 2)] == [True, True, True, False]
    _, clean = train(Shifted((4, 10), dropout=0.0), "clean", **settings)
    assert equal(state(run, 12), state(clean, 12))
    assert (result.faults.rolled_back, result.reason) == (3, "steps")


def test_getting_further_gives_new_chances(train: Any) -> None:
    bad = [row for start in range(4, 60, 7) for row in (start, start + 1)]
    result, _ = train(Numbered(bad=bad), steps=30, save_every=2, failures=2, retreats=1)
    assert result.reason == "steps"
    assert result.faults.rolled_back > 3


@pytest.mark.parametrize("retreats", [0, 1, 3])
def test_where_everything_fails_it_stops_with_a_reason_and_a_good_checkpoint(retreats: int, train: Any) -> None:
    result, run = train(
        Numbered(bad=range(9, 999)), steps=50, save_every=2, eval_every=4, failures=3, retreats=retreats
    )
    assert result.has_failed
    assert result.reason.startswith(f"diverged: 3 updates in a row failed at step {12 if retreats == 0 else ''}")
    assert "lower optim.learning_rate, raise optim.warmup, or look at" in result.reason
    assert f" {result.reason}\n" in said(run)
    assert "(diverged) after" in said(run)
    assert result.faults.rolled_back == retreats
    assert counted(run) == asdict(result.faults)
    assert result.best is not None
    assert all(tensor.isfinite().all() for step in run.steps() for tensor in state(run, step).values())
    again, run = train(Numbered(), steps=50, save_every=2, eval_every=4, failures=3, resume=True)
    assert (again.step, again.reason) == (50, "steps"), "with the cause removed it should go on"


def test_without_a_checkpoint_there_is_nothing_to_go_back_to(train: Any) -> None:
    result, run = train(Numbered(bad=range(99)), steps=50, save_every=20)
    assert result.reason.startswith("diverged: 5 updates in a row failed at step 5, with no checkpoint to go back to")
    assert run.steps() == []


class Scored(Numbered):
    """Its evaluations are given: losses, beside an accuracy that is the score to judge by."""

    goal = ("accuracy", "max")

    def __init__(self, losses: list[float], **settings: Any) -> None:
        super().__init__(**settings)
        self.losses = iter(losses)

    def evaluate(self, spread: Any = None) -> Evaluation:
        return Evaluation({"accuracy": 0.5, "loss": next(self.losses)}, [])


def test_a_training_whose_scores_are_never_finite_is_no_success(train: Any) -> None:
    result, run = train(Scored([NAN, INF, NAN]), steps=3, eval_every=1, save_every=1)
    assert result.has_failed
    assert result.reason.startswith(
        "diverged: at step 3 no evaluation found a finite loss: lower optim.learning_rate, "
    )
    assert result.best is None
    assert not run.best.exists()
    assert f" {result.reason}\n" in said(run)
    again, _ = train(Scored([]), steps=3, eval_every=1, save_every=1, resume=True)
    assert again.reason == result.reason


def test_one_finite_evaluation_is_kept_and_others_do_not_count(train: Any) -> None:
    result, run = train(Scored([NAN, 2.0, NAN]), steps=3, eval_every=1, save_every=1)
    assert (result.reason, result.best.step) == ("steps", 2)
    assert checkpoint.read(run.best).metrics["loss"] == 2.0


def test_a_damaged_checkpoint_is_passed_over_on_the_way_back(train: Any) -> None:
    task = Numbered(bad=range(7, 12), dropout=0.0)
    batch = task.batch

    def harmful(row: int) -> Lines:
        if row == 8:
            (run_folder / "checkpoints" / "step-6" / "model.safetensors").write_bytes(b"")
        return batch(row)

    settings = {"steps": 12, "save_every": 2, "eval_every": 6, "keep": 99}
    _, clean = train(Shifted((4, 8), dropout=0.0), "clean", **settings)
    run_folder = clean.folder.parent / "bad"
    task.batch = harmful  # type: ignore[method-assign]
    _, run = train(task, "bad", **settings)
    assert "back to step 4" in said(run)
    assert equal(state(run, 12), state(clean, 12))


def test_what_was_best_before_going_back_stays_the_best(train: Any) -> None:
    task = Numbered(bad=range(8, 13))
    task.scores = iter([5.0, 1.0, 4.0, 3.0])
    result, run = train(
        task, steps=12, save_every=3, eval_every=4, failures=4
    )  # at 4 and 8, then back to 6, at 8 and 12
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
    result, run = train(Normed(bad=[5]), steps=12, save_every=4, eval_every=4)
    assert (result.reason, result.faults.rolled_back) == ("steps", 1)
    assert "0.running_mean is not finite: back to step 4" in said(run)
    assert all(tensor.isfinite().all() for step in run.steps() for tensor in state(run, step).values())
    ended, run = train(Normed(bad=[5]), "ended", steps=7, save_every=4, eval_every=99, retreats=0)
    assert (ended.has_failed, run.steps()) == (True, [4])
