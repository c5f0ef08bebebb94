"""One run as one readable function: data, model, training, scores; and the way back to a trained model."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import torch

from regard import checkpoint, config
from regard.config.words import nearest
from regard.models import MODELS
from regard.tasks import TASKS
from regard.tasks.translation.translator import Translator
from regard.training import device as devices
from regard.training import distributed
from regard.training import run as runs
from regard.training.history import recorded
from regard.training.loop import Result, fit


@dataclass(frozen=True)
class Outcome:
    """What a training left: the run folder, its best checkpoint and how that scores."""

    folder: Path
    best: Path
    metrics: dict[str, float]
    result: Result
    usage: str = 'regard translate {folder} "..."'

    @property
    def summary(self) -> str:
        """Two lines for a person: how it went, and the command to go on with."""
        how = f"{self.folder}: {self.result.step} steps, stopped by {self.result.reason}"
        if self.result.reason == "interrupted" or not self.metrics:
            return f"{how}\ngo on with: regard train --resume --out {self.folder}"
        scores = ", ".join(f"{name} {value:.4g}" for name, value in self.metrics.items())
        return f"{how}, best {scores}\nuse it with: {self.usage.format(folder=self.folder)}"


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

    `start` names a model to go on from: its tokenizers and shape are kept, its weights are where training begins.
    Started by torchrun, several processes share the work; each returns the same.
    """
    with distributed.team() as team:
        task, recipe = resolve(settings)
        if hasattr(task, "train"):  # it has a loop of its own
            how = {"out": out, "resume": resume, "overwrite": overwrite, "command": shlex.join(command), "quiet": quiet}
            return _alone(task, recipe, team, start, **how)
        team.admit(recipe.training.accumulate)
        place = team.device(devices.choose(recipe.training.device))
        parent = _open(start) if start is not None else None
        begun = _begun(Path(out)) if resume else None
        prepared = team.main_first(lambda: task.prepare(recipe, tokenizers=_tokenizers(begun or parent)))
        recipe = _shaped(task, recipe, settings, prepared, parent)
        torch.manual_seed(recipe.training.seed)
        model = MODELS[recipe.model.name][0](recipe.model).to(place)
        if parent is not None:
            checkpoint.fill(model, parent.tensors())
        learner = task(recipe, prepared, model, fixed=devices.compiles(place, recipe.training.compile, model))
        known = {"settings": recipe, "data": prepared.report, "command": shlex.join(command)}
        run = runs.start(out, **known, resume=resume, overwrite=overwrite, team=team)
        with (
            _threads(recipe),
            run.log(quiet=quiet, tensorboard=recipe.training.tensorboard) as log,
            recorded(run.folder, writes=team.is_main) as end,
        ):
            for line in (*prepared.train.summary, *prepared.valid.summary, _described(prepared)):
                log.note(line)
            result = fit(learner, recipe.training, recipe.optim, run, log=log)
            state = "failed" if result.failed else "interrupted" if result.reason == "interrupted" else "finished"
            end |= {"state": state, "reason": result.reason}
        metrics = checkpoint.read(run.best).metrics if run.best.exists() else {}
        return Outcome(run.folder, run.best, metrics, result)


def _alone(task: Any, recipe: Any, team: distributed.Team, start: Any, **how: Any) -> Outcome:
    """Train by the task's own loop, in one process and from the beginning."""
    if team.size > 1 or start is not None:
        raise ValueError(f"{recipe.task} trains in one process and goes on from no other model: start it by itself")
    run, result = task.train(recipe, **how)
    metrics = checkpoint.read(run.best).metrics if run.best.exists() else {}
    return Outcome(run.folder, run.best, metrics, result, task.usage)


def resolve(settings: Mapping[str, Any]) -> tuple[Any, Any]:
    """The task class and the checked recipe: what is unknown or impossible is an error here, before data is read."""
    name = str(settings.get("task", "translation"))
    if name not in TASKS:
        raise ValueError(f"unknown task {name!r}{nearest(name, TASKS)}")
    task = TASKS[name][0]
    named = dict(settings)
    if "model" in named and _automatic(named):
        named["model"] = {key: value for key, value in named["model"].items() if key != "preset"}
    return task, config.build(task.Recipe, named)


def load(
    directory: str | Path | None = None, *, device: str = "auto", task: str | tuple[str, ...] | None = None
) -> Any:
    """The model in a checkpoint directory, or the best one in a run folder, ready to use; the shipped one for None.

    A `task` is what it must have learnt; of several, one.
    """
    found = _open(shipped() if directory is None else directory)
    name = found.config.get("task")
    if not isinstance(name, str) or name not in TASKS:
        raise ValueError(f"{directory}: made for the task {name!r}, this version knows {', '.join(TASKS)}")
    wanted = (task,) if isinstance(task, str) else task
    if wanted is not None and name not in wanted:
        raise ValueError(f"{directory}: made for the task {name}, and this needs a model for {' or '.join(wanted)}")
    place = devices.choose(device)
    try:
        _fitting(found, TASKS[name][0].Recipe)
        return TASKS[name][1].load(found, device=place)
    except (KeyError, ValueError) as error:
        if str(error).startswith(f"{found.directory}: "):
            raise
        reason = f"config.yaml and {error} do not fit" if isinstance(error, KeyError) else error
        raise ValueError(
            f"{found.directory}: {reason} (made by another version of Regard? use that one, or train again)"
        ) from None


