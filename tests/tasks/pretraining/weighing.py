"""Measure or train a GPT and tell the most memory held; run as a process of its own, one thing in each.

python weighing.py measure: how much measuring a GPT on made-up tokens adds to the peak, in megabytes.
python weighing.py prepare FILE: how much of what preparing a text took was freed and not given back, in megabytes.
python weighing.py train FILE OUT [SETTING ...]: what the command adds to the peak of its imports, in megabytes, and the
number of weights.
"""

import json
import sys
from pathlib import Path

import numpy as np

import regard.recipe
from regard.cli import run
from regard.config import build
from regard.data.memory import release_freed_memory
from regard.models.gpt import GPT, GPTConfig
from regard.tasks.pretraining.causal import CausalLM, CausalRecipe
from regard.tasks.pretraining.corpus import Corpus
from regard.tasks.pretraining.writer import BUDGET, surprise


def peak(name: str = "VmHWM") -> float:
    """Megabytes of this process at its largest; with VmRSS, now."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{name}:")[2].split()[0]) / 1024


def measure() -> dict[str, float]:
    """Measure a broad GPT of one block on as many tokens as are measured together."""
    config = GPTConfig(vocab=2000, width=256, heads=4, hidden=2048, depth=1, context=128)
    model = GPT(config)
    surprise(model, make_corpus(config.context, config.vocab), config.context)  # what is loaded once counts no further
    before = peak()
    surprise(model, make_corpus(BUDGET, config.vocab), config.context)
    return {"grown": peak() - before}


def make_corpus(length: int, vocab: int) -> Corpus:
    """One document of so many tokens."""
    tokens = np.random.default_rng(0).integers(0, vocab, length).astype(np.uint16)
    bounds, origins = np.array([0, length]), np.zeros((1, 2), np.int64)
    return Corpus(tokens, bounds, origins, ("a.txt",), 0, length, length, length)


def prepare(file: str) -> dict[str, float]:
    """Prepare a text as a training does."""
    CausalLM.prepare(build(CausalRecipe, {"data": {"train": {"path": file}}}))
    before = peak("VmRSS")
    release_freed_memory()
    return {"freed": before - peak("VmRSS")}


def train(file: str, out: str, *settings: str) -> dict[str, float]:
    """Train on a text as the command does."""
    before = peak()
    assert run(["train", "--text", file, "--out", out, *settings]) == 0
    weights = regard.recipe.load(Path(out)).model.parameters()
    return {"grown": peak() - before, "weights": sum(weight.numel() for weight in weights)}


if __name__ == "__main__":
    print(json.dumps({"measure": measure, "prepare": prepare, "train": train}[sys.argv[1]](*sys.argv[2:])))
