"""Processor time of translators, by turns in one process: forty sentences at once, and some one by one.

python -m benchmarks.shipped regard/pretrained/en-fr OTHER [--threads 1] [--rounds 3]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import regard

SENTENCES = Path(regard.__file__).parent / "samples" / "everyday.tsv"
TOGETHER, ALONE = 40, 12


def main() -> None:
    """A line for every round, the seconds of each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="checkpoints, run folders or names")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    texts = [line.split("\t")[0] for line in SENTENCES.read_text(encoding="utf-8").splitlines()[:TOGETHER]]
    models = [regard.load(name, device="cpu") for name in asked.models]
    ways: dict[str, Callable[[Any], object]] = {
        f"{TOGETHER} at once": lambda model: model.translate(texts, to="fr"),
        f"{ALONE} one by one": lambda model: [model.translate(text, to="fr") for text in texts[:ALONE]],
    }
    for model in models:
        model.translate(texts[:4], to="fr")
    for name, way in ways.items():
        for _ in range(asked.rounds):
            print(f"{name:16}", *(f"{seconds(way, model):8.2f} s" for model in models), flush=True)


def seconds(way: Callable[[Any], object], model: Any) -> float:
    """Seconds of the processor that this takes."""
    begun = time.process_time()
    way(model)
    return time.process_time() - begun


if __name__ == "__main__":
    main()
