"""The command that puts a task to a language model as a prompt, without training."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.answers import Asked, respond
from regard.cli.grammar import Answers, Column, Device, Input, Json, called
from regard.cli.lines import counted, writable

if TYPE_CHECKING:
    from regard.metrics.scores import Scores
    from regard.tasks.prompting.prompter import Prompter

BLANK: dict[str, Any] = {"text": "", "label": None, "corrected": {}, "plain": {}}
UNWRITTEN: dict[str, Any] = {"text": "", "answer": ""}
REPORTS = ("json", "csv")  # what scores are written to

Template = Annotated[
    str | None, typer.Argument(metavar="TEMPLATE", help="A YAML file, or the name of a template (see --list).")
]


def prompt(
    model: Annotated[
        Path | None, typer.Argument(metavar="MODEL", help="A run folder or a checkpoint directory of a language model.")
    ] = None,
    template: Template = None,
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE|TEXT]...", help="Files of labelled texts to measure on; or texts, - for lines."),
    ] = None,
    input: Input = None,
    column: Column = None,
    output: Answers = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="NAME=VALUE", help="Change a setting of the template; again for more."),
    ] = None,
    known: Annotated[bool, typer.Option("--list", help="List the templates that come with Regard.")] = False,
    show: Annotated[str | None, typer.Option("--show", metavar="NAME", help="Print a template, to change it.")] = None,
    worst: Annotated[int, typer.Option(min=0, help="How many of the worst answers to show for a file.")] = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Answer texts by a prompt, without training; with a file of labelled texts, measure how well."""
    if known or show is not None:
        _templates(show, as_json)
        return
    if model is None or template is None:
        raise ValueError("give a model and a template: regard prompt MODEL TEMPLATE [TEXT]... (--list shows templates)")
    files = [text for text in texts or [] if len(text) < 256 and "\0" not in text and Path(text).is_file()]
    if files and (input is not None or len(files) < len(texts or [])):
        raise ValueError(f"{files[0]} is a file: give files of labelled texts, or texts, or -i FILE with a text a line")
    asked = Asked(None if files else texts, input, output, None, as_json, model, column)
    if files:
        writable(output, REPORTS, reads=list(map(Path, files)))
    else:
        asked.check()
    found = _prompter(model, template, settings or [], device)
    if files:
        _measure(found, files, output, worst=worst, as_json=as_json)
    else:
        blank = BLANK if found.template.kind == "choose" else UNWRITTEN
        respond(found, asked, key=None, form=_line, blank=blank)


def _prompter(model: Path, template: str, settings: list[str], device: str) -> Prompter:
    from regard import recipe
    from regard.tasks.prompting.prompter import Prompter
    from regard.tasks.prompting.template import read

    how = read(template, settings)  # before a model is loaded
    found = Prompter(recipe.load_for_prompts(model, device=device), how)
    found.name = called(model)
    return found


def _line(text: str, answer: Any) -> str:
    """The label with its probability, corrected and plain; or what was written."""
    return str(answer).replace("\n", " ")


def _measure(found: Prompter, files: list[str], output: Path | None, *, worst: int, as_json: bool) -> None:
    from rich.console import Console

    from regard.cli.evaluate import write
    from regard.cli.tables import Fitted

    scores = found.evaluate(*files)
    if output is not None:
        write([scores], None, output, worst=worst)
    if as_json:
        print(json.dumps(scores.plain(worst=worst), ensure_ascii=False))
        return
    console = Console()
    console.print(_head(scores), highlight=False, markup=False, soft_wrap=True)
    for table in scores.tables:
        console.print(Fitted(table.head, table.rows))
    for one in scores.worst(worst):
        console.print(f"{one.right} / {one.answer}: {one.given[:200]}", highlight=False, markup=False, soft_wrap=True)
    for note in scores.notes:
        print(f"regard: {note}", file=sys.stderr)


def _head(scores: Scores) -> str:
    """What was measured on, and how often each label was answered."""
    answered = scores.measures.get("answered")
    lines = [f"{scores.name}: {counted(len(scores), 'text')}"]
    return "\n".join(
        [*lines, *([f"commonest: {scores.measures['commonest']}; answered: {answered}"] if answered else [])]
    )


def _templates(show: str | None, as_json: bool) -> None:
    """All templates with what they are for, or one as it is written."""
    from rich.console import Console

    from regard import config
    from regard.cli.tables import Fitted
    from regard.tasks.prompting.template import list_templates, read, text_of

    if show is not None:
        found = read(show)
        print(json.dumps(config.plain(found), ensure_ascii=False) if as_json else text_of(show), end="\n" * as_json)
        return
    every = dict(list_templates())
    if as_json:
        print(json.dumps({name: config.plain(one) for name, one in every.items()}, ensure_ascii=False))
        return
    rows = [(name, one.about, " ".join(one.labels) or one.kind) for name, one in every.items()]
    Console().print(Fitted(("template", "what it asks", "labels"), rows))
