"""One run as one readable function, the same for every task: data, model, training, scores; and the way back."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch

from regard import checkpoint, config, shipped
from regard.config.merging import drop_automatic_preset
from regard.config.words import list_scores, nearest, quantity, shown
from regard.data.encodings import find
from regard.models.interface import ModelConfig
from regard.tasks import DEFAULT, TASKS, USES
from regard.tasks.inputs import check_path
from regard.tasks.recognition import introduced, understood
from regard.tasks.selection import select_class, serves
from regard.tasks.trained import Face, usage_line
from regard.training import device as devices
from regard.training import distributed
from regard.training import run as runs
from regard.training.callbacks import Callback
from regard.training.comparison import model_folder
from regard.training.history import diverged, recorded
from regard.training.loop import Result, fit
from regard.training.pace import resolve_warmup
from regard.training.parent import Parent, recorded_parent
from regard.training.provenance import recorded_digests
from regard.training.task import Claim, Given, Task, tuning_of
from regard.training.tuning import go_on, tune

SPARE = 10**8  # parameters that cost nothing to allocate
RUNS = Path("runs")
RECIPES = (".yaml", ".yml")


@dataclass(frozen=True)
class Outcome:
    """What a training left: the run folder, its best checkpoint and how that scores."""

    folder: Path
    best: Path
    metrics: dict[str, float | None]
    result: Result
    usage: str

    @property
    def summary(self) -> str:
        """A few lines for a person: how it went, and the commands to go on with."""
        step, reason = self.result.step, self.result.reason
        use = usage_line(self.usage, self.folder)
        if reason.startswith("diverged:") and not self.metrics:
            return f"{self.folder}: {reason}"  # nothing to go on from
        if reason == "interrupted" or not self.metrics:
            again = f"resume with: regard train --resume --out {shlex.quote(str(self.folder))}"
            usable = [use] if runs.Run(self.folder).usable is not None else []
            return "\n".join([f"{self.folder}: {reason} after {quantity(step, 'step')}", again, *usable])
        scores = list_scores(self.metrics)
        return f"{self.folder}: {quantity(step, 'step')}, stopped by {reason}, best {scores}\n{use}"

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        how = {"steps": self.result.step, "reason": self.result.reason, "seconds": round(self.result.seconds, 3)}
        return {"folder": str(self.folder), "best": str(self.best), **how, "metrics": self.metrics}


@dataclass(frozen=True)
class Order:
    """What is asked for: the settings of a run, its name, and what to say of it first."""

    settings: dict[str, Any]
    name: str = "run"
    notes: tuple[str, ...] = ()
    task: type[Task] | None = None
    """The class that learns; None: the one of Regard's that the settings name."""


def order(
    asked: str | Path | Mapping[str, Any] | Sequence[str | Path],
    *changes: str,
    given: Given | None = None,
    task: type[Task] | None = None,
) -> Order:
    """What a recipe, files and settings ask for together: files take the place of those in the recipe.

    `asked` is a recipe, as a YAML file or a mapping, or files to learn from, or a list of both; `given` may say more of
    the files. A `task` is a class of one's own.
    """
    if task is not None and not (isinstance(task, type) and issubclass(task, Task)):
        raise ValueError(f"task must be a class derived from regard.training.task.Task, not {shown(task)}")
    names = [] if isinstance(asked, Mapping) else _file_names(asked)
    sheets = [name for name in names if Path(name).suffix.lower() in RECIPES]
    if len(sheets) > 1:
        raise ValueError(f"{sheets[0]} and {sheets[1]} are two recipes: give one, and settings that change it")
    base = settings(asked) if isinstance(asked, Mapping) else settings(sheets[0]) if sheets else {}
    given = given or Given(())
    given = replace(given, files=(*given.files, *(str(name) for name in names if name not in sheets)))
    data = base.get("data")
    if given.files and isinstance(data, Mapping):
        base = {**base, "data": {name: value for name, value in data.items() if name != "train"}}
    named = config.override(base, changes)
    if not given.files:
        if given.valid or given.to is not None:
            raise ValueError("--valid and --to go with files to train on: name some, or set data.valid and a tag")
        return Order(named, Path(sheets[0]).stem if sheets else _called(named.get("data")), task=task)
    if base:
        named.setdefault("task", DEFAULT if task is None else task.Recipe.task)
    given = replace(given, settings=named)
    task_name, claim = understood(given) if task is None else recognise_for(task, given)
    files = {**base.get("data", {}), **claim.data}
    found = config.override({**base, "task": task_name, "data": files}, changes)
    resolve(found, task)
    for name in (*given.files, *given.valid):
        find(name)  # before a folder is made for the run
    name = Path(sheets[0]).stem if sheets else _stem(given.files[0])
    return Order(found, name, (introduced(given, task_name, claim),) if task is None else (), task)


