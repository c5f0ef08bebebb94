"""Processes forked from one that has imported everything, in which trainings are killed, stopped and resumed.

A module of scenarios is run as `python -m tests.faults.killing '{"key": ["scenario", {"argument": ...}]}'`, away from
the threads of a test run; what the scenarios return is the last line of its output.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from regard import checkpoint, recipe
from regard.checkpoint import Disk
from regard.training import run as runs
from regard.training.loop import TrainingConfig, fit
from regard.training.optim import OptimConfig
from regard.training.resume import TENSORS
from tests.conftest import SELDOM, sentences
from tests.test_recipe import TINY
from tests.training.conftest import Regression

Report = Callable[[str], None]
Training = Callable[[Path, Report], Any]


class Quick(Disk):
    """A disk that is not waited for: a killed process loses nothing that it has written, only a machine does."""

    def sync(self, path: Path) -> None:
        pass


class Slow(Disk):
    """A disk that takes its time as real ones do, but always the same, so that half of a training is saving."""

    def sync(self, path: Path) -> None:
        time.sleep(0.001)


# Trainings: each goes on where the folder stands, and says so.


def translation(folder: Path, report: Report) -> Any:
    """The tiny translation recipe, with everything a run does: evaluations, best weights, pruning, a last average."""
    train = {"source": str(folder.parent / "train.fr"), "target": str(folder.parent / "train.en")}
    changes = ("steps=12", "save=1", "evaluate=4", "log=3", "keep=3", "keep_every=5", "average=2")
    settings = recipe.settings(
        {**TINY, "data": {**TINY["data"], "train": train}},
        "objective.eval_examples=2",
        *(f"training.{change}" for change in changes),
    )
    return recipe.train(settings, out=folder, resume=True, quiet=True).result


def regression(folder: Path, report: Report, task: Any = None, **changes: Any) -> Any:
    """A perceptron of a few numbers, whose steps take no time: most of it is saving."""
    settings = {
        "steps": 30,
        "log_every": 4,
        "eval_every": 7,
        "save_every": 1,
        "keep": 3,
        "tensorboard": False,
        "device": "cpu",
    }
    run = runs.start(folder, settings={"model": {"width": 5}}, resume=True)
    with run.log(quiet=True) as log:
        optim = OptimConfig(learning_rate=0.05, warmup=2)
        return fit(task or Regression(), TrainingConfig(**(settings | changes)), optim, run, log=log)


def short(folder: Path, report: Report) -> Any:
    """The regression again, with only as many operations on the disk as show each kind of them."""
    return regression(folder, report, steps=3, eval_every=2, keep=1, keep_every=2)


def prepared(training: str, place: str) -> tuple[Training, Path]:
    """A training by name, with the data it needs in place."""
    os.environ["REGARD_CACHE"] = str(Path(place) / "cache")
    for side, texts in zip(("fr", "en"), zip(*sentences(), strict=True), strict=True):
        (Path(place) / f"train.{side}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    checkpoint.disk = Quick()
    train: Training = {"translation": translation, "regression": regression, "short": short}[training]
    train(Path(place) / "warm", print)  # fills the cache of the data, and imports what torch imports late
    return train, Path(place)


# Children.


class Child:
    """A forked process that runs an action; what it reports can be read while it lives and after."""

    def __init__(self, action: Callable[[Report], Any]) -> None:
        self._pipe, write = os.pipe()
        self.lines: list[str] = []
        self.status: int | None = None
        self._rest = b""
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                os.close(self._pipe)
                action(lambda line: os.write(write, f"{line}\n".encode()) and None)
                status = 0
            except KeyboardInterrupt:
                status = 130
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        os.close(write)

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid, number)

    def listen(self, seconds: float | None, until: str | None = None) -> bool:
        """Read reports for so long, or until one begins with a word; whether the child still lives."""
        end = None if seconds is None else time.monotonic() + seconds
        while not (until and any(line.startswith(until) for line in self.lines)):
            left = None if end is None else max(0.0, end - time.monotonic())
            if not select.select([self._pipe], [], [], left)[0]:
                break
            data = os.read(self._pipe, 1 << 16)
            if not data:
                return False
            *lines, self._rest = (self._rest + data).split(b"\n")
            self.lines += [line.decode() for line in lines]
        return True

    def wait(self) -> int:
        """The exit status; minus the signal's number if one killed it."""
        self.listen(None)
        os.close(self._pipe)
        self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status


def witnessed(training: Training, folder: Path) -> Callable[[Report], Any]:
    """A training that reports where it starts, when a save begins and when one has returned."""

    def action(report: Report) -> Any:
        start, write = runs.start, checkpoint.write

        def starting(*arguments: Any, **options: Any) -> runs.Run:
            run = start(*arguments, **options)
            report(f"from {run.latest.step if run.latest else 0}")
            return run

        def writing(directory: Path, *arguments: Any, **options: Any) -> None:
            report(f"saving {directory.name}")
            began = time.monotonic()
            write(directory, *arguments, **options)
            report(f"saved {directory.name} {time.monotonic() - began}")

        runs.start, checkpoint.write = starting, writing  # type: ignore[assignment]
        training(folder, report)
        report("finished")

    return action


def weights(folder: Path) -> dict[str, torch.Tensor]:
    """All numbers of a run's last training state, and of its best weights."""
    run = runs.Run(folder)
    last, best = checkpoint.read(run.directory(run.steps()[-1])), checkpoint.read(run.best)
    found = {**last.tensors(), **last.tensors(TENSORS), "step": torch.tensor(last.step)}
    return found | {f"best/{name}": tensor for name, tensor in best.tensors().items()}


def differing(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> list[str]:
    """Names of numbers that are not the same to the bit."""
    return [name for name in {*found, *expected} if not torch.equal(found[name], expected[name])]


def temporary(folder: Path) -> list[str]:
    """Hidden files of a run but for its lock."""
    return sorted(path.name for path in folder.rglob(".*") if path.name != ".lock")


def settle() -> None:
    """What is imported is shared with all children and never searched for garbage, and the rest seldom."""
    gc.freeze()
    gc.set_threshold(SELDOM, 10, 10)


def answer(scenarios: Mapping[str, Any]) -> None:
    """Run the scenarios that the command line names, and print what each of them returns."""
    settle()
    calls = json.loads(sys.argv[1])
    print(json.dumps({key: scenarios[name](**arguments) for key, (name, arguments) in calls.items()}))
