"""Trainings killed at random moments, and by each of their operations on the disk."""

from __future__ import annotations

import math
import os
import random
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard import checkpoint
from tests.faults.nursery import (
    Child,
    Quick,
    Report,
    Slow,
    Training,
    answer,
    differing,
    prepared,
    temporary,
    weights,
    witnessed,
)

# Killed at random moments.


@dataclass
class Tally:
    """What is known of the kills so far."""

    chance: random.Random
    count: int
    """Kills that are due in all."""
    kills: int = 0
    saves: int = 0
    """Kills inside a save."""
    starts: int = 0
    """Kills before a run had found where to go on."""
    wrong: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Usual:
    """How long things take, and how many steps there are, in a run that nobody kills."""

    start: float
    step: float
    save: float
    steps: int


def kills(training: str, place: str, count: int, seed: int) -> dict[str, Any]:
    """Kill trainings at random moments, resume them, and compare what they end with; as many runs as it takes."""
    train, folder = prepared(training, place)
    checkpoint.disk = Slow()
    usual, tally, runs = _usual(train, folder / "whole"), Tally(random.Random(seed), count), 0
    expected = weights(folder / "whole")
    while tally.kills < count:
        runs += 1
        one = folder / f"killed-{runs}"
        _live(train, one, tally, usual)
        tally.wrong += [f"{one.name}: {name} differs" for name in differing(weights(one), expected)]
        tally.wrong += [f"{one.name}: {name} was left" for name in temporary(one)]
    return {"runs": runs, "kills": tally.kills, "saves": tally.saves, "starts": tally.starts, "wrong": tally.wrong}


def _usual(train: Training, folder: Path) -> Usual:
    began = time.monotonic()
    child = Child(witnessed(train, folder))
    child.listen(60, until="from")
    start = time.monotonic() - began
    assert child.wait() == 0
    saves = [float(line.split()[2]) for line in child.lines if line.startswith("saved step-")]
    return Usual(start, (time.monotonic() - began - start) / len(saves), sum(saves) / len(saves), len(saves))


def _live(train: Training, folder: Path, tally: Tally, usual: Usual) -> None:
    """One run from its first step to its last, through as many kills as are still due."""
    acknowledged = 0
    while True:
        child = Child(witnessed(train, folder))
        if tally.kills < tally.count:
            _await(child, tally, usual, usual.steps - acknowledged)
            child.kill()
        status = child.wait()
        if status not in (0, -signal.SIGKILL):
            tally.wrong.append(f"{folder.name}: a child failed with status {status}")
        for line in child.lines:
            word, name, *_ = [*line.split(), ""]
            if word == "from" and int(name) < acknowledged:
                tally.wrong.append(f"{folder.name}: went on from {name}, but {acknowledged} had been acknowledged")
            if word == "saved" and name.startswith("step-"):
                acknowledged = int(name.removeprefix("step-"))
        if status != -signal.SIGKILL:
            return
        tally.kills += 1
        tally.saves += bool(child.lines) and child.lines[-1].startswith("saving")
        tally.starts += not child.lines


def _await(child: Child, tally: Tally, usual: Usual, steps: int) -> None:
    """Wait for a random moment of a child's life: half of the time any, half of the time one inside a save.

    Any is early enough that the steps that are left suffice for the kills that are due.
    """
    if tally.chance.random() < 0.5:
        child.listen(60, until="saving")
        child.listen(tally.chance.uniform(0, usual.save))
    else:
        wanted = usual.step * steps / (tally.count - tally.kills)
        child.listen(tally.chance.uniform(0, usual.start + wanted + math.sqrt(wanted**2 + 2 * wanted * usual.start)))


# Killed by every operation on the disk in turn.


class Deadly(Quick):
    """A disk whose n-th operation is cut short by the end of the process."""

    def __init__(self, fatal: int) -> None:
        self.left = fatal

    def __getattribute__(self, name: str) -> Any:
        operation = super().__getattribute__(name)
        if name not in ("make", "write", "sync", "rename", "remove"):
            return operation

        def counted(path: Path, *arguments: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                if name == "write":
                    data = b"".join(arguments[0])
                    path.write_bytes(data[: len(data) // 2])
                if name == "remove" and path.is_dir():
                    next(path.iterdir()).unlink()
                os.kill(os.getpid(), signal.SIGKILL)
            return operation(path, *arguments)

        return counted


def operations(training: str, place: str, every: int, seed: int) -> dict[str, Any]:
    """Kill a training at each of its operations on the disk (or each `every`-th), and resume it."""
    train, folder = prepared(training, place)
    assert Child(witnessed(train, folder / "whole")).wait() == 0
    expected, wrong, fatal, kills = weights(folder / "whole"), [], 1 + random.Random(seed).randrange(every), 0
    while True:
        one = folder / f"killed-{fatal}"

        def dying(where: Path, report: Report, fatal: int = fatal) -> None:
            checkpoint.disk = Deadly(fatal)
            train(where, report)

        first = Child(witnessed(dying, one))
        if first.wait() == 0:
            return {"kills": kills, "operations": fatal - 1, "wrong": wrong}
        second = Child(witnessed(train, one))
        status, kills = second.wait(), kills + 1
        acknowledged = [
            int(line.split()[1].removeprefix("step-")) for line in first.lines if line.startswith("saved step")
        ]
        went_on = int(next(line for line in second.lines if line.startswith("from")).split()[1])
        if first.status != -signal.SIGKILL or status != 0:
            wrong.append(f"operation {fatal}: ended with {first.status}, then {status}")
        elif went_on < max(acknowledged, default=0):
            wrong.append(f"operation {fatal}: went on from {went_on}, below {max(acknowledged)}")
        else:
            wrong += [f"operation {fatal}: {name} differs" for name in differing(weights(one), expected)]
            wrong += [f"operation {fatal}: {name} was left" for name in temporary(one)]
        fatal += every


if __name__ == "__main__":
    answer(globals())
