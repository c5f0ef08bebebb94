"""The commands about runs: their status, how two differ, and what a model answered during training."""

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
    """Commands about runs; a word that is none of them is a run to show."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first word names, or `show` for the run that it names."""
        command = args[0] in self.commands or suggest(args[0], self.list_commands(ctx))
        return super().resolve_command(ctx, args if command else ["show", *args])


runs = typer.Typer(
    help="The status of every run; one by itself; two compared; answers.", cls=Runs, context_settings=HELP
)
ANSWER_FIELDS = ("text", "answer", "near")  # what a sample holds that training changes; the rest is what was asked
REFERENCE_FIELDS = ("reference", "label", "truth", "there")  # what should be answered, shown after what was asked
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

    from regard.cli.tables import FittedTable
    from regard.config.words import list_scores
    from regard.training import history

    summaries = history.summaries(folder)
    if as_json:
        records = [
            {
                "run": str(summary.folder),
                "state": summary.state,
                "step": summary.step,
                "best": dict(summary.best),
                "why": summary.reason,
            }
            for summary in summaries
        ]
        print(json.dumps(records, ensure_ascii=False, indent=1))
        return
    rows = [
        (
            summary.name,
            summary.state,
            f"{summary.step:,}",
            list_scores(summary.best) or None,
            summary.reason or None,
        )
        for summary in summaries
    ]
    title = None if rows else f"no runs in {folder} yet"
    Console(highlight=False).print(FittedTable(("run", "state", "step", "best", "why"), rows, title))


@runs.command()
def show(run: Run, as_json: Json = False) -> None:
    """One run: its state, best scores, settings in short, and the command that began it."""
    from rich.console import Console

    from regard.cli.tables import FittedTable
    from regard.training import history
    from regard.training.comparison import RESULT

    folder = run if run.is_dir() else Path("runs") / run
    if not (folder / "config.yaml").is_file() and not (folder / RESULT).is_file():
        raise ValueError(f"{run}: no run here or in runs, and no command of regard runs: name a run folder")
    description = history.describe(folder)
    if as_json:
        print(json.dumps(description, ensure_ascii=False, indent=1))
    else:
        Console(highlight=False).print(
            FittedTable(("", ""), [(name, str(value)) for name, value in description.items() if value])
        )


@runs.command()
def diff(
    first: Run,
    second: Annotated[Path, typer.Argument(metavar="OTHER", help="Another one.")],
    as_json: Json = False,
) -> None:
    """Every setting, fact and score in which two runs differ."""
    from rich.console import Console

    from regard.cli.tables import FittedTable
    from regard.training import history

    rows = history.difference(first, second)
    if as_json:
        differences = {name: [first_value, second_value] for name, first_value, second_value in rows}
        print(json.dumps(differences, ensure_ascii=False, indent=1))
        return
    title = None if rows else "the runs do not differ"
    Console(highlight=False).print(FittedTable(("what", str(first), str(second)), rows, title))


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

    answers_by_step = _read_samples(run)
    if as_json:
        print(json.dumps(answers_by_step, ensure_ascii=False))
        return
    steps, interval_count = list(answers_by_step), max(1, min(columns, len(answers_by_step)) - 1)
    last, count = len(steps) - 1, min(columns, len(steps))
    shown_steps = [steps[last - index * last // interval_count] for index in reversed(range(count))]
    Console().print(_sample_table({step: answers_by_step[step][:rows] for step in shown_steps}, characters))


def _read_samples(run: Path) -> dict[int, list[dict[str, Any]]]:
    """Read the samples of every evaluation of a run, by step."""
    paths = {path: re.fullmatch(r"step-([0-9]+)\.json", path.name) for path in (run / "samples").glob("*.json")}
    paths_by_step = {int(match[1]): path for path, match in paths.items() if match}
    if not paths_by_step:
        raise ValueError(f"{run} holds no samples: give a run folder in which something was evaluated")
    answers: dict[int, list[dict[str, Any]]] = {}
    for step in sorted(paths_by_step):
        try:
            answers[step] = [dict(sample) for sample in json.loads(paths_by_step[step].read_text(encoding="utf-8"))]
        except (ValueError, TypeError):
            raise ValueError(f"{paths_by_step[step]} is damaged: remove it, the others can still be shown") from None
    return answers


def _sample_table(answers: Mapping[int, Sequence[Mapping[str, Any]]], characters: int) -> Table:
    """Return a table with a column for each input field, then one for every evaluation."""
    from rich.table import Table
    from rich.text import Text

    most_samples = max(answers.values(), key=len)
    input_names = {
        name: None for sample in most_samples for name, value in sample.items() if name not in ANSWER_FIELDS and value
    }
    names = sorted(input_names, key=lambda name: name in REFERENCE_FIELDS)
    table = Table(show_lines=True)
    for name in (*names, *(f"step {step:,}" for step in answers)):
        table.add_column(Text(name), overflow="fold")
    for number, sample in enumerate(most_samples):
        inputs = [_truncate(str(sample.get(name, "")), characters) for name in names]
        cells = [_format_answer(samples[number]) if number < len(samples) else "" for samples in answers.values()]
        table.add_row(*map(Text, [*inputs, *(_truncate(cell, characters) for cell in cells)]))
    return table


def _format_answer(entry: Mapping[str, Any]) -> str:
    return "\n".join(str(entry[name]) for name in ANSWER_FIELDS if name in entry)


def _truncate(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[: characters - 3]}..."
