"""How fast and how frugal the model in the box translates, asked as a user asks: through `regard.load(...).translate`.

    python -m benchmarks.translate [--device cuda] [--out FILE]

Each case runs in a process of its own; `first` gets an empty cache of kernels. Figures are medians in the steady state.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).parent.parent / "regard" / "samples"
TATOEBA, EVERYDAY = SAMPLES / "tatoeba-fra-eng.test.tsv.gz", SAMPLES / "everyday.tsv"
SHORT = "Where is the station?"
EVALUATIONS = 20
EARLY = 120  # short sentences that a GPU translates before the 128th, for which it compiles kernels


def sentences(count: int, sample: Path = TATOEBA) -> list[str]:
    """Return so many English sentences of a sample, from its beginning again after its end."""
    content = sample.read_bytes()
    lines = (gzip.decompress(content) if sample.suffix == ".gz" else content).decode().splitlines()
    texts = [line.split("\t")[0] for line in lines]
    return [texts[number % len(texts)] for number in range(count)]


def first(device: str) -> dict[str, float]:
    """Seconds to import and load, and to the first answer after that."""
    began = time.perf_counter()
    import regard

    translator = regard.load(device=device)
    loaded = time.perf_counter()
    translator.translate(SHORT, to="fr")
    return {"load_s": loaded - began, "first_s": time.perf_counter() - loaded}


def short(device: str) -> dict[str, float]:
    """Milliseconds for one short sentence, among the first ones and in the steady state."""
    import regard

    translator = regard.load(device=device)
    often, early = (200, EARLY) if device == "cuda" else (20, 20)
    first_times = timed(lambda: translator.translate(SHORT, to="fr"), warm=1, runs=early)
    times = timed(lambda: translator.translate(SHORT, to="fr"), warm=often, runs=often)
    steady = {"median_ms": 1000 * statistics.median(times), "best_ms": 1000 * min(times)}
    return {"early_median_ms": 1000 * statistics.median(first_times), **steady}


def many(device: str, count: int, sample: Path = TATOEBA) -> dict[str, float]:
    """Sentences a second, so many at a time."""
    import regard

    translator, texts = regard.load(device=device), sentences(count, sample)
    times = timed(lambda: translator.translate(texts, to="fr"), warm=5, runs=7)
    return {"sentences_per_second": count / statistics.median(times), "best": count / min(times)}


def memory(device: str) -> dict[str, float]:
    """Megabytes of the device after 2 and after 20 evaluations, the weights having changed before each."""
    import torch

    import regard

    translator, after = regard.load(device=device), []
    for _ in range(EVALUATIONS):
        with torch.no_grad():
            for weight in translator.model.parameters():
                weight.mul_(1.0)
        translator.translate(sentences(64), to="fr")
        if device == "cuda":
            torch.cuda.synchronize()
            after.append(torch.cuda.memory_allocated() / 2**20)
    return {"after_2_MB": after[1], "after_20_MB": after[-1]} if after else {}


def timed(work: Callable[[], Any], *, warm: int, runs: int) -> list[float]:
    """Seconds of each run after the warm ones; an answer is text on the host, so nothing is left to wait for."""
    for _ in range(warm):
        work()
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return times


CASES: dict[str, Callable[[str], dict[str, float]]] = {
    "first": first,
    "short": short,
    "64 at a time": lambda device: many(device, 64),
    "512 at a time": lambda device: many(device, 512),
    "200 everyday sentences at a time": lambda device: many(device, 200, EVERYDAY),
    "memory": memory,
}


def main() -> None:
    """Every case in a process of its own, or the one that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--case", choices=CASES)
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(CASES[arguments.case](arguments.device)))
        return
    found = {}
    for name in CASES:
        with tempfile.TemporaryDirectory() as empty:
            caches = {"TRITON_CACHE_DIR": empty} if name == "first" else {}
            command = [sys.executable, "-m", "benchmarks.translate", "--device", arguments.device, "--case", name]
            done = subprocess.run(command, env=os.environ | caches, capture_output=True, text=True, check=True)
        found[name] = json.loads(done.stdout.splitlines()[-1])
        print(f"{name}: {found[name]}", flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
