"""The command that measures speed."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from regard.bench import Limits, Speed


def bench(
    what: Annotated[
        list[str] | None,
        typer.Argument(help="A recipe file and settings that change it, or a model; the shipped model if not given."),
    ] = None,
    steps: Annotated[int | None, typer.Option(min=20, help="Steps of a recipe to measure; 200 if not given.")] = None,
    to: Annotated[str | None, typer.Option(help="Language to translate to, for models with several.")] = None,
    device: Annotated[str, typer.Option(help="auto, cuda, mps or cpu.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure how fast this machine trains a recipe or generates with a model, beside what it could do at most."""
    from rich.console import Console

    from regard import bench, recipe, report
    from regard.training.device import choose

    words, place = list(what or []), choose(device)
    training = bool(words) and Path(words[0]).suffix in (".yaml", ".yml")
    if training and to is not None:
        raise ValueError("--to belongs to a model that translates: leave it out for a recipe")
    if not training and steps is not None:
        raise ValueError("--steps belongs to a recipe: leave it out for a model")
    limits = bench.limits(place)
    if training:
        settings = recipe.settings(words[0], *words[1:], f"training.device={place}")
        found = [bench.training(settings, limits, steps=steps or 200)]
    elif len(words) > 1:
        raise ValueError(f"{words[0]}: settings change a recipe, and this is not a .yaml file")
    else:
        found = _model(words[0] if words else None, str(place), to, limits)
    if as_json:
        print(json.dumps({"limits": asdict(limits), "speeds": [asdict(one) for one in found]}))
    else:
        Console().print(report.speeds(limits, found))


def _model(path: str | None, place: str, to: str | None, limits: Limits) -> list[Speed]:
    """How fast a model writes, whatever it writes."""
    from regard import bench, recipe
    from regard.tasks.language.writer import Writer
    from regard.tasks.translation.translator import Translator

    model = recipe.load(path, device=place)
    if isinstance(model, Writer):
        return bench.writing(model, limits)
    if not isinstance(model, Translator):
        raise ValueError(f"{path}: this model writes nothing: give a translator or a language model")
    tag = to or (model.languages[0] if len(model.languages) > 1 else None)
    return bench.generating(model, SENTENCES, limits, to=tag)


SENTENCES = (
    "The man in the red coat walks slowly along the river with his two dogs.",
    "Nobody knows where she bought the old house in which her parents used to live.",
    "A few children are playing football on the grass behind the school this afternoon.",
    "If it had not rained so much yesterday, we would have gone to the mountains together.",
)
