"""The command that trains: files or a recipe in, a scored model out."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from regard.cli import train_options as option
from regard.cli.few_shot import choose_few_shot_files, fit_few_shot
from regard.cli.file_options import NamedFiles, takes_files
from regard.cli.grammar import Json
from regard.cli.text_io import print_line
from regard.tasks import TASKS

if TYPE_CHECKING:
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
regard train recipes/pendulum.yaml optim.rate=0.01
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
    as_json: Json = False,
) -> None:
    """Train a model on your own data: files in, a scored checkpoint out."""
    if resume and overwrite:
        raise ValueError("--resume continues a run and --overwrite starts anew: give one of them")
    if unlabelled and not files.options["labelled"]:
        files, masked, unlabelled = files.with_files("text", unlabelled), True, None
    training_files = replace(files.collect(), valid=tuple(map(str, valid or [])), to=to)
    sources, changes = split_settings(words or [])
    run_options: Any = {"start": start, "out": out, "valid": valid or [], "overwrite": overwrite, "device": device}
    if few:
        if sources or training_files.files or masked or task is not None or to is not None or resume:
            raise ValueError("--few fits a head to its own files: give --from, --valid, --out and settings beside it")
        return fit_few_shot(few, [*changes, *(settings or [])], as_json=as_json, **run_options)
    names_only_files = not (changes or settings or masked or resume or unlabelled or task or to)
    if (
        start is not None
        and names_only_files
        and (sources or training_files.files)
        and (few_files := _find_few_labelled(sources, training_files, start))
    ):
        return fit_few_shot(few_files, [], as_json=as_json, **run_options)
    if masked and task is not None:
        raise ValueError(f"--masked and --task {task} ask for two trainings: give one of them")
    task = _mask_filling_task() if masked else task
    changes += [*(settings or []), *([] if task is None else [f"task={task}"])]
    changes += [] if device is None else [f"training.device={device}"]
    if unlabelled:
        if start is not None:
            raise ValueError("--unlabelled pre-trains a model of its own, --from names another: give one of them")
        _compare_models(
            sources, changes, training_files, unlabelled, as_json=as_json, out=out, resume=resume, overwrite=overwrite
        )
        return
    _train_model(
        sources, changes, training_files, as_json=as_json, out=out, resume=resume, overwrite=overwrite, start=start
    )


def _find_few_labelled(sources: list[str], training_files: Given, start: str) -> list[Any]:
    """Return the files if they hold so few labelled texts that `--few` takes them; a recipe decides for itself."""
    from regard import recipe as recipes

    is_distributed = "LOCAL_RANK" in os.environ  # started by torchrun, to train together
    if is_distributed or any(Path(name).suffix.lower() in recipes.RECIPES for name in sources):
        return []
    order = recipes.order(sources, inputs=training_files)
    few_files = choose_few_shot_files(order, start)
    if few_files:
        names, task = ", ".join(str(file["path"]) for file in few_files), order.settings["task"]
        message = "few labelled texts: fitting a head to vectors, as --few does"
        print(f"{names}: {message} (--task {task} fine-tunes the whole model)", file=sys.stderr)
    return few_files


def _train_model(
    sources: list[str], changes: list[str], training_files: Given, *, as_json: bool, out: Path | None, **options: Any
) -> None:
    """Train a model, print the outcome, and exit with a status that says whether it failed."""
    from regard import recipe as recipes
    from regard.training import distributed

    with distributed.team() as team:  # from here on, an error that all processes meet is said once
        if options["resume"] and (
            run_folder := next((name for name in sources if (Path(name) / "config.yaml").is_file()), None)
        ):
            remedy = f"--resume --out {shlex.quote(run_folder)}"
            raise ValueError(f"{run_folder} is a run, not files to train on: go on with it by {remedy}")
        order = recipes.order(sources, *changes, inputs=training_files)
        if options["resume"] and "data" not in order.settings:
            order = recipes.order(recipes.read_begun_settings(_find_run(out)), *changes)
        outcome = recipes.train(order, out=out, command=sys.argv, **options)
        if team.is_main:
            print_line(json.dumps(outcome.plain(), ensure_ascii=False) if as_json else outcome.summary)
    if outcome.result.has_failed or outcome.result.reason == "interrupted":
        raise typer.Exit(1 if outcome.result.has_failed else INTERRUPTED)


def _compare_models(
    sources: list[str],
    changes: list[str],
    training_files: Given,
    unlabelled: list[Path],
    *,
    as_json: bool,
    **options: Any,
) -> None:
    """Train several models, print how they compare, and keep the best."""
    from regard import baselines
    from regard import recipe as recipes

    order = recipes.order(sources, *changes, inputs=training_files)
    try:
        comparison = baselines.compare_baselines(order, [str(path) for path in unlabelled], command=sys.argv, **options)
    except baselines.Interrupted as interruption:
        print_line(str(interruption))
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
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


def _mask_filling_task() -> str:
    """Return the task that makes a model for filling gaps."""
    from regard import recipe

    return recipe.tasks_with_verb("fill")[0]


def _find_run(folder: Path | None) -> Path:
    """Return the folder of a run to resume."""
    if folder is None:
        raise ValueError("--resume needs to know which run: name its folder, --resume --out runs/NAME, or its data")
    if not (folder / "config.yaml").is_file():
        known_runs = sorted(str(path.parent) for path in folder.parent.glob("*/config.yaml"))[:5]
        others = f"there are {', '.join(known_runs)}" if known_runs else "leave --resume out to start one"
        raise ValueError(f"{folder}: there is no run to resume; {others}")
    return folder
