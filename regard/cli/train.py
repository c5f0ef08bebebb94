"""The command that trains: files or a recipe in, a scored model out."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from regard.cli import train_options as option
from regard.cli.few_shot import choose_few_shot_files, fit_few_shot
from regard.cli.file_options import NamedFiles, takes_files
from regard.cli.grammar import Json
from regard.cli.serve import check_packages
from regard.cli.text_io import print_line
from regard.cli.training_page import show_training
from regard.tasks import TASKS

if TYPE_CHECKING:
    from regard.recipe import Order
    from regard.training.task import Given

INTERRUPTED = 130  # what shells say of a command that Ctrl-C ended
SETTING = re.compile(r"[A-Za-z_][\w.]*=")

TASK_TABLE = "\n".join(f"{name:<21}{entry.title}" for name, entry in TASKS.items())
EPILOG = f"""
Tasks, by what they learn from:

\b
{TASK_TABLE}

Examples:

\b
regard train a.fr a.en
regard train reviews.csv --valid more.csv
regard train --labelled reviews.csv --unlabelled more/
regard train --text book.txt notes/
regard train --text book.txt --masked
regard train --few labelled.csv --from imported/minilm
regard train story.txt --task word2vec
regard train --pairs pairs.tsv model.name=seq2seq training.epochs=20
regard train --from en-fr new.en new.fr
regard train --pictures photos/
regard train --captions captions.csv --from runs/photos
regard train --pictures photos/ --task pixels data.size=16
regard train --tables mrna.csv mirna.csv --labels labels.csv
regard train --edges edges.csv --nodes nodes.csv
regard train recipes/pendulum.yaml optim.learning_rate=0.01
regard train --resume --out runs/a
"""


@takes_files
def train(
    *,
    words: option.Words = None,
    files: NamedFiles,
    unlabelled: option.Unlabelled = None,
    few: option.Few = None,
    masked: option.Masked = False,
    valid: option.Valid = None,
    task: option.Task = None,
    to: option.To = None,
    start: option.Start = None,
    out: option.Out = None,
    resume: option.Resume = False,
    overwrite: option.Overwrite = False,
    settings: option.Settings = None,
    device: option.Device = None,
    open_page: option.Open = False,
    as_json: Json = False,
) -> None:
    """Train a model on your own data: files in, a scored checkpoint out."""
    if resume and overwrite:
        raise ValueError("--resume continues a run and --overwrite starts anew: give one of them")
    if unlabelled and not files.options["labelled"]:
        files, masked, unlabelled = files.with_files("text", unlabelled), True, None
    training_files = replace(files.collect(), valid=tuple(map(str, valid or [])), to=to)
    sources, typed_settings = split_settings(words or [])
    run_settings = [*typed_settings, *(settings or [])]
    request = TrainRequest(sources, run_settings, training_files, start, out, resume, overwrite, as_json, open_page)
    if open_page:
        check_packages()
        if few or unlabelled:
            raise ValueError("--open shows one run as it trains: leave it out with --few and --unlabelled")
    if few:
        if sources or training_files.files or masked or task is not None or to is not None or resume:
            raise ValueError("--few fits a head to its own files: give --from, --valid, --out and settings beside it")
        return _fit_head(request, few, valid or [], device)
    names_only_files = not (run_settings or masked or resume or unlabelled or task or to)
    if names_only_files and (few_files := _find_few_labelled(request)):
        return _fit_head(request, few_files, valid or [], device)
    request = replace(request, settings=[*run_settings, *_settings_of_flags(masked=masked, task=task, device=device)])
    if unlabelled:
        return _compare_baselines(request, unlabelled)
    _train_model(request)


@dataclass(frozen=True)
class TrainRequest:
    """The files and settings of a training, and where its run goes."""

    sources: list[str]
    """Files named without an option: files to train on, or a recipe."""
    settings: list[str]
    """Settings, as name=value."""
    files: Given
    """Files named by an option that says what they hold."""
    start: str | None
    out: Path | None
    resume: bool
    overwrite: bool
    as_json: bool
    open_page: bool = False
    """Show the run in a browser while it trains."""

    def order(self) -> Order:
        """Choose the task and complete the settings by what the files hold."""
        from regard import recipe

        return recipe.order(self.sources, *self.settings, inputs=self.files)


def _settings_of_flags(*, masked: bool, task: str | None, device: str | None) -> list[str]:
    """Return the settings that flags stand for."""
    from regard import recipe

    if masked and task is not None:
        raise ValueError(f"--masked and --task {task} ask for two trainings: give one of them")
    task = recipe.tasks_with_verb("fill")[0] if masked else task
    settings = [] if task is None else [f"task={task}"]
    return settings if device is None else [*settings, f"training.device={device}"]


def _fit_head(request: TrainRequest, files: Sequence[Any], valid: Sequence[Path], device: str | None) -> None:
    """Fit a linear head to a few labelled texts."""
    fit_few_shot(
        files,
        request.settings,
        start=request.start,
        out=request.out,
        valid=valid,
        overwrite=request.overwrite,
        device=device,
        as_json=request.as_json,
    )


def _find_few_labelled(request: TrainRequest) -> list[Any]:
    """Return the files if they hold so few labelled texts that `--few` takes them; a recipe decides for itself."""
    from regard import recipe as recipes

    is_distributed = "LOCAL_RANK" in os.environ  # started by torchrun, to train together
    has_recipe = any(Path(name).suffix.lower() in recipes.RECIPES for name in request.sources)
    if request.start is None or is_distributed or has_recipe or not (request.sources or request.files.files):
        return []
    order = request.order()
    few_files = choose_few_shot_files(order, request.start)
    if few_files:
        names, task = ", ".join(str(file["path"]) for file in few_files), order.settings["task"]
        message = "few labelled texts: fitting a head to vectors, as --few does"
        print(f"{names}: {message} (--task {task} fine-tunes the whole model)", file=sys.stderr)
    return few_files


def _train_model(request: TrainRequest) -> None:
    """Train a model, print the outcome, and exit with a status that says whether it failed."""
    from regard import recipe as recipes
    from regard.training import distributed

    options: Any = {"start": request.start, "resume": request.resume, "overwrite": request.overwrite}
    with distributed.team() as team:  # from here on, an error that all processes meet is said once
        order, out = _order_training(request), request.out
        if request.open_page:
            how = {"resume": request.resume, "overwrite": request.overwrite}
            out = out or team.broadcast(recipes.choose_folder(order, **how))
        with show_training(out) if out is not None and request.open_page and team.is_main else nullcontext():
            outcome = recipes.train(order, out=out, command=sys.argv, **options)
        if team.is_main:
            print_line(json.dumps(outcome.plain(), ensure_ascii=False) if request.as_json else outcome.summary)
    if outcome.result.has_failed or outcome.result.reason == "interrupted":
        raise typer.Exit(1 if outcome.result.has_failed else INTERRUPTED)


def _order_training(request: TrainRequest) -> Order:
    """Return the order of a training; one that is resumed without its files has the settings that it began with."""
    from regard import recipe as recipes

    run_folder = next((name for name in request.sources if (Path(name) / "config.yaml").is_file()), None)
    if request.resume and run_folder is not None:
        remedy = f"--resume --out {shlex.quote(run_folder)}"
        raise ValueError(f"{run_folder} is a run, not files to train on: go on with it by {remedy}")
    order = request.order()
    if request.resume and "data" not in order.settings:
        return recipes.order(recipes.read_begun_settings(_find_run(request.out)), *request.settings)
    return order


def _compare_baselines(request: TrainRequest, unlabelled: list[Path]) -> None:
    """Train a pre-trained model and its baselines, print how they compare, and keep the best."""
    from regard import baselines

    if request.start is not None:
        raise ValueError("--unlabelled pre-trains a model of its own, --from names another: give one of them")
    options: Any = {"out": request.out, "resume": request.resume, "overwrite": request.overwrite}
    names = [str(path) for path in unlabelled]
    try:
        comparison = baselines.compare_baselines(request.order(), names, command=sys.argv, **options)
    except baselines.Interrupted as interruption:
        print_line(str(interruption))
        raise typer.Exit(INTERRUPTED) from None
    if request.as_json:
        print_line(json.dumps(comparison.plain(), ensure_ascii=False))
        return
    from rich.console import Console

    from regard.cli.tables import FittedTable

    head = ("model", "accuracy, 95 %", "seconds", "better beyond chance than")
    title = f"{len(comparison.entries[0].scores):,} held-out texts"
    Console(highlight=False).print(FittedTable(head, comparison.rows(), title))
    print_line(comparison.verdict)


def split_settings(words: list[str]) -> tuple[list[str], list[str]]:
    """Split words into files and settings, in any order."""
    changes = [word for word in words if SETTING.match(word) and not Path(word).exists()]
    return [word for word in words if word not in changes], changes


def _find_run(folder: Path | None) -> Path:
    """Return the folder of a run to resume."""
    if folder is None:
        raise ValueError("--resume needs to know which run: name its folder, --resume --out runs/NAME, or its data")
    if not (folder / "config.yaml").is_file():
        known_runs = sorted(str(path.parent) for path in folder.parent.glob("*/config.yaml"))[:5]
        others = f"there are {', '.join(known_runs)}" if known_runs else "leave --resume out to start one"
        raise ValueError(f"{folder}: there is no run to resume; {others}")
    return folder
