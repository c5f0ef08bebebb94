"""How fast this machine trains a recipe and generates with a model, beside what it could do at most.

Training is measured as it happens: the run's own figures, without the first ones, in which things are compiled. The
limits are two: what the arithmetic takes at the rate of a large matrix product, and what reading the weights takes at
the rate of a large copy. Nothing that reads from memory can be faster than the larger of them.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from regard import checkpoint, config, cost, recipe
from regard.config.merging import merge_settings
from regard.tasks.trained import SENTENCES, Workload
from regard.training import device as devices

NEVER_STEP = 10**12  # a step that never comes
BATCHES = (1, 8, 64)
LENGTH = 100  # tokens of a sentence, for the arithmetic it takes


@dataclass(frozen=True)
class Limits:
    """What the device does at most, measured."""

    device: str
    operations: float
    """Floating-point operations a second, in a large matrix product of the type that training uses."""
    bytes: float
    """Bytes read and written a second, in a large copy."""


@dataclass(frozen=True)
class Speed:
    """One measurement: how many of what a second, in which time, and the least time it could have taken."""

    what: str
    rate: float
    unit: str
    milliseconds: float
    least: float
    """Milliseconds below which no program could go whose weights come from the device's memory."""
    memory: int | None = None
    """The peak on the device, in bytes."""

    @property
    def share(self) -> float:
        """Of the limit, how much was reached."""
        return self.least / self.milliseconds


def measure_limits(place: torch.device) -> Limits:
    """Measure the two rates of a device."""
    dtype = devices.precision(place)
    size = 8192 if place.type == "cuda" else 1024
    first, second = (torch.randn(size, size, device=place, dtype=dtype) for _ in range(2))
    source = torch.randn(1 << (28 if place.type == "cuda" else 24), device=place)
    target = torch.empty_like(source)
    product = _median_seconds(lambda: first @ second, place)
    copy = _median_seconds(lambda: target.copy_(source), place)
    name = torch.cuda.get_device_name(place) if place.type == "cuda" else f"{place}, {torch.get_num_threads()} threads"
    return Limits(name, 2 * size**3 / product, 2 * source.nbytes / copy)


def measure_training(settings: Mapping[str, Any], bounds: Limits, *, steps: int) -> Speed:
    """Time so many steps of a recipe, in a folder that is thrown away."""
    short = {"steps": steps, "log": max(1, steps // 20), "evaluate": NEVER_STEP, "save": NEVER_STEP, "average": 0}
    quiet: dict[str, Any] = {"epochs": None, "seconds": None, "patience": None, "tensorboard": False}
    task, whole = recipe.resolve(settings)
    if config.plain(whole.training).get("compile") == "auto":
        quiet["compile"] = "on"  # as in a run of many steps
    short_settings = merge_settings(settings, {"training": {**short, **quiet}, **task.brief})
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    with tempfile.TemporaryDirectory() as folder:
        outcome = recipe.train(short_settings, out=Path(folder) / "run", quiet=True)
        lines = (Path(folder) / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        model = recipe.resolve(recipe.settings(Path(folder) / "run" / "config.yaml"))[1].model
        size = sum(tensor.numel() for tensor in checkpoint.read(outcome.best).tensors().values())
    records = [record for record in map(json.loads, lines) if record["kind"] == "training"]
    counts = outcome.result.counts
    unit = "tokens" if "tokens" in counts else next(iter(counts))  # pictures, frames or rows of a table
    rate = statistics.median(record[f"{unit}_per_second"] for record in records[len(records) // 2 :])
    tokens = counts[unit] / outcome.result.step
    alone = task.updates_itself  # without matrix products and without adam
    operations = 0 if alone else 3 * cost.forward(model, LENGTH) * tokens
    touched = 0 if alone else 28 * size  # adam reads and writes 28 bytes a weight
    least = max(operations / bounds.operations, touched / bounds.bytes)
    memory = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None
    return Speed("training", rate, unit, 1000 * tokens / rate, 1000 * least, memory)


def measure_answers(trained: Any, inputs: Sequence[Any], bounds: Limits, **options: Any) -> list[Speed]:
    """Time answers, by one and by many; of models that write, tokens a second."""
    place = trained.runner.device
    if (timed := trained.extras.get("workloads")) is not None:
        workloads, unit = timed.call(inputs, BATCHES, **options), "tokens"
    else:
        workloads, unit = (
            _answer_workloads(trained, inputs or _example_inputs(trained), trained.runner.weights.bytes),
            "answers",
        )
    speeds = []
    for workload in workloads:
        spent, memory = _median_seconds(workload.action, place, repeats=3), _peak_memory(workload.action, place)
        least = 1000 * workload.read / bounds.bytes
        speeds.append(Speed(workload.name, workload.tokens / spent, unit, 1000 * spent, least, memory))
    return speeds


def _answer_workloads(trained: Any, inputs: Sequence[Any], size: int) -> Iterator[Workload]:
    """Yield answers by one and by many, for which all weights are read once."""
    for batch in BATCHES:
        batch_inputs = [inputs[number % len(inputs)] for number in range(batch)]
        yield Workload(f"{trained.verb}, {batch} at a time", partial(trained.answer, batch_inputs), batch, size)


def _example_inputs(trained: Any) -> Sequence[Any]:
    """Return inputs of a model that nobody gave any: sentences, where those are what it reads."""
    needs = ValueError(f"{trained.name} is {trained.kind}: give it inputs to answer, or -i FILE")
    if trained.inputs.kind.is_path or trained.inputs.read is not None:
        raise needs
    try:
        trained.answer(SENTENCES[:1])
    except ValueError:  # a sentence is no word
        raise needs from None
    return SENTENCES


def _peak_memory(action: Callable[[], Any], place: torch.device) -> int | None:
    """Return the most memory that a GPU holds during an action, in bytes."""
    if place.type != "cuda":
        return None
    torch.cuda.reset_peak_memory_stats(place)
    action()
    return torch.cuda.max_memory_allocated(place)


def _median_seconds(action: Callable[[], Any], place: torch.device, *, repeats: int = 10) -> float:
    """Return the median time of an action, after it was done once."""
    spent = []
    for number in range(repeats + 1):
        began = time.perf_counter()
        action()
        if place.type == "cuda":
            torch.cuda.synchronize(place)
        spent += [time.perf_counter() - began] if number else []
    return statistics.median(spent)
