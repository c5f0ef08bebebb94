"""Vectors and speed of an imported sentence encoder beside sentence-transformers, in one run on the same texts.

    pip install sentence-transformers
    python benchmarks/embedding.py all-MiniLM-L6-v2 runs/minilm texts.txt --count 500 --threads 2

Both are timed by turns; seconds are those of the clock and of the processor, the lowest of all rounds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard import recipe
from regard.tasks.embedding.embedder import Embedder


def main() -> None:
    """The largest difference of two vectors, then the seconds of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("theirs", "ours", "texts"):
        parser.add_argument(name)
    parser.add_argument("--count", type=int, default=500, help="lines that are embedded")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    from sentence_transformers import SentenceTransformer

    with Path(asked.texts).open(encoding="utf-8") as file:
        texts = [line.rstrip("\n") for line in islice(file, asked.count)]
    theirs, own = SentenceTransformer(asked.theirs, device="cpu"), Embedder.load(recipe.open_model(asked.ours))
    both = {
        "sentence-transformers": lambda: theirs.encode(texts, batch_size=32, show_progress_bar=False),
        "regard": lambda: own.embed(texts),
    }
    first, second = (each() for each in both.values())
    print(f"{len(texts)} texts, largest difference {np.abs(first - second).max():.2g}")
    for name, (clock, processor) in fastest(both, asked.rounds).items():
        print(f"{name}: {clock:.2f} s, {processor:.2f} s of the processor")


def fastest(both: dict[str, Callable[[], Any]], rounds: int) -> dict[str, tuple[float, float]]:
    """The lowest seconds of each, by the clock and by the processor."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in both}
    for _ in range(rounds):
        for name, action in both.items():
            clock, processor = time.perf_counter(), time.process_time()
            action()
            found[name].append((time.perf_counter() - clock, time.process_time() - processor))
    return {name: (min(one for one, _ in times), min(two for _, two in times)) for name, times in found.items()}


if __name__ == "__main__":
    main()