def _fitting(found: checkpoint.Checkpoint, kind: type) -> None:
    """Stop at a config that no recipe could have, or whose model the weights could not fill, before it is built."""
    for name in ("tokenizer", "decoding", "writing"):
        config.section(kind, found.config, name)
    parameters = getattr(config.section(kind, found.config, "model"), "parameters", 0)
    size = found.manifest["files"].get(checkpoint.WEIGHTS, {}).get("size", 0)
    if parameters > SPARE + 4 * size:  # weights may be shrunken, and the number is an estimate
        raise ValueError(f"config.yaml describes about {parameters:.1e} parameters, the weights have {size:.1e} bytes")


def shipped() -> Path:
    """The model that comes with Regard: English-French, both ways."""
    return Path(str(resources.files("regard") / "pretrained" / "en-fr"))


def _open(directory: str | Path) -> checkpoint.Checkpoint:
    """A checkpoint, verified; of a run folder its best one."""
    path = Path(directory)
    if not path.exists():
        raise ValueError(f"no model at {path}: give a checkpoint directory or a run folder")
    return checkpoint.read(path / "best" if (path / "checkpoints").is_dir() else path)


@contextlib.contextmanager
def _threads(recipe: Any) -> Iterator[None]:
    """As many CPU threads as the rows are worth: small ones lose more by sharing than they gain."""
    before = torch.get_num_threads()
    small = recipe.data.tokens * recipe.model.width < SHARED
    torch.set_num_threads(recipe.training.threads or (1 if small else before))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _begun(folder: Path) -> checkpoint.Checkpoint | None:
    """The newest checkpoint of a run that can be read: a run goes on with the tokenizers it began with."""
    run = runs.Run(folder)
    for step in reversed(run.steps()):
        with contextlib.suppress(checkpoint.CheckpointError):
            return checkpoint.read(run.directory(step))
    return None


def _tokenizers(parent: checkpoint.Checkpoint | None) -> Any:
    if parent is None:
        return None
    translator = Translator.load(parent)
    return translator.source, translator.target


def _shaped(
    task: Any, recipe: Any, settings: Mapping[str, Any], prepared: Any, parent: checkpoint.Checkpoint | None
) -> Any:
    """The recipe with the model's sizes settled: the parent's, those asked for, or what the data can feed."""
    if parent is not None:
        kind: Any = MODELS[parent.config["model"]["name"]][1]
        shape = config.build(kind, parent.config["model"], where="model")
        asked = dict(settings.get("model", {}))
        known = config.plain(shape)  # lists, as YAML has them
        wrong = [
            name for name, value in asked.items() if name != "dropout" and known.get(name, value) != config.plain(value)
        ]
        if wrong:
            raise ValueError(f"model.{wrong[0]} differs from the model to go on from: leave the model section out")
        return replace(recipe, model=replace(shape, dropout=asked.get("dropout", shape.dropout)))
    if _automatic(settings):
        sizes = derived(len(prepared.train)) | {**settings.get("model", {})}
        sizes.pop("preset", None)
        recipe = replace(recipe, model=config.build(type(recipe.model), sizes, where="model"))
    return task.sized(recipe, prepared)


def _automatic(settings: Mapping[str, Any]) -> bool:
    """Whether the data shall decide the sizes that nobody named."""
    model = settings.get("model", {"preset": AUTO})
    named = isinstance(model, Mapping) and model.get("preset") == AUTO
    return named and model.get("name", "transformer") == "transformer"


def derived(pairs: int) -> dict[str, Any]:
    """Sizes of a Transformer that so many pairs can feed."""
    for most, sizes in SIZES:
        if pairs <= most:
            return {"norm": "pre", **sizes}
    return {"norm": "pre"}


AUTO = "auto"
SPARE = 10**8  # parameters that cost nothing to allocate
SHARED = 500_000  # features of a row from which on threads help
SIZES: tuple[tuple[int, dict[str, Any]], ...] = (
    (5_000, {"width": 128, "heads": 4, "hidden": 256, "encoder": 2, "decoder": 1, "dropout": 0.3}),
    (50_000, {"width": 128, "heads": 4, "hidden": 512, "encoder": 3, "decoder": 2, "dropout": 0.2}),
    (500_000, {"width": 256, "heads": 4, "hidden": 1024, "encoder": 4, "decoder": 2, "dropout": 0.1}),
)


def _described(prepared: Any) -> str:
    return (
        f"{len(prepared.train):,} pairs to learn from, {len(prepared.valid):,} held out, "
        f"{prepared.source_tokenizer.vocab:,} tokens"
    )