def _file_names(asked: Any) -> list[str | Path]:
    """What is to be trained on, by its names; rows in memory are not read."""
    names = [asked] if isinstance(asked, (str, Path)) else asked
    if isinstance(names, bytes) or not isinstance(names, Iterable):
        raise ValueError(f"train takes files or a recipe, not {type(asked).__name__}: give the names of files")
    names = list(names)
    for name in names:
        if not isinstance(name, (str, Path)):
            remedy = "write rows into a file, such as a text, a tab and its label in each line, and name it"
            raise ValueError(f"train takes files or a recipe, not {shown(name)}: {remedy}")
    return names


def settings(recipe: str | Path | Mapping[str, Any], *changes: str) -> dict[str, Any]:
    """The settings of a recipe file or mapping, with changes such as "training.epochs=20" applied."""
    mapping = recipe if isinstance(recipe, Mapping) else config.read(recipe)
    return config.override(mapping, changes)


def train(
    asked: Order | Mapping[str, Any],
    *,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    start: str | Path | None = None,
    command: Sequence[str] = (),
    quiet: bool = False,
    callbacks: Sequence[Callback] = (),
) -> Outcome:
    """Files in, a scored model out, in the folder `out`, or in runs/NAME, with a number where that is taken.

    `start` names a model to start from: one of the same task goes on as it is, one of another gives its body and its
    tokenizer to a new head. Started by torchrun, several processes share the work; each returns the same. `callbacks`
    are told how it goes.
    """
    order = asked if isinstance(asked, Order) else Order(dict(asked))
    settings = order.settings
    if not (order.task or settings.keys() & {"data", "task"}) or _lacks_data(settings, order.task):
        raise ValueError("nothing to train on: give a recipe file with data, or files to train on")
    with distributed.team() as team:
        task, recipe = resolve(settings, order.task)
        team.admit(task, recipe.task, recipe.training.accumulate)
        device = team.device(devices.choose(recipe.training.device))
        if out is None:
            place = RUNS / order.name
            out = place if overwrite else team.broadcast(runs.vacant(place, resume=resume))
        parent, record_of_parent = starting_model(start, Path(out), resume=resume)
        if parent is not None:  # a body that does not fit is refused before data is read
            settings = task.limit_settings(settings, parent)
            task, recipe = resolve(settings, order.task)
        run = runs.claim(out, command=shlex.join(command), resume=resume, overwrite=overwrite, team=team)
        with run.log(quiet=quiet, callbacks=callbacks) as log, recorded(run.folder, writes=team.is_main) as record:
            if not run.filled:
                record.begin()
            data = team.main_first(lambda: task.prepare(recipe, run.latest or parent))
            before = None if run.latest is None else runs.begun(run.folder, task.Recipe)
            recipe = task.resolve(settings, data, parent, begun=before)
            torch.manual_seed(recipe.training.seed)
            model = task.build_model(recipe)
            adopted = [] if parent is None else task.adopt(model, parent, data)
            if (tuning := tuning_of(recipe)) is not None:
                adopted += tune(model, tuning, started=parent is not None or run.latest is not None)
                adopted += [] if parent is None else go_on(model, parent.tensors())
            model = model.to(device)
            learner = task(recipe, data, model, fixed=devices.compiles(device, recipe.training.compile, model))
            recipe = learner.recipe = resolve_warmup(settings, recipe, rows=learner.rows, begun=before)
            run = run.begin(recipe, data.report, record_of_parent, parent)
            record.begin()
            log.begin(step=run.step, tensorboard=recipe.training.tensorboard, anew=run.filled and not resume)
            for line in (*order.notes, *data.summary, *adopted, *learner.notes):
                log.note(line)
            with devices.threads(recipe.training.threads, features=learner.features):
                result = fit(learner, recipe.training, recipe.optim, run, log=log)
            record.end(result.state, result.reason)
        metrics = checkpoint.peek(run.best).metrics if run.best.exists() else {}
        return Outcome(run.folder, run.best, metrics, result, task.usage)


def resolve(settings: Mapping[str, Any], task: Any = None) -> tuple[Any, Any]:
    """The task class and the checked recipe: what is unknown or impossible is an error here, before data is read.

    A `task` is a class of one's own; without one it is the task of Regard's that the settings name.
    """
    name = settings.get("task", DEFAULT if task is None else task.Recipe.task)
    if task is None:
        if not isinstance(name, str) or name not in TASKS:
            raise ValueError(f"unknown task {name!r}{nearest(str(name), TASKS)}")
        task = TASKS[name].task
    return task, config.build(task.Recipe, drop_automatic_preset(settings))


def recognise_for(task: type[Task], given: Given) -> tuple[str, Claim]:
    """Return the name of a task of one's own, and what it takes files for."""
    name = task.Recipe.task
    claim = task.recognise(given)
    if claim is None:
        raise ValueError(f"{name} does not say what to make of {given.files[0]}: name it in data.train")
    return name, claim


def _lacks_data(settings: Mapping[str, Any], task: Any = None) -> bool:
    """True if the task needs data and nothing names any."""
    name = str(settings.get("task", DEFAULT))
    if task is None and name not in TASKS:
        return False
    section = next((field for field in fields((task or TASKS[name].task).Recipe) if field.name == "data"), None)
    needed = section is not None and section.default is MISSING and section.default_factory is MISSING
    return needed and "data" not in settings


