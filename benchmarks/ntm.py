"""Neural Turing Machines on one GPU: updates a second, recorded against eager, and wrong bits of trained runs.

    python -m benchmarks.ntm --out ntm.json
    python -m benchmarks.ntm --ways off record --recipe recipes/ntm-recall.yaml
    python -m benchmarks.ntm --ways --runs runs/ntm-copy-0 runs/ntm-copy-1 runs/ntm-copy-2 --lengths 20 80

The first takes the updates of a recipe as a run takes them, the same rows in each way: one kernel after the other
(off), recorded as CUDA graphs (record), one step of the sequence compiled and the whole recorded (on). Compiling and
recording are not in the time; how long they take is said beside it. The last counts wrong bits at each length, and
gives the median over the runs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from regard import models, recipe
from regard.training import device as devices
from regard.training.microbatch import MicroBatches
from regard.training.optim import Updates, build, update

WARM = 120  # updates after which every shape of rows was met twice, or nearly so
TIMED = 300


def main() -> None:
    """Measure, print a line each, and write all of it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--recipe", type=Path, default=Path("recipes/ntm-copy.yaml"))
    parser.add_argument("--ways", nargs="*", default=["off", "record", "on"], choices=["off", "record", "on"])
    parser.add_argument("--updates", type=int, default=TIMED)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--runs", type=Path, nargs="*", default=[])
    parser.add_argument("--lengths", type=int, nargs="*", default=[20, 80])
    parser.add_argument("--count", type=int, default=200, help="sequences of each length")
    parser.add_argument("--out", type=Path, default=None)
    asked = parser.parse_args()
    results: dict[str, Any] = {}
    for way in asked.ways:
        results[way] = timed(asked.recipe, way, devices.choose(asked.device), updates=asked.updates)
        print(json.dumps({way: results[way]}), flush=True)
    if "off" in results:
        for way in set(asked.ways) - {"off"}:
            results[way]["times_eager"] = round(results[way]["updates_per_s"] / results["off"]["updates_per_s"], 2)
            print(f"{way}: {results[way]['times_eager']} times as fast as eager")
    if asked.runs:
        results["bit errors"] = scored(asked.runs, asked.lengths, count=asked.count, device=asked.device)
        print(json.dumps(results["bit errors"], indent=1))
    if asked.out is not None:
        asked.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def timed(path: Path, way: Any, device: torch.device, *, updates: int) -> dict[str, Any]:
    """Updates a second of a recipe in one way, and how long it took until they were so fast."""
    settings = recipe.settings(path)
    task, asked = recipe.resolve(settings)
    data = task.prepare(asked, None)
    asked = task.resolve(settings, data)
    torch.manual_seed(0)
    learner = task(asked, data, models.build(asked.model).to(device).train(), fixed=True)
    optimizer = build(learner.parts()["model"], asked.optim)
    veto, total = torch.zeros((), dtype=torch.bool, device=device), WARM + updates
    begun = at = time.perf_counter()
    with MicroBatches(learner, device, torch.float32, seed=0, compiles=way) as rows:
        recorded = Updates(optimizer, clip=asked.training.clip, device=device) if rows.captured else None
        for number in range(total):
            if number == WARM:
                at = finished(device)
            rows.clear(optimizer)
            [piece] = rows.take([number], then=[number + 1, number + 2] if number + 2 < total else [])
            _, step = rows.backward(piece, "model", 0)
            if recorded is not None:
                recorded(step.weight, rate=1e-4, veto=veto)
            else:
                update(optimizer, step.weight, rate=1e-4, clip=asked.training.clip)
        end = finished(device)
        shapes = len(rows.captured.graphs) if rows.captured else 0
    return {
        "updates_per_s": round(updates / (end - at), 2),
        "seconds_before": round(at - begun, 1),
        "graphs": shapes,
        "sequences": asked.data.batch_size,
        "parameters": sum(parameter.numel() for parameter in learner.model.parameters()),
        "loss": round(float(step.loss) / float(step.weight), 4),
    }


def finished(device: torch.device) -> float:
    """The time at which the device has done all it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def scored(runs: list[Path], lengths: list[int], *, count: int, device: str) -> dict[str, Any]:
    """The share of wrong bits of each run at each length, and the median of all runs."""
    found: dict[str, dict[str, float]] = {}
    for run in runs:
        model = recipe.load(run, device=device)
        scores = {str(length): model.evaluate(length=length, count=count) for length in lengths}
        found[run.name] = {length: round(each.metrics["bit errors, share"], 6) for length, each in scores.items()}
    median = {str(length): statistics.median(one[str(length)] for one in found.values()) for length in lengths}
    return {**found, "median": median}


if __name__ == "__main__":
    main()
