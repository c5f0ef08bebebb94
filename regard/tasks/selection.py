"""Choice of the class that opens a checkpoint: of its task, of another task its model can do, or a custom class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from regard.checkpoint import Checkpoint
from regard.config.words import suggest_name
from regard.tasks import FACES, TASKS, USES
from regard.tasks.inputs import list_tasks
from regard.tasks.trained import Face


def select_class(checkpoint: Checkpoint, name: str | Path, *, task: Any = None, trained: Any = None) -> Any:
    """Return the class that opens a checkpoint; `name` is its name in messages.

    `task` is a task, or several, of which the model must have learnt or be able to do one; `trained` is a custom class.
    """
    requested = list_tasks(task)
    if trained is not None:
        if requested is not None:
            raise ValueError(f"trained and task={task!r} both choose the class of a model: give one of them")
        if not isinstance(trained, type) or not issubclass(trained, Face):
            raise ValueError(f"trained takes a class derived from regard.tasks.trained.Face, not {trained!r}")
        return trained
    learnt = checkpoint.config.get("task")
    if not isinstance(learnt, str) or learnt not in FACES:
        raise ValueError(f"{name}: made for the task {learnt!r}, this version knows {', '.join(FACES)}")
    if requested is None or learnt in requested:
        return FACES[learnt]
    if unknown := [task for task in requested if task not in FACES]:
        raise ValueError(f"unknown task {unknown[0]!r}{suggest_name(unknown[0], FACES)}")
    usable = (FACES[task] for task in requested if serves(task, checkpoint.config.get("model")))
    return next(usable, None) or _refuse_model(name, learnt, requested)


def serves(task: str, model: Any) -> bool:
    """True if a model of another task can be used for this task, judged by its settings."""
    return isinstance(model, Mapping) and FACES[task].serves(model)


def _refuse_model(name: str | Path, learnt: str, requested: Sequence[str]) -> NoReturn:
    """Raise an error with the kind of the model, the required kind, and the command for this model."""
    command, usual_command = (
        (TASKS[task].task if task in TASKS else FACES[task]).usage.partition(" {folder}")[0]
        for task in (requested[0], learnt)
    )
    *others, last = dict.fromkeys(USES[task][1] for task in requested)
    needed = f"{', '.join(others)} or {last}" if others else last
    raise ValueError(f"{name} is {USES[learnt][1]}; {command} needs {needed} (try {usual_command})")
