"""Trainings killed at random moments, and by each of their operations on the disk."""

from __future__ import annotations

import math
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard import checkpoint
from tests.faults.nursery import (
    Child,
    Quick,
    Report,
    Training,
    answer,
    differing,
    prepared,
    temporary,
    weights,
    witnessed,
)

# Killed at random moments.


def kills(training: str, place: str, count: int, seed: int) -> dict[str, Any]:
    """Kill trainings at random moments, resume them, and compare what they end with; as many runs as it takes."""
    train, folder = prepared(training, place)
    chance = random.Random(seed)
    began = time.monotonic()
    whole = Child(witnessed(train, folder / "whole"))
    whole.listen(60, until="from")
    awake = time.monotonic() - began
    assert whole.wait() == 0
    steps = int(weights(folder / "whole")["step"])
    pace = (time.monotonic() - began - awake) / steps
    expected, answer = weights(folder / "whole"), {"kills": 0, "runs": 0, "saves": 0, "starts": 0, "wrong": []}
    while answer["kills"] < count:
        answer["runs"] += 1
        one = folder / f"killed-{answer['runs']}"
        answer["wrong"] += _life(train, one, chance, answer, count=count, steps=steps, times=(awake, pace))
        answer["wrong"] += [f"{one.name}: {name} differs" for name in differing(weights(one), expected)]
        answer["wrong"] += [f"{one.name}: {name} was left" for name in temporary(one)]
    return answer


def _life(
    train: Training, folder: Path, chance: random.Random, answer: dict[str, Any], *, count: int, steps: int, times: Any
) -> Iterator[str]:
    """One run from its first step to its last, through as many kills as are still due."""
    acknowledged = 0
    while True:
        child = Child(witnessed(train, folder))
        if answer["kills"] < count:
            child.listen(_moment(chance, (steps - acknowledged) / (count - answer["kills"]), times))
            child.kill()
        status = child.wait()
        if status not in (0, -signal.SIGKILL):
            yield f"{folder.name}: a child failed with status {status}"
            return
        for line in child.lines:
            word, _, place = line.partition(" ")
            if word == "from" and int(place) < acknowledged:
                yield f"{folder.name}: went on from {place} after step {acknowledged} had been acknowledged"
            if word == "saved" and place.startswith("step-"):
                acknowledged = int(place.removeprefix("step-"))
        if status == 0:
            return
        answer["kills"] += 1
        answer["saves"] += bool(child.lines) and child.lines[-1].startswith("saving")
        answer["starts"] += not child.lines


def _moment(chance: random.Random, steps: float, times: tuple[float, float]) -> float:
    """A moment of a child's life, early enough that so many steps are taken on average until then."""
    awake, wanted = times[0], steps * times[1]
    return chance.uniform(0, awake + wanted + math.sqrt(wanted**2 + 2 * wanted * awake))


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
        acknowledged = [int(line.rpartition("-")[2]) for line in first.lines if line.startswith("saved step")]
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
