"""Tables a person reads in a terminal: what layers and models cost, what position schemes promise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from regard import bench, config, cost, recipe
from regard.attention.positions import binary, integer, normalised, sinusoidal
from regard.cli.tables import Fitted
from regard.interpret import plots
from regard.models.transformer import TransformerConfig
from regard.tasks import TASKS
from regard.training import history

CODES: dict[str, Callable[[int], Tensor]] = {
    "normalised": normalised,
    "integer": integer,
    "binary": lambda length: binary(length, 16),
    "sinusoidal": lambda length: sinusoidal(length, 64),
}


def layers(rows: Sequence[cost.Layer]) -> Fitted:
    """The complexity table, computed."""
    names = "layer", "cost", "operations", "steps", "path", "pairs", "learned"
    found = [
        (row.name, row.complexity, *map(_short, (row.operations, row.steps, row.path, row.weights, row.parameters)))
        for row in rows
    ]
    return Fitted(names, found, "One layer, computed")


def growth(timings: Sequence[cost.Timing]) -> Fitted:
    """The same layers, timed."""
    names = "layer", *(f"n={length}" for length in timings[0].lengths), "grows as"
    rows = [
        (timing.name, *(f"{1000 * seconds:.2f}" for seconds in timing.seconds), f"n^{timing.exponent:.2f}")
        for timing in timings
    ]
    return Fitted(names, rows, "Milliseconds on this machine")


def pixels() -> str:
    """Why images are cut into patches."""
    whole, cut = cost.image_pairs(1024, 1024), cost.image_pairs(1024, 1024, patch=16)
    return f"1024 x 1024 pixels: {whole:.2e} pairs as they are, {cut:.2e} as 16 x 16 patches."


def bill(model: str, settings: Sequence[str]) -> Fitted:
    """What training a recipe or a preset takes, as planned."""
    plan = config.build(cost.Plan, config.override({}, settings))
    asked = cost.estimate(_shape(model), plan)
    hours = asked.seconds / 3600
    rows = (
        ("parameters", f"{asked.parameters:,}"),
        ("operations", f"{asked.operations:.3g}"),
        ("memory of weights", _bytes(asked.weights)),
        ("memory of gradients and optimizer", _bytes(asked.optimizer)),
        ("memory of activations", _bytes(asked.activations)),
        ("fits one GPU", "yes" if asked.fits else "no: smaller steps or more GPUs"),
        ("time", f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.1f} days"),
        ("price", f"{asked.price:,.0f}" if asked.price else "set hourly"),
    )
    title = f"{model}: {plan.steps:,} steps of {plan.pairs:,} pairs on {plan.count} x {plan.gpu}"
    return Fitted(("what", "how much"), rows, title)


def schemes() -> Fitted:
    """The properties of position encodings, each checked on the encoding itself."""
    rows = []
    for name, code in CODES.items():
        short, long = code(20), code(200)
        own = len(torch.unique(long, dim=0)) == len(long)
        bounded = bool(code(2000).abs().max() <= 1.0)
        steady = torch.allclose(short[1] - short[0], long[1] - long[0])
        rows.append((name, *("yes" if holds else "no" for holds in (own, bounded, steady))))
    return Fitted(("encoding", "unique", "bounded", "independent of length"), rows, "Position encodings")


def draw(scheme: str, path: Path) -> None:
    """A heat map of one code."""
    if scheme not in CODES:
        raise ValueError(f"cannot draw {scheme}: choose one of {', '.join(CODES)}")
    plots.save(plots.positions(CODES[scheme](128), title=f"{scheme}: one line per place"), path)


def runs(summaries: Sequence[history.Summary]) -> Fitted:
    """One line per run."""
    rows = [
        (
            one.name,
            one.state,
            one.step,
            ", ".join(f"{name} {value:.4g}" for name, value in one.best.items()) or None,
            one.reason or None,
        )
        for one in summaries
    ]
    return Fitted(("run", "state", "step", "best", "why"), rows, None if rows else "no runs here yet")


def findings(rows: Sequence[tuple[str, str]]) -> Fitted:
    """What a check of data found, a name and a remark in each line."""
    return Fitted(("", ""), rows)


def differences(first: Path, second: Path, rows: Sequence[tuple[str, str, str]]) -> Fitted:
    """What two runs do not share."""
    return Fitted(("what", str(first), str(second)), rows, None if rows else "the runs do not differ")


def speeds(limits: bench.Limits, found: Sequence[bench.Speed]) -> Fitted:
    """What was measured, and the least time that the device's own rates allow."""
    rows = [
        (one.what, f"{one.rate:,.0f}", f"{one.milliseconds:,.1f}", f"{one.least:,.1f}", _memory(one.memory))
        for one in found
    ]
    rates = f"{limits.operations / 1e12:.3g} TFLOP/s, {limits.bytes / 1e9:.4g} GB/s"
    names = "", f"{found[0].unit}/s", "ms", "least ms", "memory"
    return Fitted(names, rows, f"{limits.device}: {rates}")


def reached(norms: Mapping[str, Tensor], *, width: int = 80) -> Fitted:
    """How much of a gradient is left so many steps back, at as many distances as there is room for."""
    length = min(map(len, norms.values()))
    rows = {name: [f"{value:.1e}" for value in values.tolist()] for name, values in norms.items()}
    room = (width - max(map(len, rows))) // (2 + max(len(value) for values in rows.values() for value in values))
    distances = _spread(length - 1, min(room, 1 + length.bit_length()))
    shown = [(name, *(values[distance] for distance in distances)) for name, values in rows.items()]
    return Fitted(("layer", *map(str, distances)), shown, "Norm of the gradient by distance in steps")


def _spread(last: int, count: int) -> list[int]:
    """0, and then whole numbers from 1 to the last, as even as they can be on a scale of powers."""
    gaps = max(count - 2, 1)
    return sorted({0, *(round(last ** (place / gaps)) for place in range(gaps)), last})


def _shape(model: str) -> TransformerConfig:
    """The model of a preset, a recipe file, a run or a checkpoint, with a vocabulary of 37,000 where none is named."""
    if model in TransformerConfig.PRESETS:
        return TransformerConfig(vocab=37_000, **TransformerConfig.PRESETS[model])
    path = Path(model) / "config.yaml" if Path(model).is_dir() else Path(model)
    if not path.is_file():
        presets = ", ".join(TransformerConfig.PRESETS)
        raise ValueError(f"{model} is neither a recipe file nor one of {presets}, and no run folder or checkpoint")
    vocab = None
    if Path(model).is_dir():  # where the model has all its sizes
        settings = config.read(path)
        task = str(settings.get("task", "translation"))
        shape = config.section(TASKS[task][0].Recipe, settings, "model") if task in TASKS else None
    else:
        _, resolved = recipe.resolve(recipe.settings(path))
        task, shape = resolved.task, resolved.model
        vocab = getattr(getattr(resolved, "tokenizer", None), "vocab", None)
    if not isinstance(shape, TransformerConfig):
        what = getattr(shape, "name", task) if task == "translation" else task
        raise ValueError(f"{model}: costs are planned for the Transformer only, not for {what}")
    return replace(shape, vocab=shape.vocab or vocab or 37_000)


def _short(number: int) -> str:
    """A number a person can take in."""
    if number == 0:
        return "-"
    return f"{number:,}" if number < 1_000_000 else f"{number:.2e}"


def _bytes(count: int) -> str:
    return f"{count / 1e9:.2f} GB"


def _memory(count: int | None) -> str | None:
    return None if count is None else _bytes(count)
