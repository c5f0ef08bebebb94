"""The wiring of a run, the same for every task: data, model, training and scores; and the loading of trained models."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch

from regard import checkpoint, config, shipped
from regard.config.merging import drop_automatic_preset
from regard.config.words import list_scores, quantity, quote, suggest_name
from regard.data.encodings import find_path
from regard.models.interface import ModelConfig
from regard.tasks import DEFAULT, TASKS, USES
from regard.tasks.inputs import check_path
from regard.tasks.recognition import choose_task, describe_claim
from regard.tasks.selection import select_class, serves
from regard.tasks.trained import Face, usage_line
from regard.tasks.training_traces import make_recorder
from regard.training import device as devices
from regard.training import distributed
from regard.training import run as runs
from regard.training.callbacks import Callback
from regard.training.comparison import model_folder
from regard.training.history import has_diverged, record_state
from regard.training.loop import Result, fit
from regard.training.pace import resolve_warmup
from regard.training.parent import Parent, recorded_parent
from regard.training.provenance import merge_digests, recorded_digests
from regard.training.task import Claim, Given, Task, tuning_of
from regard.training.tuning import go_on, tune

ALLOWED_PARAMETERS = 10**8  # parameters that are allocated without a check
RUNS = Path("runs")
RECIPES = (".yaml", ".yml")


@dataclass(frozen=True)
class Outcome:
    """The outcome of a training: the run folder, its best checkpoint, and that checkpoint's metrics."""

    folder: Path
    best: Path
    metrics: dict[str, float | None]
    result: Result
    usage: str

    @property
    def summary(self) -> str:
        """A summary in a few lines: how the training went, and the commands to continue with."""
        step, reason = self.result.step, self.result.reason
        use = usage_line(self.usage, self.folder)
        if reason.startswith("diverged:") and not self.metrics:
            return f"{self.folder}: {reason}"  # nothing to resume from
        if reason == "interrupted" or not self.metrics:
            again = f"resume with: regard train --resume --out {shlex.quote(str(self.folder))}"
            usable = [use] if runs.Run(self.folder).usable is not None else []
            return "\n".join([f"{self.folder}: {reason} after {quantity(step, 'step')}", again, *usable])
        scores = list_scores(self.metrics)
        return f"{self.folder}: {quantity(step, 'step')}, stopped by {reason}, best {scores}\n{use}"

    def plain(self) -> dict[str, Any]:
        """Return the outcome as plain data for JSON."""
        how = {"steps": self.result.step, "reason": self.result.reason, "seconds": round(self.result.seconds, 3)}
        return {"folder": str(self.folder), "best": str(self.best), **how, "metrics": self.metrics}


@dataclass(frozen=True)
class Order:
    """The settings of a run to train, its name, and notes to log first."""

    settings: dict[str, Any]
    name: str = "run"
    notes: tuple[str, ...] = ()
    task: type[Task] | None = None
    """The class that learns; None: the one of Regard's that the settings name."""


def order(
    recipe_or_files: str | Path | Mapping[str, Any] | Sequence[str | Path],
    *changes: str,
    inputs: Given | None = None,
    task: type[Task] | None = None,
) -> Order:
    """Combine a recipe, files and settings into an order; files replace those in the recipe.

    `recipe_or_files` is a recipe, as a YAML file or a mapping, or training files, or a list of both; `inputs` may
    describe the files.
    """
    if task is not None and not (isinstance(task, type) and issubclass(task, Task)):
        raise ValueError(f"task must be a class derived from regard.training.task.Task, not {quote(task)}")
    names = [] if isinstance(recipe_or_files, Mapping) else _file_names(recipe_or_files)
    sheets = [name for name in names if Path(name).suffix.lower() in RECIPES]
    if len(sheets) > 1:
        raise ValueError(f"{sheets[0]} and {sheets[1]} are two recipes: give one, and settings that change it")
    base = recipe_or_files if isinstance(recipe_or_files, Mapping) else config.read(sheets[0]) if sheets else {}
    base = _override(base, task=task)
    inputs = inputs or Given(())
    inputs = replace(inputs, files=(*inputs.files, *(str(name) for name in names if name not in sheets)))
    data = base.get("data")
    if inputs.files and isinstance(data, Mapping):
        base = {**base, "data": {name: value for name, value in data.items() if name != "train"}}
    base_settings = _override(base, changes, task)
    if not inputs.files:
        if inputs.valid or inputs.to is not None:
            raise ValueError("--valid and --to go with files to train on: name some, or set data.valid and a tag")
        return Order(
            base_settings, Path(sheets[0]).stem if sheets else _name_from_data(base_settings.get("data")), task=task
        )
    if base:
        base_settings.setdefault("task", DEFAULT if task is None else task.Recipe.task)
    inputs = replace(inputs, settings=base_settings)
    task_name, claim = choose_task(inputs) if task is None else recognise_for(task, inputs)
    files = {**base.get("data", {}), **claim.data}
    final_settings = _override({**base, "task": task_name, "data": files}, changes, task)
    resolve(final_settings, task)
    for name in (*inputs.files, *inputs.valid):
        find_path(name)  # before a folder is made for the run
    name = Path(sheets[0]).stem if sheets else _stem(inputs.files[0])
    return Order(final_settings, name, (describe_claim(inputs, task_name, claim),) if task is None else (), task)


