"""Trainings on disks that really are too small; to be run as `unshare -Urm python -m tests.faults.filling ...`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from regard import checkpoint
from regard.training import run as runs
from tests.faults.nursery import Child, Quick, Report, answer, differing, prepared, temporary, weights


class Blind(Quick):
    """A disk that claims to have room for everything."""

    def free(self, directory: Path) -> int:
        return sys.maxsize


def full(place: str, blocks: list[int], blind: bool) -> dict[str, Any]:
    """Train on disks of so many blocks of 4 KiB until they are full, give them room and go on."""
    train, folder = prepared("short", place)
    checkpoint.disk = Blind() if blind else Quick()
    expected, wrong, said = weights(folder / "warm"), [], []
    disk = folder / "disk"
    disk.mkdir()
    for size in blocks:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={4 * size}k", "tmpfs", str(disk)], check=True)
        child = Child(lambda report: _told(train, disk / "run", report))
        child.wait()
        said += child.lines
        if child.status == 0 and not child.lines:
            said.append("finished")
        if (disk / "run").exists():
            run = runs.Run(disk / "run")
            wrong += [f"{size} blocks: {name} was left" for name in temporary(run.folder)]
            for step in run.steps():
                checkpoint.read(run.directory(step))
        subprocess.run(["mount", "-o", "remount,size=10m", str(disk)], check=True)
        again = Child(lambda report: _told(train, disk / "run", report))
        if again.wait() or again.lines:
            wrong.append(f"{size} blocks: could not go on, {again.lines}")
        else:
            wrong += [f"{size} blocks: {name} differs" for name in differing(weights(disk / "run"), expected)]
        subprocess.run(["umount", str(disk)], check=True)
    return {"wrong": wrong, "said": said}


def _told(train: Any, folder: Path, report: Report) -> None:
    """Train; what the command line would say of a failure is reported."""
    try:
        train(folder, report)
    except (ValueError, OSError) as error:
        report(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    answer(globals())
