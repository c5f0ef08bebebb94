"""The command that estimates what a model costs to hold, to train and to use."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, runtime_checkable

import typer

from regard.cli.cost_sources import find_model_config, find_run_facts, plan_settings_of_recipe, plan_settings_of_run
from regard.cli.cost_table import print_cost_table
from regard.cli.grammar import Json
from regard.config.words import quantity

if TYPE_CHECKING:
    from regard.cli.tables import FittedTable
    from regard.cost import Estimate, Plan
    from regard.training.run_facts import RunFacts

LARGEST_IN_UNIT = {"s": 100, "min": 90, "h": 48, "days": 730}  # of each unit, before the next one is used
GPU_ESTIMATES = ("fits", "seconds", "price", "rule_seconds", "rule_price")  # estimates that need a GPU
RULE_OF_THUMB = "  6 x parameters"  # a token: the rule of thumb, which leaves attention out


@runtime_checkable
class CountsPairs(Protocol):
    """The config of a model that counts the pairs of tokens that attend to each other."""

    @property
    def pairs(self) -> tuple[int, int]:
        """Return the pairs with the model's attention, and those with full attention."""


def cost(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="A preset (gpt2, bert-base, t5-small, base, ...), a recipe, a run folder or a checkpoint.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", "-s", metavar="NAME=VALUE", help="A setting of the plan, such as gpu=A100 or steps=50000."
        ),
    ] = None,
    table: Annotated[
        bool, typer.Option("--table", help="Large models as they were published, each with its source.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Draw the sizes of --table by year: PNG or SVG."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Parameters, FLOPs, memory, time and price of a model."""
    from regard import config
    from regard import cost as costs

    plan_settings = config.override({}, settings or [])
    default_plan = config.build(costs.Plan, plan_settings)
    costs.gpu(default_plan.gpu)  # refused before anything is opened
    if model == "":
        raise ValueError("MODEL is given nothing: name one")
    if table == (model is not None):
        raise ValueError("regard cost takes a model, such as gpt2, or --table: give one of them")
    if model is None:
        return print_cost_table(hourly=default_plan.hourly, as_json=as_json, picture=output)
    if output is not None:
        raise ValueError(f"-o {output} draws the sizes of --table: leave it out")
    if model in costs.PUBLISHED:
        return _print_published(model, as_json=as_json)
    report = _estimate_cost(model, plan_settings)
    if as_json:
        print(json.dumps(report.record(), indent=1))
    else:
        _print_tables(report)


@dataclass(frozen=True)
class CostReport:
    """The estimated cost of a model under a plan, and what a run of it took."""

    model: str
    """The preset, recipe, run folder or checkpoint."""
    model_config: Any
    plan: Plan
    estimate: Estimate
    run_facts: RunFacts | None
    is_planned: bool
    """True if time and price are estimated for a GPU; False for a run on a device that nothing is known of."""

    def record(self) -> dict[str, Any]:
        """Return the report as JSON, without the estimates of a planned GPU if there is none."""
        plan = asdict(self.plan) if self.is_planned else {**asdict(self.plan), "gpu": None}
        record = {"model": self.model, "name": self.model_config.name, "plan": plan, **_count_pairs(self.model_config)}
        record |= _estimate_record(self.estimate) | ({} if self.is_planned else dict.fromkeys(GPU_ESTIMATES))
        if self.run_facts is not None:
            record["measured"] = {"device": self.run_facts.device, "seconds": self.run_facts.seconds}
        return record


def _estimate_cost(model: str, plan_settings: dict[str, Any]) -> CostReport:
    """Estimate the cost of a model; a recipe and a run bring settings of their plan."""
    from regard import config
    from regard import cost as costs

    model_config, run_facts = find_model_config(model), find_run_facts(model)
    own_settings = plan_settings_of_recipe(model, model_config, plan_settings)
    if run_facts is not None:
        own_settings = plan_settings_of_run(run_facts, model_config, on_other_gpu="gpu" in plan_settings)
    plan = config.build(costs.Plan, {**own_settings, **plan_settings})
    is_planned = run_facts is None or "gpu" in plan_settings or costs.known_gpu(run_facts.device) is not None
    return CostReport(model, model_config, plan, costs.estimate(model_config, plan), run_facts, is_planned)


def _print_tables(report: CostReport) -> None:
    """Print a table of the training, and one of the memory in use."""
    from rich.console import Console

    from regard.cli.tables import FittedTable

    plan, estimate, run_facts = report.plan, report.estimate, report.run_facts
    devices = f"{plan.count} x {plan.gpu}" if run_facts is None or report.is_planned else run_facts.device
    training_rows = [
        *_size_rows(estimate, plan),
        *_time_and_price_rows(estimate, plan, run_facts, is_planned=report.is_planned),
        *_pair_rows(report.model_config),
    ]
    title = f"{report.model}: {_describe_training(estimate, plan)} on {devices}"
    console = Console(highlight=False)
    console.print(FittedTable(("what", "how much"), training_rows, title, _describe_missing_flops(estimate)))
    console.print()
    console.print(_usage_table(report))


def _usage_table(report: CostReport) -> FittedTable:
    """Return a table of the memory in use, by the type of the weights and the length of the context."""
    from regard.cli.tables import FittedTable

    contexts = next(iter(report.estimate.use.values()))
    columns = [f"{context:,} tokens" if context else "memory" for context in contexts]
    rows = [(name, *map(format_bytes, sizes.values())) for name, sizes in report.estimate.use.items()]
    cached = ", with the KV cache of one sequence" if any(contexts) else ""
    return FittedTable(("weights in", *columns), rows, f"{report.model}: in use{cached}")


def _print_published(model: str, *, as_json: bool) -> None:
    """Print what is known of a model that Regard does not build."""
    from rich.console import Console

    from regard import cost as costs
    from regard.cli.tables import FittedTable

    published = costs.PUBLISHED[model]
    if as_json:
        print(json.dumps({"model": model, **asdict(published)}, indent=1))
        return
    lines = [("parameters", f"{published.parameters:,}")]
    if published.forward is not None:
        operations = {"forward": published.forward, "training": 3 * published.forward}
        lines += [(f"FLOP a picture, {name}", f"{value:.3g}") for name, value in operations.items()]
    note = "From its equations: Regard knows its size and does not build it."
    Console(highlight=False).print(FittedTable(("what", "how much"), lines, model, note))


def _describe_training(estimate: Estimate, plan: Plan) -> str:
    """Describe the planned training in a line."""
    lengths = estimate.lengths
    length_text = " and ".join(f"{length:,}" for length in dict.fromkeys((lengths.source, lengths.target)))
    step_text = (
        f"{quantity(estimate.batch, 'sequence')} of {length_text} tokens"
        if estimate.tokens > 1
        else quantity(estimate.batch, "example")
    )
    amount_text = f"{quantity(plan.steps, 'step')} of" if plan.tokens is None else f"{plan.tokens:,} tokens in steps of"
    return f"{amount_text} {step_text}"


def _describe_missing_flops(estimate: Estimate) -> str | None:
    """Return a note for a model without matrix products, else None."""
    return None if estimate.forward else "It learns without matrix products, in a loop of its own: no time is planned."


def _size_rows(estimate: Estimate, plan: Plan) -> list[tuple[str, str]]:
    """Return rows of parameters, FLOPs and memory."""
    unit, memory = "a token" if estimate.tokens > 1 else "an example", estimate.memory[plan.optimizer]
    others = {name: parts for name, parts in estimate.memory.items() if name != plan.optimizer}
    optimizer_names = {"lora": f"LoRA of rank {plan.rank}", "adamw": "AdamW", "muon": "Muon", "sgd": "SGD"}
    rows = [
        ("parameters", f"{estimate.parameters:,}"),
        *((f"  {name}", f"{count:,}") for name, count in estimate.parts.items()),
        (f"FLOP {unit}, forward", f"{estimate.forward:.3g}"),
        (f"FLOP {unit}, training", f"{estimate.training:.3g}"),
        (RULE_OF_THUMB, f"{estimate.rule:.3g}"),
        ("FLOP of the training", f"{estimate.operations:.3g}"),
        *([(RULE_OF_THUMB, f"{estimate.rule_operations:.3g}")] if estimate.tokens > 1 else []),
        ("memory of weights", format_bytes(memory.weights)),
        ("memory of gradients", format_bytes(memory.gradients)),
        (f"memory of {optimizer_names[plan.optimizer]}", format_bytes(memory.optimizer)),
        ("memory of activations", format_bytes(memory.activations)),
        ("memory of the loss", format_bytes(memory.loss)),
        ("memory of training", format_bytes(memory.total)),
        *((f"  with {optimizer_names[name]}", format_bytes(parts.total)) for name, parts in others.items()),
    ]
    return rows


def _time_and_price_rows(
    estimate: Estimate, plan: Plan, run_facts: RunFacts | None, *, is_planned: bool
) -> list[tuple[str, str]]:
    """Return rows of time and price: as estimated for a GPU, and as measured by a run."""
    rows = []
    if is_planned:
        rows.append((f"fits one {plan.gpu}", "yes" if estimate.fits else "no: smaller steps or more GPUs"))
    if is_planned and estimate.forward:
        has_tokens = estimate.tokens > 1
        rows.append(("time", _format_duration(estimate.seconds)))
        rows += [(RULE_OF_THUMB, _format_duration(estimate.rule_seconds))] if has_tokens else []
        rows.append(("price", f"{estimate.price:,.0f}" if estimate.price else "set hourly"))
        rows += [(RULE_OF_THUMB, f"{estimate.rule_price:,.0f}")] if has_tokens and estimate.price else []
    if run_facts is not None:
        rows.append((f"time it took on {run_facts.device}", _format_duration(run_facts.seconds)))
    return rows


def _pair_rows(model_config: Any) -> list[tuple[str, str]]:
    """Return rows of the pairs of tokens that attend to each other, for a model of pixels."""
    labels = {"pairs": "pairs of tokens in sight, a layer", "all_pairs": "  with full attention"}
    return [
        (labels[name], f"{count:,}" if count < 1e8 else f"{count:.2e}")
        for name, count in _count_pairs(model_config).items()
    ]


def _count_pairs(model_config: Any) -> dict[str, int]:
    """Return the pairs of tokens that attend to each other, for a model of pixels, as JSON."""
    if not isinstance(model_config, CountsPairs):
        return {}
    return dict(zip(("pairs", "all_pairs"), model_config.pairs, strict=True))


def _estimate_record(estimate: Estimate) -> dict[str, Any]:
    """Return the estimate as JSON."""
    record = asdict(estimate)
    memory = {name: {**parts, "total": sum(parts.values())} for name, parts in record.pop("memory").items()}
    return {"parameters": estimate.parameters, **record, "rule": estimate.rule, "memory": memory}


def _format_duration(seconds: float) -> str:
    """Format seconds in the unit that a person would choose."""
    units = {"s": 1, "min": 60, "h": 3600, "days": 86400, "years": 365.25 * 86400}
    unit = next((unit for unit, limit in LARGEST_IN_UNIT.items() if seconds < limit * units[unit]), "years")
    return f"{seconds / units[unit]:,.1f} {unit}"


def format_bytes(count: int) -> str:
    """Format bytes as MB or GB."""
    return f"{count / 1e9:,.2f} GB" if count >= 1e7 else f"{count / 1e6:.2f} MB"
