"""The command that answers texts with a language model and a prompt, without training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.answers import AnswerRequest, write_answers
from regard.cli.grammar import Answers, Column, Device, Input, Json, model_name
from regard.cli.text_io import check_writable, print_note
from regard.config.words import quantity

if TYPE_CHECKING:
    from regard.metrics.scores import Scores
    from regard.tasks.prompting.prompter import Prompter

BLANK_CHOICE: dict[str, Any] = {"text": "", "label": None, "corrected": {}, "plain": {}}
BLANK_TEXT: dict[str, Any] = {"text": "", "answer": ""}
REPORT_FORMATS = ("json", "csv")  # what scores are written to

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
    list_templates: Annotated[bool, typer.Option("--list", help="List the templates that come with Regard.")] = False,
    show: Annotated[str | None, typer.Option("--show", metavar="NAME", help="Print a template, to change it.")] = None,
    worst: Annotated[int, typer.Option(min=0, help="How many of the worst answers to show for a file.")] = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Answer texts by a prompt, without training; with a file of labelled texts, measure how well."""
    if list_templates or show is not None:
        _print_templates(show, as_json)
        return
    if model is None or template is None:
        raise ValueError("give a model and a template: regard prompt MODEL TEMPLATE [TEXT]... (--list shows templates)")
    files = [text for text in texts or [] if len(text) < 256 and "\0" not in text and Path(text).is_file()]
    if files and (input is not None or len(files) < len(texts or [])):
        raise ValueError(f"{files[0]} is a file: give files of labelled texts, or texts, or -i FILE with a text a line")
    request = AnswerRequest(None if files else texts, input, output, None, as_json, model, column)
    if files:
        check_writable(output, REPORT_FORMATS, inputs=list(map(Path, files)))
    else:
        request.check()
    prompter = _load_prompter(model, template, settings or [], device)
    if files:
        _evaluate_files(prompter, files, output, worst=worst, as_json=as_json)
    else:
        blank = BLANK_CHOICE if prompter.template.kind == "choose" else BLANK_TEXT
        write_answers(prompter, request, key=None, format_answer=_format_answer, blank_answer=blank)


def _load_prompter(model: Path, template: str, settings: list[str], device: str) -> Prompter:
    from regard import recipe
    from regard.tasks.prompting.prompter import Prompter
    from regard.tasks.prompting.template import read

    settings_read = read(template, settings)  # before a model is loaded
    prompter = Prompter(recipe.load_for_prompts(model, device=device), settings_read)
    prompter.name = model_name(model)
    return prompter


def _format_answer(text: str, answer: Any) -> str:
    """Return the answer on one line: a label with its probabilities, or a text."""
    return str(answer).replace("\n", " ")


def _evaluate_files(prompter: Prompter, files: list[str], output: Path | None, *, worst: int, as_json: bool) -> None:
    from rich.console import Console

    from regard.cli.score_views import write_scores
    from regard.cli.tables import FittedTable

    scores = prompter.evaluate(*files)
    if output is not None:
        write_scores([scores], None, output, worst=worst)
    if as_json:
        print(json.dumps(scores.plain(worst=worst), ensure_ascii=False))
        return
    console = Console()
    console.print(_score_heading(scores), highlight=False, markup=False, soft_wrap=True)
    for table in scores.tables:
        console.print(FittedTable(table.head, table.rows))
    for example in scores.worst(worst):
        console.print(
            f"{example.right} / {example.answer}: {example.given[:200]}", highlight=False, markup=False, soft_wrap=True
        )
    for note in scores.notes:
        print_note(note)


def _score_heading(scores: Scores) -> str:
    """Return the number of texts, the commonest label, and how often each label was answered."""
    answered = scores.measures.get("answered")
    lines = [f"{scores.name}: {quantity(len(scores), 'text')}"]
    return "\n".join(
        [*lines, *([f"commonest: {scores.measures['commonest']}; answered: {answered}"] if answered else [])]
    )


def _print_templates(show: str | None, as_json: bool) -> None:
    """Print the names and purposes of all templates, or one template in full."""
    from rich.console import Console

    from regard import config
    from regard.cli.tables import FittedTable
    from regard.tasks.prompting.template import list_templates, read, text_of

    if show is not None:
        chosen = read(show)
        print(json.dumps(config.plain(chosen), ensure_ascii=False) if as_json else text_of(show), end="\n" * as_json)
        return
    templates = dict(list_templates())
    if as_json:
        print(json.dumps({name: config.plain(template) for name, template in templates.items()}, ensure_ascii=False))
        return
    rows = [(name, template.about, " ".join(template.labels) or template.kind) for name, template in templates.items()]
    Console().print(FittedTable(("template", "what it asks", "labels"), rows))
