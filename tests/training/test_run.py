"""Run folders: never overwritten by accident, and only gone on in with the same model and data."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from regard import checkpoint, config
from regard.config.resuming import Fingerprinted, Fixed, Free
from regard.training import run as runs


@dataclass(frozen=True)
class Recipe:
    """Settings with what may become of each."""

    task: Fixed[str] = "translation"
    model: Fixed[dict] = field(default_factory=lambda: {"width": 128, "depth": 2})
    data: Fingerprinted[dict] = field(default_factory=lambda: {"train": ["a.fr"]})
    optim: dict = field(default_factory=lambda: {"learning_rate": 0.1})
    tokenizer: Fixed[dict | None] = None
    log: Free[int] = 50


RECIPE = Recipe()
SETTINGS = config.plain(RECIPE)
DATA = {"train": {"pairs": 10, "fingerprint": "aa"}}


def begun(folder: Path, *, step: int | None = None) -> Path:
    run = runs.start(folder, settings=RECIPE, command="regard train a.yaml", data=DATA)
    if step is not None:
        files = {"training.json": {}, "training.safetensors": {}}
        checkpoint.write(run.directory(step), files, facts={"step": step})
    return folder


def test_a_new_folder_tells_what_is_run_on_what(tmp_path: Path) -> None:
    run = runs.start(tmp_path / "deep" / "run", settings=RECIPE, command="regard train a.yaml", data=DATA)
    assert config.read(run.folder / "config.yaml") == SETTINGS
    assert (run.folder / "command.txt").read_text() == "regard train a.yaml\n"
    assert json.loads((run.folder / "data.json").read_text()) == DATA
    environment = (run.folder / "env.json").read_text()
    assert {"regard", "python", "packages", "system"} <= json.loads(environment).keys()
    assert socket.gethostname() not in environment
    assert str(Path.home()) not in environment
    assert run.latest is None


def test_a_folder_that_is_not_empty_is_refused_with_both_ways_out(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    with pytest.raises(ValueError, match="is not empty: resume it with --resume"):
        begun(folder)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file"):
        begun(tmp_path / "file")


def test_overwriting_removes_the_run_and_nothing_else(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run", step=3)
    (folder / "thesis.tex").write_text("years of work")
    run = runs.start(folder, settings={"task": "other"}, overwrite=True)
    assert run.latest is None
    assert run.steps() == []
    assert config.read(folder / "config.yaml") == {"task": "other"}
    assert (folder / "thesis.tex").read_text() == "years of work"


def test_resuming_where_nothing_was_saved_starts_from_0_and_says_so(tmp_path: Path) -> None:
    for folder in (tmp_path / "none", begun(tmp_path / "begun")):
        run = runs.start(folder, settings=RECIPE, data=DATA, resume=True)
        assert run.latest is None
        assert "holds no checkpoint to resume from: starting from step 0" in run.notes[-1]


def test_resuming_goes_on_from_the_newest_checkpoint(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run", step=9)
    files = {"training.json": {}, "training.safetensors": {}}
    checkpoint.write(folder / "checkpoints" / "step-10", files, facts={"step": 10})
    checkpoint.write(folder / "checkpoints" / "step-11", {"config.yaml": {}}, facts={"step": 11})
    checkpoint.write(folder / "checkpoints" / "step-12", files, facts={"step": 3})
    run = runs.start(folder, settings=RECIPE, command="again", data=DATA, resume=True)
    assert run.latest is not None
    assert run.latest.step == 10
    assert [note for note in run.notes if "is not the training state of step" in note] == list(run.notes[:2])
    assert (folder / "command.txt").read_text() == "regard train a.yaml\nagain\n"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["model.width=256"], "model.width: 128 -> 256"),
        (["model.depth=null", "model.width=64"], "model.width: 128 -> 64, model.depth: 2 -> null"),
        (["task=language"], "task: translation -> language"),
        (["tokenizer.size=5"], "tokenizer: null -> "),
    ],
)
def test_resuming_with_another_model_or_data_is_refused_with_the_difference(
    changes: list[str], message: str, tmp_path: Path
) -> None:
    folder = begun(tmp_path / "run", step=2)
    with pytest.raises(ValueError, match=message) as caught:
        runs.start(folder, settings=Recipe(**config.override(SETTINGS, changes)), data=DATA, resume=True)
    assert "\n" not in str(caught.value)
    assert config.read(folder / "config.yaml") == SETTINGS, "a refused resume changes nothing"


def test_resuming_on_other_data_under_the_same_name_is_refused(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run", step=2)
    with pytest.raises(ValueError, match=r"data\.json\.train\.fingerprint: aa -> bb"):
        runs.start(folder, settings=RECIPE, data={"train": {"pairs": 10, "fingerprint": "bb"}}, resume=True)


def test_resuming_without_knowing_the_data_is_refused(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run", step=2)
    (folder / "data.json").write_text("{")
    with pytest.raises(ValueError, match=r"data\.json cannot be read"):
        runs.start(folder, settings=RECIPE, data=DATA, resume=True)


def test_nothing_of_a_mere_mapping_may_change(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run", step=2)
    with pytest.raises(ValueError, match="log: 50 -> 7"):
        runs.start(folder, settings={**SETTINGS, "log": 7}, data=DATA, resume=True)


def test_other_changes_are_allowed_and_said(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run", step=2)
    changed = config.override(SETTINGS, ["optim.learning_rate=0.2", "log=7"])
    run = runs.start(folder, settings=Recipe(**changed), data=DATA, resume=True)
    assert "changed since the run began: optim.learning_rate: 0.1 -> 0.2" in run.notes
    assert not any("log: " in note for note in run.notes), "what moves no weight need not be said"
    assert config.read(folder / "config.yaml") == changed


def test_what_killed_writers_left_is_cleared_away_and_nothing_else(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run", step=2)
    for ours in ("checkpoints/.step-3.partial", ".best.partial", ".checkpoints.partial"):
        (folder / ours).mkdir()
    (folder / "samples").mkdir()
    for ours in (".config.yaml.tmp", ".metrics.jsonl.tmp", "samples/.step-3.json.tmp"):
        (folder / ours).write_text("half")
    (folder / "checkpoints" / "step-2").rename(folder / "checkpoints" / ".step-2.old")
    theirs = [".thesis.partial", ".thesis.old", "checkpoints/.mine.partial", "checkpoints/.step-x.tmp"]
    for name in theirs:
        (folder / name).write_text("years of work")
    run = runs.start(folder, settings=RECIPE, data=DATA, resume=True)
    assert run.latest is not None
    hidden = [path.relative_to(folder).as_posix() for path in folder.rglob(".*") if path.name != ".lock"]
    assert sorted(hidden) == sorted(theirs)
    assert run.steps() == [2]


def test_nothing_is_cleared_away_under_a_trainer_at_work(tmp_path: Path) -> None:
    run = runs.start(tmp_path / "run", settings=RECIPE, data=DATA)
    (run.folder / "checkpoints" / ".step-3.partial").mkdir(parents=True)
    for how in ({"resume": True}, {"overwrite": True}):
        with pytest.raises(ValueError, match="in use"):
            runs.start(run.folder, settings=SETTINGS, data=DATA, **how)
    assert (run.folder / "checkpoints" / ".step-3.partial").is_dir()


def test_overwriting_follows_no_link(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    (tmp_path / "big-disk").mkdir()
    (tmp_path / "big-disk" / "thesis.tex").write_text("years of work")
    (folder / "checkpoints").symlink_to(tmp_path / "big-disk")
    (folder / "best").symlink_to(tmp_path / "nowhere")
    runs.start(folder, settings=RECIPE, overwrite=True)
    assert (tmp_path / "big-disk" / "thesis.tex").exists()
    assert not any(path.is_symlink() for path in folder.iterdir())


def test_the_last_checkpoints_and_every_so_many_steps_are_kept(tmp_path: Path) -> None:
    run = runs.start(tmp_path / "run", settings=SETTINGS)
    for step in range(1, 13):
        checkpoint.write(run.directory(step), {"training.json": {}}, facts=run.facts(step))
        run.prune([step - 1, step], every=5)
    assert run.steps() == [5, 10, 11, 12]
    assert [path.name for path in (run.folder / "checkpoints").glob(".*")] == []


def test_a_manifest_tells_settings_data_and_versions(tmp_path: Path) -> None:
    def facts(settings: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
        run = runs.start(tmp_path / "run", settings=settings, data=data, overwrite=True)
        checkpoint.write(run.directory(3), {"training.json": {}}, facts=run.facts(3))
        found = checkpoint.read(run.directory(3))
        assert found.step == 3
        assert found.manifest["format"] == 1
        return found.manifest["facts"]

    first = facts(SETTINGS, DATA)
    assert first.keys() == {"step", "config", "data", "versions", "learnt_from"}
    assert first["versions"].keys() == {"regard", "torch", "python"}
    assert facts(SETTINGS, DATA | {"read": 11, "train": DATA["train"] | {"pairs": 11}}) == first
    other = facts(config.override(SETTINGS, ["optim.learning_rate=0.2"]), {"train": {"fingerprint": "bb"}})
    assert other["config"] != first["config"]
    assert other["data"] != first["data"]


def test_a_run_that_named_its_model_as_version_0_1_did_goes_on(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run", step=3)
    old, new = ({**SETTINGS, "model": {**SETTINGS["model"], "name": name}} for name in ("recurrent", "seq2seq"))
    (folder / "config.yaml").write_text(config.dump(old))
    run = runs.start(folder, settings=new, data=DATA, resume=True)
    assert run.latest is not None
    assert not any("changed since" in note for note in run.notes)
