"""One run as one readable function, the same for every task: data, model, training, scores; and the way back."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import torch

from regard import checkpoint, config
from regard.config.words import nearest
from regard.tasks import TASKS
from regard.training import adoption, distributed
from regard.training import device as devices
from regard.training import run as runs
from regard.training.history import recorded
from regard.training.loop import Result, fit

AUTO = "auto"
LENGTHS = ("steps", "epochs", "seconds")  # ways to say how long to train: one of them named, no other is chosen


@dataclass(frozen=True)
class Outcome:
    """What a training left: the run folder, its best checkpoint and how that scores."""

    folder: Path
    best: Path
    metrics: dict[str, float]
    result: Result
    usage: str

    @property
    def summary(self) -> str:
        """Two lines for a person: how it went, and the command to go on with."""
        step, reason = self.result.step, self.result.reason
        if reason == "interrupted" or not self.metrics:
            return f"{self.folder}: {reason} after {step} steps\nresume with: regard train --resume --out {self.folder}"
        scores = ", ".join(f"{name} {value:.4g}" for name, value in self.metrics.items())
        use = self.usage.format(folder=self.folder)
        return f"{self.folder}: {step} steps, stopped by {reason}, best {scores}\nuse it with: {use}"


def settings(recipe: str | Path | Mapping[str, Any], *changes: str) -> dict[str, Any]:
    """The settings of a recipe file or mapping, with changes such as "model.width=256" applied."""
    mapping = recipe if isinstance(recipe, Mapping) else config.read(recipe)
    return config.override(mapping, changes)


def train(
    settings: Mapping[str, Any],
    *,
    out: str | Path,
    resume: bool = False,
    overwrite: bool = False,
    start: str | Path | None = None,
    command: Sequence[str] = (),
    quiet: bool = False,
) -> Outcome:
    """Files in, a scored model out.

    `start` names a model to go on from: one of the same task goes on as it is, one of another gives its body and its
    tokenizer to a new head. Started by torchrun, several processes share the work; each returns the same.
    """
    with distributed.team() as team:
        task, recipe = resolve(settings)
        team.admit(task, recipe.task, recipe.training.accumulate)
        device = team.device(devices.choose(recipe.training.device))
        parent = None if start is None else opened(start)
        run = runs.claim(out, command=shlex.join(command), resume=resume, overwrite=overwrite, team=team)
        with run.log(quiet=quiet) as log, recorded(run.folder, writes=team.is_main) as record:
            if not run.filled:
                record.begin()
            data = team.main_first(lambda: task.prepare(recipe, run.latest or parent))
            recipe = fitted(task, settings, recipe, data, parent)
            torch.manual_seed(recipe.training.seed)
            model = task.build(recipe.model)
            adopted = [] if parent is None else _adopted(task, model, parent, data)
            model = model.to(device)
            learner = task(recipe, data, model, fixed=devices.compiles(device, recipe.training.compile, model))
            run = run.begin(config.plain(recipe), data.report)
            record.begin()
            log.begin(step=run.step, tensorboard=recipe.training.tensorboard, anew=run.filled and not resume)
            for line in (*data.summary, *adopted, *learner.notes):
                log.note(line)
            with devices.threads(recipe.training.threads, features=learner.features):
                result = fit(learner, recipe.training, recipe.optim, run, log=log)
            record.end(result.state, result.reason)
        metrics = checkpoint.read(run.best).metrics if run.best.exists() else {}
        return Outcome(run.folder, run.best, metrics, result, task.usage)


def resolve(settings: Mapping[str, Any]) -> tuple[Any, Any]:
    """The task class and the checked recipe: what is unknown or impossible is an error here, before data is read."""
    name = settings.get("task", "translation")
    if not isinstance(name, str) or name not in TASKS:
        raise ValueError(f"unknown task {name!r}{nearest(str(name), TASKS)}")
    task = TASKS[name][0]
    return task, config.build(task.Recipe, _named(settings))


def fitted(
    task: Any, settings: Mapping[str, Any], recipe: Any, data: Any, parent: checkpoint.Checkpoint | None = None
) -> Any:
    """The recipe with what follows from a parent and from the data wherever nobody named it."""
    named = _named(settings)
    suited = dict(task.suited(recipe, data))
    if _preset(settings) not in (None, AUTO):
        suited.pop("model", None)  # a preset names all sizes
    if any(name in named.get("training", {}) for name in LENGTHS):
        suited["training"] = {key: value for key, value in suited.get("training", {}).items() if key not in LENGTHS}
    if parent is not None:
        kinds = config.sections(task.Recipe, "model").values()
        suited["model"] = adoption.shape(parent, named.get("model", {}), task=recipe.task, kinds=kinds)
    return task.sized(config.build(task.Recipe, merged(suited, named)), data)


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Settings over settings: what stands above counts, section by section."""
    both = {name: merged(below[name], above[name]) for name in above if _sections(below.get(name), above[name])}
    return {**below, **above, **both}


