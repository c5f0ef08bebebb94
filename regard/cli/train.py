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
from regard.cli.few import fit as fitted
from regard.cli.few import instead
from regard.cli.file_options import NamedFiles, takes_files
from regard.cli.grammar import Json
from regard.cli.lines import say
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
        files, masked, unlabelled = files.adding("text", unlabelled), True, None
    given = replace(files.given(), valid=tuple(map(str, valid or [])), to=to)
    asked, changes = sort(words or [])
    how: Any = {"start": start, "out": out, "valid": valid or [], "overwrite": overwrite, "device": device}
    if few:
        if asked or given.files or masked or task is not None or to is not None or resume:
            raise ValueError("--few fits a head to its own files: give --from, --valid, --out and settings beside it")
        return fitted(few, [*changes, *(settings or [])], as_json=as_json, **how)
    free = not (changes or settings or masked or resume or unlabelled or task or to)
    if start is not None and free and (asked or given.files) and (found := _few(asked, given, start)):
        return fitted(found, [], as_json=as_json, **how)
    if masked and task is not None:
        raise ValueError(f"--masked and --task {task} ask for two trainings: give one of them")
    task = _filling() if masked else task
    changes += [*(settings or []), *([] if task is None else [f"task={task}"])]
    changes += [] if device is None else [f"training.device={device}"]
    if unlabelled:
        if start is not None:
            raise ValueError("--unlabelled pre-trains a model of its own, --from names another: give one of them")
        _compared(asked, changes, given, unlabelled, as_json=as_json, out=out, resume=resume, overwrite=overwrite)
        return
    _trained(asked, changes, given, as_json=as_json, out=out, resume=resume, overwrite=overwrite, start=start)


def _few(asked: list[str], given: Given, start: str) -> list[Any]:
    """The files, if they hold so few labelled texts that `--few` takes them; a recipe says by itself what to do."""
    from regard import recipe as recipes

    several = "LOCAL_RANK" in os.environ  # started by torchrun, to train together
    if several or any(Path(name).suffix.lower() in recipes.RECIPES for name in asked):
        return []
    order = recipes.order(asked, inputs=given)
    found = instead(order, start)
    if found:
        names, task = ", ".join(str(one["path"]) for one in found), order.settings["task"]
        told = "few labelled texts: fitting a head to vectors, as --few does"
        print(f"{names}: {told} (--task {task} fine-tunes the whole model)", file=sys.stderr)
    return found


def _trained(
    asked: list[str], changes: list[str], given: Given, *, as_json: bool, out: Path | None, **options: Any
) -> None:
    """Train what was asked for, print how it went, and end with a status that says so."""
    from regard import recipe as recipes
    from regard.training import distributed

    with distributed.team() as team:  # from here on, an error that all processes meet is said once
        if options["resume"] and (
            run := next((name for name in asked if (Path(name) / "config.yaml").is_file()), None)
        ):
            again = f"--resume --out {shlex.quote(run)}"
            raise ValueError(f"{run} is a run, not files to train on: go on with it by {again}")
        order = recipes.order(asked, *changes, inputs=given)
        if options["resume"] and "data" not in order.settings:
            order = recipes.order(recipes.read_begun_settings(_begun(out)), *changes)
        outcome = recipes.train(order, out=out, command=sys.argv, **options)
        if team.is_main:
            say(json.dumps(outcome.plain(), ensure_ascii=False) if as_json else outcome.summary)
    if outcome.result.has_failed or outcome.result.reason == "interrupted":
        raise typer.Exit(1 if outcome.result.has_failed else INTERRUPTED)


def _compared(
    asked: list[str], changes: list[str], given: Given, unlabelled: list[Path], *, as_json: bool, **options: Any
) -> None:
    """Train several models, print how they compare, and keep the best."""
    from regard import contest as contests
    from regard import recipe as recipes

    order = recipes.order(asked, *changes, inputs=given)
    try:
        found = contests.contest(order, [str(path) for path in unlabelled], command=sys.argv, **options)
    except contests.Interrupted as stopped:
        say(str(stopped))
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        say(json.dumps(found.plain(), ensure_ascii=False))
        return
    from rich.console import Console

    from regard.cli.tables import Fitted

    head = ("model", "accuracy, 95 %", "seconds", "better beyond chance than")
    title = f"{len(found.entries[0].scores):,} held-out texts"
    Console(highlight=False).print(Fitted(head, found.rows(), title))
    say(found.verdict)


def sort(words: list[str]) -> tuple[list[str], list[str]]:
    """Files and settings, whichever come first."""
    changes = [word for word in words if SETTING.match(word) and not Path(word).exists()]
    return [word for word in words if word not in changes], changes


def _filling() -> str:
    """The task that makes a model which fills gaps."""
    from regard import recipe

    return recipe.tasks_with_verb("fill")[0]


def _begun(folder: Path | None) -> Path:
    """The folder of a run to resume by itself; a run that is not there has a remedy."""
    if folder is None:
        raise ValueError("--resume needs to know which run: name its folder, --resume --out runs/NAME, or its data")
    if not (folder / "config.yaml").is_file():
        known = sorted(str(path.parent) for path in folder.parent.glob("*/config.yaml"))[:5]
        others = f"there are {', '.join(known)}" if known else "leave --resume out to start one"
        raise ValueError(f"{folder}: there is no run to resume; {others}")
    return folder
