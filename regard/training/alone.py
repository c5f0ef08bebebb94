"""A task that trains by itself, in one process: from a task that is ready to a run that is done."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, TypedDict, Unpack

import torch

from regard import checkpoint
from regard.training import run as runs
from regard.training.history import recorded
from regard.training.loop import Result, fit
from regard.training.run import Run
from regard.training.task import Task

SMALL = 500_000  # features of a row below which threads cost more than they bring


class Folder(TypedDict):
    """Which folder a run is kept in, what started it, and whether it is begun there or gone on with."""

    out: str | Path
    command: str
    resume: bool
    overwrite: bool
    quiet: bool


class Learner(Task, Protocol):
    """A task that knows the recipe it was made from."""

    recipe: Any
    """With the sections `training` and `optim`."""


def learn(
    task: Learner, *, data: Mapping[str, Any], notes: Iterable[str], features: int, **folder: Unpack[Folder]
) -> tuple[Run, Result]:
    """Train in a run folder: begun there, or gone on with.

    `data` describes what is learnt from and is kept as data.json, `notes` are said first, and `features` is the size of
    a row: small ones are faster in one thread.
    """
    training = task.recipe.training
    known = {"settings": task.recipe, "data": data, "command": folder["command"]}
    run = runs.start(folder["out"], **known, resume=folder["resume"], overwrite=folder["overwrite"])
    with (
        _threads(training.threads, small=features < SMALL),
        run.log(quiet=folder["quiet"], tensorboard=training.tensorboard) as log,
        recorded(run.folder) as end,
    ):
        for line in notes:
            log.note(line)
        result = fit(task, training, task.recipe.optim, run, log=log)
        state = "failed" if result.failed else "interrupted" if result.reason == "interrupted" else "finished"
        end |= {"state": state, "reason": result.reason}
    return run, result


def begun(folder: Folder) -> checkpoint.Checkpoint | None:
    """The newest checkpoint of a run to go on with that can be read: its vocabulary and scales are kept."""
    run = Run(Path(folder["out"]))
    return run.whole(reversed(run.steps()), lambda _: None) if folder["resume"] else None


@contextlib.contextmanager
def _threads(asked: int | None, *, small: bool) -> Iterator[None]:
    """As many CPU threads as the rows are worth."""
    before = torch.get_num_threads()
    torch.set_num_threads(asked or (1 if small else before))
    try:
        yield
    finally:
        torch.set_num_threads(before)