def load(
    directory: str | Path | None = None, *, device: str = "auto", task: str | tuple[str, ...] | None = None
) -> Any:
    """The model in a checkpoint directory, or the best one in a run folder, ready to use; the shipped one for None.

    A `task` is what it must have learnt; of several, one.
    """
    found = opened(shipped() if directory is None else directory)
    name = found.config.get("task")
    if not isinstance(name, str) or name not in TASKS:
        raise ValueError(f"{directory}: made for the task {name!r}, this version knows {', '.join(TASKS)}")
    wanted = (task,) if isinstance(task, str) else task
    if wanted is not None and name not in wanted:
        raise ValueError(_misfit(directory or "the shipped model", name, wanted))
    place = devices.choose(device)
    try:
        return TASKS[name][1].load(found, device=place)
    except (KeyError, ValueError) as error:
        if str(error).startswith(f"{found.directory}: "):
            raise
        reason = f"config.yaml and {error} do not fit" if isinstance(error, KeyError) else error
        raise ValueError(
            f"{found.directory}: {reason} (made by another version of Regard? use that one, or train again)"
        ) from None


def _misfit(directory: str | Path, name: str, wanted: Sequence[str]) -> str:
    """What a model is, what is needed instead, and the command that it can be used with."""
    asked, own = (TASKS[task][0].usage.partition(" {folder}")[0] for task in (wanted[0], name))
    needed = " or ".join(TASKS[task][1].kind for task in wanted)
    return f"{directory} is {TASKS[name][1].kind}; {asked} needs {needed} (try {own})"


def shipped() -> Path:
    """The model that comes with Regard: English-French, both ways."""
    return Path(str(resources.files("regard") / "pretrained" / "en-fr"))


def opened(directory: str | Path) -> checkpoint.Checkpoint:
    """A checkpoint, verified; of a run folder its best one, or its newest before the first evaluation.

    Models that come with Regard go by their short names, such as `en-fr`.
    """
    path = Path(directory)
    if not path.exists():
        path = shipped().parent / directory
    if not path.exists() or path.parent == path:
        raise ValueError(f"no model at {directory}: give a checkpoint directory, a run folder, or a name: {_names()}")
    if not (path / "config.yaml").exists() and not (path / "checkpoints").is_dir():
        raise ValueError(f"{directory} holds no model: give a checkpoint directory or a run folder that was trained")
    if (path / "manifest.json").exists():
        return checkpoint.read(path)
    usable = runs.Run(path).usable
    if usable is None and (path / "data.json").exists():
        raise ValueError(f"{directory} has no checkpoint yet: wait for its first save, or resume it with --resume")
    return checkpoint.read(usable or path)


def _adopted(task: Any, model: Any, parent: checkpoint.Checkpoint, data: Any) -> list[str]:
    """Give a new model what it goes on from, in the task's own way if it has one; the lines that say what."""
    if hasattr(task, "adopt"):
        return task.adopt(model, parent, data)
    return adoption.adopt(model, parent, same=TASKS.get(parent.config.get("task"), (None,))[0] is task)


def _names() -> str:
    return ", ".join(sorted(path.name for path in shipped().parent.iterdir() if (path / "manifest.json").exists()))


def _named(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that somebody named; `model.preset: auto` names none."""
    named = dict(settings)
    if _preset(settings) == AUTO:
        named["model"] = {key: value for key, value in named["model"].items() if key != "preset"}
    return named


def _preset(settings: Mapping[str, Any]) -> Any:
    model = settings.get("model")
    return model.get("preset") if isinstance(model, Mapping) else None


def _sections(*values: Any) -> bool:
    return all(isinstance(value, Mapping) for value in values)
