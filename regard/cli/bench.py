"""The command that measures speed."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.answers import typed
from regard.cli.cost import gigabytes
from regard.cli.grammar import Device, Json

if TYPE_CHECKING:
    from regard.bench import Limits, Speed
    from regard.tasks.inputs import Inputs


def bench(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL] [INPUT]...", help="A model and inputs, or a recipe and settings; else the shipped model."
        ),
    ] = None,
    input: Annotated[
        Path | None, typer.Option("--input", "-i", metavar="FILE", help="Inputs to answer, for models that need some.")
    ] = None,
    steps: Annotated[int | None, typer.Option(min=20, help="Steps of a recipe to measure; 200 if not given.")] = None,
    to: Annotated[str | None, typer.Option(help="Language to translate to, for models with several.")] = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Measure how fast this machine trains or answers."""
    from rich.console import Console

    from regard import bench, recipe
    from regard.training.device import choose

    given, place = list(words or []), choose(device)
    training = bool(given) and Path(given[0]).suffix in (".yaml", ".yml")
    if training and (to is not None or input is not None):
        raise ValueError(f"{'--to' if to is not None else '-i'} belongs to a model: leave it out for a recipe")
    if not training and steps is not None:
        raise ValueError("--steps belongs to a recipe: leave it out for a model")
    if not training and len(given) > 1 and "=" in given[1] and not Path(given[0]).exists():
        raise ValueError(f"{given[0]}: settings change a recipe, and this is not a .yaml file")
    limits = bench.measure_limits(place)
    if training:
        settings = recipe.settings(given[0], *given[1:], f"training.device={place}")
        found = [bench.measure_training(settings, limits, steps=steps or 200)]
    else:
        found = _model(given, input, str(place), to, limits)
    if as_json:
        print(json.dumps({"limits": asdict(limits), "speeds": [asdict(one) for one in found]}))
        return
    Console(highlight=False).print(_table(limits, found))


def _model(words: list[str], file: Path | None, place: str, to: str | None, limits: Limits) -> list[Speed]:
    """How fast a model answers, whatever it answers."""
    from regard import bench, recipe
    from regard.cli.text_column import plain_lines

    path, texts = (words[0], words[1:]) if words else (None, [])
    trained = recipe.load(path, device=place)
    known: Inputs = trained.inputs
    if file is not None and known.read is not None:
        inputs = known.read(file)
    else:
        lines = plain_lines(file) if file is not None else typed(known, texts)
        inputs = [known.parse(text) for text in lines if text.strip()]
    if to is not None and not trained.languages:
        raise ValueError(f"--to {to}: {trained.name} has no languages to choose from, leave it out")
    return bench.measure_answers(trained, inputs, limits, **({} if to is None else {"to": to}))


def _table(limits: Limits, found: list[Speed]) -> object:
    """What was measured, and the least time that the device's own rates allow."""
    from regard.cli.tables import Fitted

    rows = [
        (
            one.what,
            f"{one.rate:,.0f}",
            f"{one.milliseconds:,.1f}",
            f"{one.least:,.1f}" if one.least else None,
            None if one.memory is None else gigabytes(one.memory),
        )
        for one in found
    ]
    rates = f"{limits.operations / 1e12:.3g} TFLOP/s, {limits.bytes / 1e9:.4g} GB/s"
    return Fitted(("", f"{found[0].unit}/s", "ms", "least ms", "memory"), rows, f"{limits.device}: {rates}")