def _file_names(recipe_or_files: Any) -> list[str | Path]:
    """Return the names of the files to train on; data in memory is refused."""
    names = [recipe_or_files] if isinstance(recipe_or_files, (str, Path)) else recipe_or_files
    if isinstance(names, bytes) or not isinstance(names, Iterable):
        raise ValueError(
            f"train takes files or a recipe, not {type(recipe_or_files).__name__}: give the names of files"
        )
    names = list(names)
    for name in names:
        if not isinstance(name, (str, Path)):
            remedy = "write rows into a file, such as a text, a tab and its label in each line, and name it"
            raise ValueError(f"train takes files or a recipe, not {quote(name)}: {remedy}")
    return names


def settings(recipe: str | Path | Mapping[str, Any], *changes: str) -> dict[str, Any]:
    """Return the settings of a recipe file or mapping, with changes such as "training.epochs=20" applied."""
    mapping = recipe if isinstance(recipe, Mapping) else config.read(recipe)
    return _override(mapping, changes)


def _override(
    settings: Mapping[str, Any], changes: Sequence[str] = (), task: type[Task] | None = None
) -> dict[str, Any]:
    """Return settings with changes applied, under current names; the changes take precedence."""
    changed = config.override(settings, changes)
    name = changed.get("task", DEFAULT)
    if task is None and isinstance(name, str) and name in TASKS:
        task = TASKS[name].task
    if task is None:
        return changed  # refused later for its task
    current = config.rename_former_settings(task.Recipe, settings)
    changed = config.override(current, config.rename_former_changes(task.Recipe, changes))
    return config.rename_former_settings(task.Recipe, changed)


def train(
    order_or_settings: Order | Mapping[str, Any],
    *,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    start: str | Path | None = None,
    command: Sequence[str] = (),
    quiet: bool = False,
    callbacks: Sequence[Callback] = (),
) -> Outcome:
    """Train a model in the folder `out`, by default runs/NAME, with a number if that exists, and return the outcome.

    `start` is a model to start from: one of the same task is trained further, one of another task gives its body and
    its tokenizer to a new head. Started by torchrun, several processes share the work; all return the same. `callbacks`
    are called on steps, evaluations and checkpoints.
    """
    order = order_or_settings if isinstance(order_or_settings, Order) else Order(dict(order_or_settings))
    settings = _override(order.settings, task=order.task)
    if not (order.task or settings.keys() & {"data", "task"}) or _lacks_data(settings, order.task):
        raise ValueError("nothing to train on: give a recipe file with data, or files to train on")
    if strange := [callback for callback in callbacks if not isinstance(callback, Callback)]:
        raise ValueError(f"{quote(strange[0])} is no callback: derive it from regard.training.callbacks.Callback")
    with distributed.team() as team:
        task, recipe = resolve(settings, order.task)
        team.admit(task, recipe.task, recipe.training.accumulate)
        device = team.device(devices.choose(recipe.training.device))
        if out is None:
            out = team.broadcast(choose_folder(order, resume=resume, overwrite=overwrite))
        parent, record_of_parent = starting_model(start, Path(out), resume=resume)
        if parent is not None:  # a body that does not fit is refused before data is read
            settings = task.limit_settings(settings, parent)
            task, recipe = resolve(settings, order.task)
        run = runs.claim(out, command=shlex.join(command), resume=resume, overwrite=overwrite, team=team)
        with run.log(quiet=quiet, callbacks=callbacks) as log, record_state(run.folder, writes=team.is_main) as record:
            if not run.filled:
                record.begin()
            data = team.main_first(lambda: task.prepare(recipe, run.latest or parent))
            before = None if run.latest is None else runs.read_begun_settings(run.folder, task.Recipe)
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
            learner.tracer = make_recorder(learner, run, log)
            with devices.limit_threads(recipe.training.threads, features=learner.features):
                result = fit(learner, recipe.training, recipe.optim, run, log=log)
            record.end(result.state, result.reason)
        metrics = checkpoint.peek(run.best).metrics if run.best.exists() else {}
        return Outcome(run.folder, run.best, metrics, result, task.usage)


