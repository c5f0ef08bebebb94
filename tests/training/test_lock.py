"""One trainer in a run folder at a time, on any file system."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from regard.training import lock as locks
from regard.training import run as runs
from regard.training.lock import Lock, is_locked


@pytest.fixture(params=["kernel", "no fcntl", "refused by the file system"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The systems there are: locks of the kernel, none at all, and locks that the file system does not know."""
    if request.param == "no fcntl":
        monkeypatch.setattr(locks, "fcntl", None)
    if request.param == "refused by the file system":

        def flock(*_: Any) -> None:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

        monkeypatch.setattr(locks.fcntl, "flock", flock)
    return request.param


def test_a_folder_has_one_holder_until_it_is_released(system: str, tmp_path: Path) -> None:
    assert not is_locked(tmp_path)
    lock = Lock(tmp_path)
    assert is_locked(tmp_path)
    with pytest.raises(ValueError, match=rf"in use by another training \(process {os.getpid()}\)") as caught:
        Lock(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert ("remove" in str(caught.value)) == (system != "kernel"), "only a stand-in outlives its holder"
    lock.release()
    lock.release()
    assert not is_locked(tmp_path)
    Lock(tmp_path).release()


def test_a_forgotten_lock_is_released(system: str, tmp_path: Path) -> None:
    Lock(tmp_path)
    assert not is_locked(tmp_path)


def test_looking_does_not_hinder(tmp_path: Path) -> None:
    for _ in range(20):
        is_locked(tmp_path)
        Lock(tmp_path).release()


def test_a_forked_child_that_ends_does_not_release_its_parents_lock(tmp_path: Path) -> None:
    script = (
        "import os, sys\nfrom pathlib import Path\nfrom regard.training.lock import Lock, is_locked\n"
        "lock = Lock(Path(sys.argv[1]))\n"
        "if os.fork() == 0:\n    lock.release()\n    os._exit(0)\n"
        "os.wait()\nprint(is_locked(Path(sys.argv[1])))"
    )
    words = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=3600, cwd=Path(__file__).parent.parent.parent)
    assert (done.stdout, done.stderr) == ("True\n", "")


@pytest.mark.parametrize("how", [{"resume": True}, {"overwrite": True}], ids=str)
def test_whoever_comes_second_is_refused_and_changes_nothing(how: dict[str, bool], tmp_path: Path) -> None:
    run = runs.start(tmp_path / "run", settings={"rate": 1})
    before = {path: path.read_bytes() for path in run.folder.iterdir()}
    with pytest.raises(ValueError, match="in use by another training"):
        runs.start(tmp_path / "run", settings={"rate": 2}, **how)
    assert {path: path.read_bytes() for path in run.folder.iterdir()} == before
    run.close()
    runs.start(tmp_path / "run", settings={"rate": 2}, **how).close()


def test_the_end_of_the_log_is_the_end_of_the_claim(tmp_path: Path) -> None:
    run = runs.start(tmp_path / "run", settings={})
    with run.log(quiet=True):
        assert is_locked(run.folder)
    assert not is_locked(run.folder)


def test_a_run_that_fails_says_why_in_its_log_and_lets_go(tmp_path: Path) -> None:
    run = runs.start(tmp_path / "run", settings={})

    def fail() -> None:
        with run.log(quiet=True):
            raise RuntimeError("the dog\nate it")

    with pytest.raises(RuntimeError):
        fail()
    assert not is_locked(run.folder)
    assert (run.folder / "train.log").read_text().endswith("failed: the dog ate it\n")


def test_a_start_that_is_refused_lets_go(tmp_path: Path) -> None:
    runs.start(tmp_path / "run", settings={}).close()
    (tmp_path / "run" / "checkpoints" / "step-1").mkdir(parents=True)
    with pytest.raises(ValueError, match="no checkpoint is left"):
        runs.start(tmp_path / "run", settings={}, resume=True)
    assert not is_locked(tmp_path / "run")


def test_a_folder_full_of_other_things_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match="is not empty"):
        runs.start(tmp_path, settings={})
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
