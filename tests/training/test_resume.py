"""Interrupted anywhere and resumed, a run ends with the weights of one that was never interrupted."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from regard import checkpoint
from regard.training.optim import OptimConfig
from regard.training.resume import TENSORS
from regard.training.task import alone

STEPS = 8  # of two rows: the epochs of three rows end inside and between steps


def final(run: Any) -> dict[str, torch.Tensor]:
    found = checkpoint.read(run.directory(STEPS))
    return {**found.tensors(), **found.tensors(TENSORS)}


def interrupted(task: Any, steps: int) -> Any:
    """A task whose process dies while it fetches the data of the step after `steps`."""
    batch = task.batch

    def dying(row: int) -> Any:
        if row == 2 * steps:
            raise MemoryError
        return batch(row)

    task.batch = dying
    return task


@pytest.mark.parametrize("kind", ["regression", "rivals"])
@pytest.mark.parametrize(
    "optim", [OptimConfig(learning_rate=0.05, warmup=3), OptimConfig(name="sgd", momentum=0.9, learning_rate=0.01)]
)
@pytest.mark.parametrize("stops", [[1], [3], [6], [2, 3, 7]], ids=str)
def test_resumed_weights_are_equal_to_the_bit(
    kind: str, optim: OptimConfig, stops: list[int], train: Any, request: pytest.FixtureRequest
) -> None:
    task = request.getfixturevalue(kind)
    settings = {
        "steps": STEPS,
        "accumulate": 2,
        "save_every": 1,
        "eval_every": 3,
        "log_every": 3,
        "optim": optim,
        "keep": 99,
    }
    _, whole = train(task(), "whole", **settings)
    for stop in stops:
        with pytest.raises(MemoryError):
            train(interrupted(task(), stop), "parts", resume=True, **settings)
    result, parts = train(task(), "parts", resume=True, **settings)
    expected, found = final(whole), final(parts)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert result.counts == {"tokens": 4.0 * 2 * STEPS}
    assert [path.read_bytes() for path in sorted((whole.best).glob("m*"))] == [
        path.read_bytes() for path in sorted((parts.best).glob("m*"))
    ]


def test_metrics_hold_no_step_twice_after_a_resume(regression: Any, train: Any) -> None:
    settings = {"steps": STEPS, "accumulate": 2, "save_every": 3, "eval_every": 2, "log_every": 1, "average": 2}
    with pytest.raises(MemoryError):
        train(interrupted(regression(), 5), **settings)
    _, run = train(regression(), resume=True, **settings)
    train(regression(), resume=True, **settings)  # nothing is left to do
    with open(run.folder / "metrics.jsonl", "a") as file:
        file.write('{"step": 9, "kind": "train')  # a crash in the middle of a line
    train(regression(), resume=True, **settings)
    records = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    for kind, steps in {"training": range(1, STEPS + 1), "evaluation": range(2, STEPS + 1, 2), "average": [8]}.items():
        assert [record["step"] for record in records if record["kind"] == kind] == list(steps)


def test_seconds_of_training_count_on_over_a_resume_and_leave_evaluations_out(regression: Any, train: Any) -> None:
    class Slow(type(regression())):
        def evaluate(self, spread: Any = alone) -> Any:
            time.sleep(0.2)
            return super().evaluate()

    task, settings = Slow(), {"accumulate": 2, "save_every": 1, "eval_every": 1, "log_every": 1}
    began = time.monotonic()
    train(task, steps=2, **settings)
    time.sleep(0.3)  # nobody trains meanwhile
    _, run = train(Slow(), steps=4, resume=True, **settings)
    whole = time.monotonic() - began
    records = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    seconds = [record["seconds"] for record in records if record["kind"] == "evaluation"]
    assert seconds == sorted(seconds)
    assert len(seconds) == 4
    assert seconds[0] > 0
    assert seconds[1] < seconds[2]
    assert seconds[-1] < whole - 4 * 0.2 - 0.3


def test_a_run_that_is_over_can_be_given_more_steps(regression: Any, train: Any) -> None:
    optim = OptimConfig(learning_rate=0.05, schedule="constant")
    _, whole = train(regression(), "whole", steps=STEPS, optim=optim)
    train(regression(), "parts", steps=4, optim=optim)
    result, parts = train(regression(), "parts", steps=STEPS, optim=optim, resume=True)
    assert result.step == STEPS
    assert all(torch.equal(final(parts)[name], tensor) for name, tensor in final(whole).items())


def test_patience_goes_on_counting_after_a_resume(regression: Any, train: Any) -> None:
    task = regression()
    task.scores = iter([1.0, 2.0])
    train(task, steps=4, eval_every=2, save_every=2)
    task = regression()
    task.scores = iter([3.0, 4.0])
    result, _ = train(task, steps=100, eval_every=2, save_every=2, patience=3, resume=True)
    assert (result.step, result.reason, result.best.step) == (8, "patience", 2)


def test_an_average_that_was_best_stays_the_score_to_beat(regression: Any, train: Any) -> None:
    task = regression()
    task.scores = iter([5.0, 4.0, 1.0])
    train(task, steps=4, eval_every=2, save_every=2, average=2)
    task = regression()
    task.scores = iter([3.0, 2.0])
    result, run = train(task, steps=6, eval_every=2, save_every=2, average=2, resume=True)
    assert result.best.metrics == {"loss": 1.0}
    assert checkpoint.read(run.best).step == 4


def test_a_lost_best_is_said_and_found_anew(regression: Any, train: Any) -> None:
    _, run = train(regression(), steps=4, eval_every=2, save_every=2)
    (run.best / "model.safetensors").write_bytes(b"")
    result, _ = train(regression(), steps=6, eval_every=2, save_every=2, resume=True)
    assert "the best so far is lost" in (run.folder / "train.log").read_text()
    assert checkpoint.read(run.best).step == result.best.step == 6


def test_a_damaged_newest_checkpoint_gives_way_to_the_one_before(regression: Any, train: Any) -> None:
    settings = {"steps": STEPS, "save_every": 2, "keep": 99}
    _, whole = train(regression(), "whole", **settings)
    _, run = train(regression(), "parts", **(settings | {"steps": 6}))
    path = run.directory(6) / TENSORS
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    (run.directory(4) / "manifest.json").unlink()
    _, parts = train(regression(), "parts", resume=True, **settings)
    text = (run.folder / "train.log").read_text()
    assert "damaged-step-6" in text
    assert "resuming from step 2" in text
    assert Path(run.folder / "checkpoints" / "damaged-step-4").is_dir()
    weights = checkpoint.read(whole.directory(STEPS)).tensors()
    assert all(torch.equal(final(parts)[name], tensor) for name, tensor in weights.items())


def test_the_state_of_another_task_is_refused(regression: Any, rivals: Any, train: Any) -> None:
    train(rivals())
    with pytest.raises(checkpoint.CheckpointError, match="weights do not fit the model"):
        train(regression(), resume=True)
