"""The command that scores a model on test files, whatever its task, and compares it with others."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.file_options import COLUMNS_HELP
from regard.cli.grammar import Device, Json, Settings, model_name, parse_settings, split_model
from regard.cli.score_views import print_scores, scores_json, write_scores
from regard.cli.text_io import PICTURE_FORMATS, check_writable

if TYPE_CHECKING:
    from regard.metrics.scores import Scores

COLUMN_PAIR = re.compile(r"([0-9]+),\s*([0-9]+)")
FORMATS = ("html", "png", "svg", "json", "csv", "htm", *PICTURE_FORMATS)
Columns = Annotated[tuple[int, int] | None, typer.Option(help=COLUMNS_HELP)]
To = Annotated[str | None, typer.Option(help="Target language of translators; guessed if not given.")]


def evaluate(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL] FILE...", help="A model, else the shipped one; test files like those it was trained on."
        ),
    ] = None,
    against: Annotated[
        list[Path] | None,
        typer.Option(metavar="MODEL", help="Another model, or a file of answers, to compare with; again for more."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Side by side (.html), by length (.png, .svg), all numbers (.json), every answer (.csv).",
        ),
    ] = None,
    columns: Columns = None,
    to: To = None,
    metric: Annotated[
        str | None,
        typer.Option(help="Of translators: overlap (BLEU, chrF, TER) or errors (wrong answers, edits to the nearest)."),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option("--as", metavar="TASK", help="What to score a model by that can do several: masked-lm, matching."),
    ] = None,
    length: Annotated[
        int | None, typer.Option(metavar="STEPS", help="Of models of drawn sequences: their length, 80 for instance.")
    ] = None,
    worst: Annotated[int, typer.Option(min=0, help="How many of the worst answers to show.")] = 5,
    settings: Settings = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Score a model on test files; compare it with others."""
    from regard import shipped
    from regard.metrics.scores import compare

    model, files = split_model(words or [])
    other_models = against or []
    _check_output(output, files, other_models)
    options = parse_settings(settings, columns=columns, to=to, metric=metric, length=length)
    systems = [
        score_system(path, files, options, device=device, is_one_of_several=bool(other_models), task=task)
        for path in (model or Path(shipped.DEFAULT), *other_models)
    ]
    comparison = compare(systems) if other_models else None
    if as_json:
        print(scores_json(systems, comparison, worst))
    else:
        print_scores(systems, comparison, worst=worst)
    if output is not None:
        write_scores(systems, comparison, output, worst=worst)


def split_columns(words: Sequence[str]) -> list[str]:
    """Return the words of a command, with `--columns 1,2` written as `--columns 1 2`."""
    split: list[str] = []
    for before, word in zip(("", *words), words, strict=False):
        name, _, value = word.rpartition("=")
        numbers = COLUMN_PAIR.fullmatch(value)
        if numbers and (name == "--columns" or (not name and before == "--columns")):
            split += [*([name] if name else []), *numbers.groups()]
        else:
            split.append(word)
    return split


def score_system(
    path: Path,
    files: Sequence[str],
    options: dict[str, Any],
    *,
    device: str,
    is_one_of_several: bool,
    name: str | None = None,
    task: str | None = None,
) -> Scores:
    """Return the scores of a model, or of the answers in a file; of several models, each gets the options it knows."""
    from regard import recipe
    from regard.tasks import FACES

    name = name or model_name(path)
    if path.is_file():
        scorer = next(face.score_answers for face in FACES.values() if face.score_answers is not None)
        option_names = scorer.Options.__dataclass_fields__  # the others are for models
        return scorer.call(
            path, *files, name=name, **{key: value for key, value in options.items() if key in option_names}
        )
    trained = recipe.load(path, device=device, task=task)
    if is_one_of_several and "alignments" in trained.extras and not trained.languages:
        options = {key: value for key, value in options.items() if key != "to"}  # of one direction: nothing to choose
    scores = trained.evaluate(*files, name=name, **_check_evaluation_options(trained, options))
    for line in scores.warnings:
        print(line, file=sys.stderr)
    return scores


def _check_evaluation_options(trained: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Refuse options that the evaluation of a model does not take; lists become tuples."""
    from regard import config

    parameters = inspect.signature(trained.evaluate).parameters.values()
    known_names = [
        parameter.name
        for parameter in parameters
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.name != "name"
    ]
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        for option in options:
            if option not in known_names:
                remedy = f"set {', '.join(known_names)}" if known_names else "leave it out"
                raise ValueError(f"{option} is nothing that {trained.kind} is evaluated by: {remedy}")
    checked = config.arguments(trained.evaluate, options)
    return {name: tuple(value) if isinstance(value, list) else value for name, value in checked.items()}


def _check_output(output: Path | None, files: Sequence[str], other_models: Sequence[Path]) -> None:
    """Refuse, before anything is loaded, an output that cannot be written."""
    check_writable(output, FORMATS, inputs=[*map(Path, files), *other_models])
    if output is not None and output.suffix.lower() in (".html", ".htm") and len(other_models) != 1:
        raise ValueError(f"{output} shows two systems side by side: give one --against, not {len(other_models)}")
