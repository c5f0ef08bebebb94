"""A run that starts from another model and is killed before its first checkpoint starts from that model again."""

import json
import os
import shutil
import signal

import pytest
import torch

from regard import checkpoint, recipe
from regard.cli import run
from regard.training import parent as parents
from tests.tasks import every

TRAINING = {
    "steps": 2,
    "eval_every": 2,
    "save_every": 2,
    "log_every": 1,
    "device": "cpu",
    "tensorboard": False,
    "threads": 1,
}
STEPS = {
    "translation": ("translation", {}),
    "classification": ("masked-lm", {"model": {"pool": "mean"}}),
    "text-to-text": ("span-corruption", {"tuning": {"method": "lora"}}),
    "captions": ("pictures", {}),
}
"""Tasks, what their models start from, and settings that differ from those of a model of their own."""


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    return every.lines(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def train_parent(lines, tmp_path_factory):
    place = tmp_path_factory.mktemp("parents")

    def train(task):
        folder = place / task
        if not folder.exists():
            recipe.train({"task": task, **lines[task].settings, "training": TRAINING}, out=folder, quiet=True)
        return folder

    return train


def settings_of(lines, task):
    own = {name: value for name, value in lines[task].settings.items() if name not in ("model", "tokenizer")}
    return {"task": task, **own, "training": TRAINING, **STEPS[task][1]}


def train_and_kill(settings, folder, start):
    """Train in a process that is killed when everything is ready for the first step."""
    process = os.fork()
    if process == 0:
        recipe.fit = lambda *arguments, **options: os.kill(os.getpid(), signal.SIGKILL)
        try:
            recipe.train(settings, out=folder, start=start, quiet=True)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL
    assert (folder / "config.yaml").exists()
    assert not (folder / "checkpoints").exists()


def resume_alone(folder):
    return recipe.train(recipe.order(recipe.read_begun_settings(folder)), out=folder, resume=True, quiet=True)


def all_tensors(outcome):
    found = checkpoint.read(outcome.folder / "checkpoints" / f"step-{outcome.result.step}")
    return {**found.tensors(), **found.tensors("training.safetensors")}


@pytest.mark.parametrize("task", STEPS)
def test_a_run_killed_before_its_first_checkpoint_ends_as_if_it_had_not_been(task, lines, train_parent, tmp_path):
    start, settings = train_parent(STEPS[task][0]), settings_of(lines, task)
    whole = recipe.train(settings, out=tmp_path / "whole", start=start, quiet=True)
    train_and_kill(settings, tmp_path / "cut", start)
    again = resume_alone(tmp_path / "cut")
    expected, tensors = all_tensors(whole), all_tensors(again)
    assert tensors.keys() == expected.keys()
    assert [name for name in tensors if not torch.equal(tensors[name], expected[name])] == []
    said = (tmp_path / "cut" / "train.log").read_text()
    assert "holds no checkpoint to resume from: starting from step 0" in said
    assert f"starting from {start}" in said
    assert parents.recorded_parent(tmp_path / "cut") == parents.recorded_parent(tmp_path / "whole")


@pytest.fixture
def killed(lines, train_parent, tmp_path):
    """A copy of a model, and the run that started from it and was killed."""
    shutil.copytree(train_parent("masked-lm"), tmp_path / "parent")
    train_and_kill(settings_of(lines, "classification"), tmp_path / "cut", tmp_path / "parent")
    return tmp_path / "cut"


def test_a_model_to_start_from_that_is_gone_or_has_changed_is_refused_in_one_line(killed, train_parent, capsys):
    parent = killed.parent / "parent"
    best = checkpoint.read(parent / "best")
    contents = {name: best.data(name) for name in best.files}
    checkpoint.write(parent / "best", contents, facts={"step": 7})
    for said in ("has changed since", "is gone"):
        with pytest.raises(ValueError, match=rf"no checkpoint yet, and .*parent that it started from {said}") as error:
            resume_alone(killed)
        assert "\n" not in str(error.value)
        assert str(error.value).endswith("put it back, name another with --from, or start anew with --overwrite")
        shutil.rmtree(parent, ignore_errors=True)
    assert run(["train", "--resume", "--out", str(killed)]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert "that it started from is gone" in line
    outcome = recipe.train(
        recipe.order(recipe.read_begun_settings(killed)),
        out=killed,
        resume=True,
        start=train_parent("masked-lm"),
        quiet=True,
    )
    assert outcome.result.step == 2, "another model that is named takes its place"


def test_a_model_that_was_moved_is_found_by_the_name_it_was_asked_for_by(killed, monkeypatch):
    place = killed / parents.NAME
    fields = json.loads(place.read_text())
    place.write_text(json.dumps({**fields, "given": "elsewhere"}))
    (killed.parent / "parent").rename(killed.parent / "elsewhere")
    monkeypatch.chdir(killed.parent)
    assert resume_alone(killed).result.step == 2


@pytest.mark.parametrize("damage", ["", "[]", '{"given": 3, "path": "", "sha256": ""}', "[" * 100_000])
def test_a_damaged_record_is_refused_in_one_line(damage, killed):
    (killed / parents.NAME).write_text(damage)
    with pytest.raises(ValueError, match=r"parent\.json is damaged, so what the run started from is unknown: name"):
        resume_alone(killed)


def test_a_run_with_a_checkpoint_needs_its_parent_no_more(lines, killed):
    resume_alone(killed)
    shutil.rmtree(killed.parent / "parent")
    more = recipe.order(recipe.read_begun_settings(killed), "training.steps=3")
    assert recipe.train(more, out=killed, resume=True, quiet=True).result.step == 3


def test_a_run_that_replaces_another_forgets_what_that_one_started_from(lines, killed):
    settings = {"task": "classification", **lines["classification"].settings, "training": TRAINING}
    recipe.train(settings, out=killed, overwrite=True, quiet=True)
    assert not (killed / parents.NAME).exists()


def test_a_model_that_comes_with_the_package_is_found_again_by_its_name(lines, tmp_path):
    settings = {**settings_of(lines, "classification"), "tuning": {"method": "frozen"}}
    train_and_kill(settings, tmp_path / "cut", "encoder")
    recorded = parents.recorded_parent(tmp_path / "cut")
    assert (recorded.given, recorded.path) == ("encoder", str(recipe.open_model("encoder").directory))
    (tmp_path / "cut" / parents.NAME).write_text(
        json.dumps({"given": "encoder", "path": str(tmp_path / "of another installation"), "sha256": recorded.sha256})
    )
    assert resume_alone(tmp_path / "cut").result.step == 2
