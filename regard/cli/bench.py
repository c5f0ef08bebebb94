"""The command that measures speed."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.answers import read_typed_texts
from regard.cli.cost import format_bytes
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

    arguments, chosen_device = list(words or []), choose(device)
    is_recipe = bool(arguments) and Path(arguments[0]).suffix in (".yaml", ".yml")
    if is_recipe and (to is not None or input is not None):
        raise ValueError(f"{'--to' if to is not None else '-i'} belongs to a model: leave it out for a recipe")
    if not is_recipe and steps is not None:
        raise ValueError("--steps belongs to a recipe: leave it out for a model")
    if not is_recipe and len(arguments) > 1 and "=" in arguments[1] and not Path(arguments[0]).exists():
        raise ValueError(f"{arguments[0]}: settings change a recipe, and this is not a .yaml file")
    limits = bench.measure_limits(chosen_device)
    if is_recipe:
        settings = recipe.settings(arguments[0], *arguments[1:], f"training.device={chosen_device}")
        speeds = [bench.measure_training(settings, limits, steps=steps or 200)]
    else:
        speeds = _measure_answering(arguments, input, str(chosen_device), to, limits)
    if as_json:
        print(json.dumps({"limits": asdict(limits), "speeds": [asdict(speed) for speed in speeds]}))
        return
    Console(highlight=False).print(_speed_table(limits, speeds))


def _measure_answering(words: list[str], file: Path | None, device: str, to: str | None, limits: Limits) -> list[Speed]:
    """Measure how fast a model answers."""
    from regard import bench, recipe
    from regard.cli.text_column import plain_lines

    path, texts = (words[0], words[1:]) if words else (None, [])
    trained = recipe.load(path, device=device)
    spec: Inputs = trained.inputs
    if file is not None and spec.read is not None:
        inputs = spec.read(file)
    else:
        lines = plain_lines(file) if file is not None else read_typed_texts(spec, texts)
        inputs = [spec.parse(text) for text in lines if text.strip()]
    if to is not None and not trained.languages:
        raise ValueError(f"--to {to}: {trained.name} has no languages to choose from, leave it out")
    return bench.measure_answers(trained, inputs, limits, **({} if to is None else {"to": to}))


def _speed_table(limits: Limits, speeds: list[Speed]) -> object:
    """Return a table of the measured rates beside the least times that the device allows."""
    from regard.cli.tables import FittedTable

    rows = [
        (
            speed.what,
            f"{speed.rate:,.0f}",
            f"{speed.milliseconds:,.1f}",
            f"{speed.least:,.1f}" if speed.least else None,
            None if speed.memory is None else format_bytes(speed.memory),
        )
        for speed in speeds
    ]
    rates = f"{limits.operations / 1e12:.3g} TFLOP/s, {limits.bytes / 1e9:.4g} GB/s"
    return FittedTable(("", f"{speeds[0].unit}/s", "ms", "least ms", "memory"), rows, f"{limits.device}: {rates}")
