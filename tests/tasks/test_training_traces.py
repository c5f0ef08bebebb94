"""Where a model looks is saved while it is trained, and the training is the same to the bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard import checkpoint, recipe
from regard.interpret.small_traces import WEIGHT_BYTES, encode_traces, read_traces, shrink_trace
from regard.tasks import training_traces
from regard.training.callbacks import Callback
from tests.scenario import settings_of
from tests.tasks.every import lines

EXACT = ("translation", "pictures", "remembering")  # with dropout, batch norms and a recurrence


class Stopped(BaseException):
    """Ends a training as if it had been killed: nothing is saved afterwards."""


class StopAfter(Callback):
    """Ends a training right after its first checkpoint."""

    def on_checkpoint(self, folder: Path) -> None:
        raise Stopped


def small(task: str, place: Path, **training: Any) -> dict[str, Any]:
    """Settings of a task with two evaluations and an average of the weights."""
    settings = settings_of(task, lines(place)[task])
    changes = {"steps": 4, "eval_every": 2, "save_every": 2, "ema": 0.5, **training}
    return {**settings, "training": settings["training"] | changes}


def weights(folder: Path) -> dict[str, torch.Tensor]:
    last = max((folder / "checkpoints").iterdir(), key=lambda path: int(path.name[5:]))
    saved = checkpoint.read(last)
    return saved.tensors() | saved.tensors("training.safetensors") | checkpoint.read(folder / "best").tensors()


@pytest.mark.parametrize("task", EXACT)
def test_a_run_with_traces_killed_and_resumed_ends_as_one_without(task: str, tmp_path: Path) -> None:
    recipe.train(small(task, tmp_path, save_traces=False), out=tmp_path / "without", quiet=True)
    traced = small(task, tmp_path)
    recipe.train(traced, out=tmp_path / "with", quiet=True)
    with pytest.raises(Stopped):
        recipe.train(traced, out=tmp_path / "killed", quiet=True, callbacks=[StopAfter()])
    assert (tmp_path / "killed" / "traces" / "step-2.safetensors").exists()
    recipe.train(traced, out=tmp_path / "killed", quiet=True, resume=True)

    expected = weights(tmp_path / "without")
    for name in ("with", "killed"):
        found = weights(tmp_path / name)
        assert found.keys() == expected.keys()
        assert [key for key in expected if not torch.equal(found[key], expected[key])] == []
    assert not (tmp_path / "without" / "traces").exists()
    files = [sorted(path.name for path in (tmp_path / name / "traces").iterdir()) for name in ("with", "killed")]
    assert files == [["inputs.json", "step-2.safetensors", "step-4.safetensors"]] * 2
    for file in files[0]:
        assert (tmp_path / "with" / "traces" / file).read_bytes() == (
            tmp_path / "killed" / "traces" / file
        ).read_bytes()


def test_a_trace_is_what_the_trained_model_shows_of_the_moving_average(tmp_path: Path) -> None:
    recipe.train(small("pictures", tmp_path, steps=2), out=tmp_path / "run", quiet=True)
    [first, *_] = read_traces(tmp_path / "run" / "traces" / "step-2.safetensors")
    trained = regard.load(tmp_path / "run" / "best")
    place = next(tmp_path.rglob(first.facts["text"]))
    shown = trained.look(place)
    assert first.facts["answer"] == shown.facts["answer"]
    whole = shown.find()
    assert first.weights[0].name == whole.name
    assert not first.weights[0].is_mean
    torch.testing.assert_close(first.weights[0].values, whole.values.half(), rtol=2e-3, atol=1e-4)


def test_a_translator_reads_the_reference_so_that_the_words_stay_the_same(tmp_path: Path) -> None:
    recipe.train(small("translation", tmp_path), out=tmp_path / "run", quiet=True)
    early, late = (read_traces(tmp_path / "run" / "traces" / f"step-{step}.safetensors") for step in (2, 4))
    recorded = json.loads((tmp_path / "run" / "traces" / "inputs.json").read_text())
    assert len(early) == len(late) == len(recorded) == training_traces.COUNT
    for before, after, item in zip(early, late, recorded, strict=True):
        assert before.items == after.items
        assert (before.facts["text"], before.facts["answer"]) == (item["text"], item["reference"])
        assert before.facts["forced"] is True
        assert not torch.equal(before.weights[0].values, after.weights[0].values)


def test_what_fails_is_said_once_and_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(trace: Any) -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr(training_traces, "shrink_trace", refuse)
    outcome = recipe.train(small("translation", tmp_path), out=tmp_path / "run", quiet=True)
    assert outcome.result.reason == "steps"
    log = (tmp_path / "run" / "train.log").read_text()
    assert log.count("cannot save where the model looks: no room") == 1


def test_traces_that_take_too_long_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_traces, "FREE_SECONDS", 0.0)
    recipe.train(small("translation", tmp_path), out=tmp_path / "run", quiet=True)
    assert (tmp_path / "run" / "traces" / "step-2.safetensors").exists()
    assert not (tmp_path / "run" / "traces" / "step-4.safetensors").exists()


def test_a_trace_keeps_within_its_bytes_and_a_damaged_file_is_refused(tmp_path: Path) -> None:
    trace = regard.load("en-fr").look("The white house is near the old church.")
    small_trace = shrink_trace(trace)
    assert sum(attention.values.nbytes for attention in small_trace.weights) <= WEIGHT_BYTES
    [only_mean] = shrink_trace(trace, most_bytes=trace.find().values[0].numel() * 2).weights
    assert only_mean.is_mean
    assert only_mean.values.shape[0] == 1
    path = tmp_path / "step-1.safetensors"
    path.write_bytes(encode_traces([small_trace]))
    [again] = read_traces(path)
    assert again.items == small_trace.items
    assert again.facts == small_trace.facts
    assert all(torch.equal(one.values, two.values) for one, two in zip(again.weights, small_trace.weights, strict=True))
    for cut in (8, 200, path.stat().st_size - 10):
        path.write_bytes(encode_traces([small_trace])[:cut])
        with pytest.raises(ValueError, match="damaged"):
            read_traces(path)