def choose_folder(order: Order, *, resume: bool = False, overwrite: bool = False) -> Path:
    """Return the folder of a run that names none: runs/NAME, with a number if that is taken."""
    place = RUNS / order.name
    return place if overwrite else runs.find_vacant_folder(place, resume=resume)


def resolve(settings: Mapping[str, Any], task: Any = None) -> tuple[Any, Any]:
    """Return the task class and the checked recipe; invalid settings are an error here, before data is read.

    A `task` is a user's own class; by default it is the task of Regard that the settings name.
    """
    name = settings.get("task", DEFAULT if task is None else task.Recipe.task)
    if task is None:
        if not isinstance(name, str) or name not in TASKS:
            raise ValueError(f"unknown task {name!r}{suggest_name(str(name), TASKS)}")
        task = TASKS[name].task
    return task, config.build(task.Recipe, drop_automatic_preset(settings))


def recognise_for(task: type[Task], inputs: Given) -> tuple[str, Claim]:
    """Return the name of a user's own task, and its claim on the files."""
    name = task.Recipe.task
    claim = task.recognise(inputs)
    if claim is None:
        raise ValueError(f"{name} does not say what to make of {inputs.files[0]}: name it in data.train")
    return name, claim


def _lacks_data(settings: Mapping[str, Any], task: Any = None) -> bool:
    """True if the task needs data and the settings name none."""
    name = str(settings.get("task", DEFAULT))
    if task is None and name not in TASKS:
        return False
    section = next((field for field in fields((task or TASKS[name].task).Recipe) if field.name == "data"), None)
    needed = section is not None and section.default is MISSING and section.default_factory is MISSING
    return needed and "data" not in settings


def read_begun_settings(folder: Path) -> dict[str, Any]:
    """Return the settings that a run began with, written by any version of Regard, under current names."""
    name = config.read(folder / "config.yaml").get("task", DEFAULT)
    return runs.read_begun_settings(
        folder, TASKS[name].task.Recipe if isinstance(name, str) and name in TASKS else None
    )


def starting_model(
    start: str | Path | None, folder: Path, *, resume: bool
) -> tuple[checkpoint.Checkpoint | None, Parent | None]:
    """Open the model that a run starts from, and return it with its record.

    A resumed run that has no checkpoint yet starts from the model that it began with, if no other is named.
    """
    if start is not None:
        model = open_model(start)
        return model, Parent.of(start, model)
    parent = recorded_parent(folder) if resume and not runs.Run(folder).steps() else None
    return (None, None) if parent is None else (parent.find(folder, open_model), parent)


def load(
    directory: str | Path | Sequence[str | Path] | None = None,
    *,
    device: str = "auto",
    task: str | tuple[str, ...] | None = None,
    trained: type[Face] | None = None,
) -> Any:
    """Load the model in a checkpoint directory, or the best one in a run folder; the translator for None.

    Several directories are an ensemble, whose models decode together. A `task` is what it must have learnt, or be able
    to do with what it has learnt; of several, one. `trained` is a class of the user's that opens it.
    """
    if isinstance(directory, Sequence) and not isinstance(directory, str):
        return _load_ensemble(directory, device=device, task=task, trained=trained)
    saved = open_model(shipped.DEFAULT if directory is None else directory)
    opener = select_class(saved, directory or shipped.DEFAULT, task=task, trained=trained)
    place = devices.choose(device)
    try:
        if opener.task in TASKS:
            _check_fits(saved, TASKS[opener.task].task.Recipe)
        model = opener.load(saved, device=place)
        model.learnt_from = recorded_digests(saved)
        return model
    except (KeyError, ValueError) as error:
        if str(error).startswith(f"{saved.directory}: "):
            raise
        reason = f"config.yaml and {error} do not fit" if isinstance(error, KeyError) else error
        raise ValueError(
            f"{saved.directory}: {reason} (written by another version of Regard, or changed since? train again)"
        ) from None


