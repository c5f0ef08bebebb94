"""Trainings that get stuck are asked to stop, politely and not; and trainers meet in one folder."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from regard import checkpoint
from regard.training import run as runs
from regard.training import stopping
from regard.training.lock import is_locked
from regard.training.task import alone
from tests.faults.nursery import Child, Quick, Report, answer, differing, prepared, regression, temporary, weights
from tests.training.conftest import Regression


class Stuck(Regression):
    """A regression that gets stuck in its sixth row, in an evaluation after it, or in the save after that."""

    def __init__(self, where: str, how: str, report: Report) -> None:
        super().__init__()
        self.where, self.how, self.report, self.last = where, how, report, 0

    def stick(self) -> None:
        self.report("stuck")
        if self.how == "briefly":
            time.sleep(0.2)
        elif self.how == "waiting":
            time.sleep(60)
        else:  # no Python runs meanwhile, so neither does a handler of Python's
            hashlib.pbkdf2_hmac("sha256", b"", b"", 100_000_000)

    def batch(self, row: int) -> Any:
        self.last = row
        if self.where == "step" and row == 5:
            self.stick()
        return super().batch(row)

    def evaluate(self, spread: Any = alone) -> Any:
        if self.where == "evaluation" and self.last == 5:
            self.stick()
        return super().evaluate()

    def contents(self) -> dict[str, Any]:
        if self.where == "save" and self.last == 5:
            checkpoint.disk = Sticky(self.stick)
        return super().contents()


class Sticky(Quick):
    """A disk on which the last rename of a training checkpoint takes long."""

    def __init__(self, stick: Callable[[], None]) -> None:
        self.stick = stick

    def rename(self, old: Path, new: Path) -> None:
        if new.name == "step-6":
            self.stick()
        super().rename(old, new)


def signals(place: str, cases: list[list[Any]]) -> list[dict[str, Any]]:
    """Send signals to trainings that are stuck somewhere, and see how they end and what is left to go on from."""
    train, folder = prepared("regression", place)
    train(folder / "whole", print, steps=9, eval_every=3, save_every=3)
    expected = weights(folder / "whole")
    return [_stopped(folder / str(number), case, expected) for number, case in enumerate(cases)]


def _stopped(folder: Path, case: list[Any], expected: dict[str, torch.Tensor]) -> dict[str, Any]:
    where, how, numbers = case
    settings = {"steps": 9, "eval_every": 3, "save_every": 3}

    def action(report: Report) -> None:
        stopping.GRACE = 0.3
        task = Stuck(where, how, report)
        report(f"reason {regression(folder, report, task, **settings).reason}")

    child = Child(action)
    child.listen(60, until="stuck")
    child.listen(0.05)  # until it is
    began = time.monotonic()
    for number in numbers:
        child.kill(number)
        child.listen(0.1)
    status, seconds = child.wait(), time.monotonic() - began
    steps = runs.Run(folder).steps()
    intact = all(checkpoint.read(runs.Run(folder).directory(step)).step == step for step in steps)
    again = Child(lambda report: regression(folder, report, **settings))
    return {
        "status": status,
        "seconds": seconds,
        "steps": steps,
        "intact": intact,
        "lines": child.lines,
        "resumed": again.wait(),
        "differing": differing(weights(folder), expected),
        "left": temporary(folder),
    }


def trespass(place: str) -> dict[str, Any]:
    """Start trainers in a folder where one is at work, kill that one, and start another."""
    _, folder = prepared("regression", place)
    regression(folder / "whole", print, steps=9)
    first = Child(lambda report: regression(folder / "run", report, Stuck("step", "waiting", report), steps=9))
    first.listen(60, until="stuck")
    before = {path: path.read_bytes() for path in sorted((folder / "run").rglob("*")) if path.is_file()}

    def refused(**how: bool) -> Callable[[Report], None]:
        def action(report: Report) -> None:
            try:
                runs.start(folder / "run", settings={"model": {"width": 5}}, **how)
            except ValueError as error:
                report(str(error))

        return action

    second, third = Child(refused(resume=True)), Child(refused(overwrite=True))
    statuses = [second.wait(), third.wait()]
    after = {path: path.read_bytes() for path in sorted((folder / "run").rglob("*")) if path.is_file()}
    running = is_locked(folder / "run")
    first.kill()
    first.wait()
    killed = is_locked(folder / "run")
    last = Child(lambda report: regression(folder / "run", report, steps=9))
    return {
        "pid": first.pid,
        "statuses": statuses,
        "lines": [*second.lines, *third.lines],
        "untouched": before == after,
        "held": [running, killed],
        "resumed": last.wait(),
        "differing": differing(weights(folder / "run"), weights(folder / "whole")),
    }


if __name__ == "__main__":
    answer(globals())
