"""The command that says what training a model takes, on paper."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.grammar import Json

if TYPE_CHECKING:
    from regard.cost import Plan

VOCAB = 37_000  # of a preset, and of a recipe that names none


def cost(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="A preset (tiny, small, base, big), a recipe, a run folder or a checkpoint."
        ),
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", "-s", metavar="NAME=VALUE", help="A setting of the plan, such as gpu=A100 or steps=50000."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Parameters, FLOPs, memory, time and price of training a model."""
    from rich.console import Console

    from regard import config
    from regard import cost as costs
    from regard.cli.tables import Fitted
    from regard.models.transformer import TransformerConfig

    plan = config.build(costs.Plan, config.override({}, settings or []))
    costs.gpu(plan.gpu)
    shape = _shape(model)
    if isinstance(shape, TransformerConfig):
        found = {**asdict(costs.estimate(shape, plan))}
    else:
        learned = costs.parameters(shape)
        found = {"parameters": learned, "weights": 4 * learned, "optimizer": 12 * learned}
    if as_json:
        print(json.dumps({"model": model, "name": shape.name, "plan": asdict(plan), **found}, indent=1))
        return
    title = f"{model}: {plan.steps:,} steps of {plan.pairs:,} pairs on {plan.count} x {plan.gpu}"
    note = None
    if "operations" not in found:
        title, note = (
            model,
            f"Operations, time and price are planned for encoder-decoder Transformers, not for {shape.name}.",
        )
    Console(highlight=False).print(Fitted(("what", "how much"), _lines(found, plan), title, note))


def _lines(found: dict[str, Any], plan: Plan) -> list[tuple[str, str]]:
    """What there is to say of each part."""
    hours = found.get("seconds", 0) / 3600
    shown = {
        "parameters": lambda value: f"{value:,}",
        "operations": lambda value: f"{value:.3g} FLOPs",
        "weights": gigabytes,
        "optimizer": gigabytes,
        "activations": gigabytes,
        "fits": lambda value: "yes" if value else "no: smaller steps or more GPUs",
        "seconds": lambda value: f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.1f} days",
        "price": lambda value: f"{value:,.0f}" if value else "set hourly",
    }
    names = {
        "weights": "memory of weights",
        "optimizer": "memory of gradients and Adam",
        "activations": "memory of activations",
        "fits": f"fits one {plan.gpu}",
        "seconds": "time",
    }
    return [(names.get(name, name), shown[name](value)) for name, value in found.items() if name in shown]


def gigabytes(count: int) -> str:
    """Bytes as a person reads them."""
    return f"{count / 1e9:.2f} GB" if count >= 1e7 else f"{count / 1e6:.2f} MB"


def _shape(model: str) -> Any:
    """The config of a preset, of a recipe file, or of what lies in a run folder or a checkpoint."""
    from regard import config, models, recipe
    from regard.models.transformer import TransformerConfig

    if model in TransformerConfig.PRESETS:
        return TransformerConfig(vocab=VOCAB, **TransformerConfig.PRESETS[model])
    path = Path(model) / "config.yaml" if Path(model).is_dir() else Path(model)
    if not path.is_file():
        presets = ", ".join(TransformerConfig.PRESETS)
        raise ValueError(f"{model} is neither a recipe file, a run folder, a checkpoint nor one of {presets}")
    if Path(model).is_dir():  # where the model has all its sizes
        return models.config_of(models.modern(config.read(path))["model"])
    _, resolved = recipe.resolve(recipe.settings(path))
    shape = resolved.model
    if not isinstance(shape, TransformerConfig):
        raise ValueError(f"{model}: the sizes of this model follow from its data, train it and give its run folder")
    vocab = shape.vocab or resolved.tokenizer.vocab or VOCAB
    return config.build(TransformerConfig, {**config.plain(shape), "vocab": vocab})
