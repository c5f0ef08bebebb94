"""Commands that make models: demo, train, and what became of runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

runs_app = typer.Typer(help="List runs, or compare two.", rich_markup_mode=None)
data_app = typer.Typer(help="Look at data before training on it.", rich_markup_mode=None)

INTERRUPTED = 130  # what shells say of a command that Ctrl-C ended


def demo(
    seconds: Annotated[float, typer.Option(min=1, help="How long to train.")] = 150,
    out: Annotated[Path, typer.Option(help="Folder of the run; an earlier demo there is replaced.")] = Path(
        "runs/demo"
    ),
) -> None:
    """Train a small French-English translator on shipped pairs and show what it learned."""
    from regard import demo

    demo.show(seconds=seconds, out=out, command=sys.argv)


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
        settings = _asked(file, words, source, target)
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


def _asked(file: str | None, words: list[str], source: Path | None, target: Path | None) -> dict[str, Any]:
    """The settings of a recipe and of the words after it, over the files named beside it."""
    from regard import recipe as recipes

    settings = recipes.settings(file if file is not None else {}, *words)
    if (source is None) != (target is None):
        raise ValueError("--source and --target go together: give both files")
    if source is not None:
        settings.setdefault("data", {})["train"] = {"source": str(source), "target": str(target)}
    return settings


@data_app.command()
def check(
    recipe: Annotated[
        list[str] | None, typer.Argument(help="A recipe file, then settings that change it, such as data.ratio=3.")
    ] = None,
    source: Annotated[Path | None, typer.Option(help="Text to translate from, one sentence per line.")] = None,
    target: Annotated[Path | None, typer.Option(help="Its translations, line by line.")] = None,
    tokens: Annotated[bool, typer.Option(help="Train the tokenizer too, and tell lengths in tokens.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Look at every line of the data: counts, lengths, repeats, bad lines with their places, what would be left out."""
    from rich.console import Console

    from regard import recipe as recipes
    from regard import report

    words, file = list(recipe or []), None
    if words and "=" not in words[0]:
        file = words.pop(0)
    settings = _asked(file, words, source, target)
    if "data" not in settings:
        raise ValueError("nothing to check: give a recipe file, or --source and --target")
    task, resolved = recipes.resolve(settings)
    if not hasattr(task, "check"):
        raise ValueError(f"`regard data check` knows no way to check the data of {resolved.task}: train on it")
    found = task.check(resolved, tokens=tokens)
    if as_json:
        print(json.dumps(found.plain(), ensure_ascii=False))
    else:
        Console().print(report.findings(found.lines()))
    if found.problems:
        raise typer.Exit(1)


@runs_app.callback(invoke_without_command=True)
def runs(
    context: typer.Context,
    folder: Annotated[Path, typer.Option("--in", help="The folder that holds the runs.")] = Path("runs"),
) -> None:
    """List runs: what became of each, its last step and its best score."""
    if context.invoked_subcommand is not None:
        return
    from rich.console import Console

    from regard import report
    from regard.training import history

    Console().print(report.runs(history.summaries(folder)))


@runs_app.command()
def diff(
    first: Annotated[Path, typer.Argument(help="A run folder.")],
    second: Annotated[Path, typer.Argument(help="Another one.")],
) -> None:
    """Show every setting, fact and score in which two runs differ."""
    from rich.console import Console

    from regard import report
    from regard.training import history

    Console().print(report.differences(first, second, history.difference(first, second)))
