"""The status of runs: the list of them, how two differ, and what a model answered as its training went on."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.grammar import HELP, Family, Json
from regard.config.words import suggest

if TYPE_CHECKING:
    from rich.table import Table


class Runs(Family):
    """Commands on runs; a word that is none of them is a run to show."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the first word names, or the one that shows the run it names."""
        command = args[0] in self.commands or suggest(args[0], self.list_commands(ctx))
        return super().resolve_command(ctx, args if command else ["show", *args])


runs = typer.Typer(
    help="The status of every run; one by itself; two compared; answers.", cls=Runs, context_settings=HELP
)
CHANGING = ("text", "answer", "near")  # what a sample holds that training changes; the rest is what was asked
RIGHT = ("reference", "label", "truth", "there")  # what should be answered, shown after what was asked
Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]


@runs.callback(invoke_without_command=True)
def list_runs(
    context: typer.Context,
    folder: Annotated[Path, typer.Option("--in", metavar="FOLDER", help="The folder that holds the runs.")] = Path(
        "runs"
    ),
    as_json: Json = False,
) -> None:
    """The status of every run; two compared; answers over time."""
    if context.invoked_subcommand is not None:
        return
    from rich.console import Console

    from regard.cli.tables import Fitted
    from regard.config.words import list_scores
    from regard.training import history

    found = history.summaries(folder)
    if as_json:
        told = [
            {"run": str(one.folder), "state": one.state, "step": one.step, "best": dict(one.best), "why": one.reason}
            for one in found
        ]
        print(json.dumps(told, ensure_ascii=False, indent=1))
        return
    rows = [
        (
            one.name,
            one.state,
            f"{one.step:,}",
            list_scores(one.best) or None,
            one.reason or None,
        )
        for one in found
    ]
    title = None if rows else f"no runs in {folder} yet"
    Console(highlight=False).print(Fitted(("run", "state", "step", "best", "why"), rows, title))


@runs.command()
def show(run: Run, as_json: Json = False) -> None:
    """One run: its state, best scores, settings in short, and the command that began it."""
    from rich.console import Console

    from regard.cli.tables import Fitted
    from regard.training import history

    place = run if run.is_dir() else Path("runs") / run
    if not (place / "config.yaml").is_file() and not (place / "contest.json").is_file():
        raise ValueError(f"{run}: no run here or in runs, and no command of regard runs: name a run folder")
    found = history.describe(place)
    if as_json:
        print(json.dumps(found, ensure_ascii=False, indent=1))
    else:
        Console(highlight=False).print(Fitted(("", ""), [(name, str(value)) for name, value in found.items() if value]))


@runs.command()
def diff(
    first: Run,
    second: Annotated[Path, typer.Argument(metavar="OTHER", help="Another one.")],
    as_json: Json = False,
) -> None:
    """Every setting, fact and score in which two runs differ."""
    from rich.console import Console

    from regard.cli.tables import Fitted
    from regard.training import history

    rows = history.difference(first, second)
    if as_json:
        print(json.dumps({name: [one, other] for name, one, other in rows}, ensure_ascii=False, indent=1))
        return
    title = None if rows else "the runs do not differ"
    Console(highlight=False).print(Fitted(("what", str(first), str(second)), rows, title))


@runs.command()
def samples(
    run: Run,
    columns: Annotated[int, typer.Option(min=1, help="Evaluations to show, evenly over the training.")] = 4,
    rows: Annotated[int, typer.Option(min=1, help="Samples to show of each.")] = 3,
    characters: Annotated[int, typer.Option(min=10, help="Most characters of a sample.")] = 300,
    as_json: Json = False,
) -> None:
    """What a model answered as its training went on, side by side."""
    from rich.console import Console

    found = _saved(run)
    if as_json:
        print(json.dumps(found, ensure_ascii=False))
        return
    steps, gaps = list(found), max(1, min(columns, len(found)) - 1)
    shown = [steps[-1 - place * (len(steps) - 1) // gaps] for place in range(min(columns, len(steps)))][::-1]
    Console().print(_table({step: found[step][:rows] for step in shown}, characters))


def _saved(run: Path) -> dict[int, list[dict[str, Any]]]:
    """The samples of every evaluation of a run, by its step."""
    paths = {path: re.fullmatch(r"step-([0-9]+)\.json", path.name) for path in (run / "samples").glob("*.json")}
    found = {int(match[1]): path for path, match in paths.items() if match}
    if not found:
        raise ValueError(f"{run} holds no samples: give a run folder in which something was evaluated")
    answers: dict[int, list[dict[str, Any]]] = {}
    for step in sorted(found):
        try:
            answers[step] = [dict(entry) for entry in json.loads(found[step].read_text(encoding="utf-8"))]
        except (ValueError, TypeError):
            raise ValueError(f"{found[step]} is damaged: remove it, the others can still be shown") from None
    return answers


def _table(answers: Mapping[int, Sequence[Mapping[str, Any]]], characters: int) -> Table:
    """A column for every part of what was asked, where something was, then one for every evaluation."""
    from rich.table import Table
    from rich.text import Text

    deepest = max(answers.values(), key=len)
    asked = {name: None for entry in deepest for name, value in entry.items() if name not in CHANGING and value}
    parts = sorted(asked, key=lambda name: name in RIGHT)
    table = Table(show_lines=True)
    for name in (*parts, *(f"step {step:,}" for step in answers)):
        table.add_column(Text(name), overflow="fold")
    for number, entry in enumerate(deepest):
        given = [_cut(str(entry.get(name, "")), characters) for name in parts]
        cells = [_answer(entries[number]) if number < len(entries) else "" for entries in answers.values()]
        table.add_row(*map(Text, [*given, *(_cut(cell, characters) for cell in cells)]))
    return table


def _answer(entry: Mapping[str, Any]) -> str:
    return "\n".join(str(entry[name]) for name in CHANGING if name in entry)


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[: characters - 3]}..."
