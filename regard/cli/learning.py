"""The command that trains."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

INTERRUPTED = 130  # what shells say of a command that Ctrl-C ended


def train(
    recipe: Annotated[
        list[str] | None,
        typer.Argument(help="A recipe file, then settings that change it, such as model.width=256."),
    ] = None,
    source: Annotated[Path | None, typer.Option(help="Text to translate from, one sentence per line.")] = None,
    target: Annotated[Path | None, typer.Option(help="Its translations, line by line.")] = None,
    start: Annotated[Path | None, typer.Option("--from", help="A model to go on from or to adapt.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; runs/NAME when not given.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where the run in the folder stopped.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a run in the folder.")] = False,
) -> None:
    """Train a model on your own data: files in, a scored checkpoint out."""
    from regard import recipe as recipes
    from regard.training import distributed

    with distributed.team() as team:  # from here on, an error that all processes meet is said once
        if resume and overwrite:
            raise ValueError("--resume goes on with a run and --overwrite starts anew: give one of them")
        words, file = list(recipe or []), None
        if words and "=" not in words[0]:
            file = words.pop(0)
        settings = asked(file, words, source, target)
        if resume and out is not None and "data" not in settings:
            settings = recipes.settings(out / "config.yaml", *words)
        if "data" not in settings:
            raise ValueError("nothing to train on: give a recipe file with data, or --source and --target")
        name = Path(file).stem if file else (source.stem if source else "run")
        outcome = recipes.train(
            settings, out=out or Path("runs") / name, resume=resume, overwrite=overwrite, start=start, command=sys.argv
        )
        if team.is_main:
            print(outcome.summary)
    if outcome.result.failed or outcome.result.reason == "interrupted":
        raise typer.Exit(1 if outcome.result.failed else INTERRUPTED)


def asked(file: str | None, words: list[str], source: Path | None, target: Path | None) -> dict[str, Any]:
    """The settings of a recipe and of the words after it, over the files named beside it."""
    from regard import recipe as recipes

    settings = recipes.settings(file if file is not None else {}, *words)
    if (source is None) != (target is None):
        raise ValueError("--source and --target go together: give both files")
    if source is not None:
        settings.setdefault("data", {})["train"] = {"source": str(source), "target": str(target)}
    return settings
