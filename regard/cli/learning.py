"""The demonstration, what became of runs, and a look at data."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

runs_app = typer.Typer(help="List runs, or compare two.", rich_markup_mode=None)
data_app = typer.Typer(help="Look at data before training on it.", rich_markup_mode=None)


def demo(
    seconds: Annotated[float, typer.Option(min=1, help="How long to train.")] = 150,
    out: Annotated[Path, typer.Option(help="Folder of the run; an earlier demo there is replaced.")] = Path(
        "runs/demo"
    ),
) -> None:
    """Train a small French-English translator on shipped pairs and show what it learned."""
    from regard import demo

    demo.show(seconds=seconds, out=out, command=sys.argv)


def _begun(folder: Path | None) -> Path:
    """The folder of a run to resume by itself; a run that is not there has a remedy."""
    if folder is None:
        raise ValueError("--resume needs to know which run: name its folder, --resume --out runs/NAME, or its data")
    if not (folder / "config.yaml").is_file():
        known = sorted(str(path.parent) for path in folder.parent.glob("*/config.yaml"))[:5]
        others = f"there are {', '.join(known)}" if known else "leave --resume out to start one"
        raise ValueError(f"{folder}: there is no run to resume; {others}")
    return folder


def _asked(file: str | None, words: list[str], source: Path | None, target: Path | None) -> dict[str, Any]:
    """The settings of a recipe and of the words after it, over the files named beside it."""
    from regard import recipe as recipes

    settings = recipes.settings(file if file is not None else {}, *words)
    if (source is None) != (target is None):
        raise ValueError("--source and --target go together: give both files")
    if source is not None and target is not None:
        if source.resolve() == target.resolve():
            raise ValueError(f"--source and --target are the same file, {source}: give a text and its translation")
        data = settings.setdefault("data", {})
        if not isinstance(data, dict):
            raise ValueError(f"data must be a section of `name: value` lines, not {data!r}")
        data["train"] = {"source": str(source), "target": str(target)}
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
    from regard.cli import report
    from regard.tasks.translation.check import check

    words, file = list(recipe or []), None
    if words and "=" not in words[0]:
        file = words.pop(0)
    settings = _asked(file, words, source, target)
    if "data" not in settings:
        raise ValueError("nothing to check: give a recipe file, or --source and --target")
    _, resolved = recipes.resolve(settings)
    if resolved.task != "translation":
        raise ValueError(f"pairs are what can be checked, not the data of {resolved.task}")
    found = check(resolved.data, resolved.tokenizer if tokens else None)
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

    from regard.cli import report
    from regard.training import history

    Console().print(report.runs(history.summaries(folder)))


@runs_app.command()
def diff(
    first: Annotated[Path, typer.Argument(help="A run folder.")],
    second: Annotated[Path, typer.Argument(help="Another one.")],
) -> None:
    """Show every setting, fact and score in which two runs differ."""
    from rich.console import Console

    from regard.cli import report
    from regard.training import history

    Console().print(report.differences(first, second, history.difference(first, second)))
