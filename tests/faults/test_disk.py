"""Whatever operation on the disk fails: one clear line, old checkpoints intact, nothing temporary, an exact resume."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from regard import checkpoint
from regard.training import run as runs
from tests.faults.nursery import Quick, differing, regression, temporary, weights

OPERATIONS = ("free", "make", "write", "sync", "rename", "remove", "read")


class Failing(Quick):
    """A disk whose n-th operation fails; one that is full stays full, so that nothing can be made or written after."""

    def __init__(self, fails: int, code: int, *, stays: bool = False) -> None:
        self.left, self.code, self.stays, self.failed = fails, code, stays, ""

    def __getattribute__(self, name: str) -> Any:
        operation = super().__getattribute__(name)
        return self.counted(name, operation) if name in OPERATIONS else operation

    def counted(self, name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
        def run(path: Path, *arguments: Any) -> Any:
            self.left -= 1
            if self.left == 0 or (self.stays and self.left < 0 and name in ("make", "write")):
                self.failed = self.failed or f"{name} of {path.name}"
                if name == "write":
                    path.write_bytes(b"".join(arguments[0])[:10])
                raise OSError(self.code, os.strerror(self.code), str(path))
            return operation(path, *arguments)

        return run


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody pulls the plug during these tests, so they need not wait for the disk."""
    monkeypatch.setattr(checkpoint, "disk", Quick())


def failures(folder: Path, code: int, *, stays: bool, numbers: Iterable[int]) -> Iterator[tuple[Path, Failing, str]]:
    """Train in copies of a folder with one operation failing after the other until none does; what was said then."""
    with pytest.MonkeyPatch.context() as patch:
        for fails in numbers:
            place, disk = folder.with_name(f"{folder.name}-{fails}"), Failing(fails, code, stays=stays)
            if folder.exists():
                shutil.copytree(folder, place)
            said = ""
            patch.setattr(checkpoint, "disk", disk)
            try:
                tiny(place)
            except ValueError as error:
                said = str(error)
            patch.setattr(checkpoint, "disk", Quick())
            if not disk.failed:
                return
            print(f"operation {fails}, {disk.failed}: {said}")
            yield place, disk, said
            shutil.rmtree(place)


def tiny(folder: Path, **changes: Any) -> None:
    """Go on with a training that saves twice, evaluates and prunes once."""
    regression(folder, print, **({"steps": 2, "eval_every": 2, "keep": 1} | changes))


def logged(folder: Path) -> int:
    """Lines in the log of a run."""
    return len((folder / "train.log").read_text().splitlines()) if (folder / "train.log").exists() else 0


@pytest.mark.parametrize(
    ("code", "stays", "begun", "every"),
    [
        pytest.param(errno.EIO, False, False, 1, id="new, fails once"),
        pytest.param(errno.ENOSPC, True, True, 4, id="resumed, full from then on"),
        pytest.param(errno.EIO, False, True, 1, id="resumed, fails once", marks=pytest.mark.faults),
        pytest.param(errno.ENOSPC, True, False, 1, id="new, full from then on, each", marks=pytest.mark.faults),
        pytest.param(errno.ENOSPC, True, True, 1, id="resumed, full from then on, each", marks=pytest.mark.faults),
    ],
)
def test_no_failing_operation_loses_anything(
    code: int, stays: bool, begun: bool, every: int, tmp_path: Path, seed: int
) -> None:
    print(f"REGARD_FAULT_SEED={seed}")
    if begun:
        tiny(tmp_path / "run", steps=1)
    tiny(tmp_path / "whole")
    expected, number = weights(tmp_path / "whole"), 0
    numbers = count(1 + seed % every, every)
    for place, disk, said in failures(tmp_path / "run", code, stays=stays, numbers=numbers):
        number += 1
        assert "\n" not in said
        assert not said or os.strerror(code) in said, said
        assert temporary(place) == []
        run = runs.Run(place)
        assert [checkpoint.read(run.directory(step)).step for step in run.steps()] == run.steps()
        assert 1 in run.steps() or 2 in run.steps() or not begun
        if said and logged(place) > logged(tmp_path / "run"):  # it was no longer starting
            assert (place / "train.log").read_text().endswith(f" failed: {said}\n")
            assert (place / "metrics.jsonl").read_text().count('"failed": 1') == 1
        tiny(place)
        assert differing(weights(place), expected) == [], disk.failed
        assert temporary(place) == []
    assert number * every > 40


def test_a_save_without_room_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    regression(tmp_path / "run", print, steps=2)
    monkeypatch.setattr(Quick, "free", lambda disk, directory: 10_000)
    with pytest.raises(
        checkpoint.CheckpointError, match=r"(step-3|best): not saved, it needs 0\.\d\d MB and 0\.01 MB are free"
    ):
        regression(tmp_path / "run", print, steps=3, eval_every=100)
    run = runs.Run(tmp_path / "run")
    assert run.steps() == [1, 2]
    assert checkpoint.read(run.directory(2)).step == 2
    assert temporary(run.folder) == []
    assert "not saved, it needs" in (run.folder / "train.log").read_text()


@pytest.mark.faults
@pytest.mark.parametrize("blind", [False, True], ids=["room is checked", "room is not checked"])
def test_a_disk_that_really_is_full_loses_nothing(blind: bool, scenarios: Any) -> None:
    if subprocess.run(["unshare", "-Urm", "true"], capture_output=True).returncode:
        pytest.skip("mounting a small disk needs user namespaces")
    call = ["full", {"blocks": list(range(1, 48)), "blind": blind}]
    found = scenarios("filling", within=("unshare", "-Urm"), full=call)["full"]
    assert found["wrong"] == []
    assert found["said"][-1] == "finished"
    assert len({text.rpartition("/")[2] for text in found["said"]}) > 5, "it should have failed in many ways"
