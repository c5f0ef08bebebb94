"""A training that is refused before it begins leaves no folder that it made."""

from pathlib import Path

import pytest

import regard

SHORT = ["training.steps=1", "training.tensorboard=false", "training.device=cpu"]


def refuse(tmp_path: Path, out: Path | None = None) -> None:
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\xfa bad\n" * 50)
    with pytest.raises(ValueError, match=r"bad\.txt"):
        regard.train({"task": "causal-lm", "data": {"train": str(tmp_path / "bad.txt")}}, *SHORT, out=out, quiet=True)


def test_a_refused_training_leaves_no_folder_that_it_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refuse(tmp_path)
    assert not Path("runs").exists()
    refuse(tmp_path, Path("deep/inside/run"))
    assert not Path("deep").exists()


def test_folders_that_were_there_stay_with_what_is_in_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("runs/other").mkdir(parents=True)
    Path("runs/other/notes.txt").write_text("mine")
    Path("empty").mkdir()
    refuse(tmp_path)
    refuse(tmp_path, Path("empty"))
    assert sorted(path.name for path in Path("runs").iterdir()) == ["other"]
    assert Path("runs/other/notes.txt").read_text() == "mine"
    assert Path("empty").is_dir()


def test_a_refusal_beside_a_run_leaves_the_run_alone(tmp_path):
    text = "the cat sees the dog. " * 40
    small = {"width": 8, "heads": 2, "depth": 1, "context": 16}
    recipe = {"task": "causal-lm", "data": {"text": text, "context": 16}, "model": small}
    regard.train(recipe, *SHORT, out=tmp_path / "run", quiet=True)
    before = sorted(path.name for path in (tmp_path / "run").iterdir())
    refuse_settings = {**recipe, "model": {**small, "width": 16}}
    with pytest.raises(ValueError, match="cannot be resumed"):
        regard.train(refuse_settings, *SHORT, out=tmp_path / "run", resume=True, quiet=True)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == before