def begun(folder: Path) -> dict[str, Any]:
    """The settings that a run began with, whichever version wrote them, under the names of today."""
    name = config.read(folder / "config.yaml").get("task", DEFAULT)
    return runs.begun(folder, TASKS[name].task.Recipe if isinstance(name, str) and name in TASKS else None)


def starting_model(
    start: str | Path | None, folder: Path, *, resume: bool
) -> tuple[checkpoint.Checkpoint | None, Parent | None]:
    """Open the model that a run starts from, and say what is written down of it.

    A resumed run for which none is named and which has no checkpoint yet starts from the one that it began with.
    """
    if start is not None:
        model = opened(start)
        return model, Parent.of(start, model)
    recorded = recorded_parent(folder) if resume and not runs.Run(folder).steps() else None
    return (None, None) if recorded is None else (recorded.find(folder, opened), recorded)


def load(
    directory: str | Path | None = None,
    *,
    device: str = "auto",
    task: str | tuple[str, ...] | None = None,
    trained: type[Face] | None = None,
) -> Any:
    """The model in a checkpoint directory, or the best one in a run folder, ready to use; the translator for None.

    A `task` is what it must have learnt, or be able to do with what it has learnt; of several, one. `trained` is a
    class of the user's that opens it.
    """
    found = opened(shipped.FIRST if directory is None else directory)
    opener = select_class(found, directory or shipped.FIRST, task=task, trained=trained)
    place = devices.choose(device)
    try:
        if opener.task in TASKS:
            _fitting(found, TASKS[opener.task].task.Recipe)
        model = opener.load(found, device=place)
        model.learnt_from = recorded_digests(found)
        return model
    except (KeyError, ValueError) as error:
        if str(error).startswith(f"{found.directory}: "):
            raise
        reason = f"config.yaml and {error} do not fit" if isinstance(error, KeyError) else error
        raise ValueError(
            f"{found.directory}: {reason} (written by another version of Regard, or changed since? train again)"
        ) from None


def load_for_prompts(directory: str | Path, *, device: str = "auto") -> Any:
    """Load a model to be prompted: as one that fills gaps if its weights can, whatever it was trained for since."""
    known = opened(directory).config
    fillers = able("fill")
    fills = known.get("task") in fillers or any(serves(name, known.get("model")) for name in fillers)
    return load(directory, device=device, task=fillers if fills else None)


def able(verb: str) -> tuple[str, ...]:
    """The tasks whose trained models can do this: write, fill, translate ..."""
    return tuple(name for name, (own, _) in USES.items() if own == verb)


def _fitting(found: checkpoint.Checkpoint, kind: type) -> None:
    """Stop at a config that no recipe could have, or whose model the weights could not fill, before it is built."""
    for name in ("tokenizer", "decoding", "writing"):
        config.section(kind, found.config, name)
    model_config = config.section(kind, found.config, "model")
    parameters = model_config.parameters if isinstance(model_config, ModelConfig) else 0
    size = found.manifest["files"].get(checkpoint.WEIGHTS, {}).get("size", 0)
    if parameters > SPARE + 4 * size:  # weights may be shrunken, and the number is an estimate
        raise ValueError(f"config.yaml describes about {parameters:.1e} parameters, the weights have {size:.1e} bytes")


def opened(directory: str | Path) -> checkpoint.Checkpoint:
    """A checkpoint, verified; of a run folder its best one, or its newest so far; of a comparison the best model.

    Models that come with Regard go by their short names, such as `en-fr`.
    """
    path = check_path(directory, "a model is given by its folder or its name")
    known = shipped.models()
    if not path.exists() and str(directory) in known:
        path = known[str(directory)].path
    if not path.exists() or path.parent == path:
        names = ", ".join(known)
        raise ValueError(f"no model at {directory}: give a checkpoint directory, a run folder, or a name: {names}")
    path = model_folder(path)
    if not (path / "config.yaml").exists() and not (path / "checkpoints").is_dir():
        raise ValueError(f"{directory} holds no model: give a checkpoint directory or a run folder that was trained")
    if (path / "manifest.json").exists():
        return checkpoint.read(path)
    usable = runs.Run(path).usable
    if usable is None and (path / "data.json").exists():
        raise ValueError(f"{directory} has no checkpoint yet: wait for its first save, or resume it with --resume")
    if usable is not None and usable.name != "best" and diverged(path):
        remedy = f"train again, or name {Path(directory) / 'checkpoints' / usable.name}"
        raise ValueError(f"{directory} diverged before anything was good enough to keep: {remedy}")
    return checkpoint.read(usable or path)


def _called(data: Any) -> str:
    """What a run is called by its data section: the first file to learn from."""
    first = data.get("train") if isinstance(data, Mapping) else None
    if isinstance(first, (list, tuple)):
        first = first[0] if first else None
    if isinstance(first, Mapping):
        first = first.get("path") or first.get("source")
    return _stem(str(first)) if isinstance(first, (str, Path)) else "run"


def _stem(name: str) -> str:
    return Path(name.removesuffix(".gz")).stem or "run"
