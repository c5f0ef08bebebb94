"""The command that says what a model takes, on paper: to hold, to train and to use it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, runtime_checkable

import typer

from regard.cli.grammar import Json
from regard.config.words import quantity

if TYPE_CHECKING:
    from regard.cost import Estimate, Plan
    from regard.training.run_facts import RunFacts

UNFILLED = ("classes", "inputs", "outputs", "size", "most")  # sizes that only data can say
LARGEST_TIMES = {"s": 100, "min": 90, "h": 48, "days": 730}  # of each unit, before the next one is taken
ON_A_GPU = ("fits", "seconds", "price", "rule_seconds", "rule_price")  # what is estimated of a GPU alone
RULE = "  6 x parameters"  # a token: the rule of thumb, which leaves attention out
SIZED = ("preset", "width", "channels", "hidden")  # settings by which a recipe says how large its model is


@runtime_checkable
class CountsPairs(Protocol):
    """The config of a model that says how many pairs of tokens look at each other."""

    @property
    def pairs(self) -> tuple[int, int]:
        """Pairs in sight, and pairs with full attention."""


def cost(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A preset (gpt2, bert-base, t5-small, base, ...), a recipe, a run folder or a checkpoint.",
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
    """Parameters, FLOPs, memory, time and price of a model."""
    from rich.console import Console

    from regard import config
    from regard import cost as costs
    from regard.cli.tables import Fitted

    named = config.override({}, settings or [])
    plan = config.build(costs.Plan, named)
    costs.gpu(plan.gpu)
    if model in costs.PUBLISHED:
        return _published(model, as_json=as_json)
    shape, past = _shape(model), _past(model)
    if past is not None:
        plan = config.build(costs.Plan, {**_plan_of(past, shape, elsewhere="gpu" in named), **named})
    planned = past is None or "gpu" in named or costs.known_gpu(past.device) is not None
    found = costs.estimate(shape, plan)
    if as_json:
        told = {"model": model, "name": shape.name, "plan": asdict(plan), **_pairs_plain(shape), **_plain(found, plan)}
        if not planned:
            told |= {"plan": {**asdict(plan), "gpu": None}} | dict.fromkeys(ON_A_GPU)
        if past is not None:
            told["measured"] = {"device": past.device, "seconds": past.seconds}
        print(json.dumps(told, indent=1))
        return
    where = f"{plan.count} x {plan.gpu}" if past is None or planned else past.device
    console = Console(highlight=False)
    console.print(
        Fitted(
            ("what", "how much"),
            [*_lines(found, plan), *_ends(found, plan, past, planned=planned), *_pairs(shape)],
            f"{model}: {_planned(found, plan)} on {where}",
            _note(found),
        )
    )
    contexts = next(iter(found.use.values()))
    columns = [f"{context:,} tokens" if context else "memory" for context in contexts]
    used = [(name, *map(gigabytes, sizes.values())) for name, sizes in found.use.items()]
    console.print()
    cached = ", with the KV cache of one sequence" if any(contexts) else ""
    console.print(Fitted(("weights in", *columns), used, f"{model}: in use{cached}"))


def _published(model: str, *, as_json: bool) -> None:
    """What is known of a model that Regard does not build."""
    from rich.console import Console

    from regard import cost as costs
    from regard.cli.tables import Fitted

    found = costs.PUBLISHED[model]
    if as_json:
        print(json.dumps({"model": model, **asdict(found)}, indent=1))
        return
    lines = [("parameters", f"{found.parameters:,}")]
    if found.forward is not None:
        each = {"forward": found.forward, "training": 3 * found.forward}
        lines += [(f"FLOP a picture, {name}", f"{value:.3g}") for name, value in each.items()]
    note = "From its equations: Regard knows its size and does not build it."
    Console(highlight=False).print(Fitted(("what", "how much"), lines, model, note))


def _planned(found: Estimate, plan: Plan) -> str:
    """The training in a line."""
    lengths = found.lengths
    long = f"{lengths.source:,}" if lengths.source == lengths.target else f"{lengths.source:,} and {lengths.target:,}"
    step = (
        f"{quantity(found.batch, 'sequence')} of {long} tokens"
        if found.tokens > 1
        else quantity(found.batch, "example")
    )
    amount = f"{quantity(plan.steps, 'step')} of" if plan.tokens is None else f"{plan.tokens:,} tokens in steps of"
    return f"{amount} {step}"


def _note(found: Estimate) -> str | None:
    """What there is to say of a model without matrix products."""
    return None if found.forward else "It learns without matrix products, in a loop of its own: no time is planned."


def _lines(found: Estimate, plan: Plan) -> list[tuple[str, str]]:
    """What there is to say of each part."""
    unit, memory = "a token" if found.tokens > 1 else "an example", found.memory[plan.optimizer]
    others = {name: each for name, each in found.memory.items() if name != plan.optimizer}
    named = {"lora": f"LoRA of rank {plan.rank}", "adamw": "AdamW", "muon": "Muon", "sgd": "SGD"}
    lines = [
        ("parameters", f"{found.parameters:,}"),
        *((f"  {name}", f"{count:,}") for name, count in found.parts.items()),
        (f"FLOP {unit}, forward", f"{found.forward:.3g}"),
        (f"FLOP {unit}, training", f"{found.training:.3g}"),
        (RULE, f"{found.rule:.3g}"),
        ("FLOP of the training", f"{found.operations:.3g}"),
        *([(RULE, f"{found.rule_operations:.3g}")] if found.tokens > 1 else []),
        ("memory of weights", gigabytes(memory.weights)),
        ("memory of gradients", gigabytes(memory.gradients)),
        (f"memory of {named[plan.optimizer]}", gigabytes(memory.optimizer)),
        ("memory of activations", gigabytes(memory.activations)),
        ("memory of the loss", gigabytes(memory.loss)),
        ("memory of training", gigabytes(memory.total)),
        *((f"  with {named[name]}", gigabytes(each.total)) for name, each in others.items()),
    ]
    return lines


def _ends(found: Estimate, plan: Plan, past: RunFacts | None, *, planned: bool) -> list[tuple[str, str]]:
    """Time and price: as planned on a GPU, counted with attention and by the rule of thumb; of a run, as measured."""
    lines = []
    if planned:
        lines.append((f"fits one {plan.gpu}", "yes" if found.fits else "no: smaller steps or more GPUs"))
    if planned and found.forward:
        by_rule = found.tokens > 1
        lines.append(("time", _time(found.seconds)))
        lines += [(RULE, _time(found.rule_seconds))] if by_rule else []
        lines.append(("price", f"{found.price:,.0f}" if found.price else "set hourly"))
        lines += [(RULE, f"{found.rule_price:,.0f}")] if by_rule and found.price else []
    if past is not None:
        lines.append((f"time it took on {past.device}", _time(past.seconds)))
    return lines


def _pairs(shape: Any) -> list[tuple[str, str]]:
    """Of a model of pixels: how many pairs look at each other."""
    told = {"pairs": "pairs of tokens in sight, a layer", "all_pairs": "  with full attention"}
    return [
        (told[name], f"{count:,}" if count < 1e8 else f"{count:.2e}") for name, count in _pairs_plain(shape).items()
    ]


def _pairs_plain(shape: Any) -> dict[str, int]:
    """The same as JSON."""
    return dict(zip(("pairs", "all_pairs"), shape.pairs, strict=True)) if isinstance(shape, CountsPairs) else {}


def _plain(found: Estimate, plan: Plan) -> dict[str, Any]:
    """As JSON."""
    told = asdict(found)
    memory = {name: {**each, "total": sum(each.values())} for name, each in told.pop("memory").items()}
    return {"parameters": found.parameters, **told, "rule": found.rule, "memory": memory}


def _time(seconds: float) -> str:
    """As a person reads it."""
    units = {"s": 1, "min": 60, "h": 3600, "days": 86400, "years": 365.25 * 86400}
    unit = next((unit for unit, above in LARGEST_TIMES.items() if seconds < above * units[unit]), "years")
    return f"{seconds / units[unit]:,.1f} {unit}"


def gigabytes(count: int) -> str:
    """Bytes as a person reads them."""
    return f"{count / 1e9:,.2f} GB" if count >= 1e7 else f"{count / 1e6:.2f} MB"


def _past(model: str) -> RunFacts | None:
    """What a run took, if the model is a run folder or lies in one; of a comparison, the run of its best model."""
    from regard import cost as costs
    from regard.training.comparison import is_comparison, read_result
    from regard.training.run_facts import read_run_facts

    folder = Path(model)
    if model in costs.presets() or not folder.is_dir():
        return None
    if is_comparison(folder):
        return read_run_facts(folder / str(read_result(folder).get("best", "")))
    above = folder.resolve().parents[1 if folder.resolve().parent.name == "checkpoints" else 0]
    return read_run_facts(above if (above / "metrics.jsonl").is_file() else folder)


def _plan_of(past: RunFacts, shape: Any, *, elsewhere: bool) -> dict[str, Any]:
    """The settings of a plan that are a run's own, or those that it would have elsewhere, on another processor."""
    from regard import cost as costs

    found: dict[str, Any] = {"steps": past.steps, "optimizer": past.optimizer, "rank": past.rank}
    if not elsewhere:
        found |= {"count": past.processes, "precision": past.precision}
    if past.lengths is not None:
        found |= dict(zip(("length", "target"), past.lengths, strict=True))
    if (gpu := costs.known_gpu(past.device)) is not None:
        found["gpu"] = gpu
    size = costs.units_of(shape, found.get("length"), found.get("target")) if past.unit == "tokens" else 1
    return {**found, "batch": max(1, round(past.units_per_step / size))}


