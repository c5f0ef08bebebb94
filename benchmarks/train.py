"""Training speed of Transformer base on one GPU, beside Hugging Face's Marian on batches of the same lengths.

    python -m benchmarks.train --out results.json

Regard is measured as people use it: `regard.train` on two files, with its data, guard and log; the figure is the median
of what it writes into metrics.jsonl, without the first windows, in which it compiles.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks import corpus, marian
from regard import bench

WATCHED = 10  # steps in a profile
SETTINGS: dict[str, Any] = {
    "tokenizer": {"kind": "words", "vocab": 32_768, "min_frequency": 1},
    "model": {"preset": "base"},
    "objective": {"eval_examples": 1, "samples": 1},
    "optim": {"learning_rate": 1e-4, "warmup": 4000},
}


def main() -> None:
    """Measure, print a line each, and write all of it as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("train.json"))
    parser.add_argument("--pairs", type=int, default=200_000)
    parser.add_argument("--tokens", type=int, default=20_480)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--peers", default="compiled", help="comma-separated: compiled, eager, none")
    parser.add_argument("--recipe", type=Path, help="measure this recipe instead of Transformer base")
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    found = bench.measure_limits(torch.device("cuda"))
    rates = {"tflops": round(found.operations / 1e12, 1), "terabytes_per_second": round(found.bytes / 1e12, 2)}
    results: dict[str, Any] = {"limits": {"device": found.device, "torch": str(torch.__version__), **rates}}
    print(json.dumps(results["limits"]), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        results["regard"] = regard(Path(folder), arguments)
    print(json.dumps(results["regard"]), flush=True)
    results["peers"] = []
    for kind in arguments.peers.split(","):
        if kind != "none":
            peer = marian.measure(corpus.lengths(40_000), compiled=kind == "compiled")
            peer["regard_is_faster_by"] = round(results["regard"]["tokens_per_second"] / peer["tokens_per_second"], 2)
            results["peers"].append(peer)
            print(json.dumps(peer), flush=True)
    arguments.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def settings_of(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """What to train: a recipe, or Transformer base on pairs of random words."""
    from regard import recipe

    if arguments.recipe is not None:
        settings = recipe.settings(arguments.recipe)
    else:
        source, target = corpus.write(folder, arguments.pairs)
        data = {"train": {"source": str(source), "target": str(target)}, "max_length": 128, "validation_size": 50}
        settings = {**SETTINGS, "data": {**data, "batch_tokens": arguments.tokens}}
    short = {
        "steps": arguments.steps,
        "log_every": 20,
        "eval_every": 10**6,
        "save_every": 10**6,
        "average": 0,
        "tensorboard": False,
    }
    short["compile"] = "on"  # as in a run of many steps
    return {**settings, "training": {**settings.get("training", {}), **short}}


def regard(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Regard's own speed."""
    from regard import recipe

    settings = settings_of(folder, arguments)
    torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    with profiled(arguments.steps) if arguments.profile else contextlib.nullcontext():
        outcome = recipe.train(settings, out=folder / "run", quiet=True)
    seconds = time.perf_counter() - began
    records = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    speeds = [record["tokens_per_second"] for record in records if record["kind"] == "training"]
    found = {
        "name": "Regard",
        "tokens_per_second": round(statistics.median(speeds[len(speeds) // 2 :])),
        "tokens_per_step": round(outcome.result.counts["tokens"] / outcome.result.step),
        "peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 1),
        "seconds": round(seconds, 1),
        "loss": records[-1].get("loss"),
        "windows": [round(speed) for speed in speeds],
    }
    found["ms_per_step"] = round(1000 * found["tokens_per_step"] / found["tokens_per_second"], 2)
    return found


@contextlib.contextmanager
def profiled(steps: int) -> Iterator[None]:
    """Watch a few of the last steps, and print where their time went on the device and on the host."""
    from torch.profiler import ProfilerActivity, profile

    from regard.training.loop import _Loop

    watcher, step = profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]), _Loop.step

    def watched(loop: _Loop) -> None:
        done = loop.books.progress.step - steps
        if done == -2 * WATCHED:
            torch.cuda.synchronize()
            watcher.start()
        step(loop)
        if done == -WATCHED - 1:
            torch.cuda.synchronize()
            watcher.stop()

    _Loop.step = watched  # type: ignore[method-assign]
    yield
    _Loop.step = step  # type: ignore[method-assign]
    averages = watcher.key_averages()
    print(averages.table(sort_by="self_cuda_time_total", row_limit=40, max_name_column_width=90))
    print(averages.table(sort_by="self_cpu_time_total", row_limit=25, max_name_column_width=60))


if __name__ == "__main__":
    main()
