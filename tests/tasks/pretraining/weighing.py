"""Measure or train a GPT and tell the most memory held; run as a process of its own, one thing in each.

python weighing.py measure: how much measuring a GPT on made-up tokens adds to the peak, in megabytes.
python weighing.py prepare FILE: how much of what preparing a text took was freed and not given back, in megabytes.
python weighing.py learn: how much the gradients of many pieces of a row add to the peak of the first few.
python weighing.py train FILE OUT [SETTING ...]: what the command adds to the peak of its imports, in megabytes, and the
number of weights.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch

import regard.recipe
from regard.cli import run
from regard.config import build
from regard.data.memory import release_freed_memory
from regard.metrics.likelihood import count
from regard.models.gpt import GPT, GPTConfig
from regard.tasks.pretraining.causal import CausalLM, CausalRecipe
from regard.tasks.pretraining.corpus import Corpus
from regard.tasks.pretraining.learning import sum_cross_entropy
from regard.tasks.pretraining.rows import CausalBatch, Rows
from regard.tasks.pretraining.writer import BUDGET, measure_surprisal
from regard.training.microbatch import MicroBatches
from regard.training.task import Learner, Step


def peak(name: str = "VmHWM") -> float:
    """Megabytes of this process at its largest; with VmRSS, now."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{name}:")[2].split()[0]) / 1024


def measure() -> dict[str, float]:
    """Measure a broad GPT of one block on as many tokens as are measured together."""
    config = GPTConfig(vocab=2000, width=256, heads=4, hidden=2048, depth=1, context=128)
    model = GPT(config)
    measure_surprisal(
        model, make_corpus(config.context, config.vocab), config.context
    )  # what is loaded once counts no further
    before = peak()
    measure_surprisal(model, make_corpus(BUDGET, config.vocab), config.context)
    return {"grown": peak() - before}


def make_corpus(length: int, vocab: int) -> Corpus:
    """One document of so many tokens."""
    tokens = np.random.default_rng(0).integers(0, vocab, length).astype(np.uint16)
    bounds, origins = np.array([0, length]), np.zeros((1, 2), np.int64)
    return Corpus(tokens, bounds, origins, ("a.txt",), 0, length, length, length)


def learn() -> dict[str, float]:
    """Compute the gradients of a row in many pieces, each with logits of 20 MB."""
    torch.manual_seed(0)
    pieces = 24
    config = GPTConfig(vocab=20_000, width=64, heads=4, hidden=256, depth=2, context=256)
    learner = PiecewiseLearner(
        GPT(config), Rows(make_corpus(config.context * pieces, config.vocab), 256, 2 * pieces, 0)
    )
    peaks = []
    with MicroBatches(learner, torch.device("cpu"), torch.float32, seed=0) as rows:
        done = []
        for piece in rows.take([0]):
            done.append(rows.backward(piece, "model", 0))
            peaks.append(peak())
    assert len(done) == len(peaks) >= pieces, f"{len(done)} pieces"
    return {"grown": peaks[-1] - peaks[3]}


class PiecewiseLearner(Learner):
    """What a row of a GPT needs to be learnt window by window."""

    piece_tokens = 256

    def __init__(self, model: GPT, rows: Rows) -> None:
        self.model, self.batch = model, rows.batch

    def split(self, batch: CausalBatch) -> list[CausalBatch]:
        """Halves."""
        return batch.halves()

    def step(self, batch: CausalBatch, part: str) -> Step:
        """The surprise at every token."""
        loss = sum_cross_entropy(self.model, self.model(batch.tokens, layout=batch.row), batch.labels)
        return Step(loss, count(batch.labels))


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
    grown = peak() - before
    weights = regard.recipe.load(Path(out)).model.parameters()
    return {"grown": grown, "weights": sum(weight.numel() for weight in weights)}


if __name__ == "__main__":
    weigh = {"measure": measure, "learn": learn, "prepare": prepare, "train": train}[sys.argv[1]]
    print(json.dumps(weigh(*sys.argv[2:])))
