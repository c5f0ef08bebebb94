"""Tables a person reads in a terminal: what layers and models cost, what position schemes promise."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from rich import box
from rich.table import Table
from rich.text import Text
from torch import Tensor

from regard import bench, config, cost, recipe
from regard.attention.positions import binary, integer, normalised, sinusoidal
from regard.interpret import plots
from regard.interpret.alignment import measures
from regard.models.transformer import TransformerConfig
from regard.tasks import TASKS
from regard.training import history

LINE = 26
"""Most letters of a line of words beside numbers."""
REMARK = 16
"""Most letters of such a line in the last column."""
CODES: dict[str, Callable[[int], Tensor]] = {
    "normalised": normalised,
    "integer": integer,
    "binary": lambda length: binary(length, 16),
    "sinusoidal": lambda length: sinusoidal(length, 64),
}


def layers(rows: Sequence[cost.Layer]) -> Table:
    """The complexity table, computed."""
    table = Table(title="One layer, computed")
    for name in ("layer", "cost", "operations", "steps", "path", "pairs", "learned"):
        table.add_column(name, justify="left" if name in ("layer", "cost") else "right", no_wrap=True)
    for row in rows:
        numbers = (row.operations, row.steps, row.path, row.weights, row.parameters)
        table.add_row(row.name, row.complexity, *(_short(number) for number in numbers))
    return table


def growth(timings: Sequence[cost.Timing]) -> Table:
    """The same layers, timed."""
    table = Table(title="Milliseconds on this machine")
    table.add_column("layer")
    for length in timings[0].lengths:
        table.add_column(f"n={length}", justify="right")
    table.add_column("grows as", justify="right")
    for timing in timings:
        times = (f"{1000 * seconds:.2f}" for seconds in timing.seconds)
        table.add_row(timing.name, *times, f"n^{timing.exponent:.2f}")
    return table


def pixels() -> str:
    """Why images are cut into patches."""
    whole, cut = cost.image_pairs(1024, 1024), cost.image_pairs(1024, 1024, patch=16)
    return f"1024 x 1024 pixels: {whole:.2e} pairs as they are, {cut:.2e} as 16 x 16 patches."


def bill(model: str, settings: Sequence[str]) -> Table:
    """What training a recipe or a preset takes, as planned."""
    plan = config.build(cost.Plan, config.override({}, settings))
    asked = cost.estimate(_shape(model), plan)
    table = Table(title=f"{model}: {plan.steps:,} steps of {plan.pairs:,} pairs on {plan.count} x {plan.gpu}")
    table.add_column("what")
    table.add_column("how much", justify="right")
    hours = asked.seconds / 3600
    for name, value in (
        ("parameters", f"{asked.parameters:,}"),
        ("operations", f"{asked.operations:.3g}"),
        ("memory of weights", _bytes(asked.weights)),
        ("memory of gradients and optimizer", _bytes(asked.optimizer)),
        ("memory of activations", _bytes(asked.activations)),
        ("fits one GPU", "yes" if asked.fits else "no: smaller steps or more GPUs"),
        ("time", f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.1f} days"),
        ("price", f"{asked.price:,.0f}" if asked.price else "set hourly"),
    ):
        table.add_row(name, value)
    return table


def schemes() -> Table:
    """What position codes promise, each checked on the code itself."""
    table = Table(title="Codes for places")
    for name in ("code", "every place its own", "bounded", "a step means the same in every length"):
        table.add_column(name, justify="left" if name == "code" else "center", overflow="fold")
    for name, code in CODES.items():
        short, long = code(20), code(200)
        own = len(torch.unique(long, dim=0)) == len(long)
        bounded = bool(code(2000).abs().max() <= 1.0)
        steady = torch.allclose(short[1] - short[0], long[1] - long[0])
        table.add_row(name, *("yes" if holds else "no" for holds in (own, bounded, steady)))
    return table


def draw(scheme: str, path: Path) -> None:
    """A heat map of one code."""
    if scheme not in CODES:
        raise ValueError(f"cannot draw {scheme}: choose one of {', '.join(CODES)}")
    plots.save(plots.positions(CODES[scheme](128), title=f"{scheme}: one line per place"), path)


def runs(summaries: Sequence[history.Summary]) -> Table:
    """One line per run."""
    table = Table(title=None if summaries else "no runs here yet")
    for name, justify in (("run", "left"), ("state", "left"), ("step", "right"), ("best", "left"), ("why", "left")):
        table.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for one in summaries:
        best = ", ".join(f"{name} {value:.4g}" for name, value in one.best.items())
        table.add_row(one.name, one.state, f"{one.step:,}", best or "-", one.reason or "-")
    return table


def findings(rows: Sequence[tuple[str, str]]) -> Table:
    """What a check of data found, a name and a remark in each line."""
    table = Table(show_header=False, box=None, padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*(Text(word) for word in row))
    return table


def differences(first: Path, second: Path, rows: Sequence[tuple[str, str, str]]) -> Table:
    """What two runs do not share."""
    table = Table(title=None if rows else "the runs do not differ")
    for name in ("what", str(first), str(second)):
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def speeds(limits: bench.Limits, found: Sequence[bench.Speed]) -> Table:
    """What was measured, and the least time that the device's own rates allow."""
    rates = f"{limits.operations / 1e12:.3g} TFLOP/s, {limits.bytes / 1e9:.4g} GB/s"
    table = Table(title=f"{limits.device}: {rates}", box=box.SIMPLE_HEAD)
    for name in ("", f"{found[0].unit}/s", "ms", "least ms", "memory"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    for one in found:
        memory = "-" if one.memory is None else _bytes(one.memory)
        table.add_row(one.what, f"{one.rate:,.0f}", f"{one.milliseconds:,.1f}", f"{one.least:,.1f}", memory)
    return table


def measured(found: measures.Table, *, width: int = 80) -> list[Table]:
    """A table of measures, each number with its control beside it; what is too wide goes on in a table below."""
    cells = [[*(_cell(cell, LINE) for cell in row[:-1]), _cell(row[-1], REMARK)] for row in found.rows]
    names = [_folded(name, _widest(row[place] for row in cells)) for place, name in enumerate(found.columns)]
    sizes = [_widest((name, *(row[place] for row in cells))) for place, name in enumerate(names)]
    tall = max(name.count("\n") for name in names)
    names = ["\n" * (tall - name.count("\n")) + name for name in names]  # the last line of each above the numbers
    gap = 2 if sum(sizes) + 2 * len(sizes) <= width else 1
    tables = []
    for band in _bands(sizes, width, gap):
        table = Table(box=box.SIMPLE_HEAD, padding=(0, gap - 1, 0, 0), pad_edge=False, show_edge=False)
        for place in band:
            counted = not any(isinstance(row[place], str) for row in found.rows)
            table.add_column(names[place], justify="right" if counted else "left")
        for row in cells:
            table.add_row(*(Text(row[place]) for place in band))
        tables.append(table)
    tables[0].title, tables[-1].caption = found.title, found.note
    return tables


def reached(norms: Mapping[str, Tensor], *, width: int = 80) -> Table:
    """How much of a gradient is left so many steps back, at as many distances as there is room for."""
    length = min(map(len, norms.values()))
    rows = {name: [f"{value:.1e}" for value in values.tolist()] for name, values in norms.items()}
    room = (width - 4 - _widest(rows)) // (3 + max(map(_widest, rows.values())))
    table = Table(title="Norm of the gradient by distance in steps")
    table.add_column("layer")
    distances = _spread(length - 1, min(room, 1 + length.bit_length()))
    for distance in distances:
        table.add_column(str(distance), justify="right")
    for name, values in rows.items():
        table.add_row(name, *(values[distance] for distance in distances))
    return table


def _spread(last: int, count: int) -> list[int]:
    """0, and then whole numbers from 1 to the last, as even as they can be on a scale of powers."""
    gaps = max(count - 2, 1)
    return sorted({0, *(round(last ** (place / gaps)) for place in range(gaps)), last})


def _cell(cell: measures.Cell, line: int) -> str:
    """A number to three digits, or words in lines of bearable length."""
    if isinstance(cell, str):
        return _folded(cell, line)
    return "-" if cell is None else f"{cell:.3f}" if isinstance(cell, float) else str(cell)


def _folded(text: str, width: int) -> str:
    """The text in lines that break between words only."""
    return "\n".join(textwrap.wrap(text, max(width, *map(len, text.split())), break_on_hyphens=False))


def _widest(texts: Iterable[str]) -> int:
    return max(len(line) for text in texts for line in text.split("\n"))


def _bands(sizes: Sequence[int], width: int, gap: int) -> list[list[int]]:
    """Runs of columns that fit side by side, the first column in each of them."""
    bands, used = [[0]], sizes[0]
    for place, size in enumerate(sizes[1:], start=1):
        if used + gap + size > width and len(bands[-1]) > 1:
            bands.append([0])
            used = sizes[0]
        bands[-1].append(place)
        used += gap + size
    return bands


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
