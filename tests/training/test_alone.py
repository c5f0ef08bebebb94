"""A task that trains by itself: what it goes on with, and that it leaves the process as it was."""

import json

import pytest
import torch

from regard import recipe
from regard.training import alone

SETTINGS = {
    "task": "counting",
    "data": {"size": 16, "smallest": 5, "largest": 6, "frames": 2, "most": 1, "batch": 2, "valid": 2},
    "model": {"channels": [4], "width": 4},
    "training": {"steps": 4, "evaluate": 2, "save": 2, "device": "cpu", "tensorboard": False, "threads": 2},
}


def folder(out, *, resume: bool) -> alone.Folder:
    return {"out": out, "command": "", "resume": resume, "overwrite": False, "quiet": True}


def test_a_run_goes_on_with_its_newest_checkpoint_that_can_be_read(tmp_path):
    assert alone.begun(folder(tmp_path / "run", resume=True)) is None
    recipe.train(SETTINGS, out=tmp_path / "run", quiet=True)
    assert alone.begun(folder(tmp_path / "run", resume=False)) is None
    assert alone.begun(folder(tmp_path / "run", resume=True)).step == 4
    (tmp_path / "run" / "checkpoints" / "step-4" / "model.safetensors").write_bytes(b"")
    assert alone.begun(folder(tmp_path / "run", resume=True)).step == 2


def test_threads_are_as_before_when_it_is_done_and_the_end_is_written_down(tmp_path):
    before = torch.get_num_threads()
    recipe.train(SETTINGS, out=tmp_path / "run", quiet=True, command=["regard", "train", "x.yaml"])
    assert torch.get_num_threads() == before
    assert json.loads((tmp_path / "run" / "state.json").read_text())["state"] == "finished"
    assert json.loads((tmp_path / "run" / "env.json").read_text())["threads"] == before
    assert (tmp_path / "run" / "command.txt").read_text() == "regard train x.yaml\n"
    assert json.loads((tmp_path / "run" / "data.json").read_text())["train"]["fingerprint"]


def test_a_folder_that_is_not_empty_is_refused(tmp_path):
    recipe.train(SETTINGS, out=tmp_path / "run", quiet=True)
    with pytest.raises(ValueError, match="not empty"):
        recipe.train(SETTINGS, out=tmp_path / "run", quiet=True)
    assert recipe.train(SETTINGS, out=tmp_path / "run", quiet=True, overwrite=True).result.step == 4