def _load_ensemble(directories: Sequence[str | Path], **options: Any) -> Any:
    """Load several models that decode together; one of them is that model."""
    if not directories:
        raise ValueError("an ensemble of no models: give the folders of its models")
    models = [load(directory, **options) for directory in directories]
    if len(models) == 1:
        return models[0]
    for model, directory in zip(models, directories, strict=True):
        model.name = str(directory)  # the best checkpoints of several runs have the same name
    ensemble = type(models[0]).combine(models)
    ensemble.learnt_from = merge_digests([model.learnt_from for model in models])
    return ensemble


def load_for_prompts(directory: str | Path, *, device: str = "auto") -> Any:
    """Load a model for prompting: as one that fills gaps if its weights can, else for the task it was trained on."""
    saved_config = open_model(directory).config
    fillers = tasks_with_verb("fill")
    fills = saved_config.get("task") in fillers or any(serves(name, saved_config.get("model")) for name in fillers)
    return load(directory, device=device, task=fillers if fills else None)


def tasks_with_verb(verb: str) -> tuple[str, ...]:
    """Return the tasks whose trained models have this verb: write, fill, translate ..."""
    return tuple(name for name, (task_verb, _) in USES.items() if task_verb == verb)


def _check_fits(saved: checkpoint.Checkpoint, kind: type) -> None:
    """Raise ValueError, before the model is built, if its config is invalid or much larger than its weights."""
    for name in ("tokenizer", "decoding", "writing"):
        config.section(kind, saved.config, name)
    model_config = config.section(kind, saved.config, "model")
    parameters = model_config.parameters if isinstance(model_config, ModelConfig) else 0
    size = saved.manifest["files"].get(checkpoint.WEIGHTS, {}).get("size", 0)
    if parameters > ALLOWED_PARAMETERS + 4 * size:  # weights may be quantized, and the number is an estimate
        raise ValueError(f"config.yaml describes about {parameters:.1e} parameters, the weights have {size:.1e} bytes")


def open_model(directory: str | Path) -> checkpoint.Checkpoint:
    """Open and verify a checkpoint: of a run folder the best or else the newest one, of a comparison the best model.

    Models that come with Regard are opened by their names, such as `en-fr`.
    """
    path = check_path(directory, "a model is given by its folder or its name")
    shipped_models = shipped.models()
    if not path.exists() and str(directory) in shipped_models:
        path = shipped_models[str(directory)].path
    if not path.exists() or path.parent == path:
        names = ", ".join(shipped_models)
        raise ValueError(f"no model at {directory}: give a checkpoint directory, a run folder, or a name: {names}")
    path = model_folder(path)
    if not (path / "config.yaml").exists() and not (path / "checkpoints").is_dir():
        raise ValueError(f"{directory} holds no model: give a checkpoint directory or a run folder that was trained")
    if (path / "manifest.json").exists():
        return checkpoint.read(path)
    usable = runs.Run(path).usable
    if usable is None and (path / "data.json").exists():
        raise ValueError(f"{directory} has no checkpoint yet: wait for its first save, or resume it with --resume")
    if usable is not None and usable.name != "best" and has_diverged(path):
        remedy = f"train again, or name {Path(directory) / 'checkpoints' / usable.name}"
        raise ValueError(f"{directory} diverged before anything was good enough to keep: {remedy}")
    return checkpoint.read(usable or path)


def _name_from_data(data: Any) -> str:
    """Return the name of a run from its data section: that of the first training file."""
    first = data.get("train") if isinstance(data, Mapping) else None
    if isinstance(first, (list, tuple)):
        first = first[0] if first else None
    if isinstance(first, Mapping):
        first = first.get("path") or first.get("source")
    return _stem(str(first)) if isinstance(first, (str, Path)) else "run"


def _stem(name: str) -> str:
    return Path(name.removesuffix(".gz")).stem or "run"
