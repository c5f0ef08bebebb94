"""Benchmarks: the speed of training a recipe and of answering with a model, compared with the limits of the machine.

Training is measured by the rates that a run logs, without the first ones, which include compilation. There are two
limits: the time of the arithmetic at the rate of a large matrix product, and the time of reading the weights at the
rate of a large copy. Nothing that reads its weights from memory can take less than the larger of them.
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

NEVER_STEP = 10**12  # a step that is never reached
BATCHES = (1, 8, 64)
SENTENCE_TOKENS = 100  # tokens of a sentence, to estimate its FLOPs
ADAM_BYTES = 28  # bytes that Adam reads and writes for each weight


@dataclass(frozen=True)
class Limits:
    """The measured peak rates of a device."""

    device: str
    operations: float
    """Floating-point operations a second, in a large matrix product of the type that training uses."""
    bytes: float
    """Bytes read and written a second, in a large copy."""


@dataclass(frozen=True)
class Speed:
    """One measurement: its rate, its time, and the least time that the limits allow."""

    what: str
    rate: float
    unit: str
    milliseconds: float
    least: float
    """The least milliseconds for a program that reads its weights from the memory of the device."""
    memory: int | None = None
    """Peak memory on the device, in bytes."""

    @property
    def share(self) -> float:
        """Return the fraction of the hardware limit that was reached: least possible time / measured time."""
        return self.least / self.milliseconds


def measure_limits(device: torch.device) -> Limits:
    """Measure the peak compute and memory bandwidth of a device by a large matrix product and a large copy."""
    dtype = devices.precision(device)
    size = 8192 if device.type == "cuda" else 1024
    first, second = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    source = torch.randn(1 << (28 if device.type == "cuda" else 24), device=device)
    target = torch.empty_like(source)
    product = _median_seconds(lambda: first @ second, device)
    copy = _median_seconds(lambda: target.copy_(source), device)
    name = f"{device}, {torch.get_num_threads()} threads"
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    return Limits(name, 2 * size**3 / product, 2 * source.nbytes / copy)


def measure_training(settings: Mapping[str, Any], bounds: Limits, *, steps: int) -> Speed:
    """Time a number of steps of a recipe, in a temporary folder."""
    task, _ = recipe.resolve(settings)
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    with tempfile.TemporaryDirectory() as folder:
        run_folder = Path(folder) / "run"
        outcome = recipe.train(_short_settings(settings, steps), out=run_folder, quiet=True)
        lines = (run_folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        model = recipe.resolve(recipe.settings(run_folder / "config.yaml"))[1].model
        num_weights = sum(tensor.numel() for tensor in checkpoint.read(outcome.best).tensors().values())
    records = [record for record in map(json.loads, lines) if record["kind"] == "training"]
    counts = outcome.result.counts
    unit = "tokens" if "tokens" in counts else next(iter(counts))  # pictures, frames or rows of a table
    rate = statistics.median(record[f"{unit}_per_second"] for record in records[len(records) // 2 :])
    units_per_step = counts[unit] / outcome.result.step
    least = 0.0
    if not task.updates_itself:  # such a task has neither matrix products nor Adam
        operations = 3 * cost.forward(model, SENTENCE_TOKENS) * units_per_step
        least = max(operations / bounds.operations, ADAM_BYTES * num_weights / bounds.bytes)
    memory = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None
    return Speed("training", rate, unit, 1000 * units_per_step / rate, 1000 * least, memory)


def _short_settings(settings: Mapping[str, Any], steps: int) -> dict[str, Any]:
    """Return the settings of a short run without evaluations and checkpoints, compiled as a long one would be."""
    task, resolved = recipe.resolve(settings)
    training: dict[str, Any] = {
        "steps": steps,
        "log_every": max(1, steps // 20),
        "eval_every": NEVER_STEP,
        "save_every": NEVER_STEP,
        "average": 0,
    }
    training |= {"epochs": None, "seconds": None, "patience": None, "tensorboard": False}
    if config.plain(resolved.training).get("compile") == "auto":
        training["compile"] = "on"
    return merge_settings(settings, {"training": training, **task.brief})


def measure_answers(trained: Any, inputs: Sequence[Any], bounds: Limits, **options: Any) -> list[Speed]:
    """Time answers in batches of several sizes; models that generate are timed in tokens per second."""
    device = trained.runner.device
    if (timed := trained.extras.get("workloads")) is not None:
        workloads, unit = timed.call(inputs, BATCHES, **options), "tokens"
    else:
        workloads, unit = _answer_workloads(trained, inputs or _example_inputs(trained)), "answers"
    speeds = []
    for workload in workloads:
        seconds = _median_seconds(workload.action, device, repeats=3)
        memory = _peak_memory(workload.action, device)
        least = 1000 * workload.read / bounds.bytes
        speeds.append(Speed(workload.name, workload.tokens / seconds, unit, 1000 * seconds, least, memory))
    return speeds


def _answer_workloads(trained: Any, inputs: Sequence[Any]) -> Iterator[Workload]:
    """Yield answers in batches of several sizes, each of which reads all weights once."""
    weight_bytes = trained.runner.weights.bytes
    for batch in BATCHES:
        batch_inputs = [inputs[number % len(inputs)] for number in range(batch)]
        yield Workload(f"{trained.verb}, {batch} at a time", partial(trained.answer, batch_inputs), batch, weight_bytes)


def _example_inputs(trained: Any) -> Sequence[Any]:
    """Return example sentences for a model that reads sentences; for any other, inputs are required."""
    missing_inputs = ValueError(f"{trained.name} is {trained.kind}: give it inputs to answer, or -i FILE")
    if trained.inputs.kind.is_path or trained.inputs.read is not None:
        raise missing_inputs
    try:
        trained.answer(SENTENCES[:1])
    except ValueError:  # the model reads single words
        raise missing_inputs from None
    return SENTENCES


def _peak_memory(action: Callable[[], Any], device: torch.device) -> int | None:
    """Return the peak memory of a GPU during an action, in bytes."""
    if device.type != "cuda":
        return None
    torch.cuda.reset_peak_memory_stats(device)
    action()
    return torch.cuda.max_memory_allocated(device)


def _median_seconds(action: Callable[[], Any], device: torch.device, *, repeats: int = 10) -> float:
    """Return the median time of an action, after one run to warm up."""
    seconds = []
    for number in range(repeats + 1):
        start = time.perf_counter()
        action()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds += [time.perf_counter() - start] if number else []
    return statistics.median(seconds)