def _shape(model: str) -> Any:
    """The config of a preset, of a recipe file, or of what lies in a run folder or a checkpoint."""
    from regard import cost as costs
    from regard.config.words import suggest_name
    from regard.training.comparison import model_folder

    known = costs.presets()
    if model in known:
        return costs.preset(model)
    path = model_folder(Path(model))
    if path.is_file():
        return _of_recipe(path)
    if (path / "config.yaml").is_file():
        return _of_folder(path)
    meant = suggest_name(model, [*known, *costs.PUBLISHED])
    raise ValueError(f"{model} is neither a recipe file, a run folder, a checkpoint nor a preset{meant}")


def _of_folder(path: Path) -> Any:
    """The config of a trained model, which has all its sizes, or whose weights have them."""
    from regard import config, models, recipe
    from regard.models.interface import Model

    shape = models.config_of(models.modernise_settings(config.read(path / "config.yaml"))["model"])
    kind = models.MODELS[shape.name][0]
    return kind.read_sizes(shape, recipe.open_model(path).tensors()) if issubclass(kind, Model) else shape


def _of_recipe(path: Path) -> Any:
    """The config of a recipe that says how large its model is."""
    from regard import config, recipe
    from regard import cost as costs
    from regard.config.merging import AUTO

    settings = recipe.settings(path)
    _, resolved = recipe.resolve(settings)
    shape, named = resolved.model, settings.get("model") or {}
    sizes = config.plain(shape)
    sized = any(name in named and named[name] != AUTO for name in SIZED)
    if not shape.sizes_known or not sized or any(sizes.get(name) == 0 for name in UNFILLED):
        raise ValueError(f"{path}: the sizes of this model follow from its data, train it and give its run folder")
    if "vocab" not in sizes:
        return shape
    vocab = sizes["vocab"] or resolved.tokenizer.vocab or costs.VOCAB
    return config.build(type(shape), {**sizes, "vocab": vocab})
