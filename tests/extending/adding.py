"""A task from outside the package: a small network learns to add the numbers in the lines of a file.

It imports nothing but what docs/extending.md declares public. Run as `python -m tests.extending.adding FILE FOLDER` it
trains, and is killed after its second checkpoint where KILLED is set.
"""

import hashlib
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

import regard
from regard.models.interface import Model, ModelConfig
from regard.training.callbacks import Callback
from regard.training.loop import TrainingConfig
from regard.training.optim import OptimConfig
from regard.training.task import Evaluation, Step, Task

HELD_OUT = 8  # lines at the end of a file
BATCH = 4  # lines in a row


@dataclass(frozen=True, kw_only=True)
class AdderConfig(ModelConfig):
    """A network with one hidden layer."""

    name: Literal["adder"] = "adder"
    inputs: int = 0
    width: int = 16

    def build(self) -> nn.Module:
        """Return the network, with weights drawn at random."""
        return Adder(self)


class Adder(Model):
    """`W2 tanh(W1 x)`, with dropout."""

    def __init__(self, config: AdderConfig) -> None:
        super().__init__()
        self.config = config
        self.hidden, self.output = nn.Linear(config.inputs, config.width), nn.Linear(config.width, 1)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        """Return one number for each line."""
        return self.output(self.dropout(self.hidden(x).tanh())).squeeze(-1)


@dataclass(frozen=True, kw_only=True)
class AddingData:
    """Which file: numbers between blanks, the sum of the others last."""

    train: str


@dataclass(frozen=True, kw_only=True)
class AddingRecipe:
    """All settings of a run."""

    task: Literal["adding"] = "adding"
    data: AddingData
    model: AdderConfig = field(default_factory=AdderConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)


class Numbers:
    """The numbers of a file, with what a run writes down of them."""

    def __init__(self, path: str) -> None:
        text = Path(path).read_text(encoding="utf-8")
        rows = torch.tensor([[float(word) for word in line.split()] for line in text.splitlines()])
        self.train, self.valid = rows[:-HELD_OUT], rows[-HELD_OUT:]
        fingerprint = hashlib.sha256(text.encode()).hexdigest()
        self.report = {"train": {"path": path, "lines": len(rows), "fingerprint": fingerprint}}
        self.summary = [f"{len(self.train)} lines to train on, {HELD_OUT} held out"]


class Adding(Task):
    """The task of adding numbers."""

    Recipe = AddingRecipe
    goal = ("error", "min")

    def __init__(self, recipe: AddingRecipe, data: Numbers, model: Adder, *, fixed: bool = False) -> None:
        super().__init__(recipe, data, model, fixed=fixed)
        self.rows = max(1, len(data.train) // BATCH)

    @staticmethod
    def prepare(recipe: AddingRecipe, known: Any = None) -> Numbers:
        """Read the file."""
        return Numbers(recipe.data.train)

    @staticmethod
    def default_settings(recipe: AddingRecipe, data: Numbers) -> Mapping[str, Any]:
        """Choose a small network for a short file."""
        return {"model": {"width": 8 if len(data.train) < 100 else 32}}

    @staticmethod
    def fill_sizes(recipe: AddingRecipe, data: Numbers) -> AddingRecipe:
        """Return the recipe with as many inputs as a line has numbers to add."""
        return replace(recipe, model=replace(recipe.model, inputs=data.train.shape[1] - 1))

    def batch(self, row: int) -> Tensor:
        """Return a few lines, in an order that is a function of the epoch."""
        epoch, place = divmod(row, self.rows)
        order = torch.randperm(len(self.data.train), generator=torch.Generator().manual_seed(epoch))
        return self.data.train[order[place * BATCH : (place + 1) * BATCH]]

    def step(self, batch: Tensor, part: str) -> Step:
        """Return the squared error, summed over lines."""
        error = (self.model(batch[:, :-1]) - batch[:, -1]).square().sum()
        return Step(loss=error, weight=len(batch), counts={"lines": len(batch)})

    def evaluate(self, spread: Any = None) -> Evaluation:
        """Measure the mean squared error on held-out lines."""
        error = (self.model(self.data.valid[:, :-1]) - self.data.valid[:, -1]).square().mean()
        return Evaluation({"error": float(error), "warmup": self.recipe.optim.warmup})


class Killer(Callback):
    """Kills the process after its second checkpoint."""

    saved = 0

    def on_checkpoint(self, folder: Path) -> None:
        """Count the checkpoints."""
        self.saved += 1
        if self.saved == 2:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    settings = {
        "data": {"train": sys.argv[1]},
        "training": {"steps": 12, "save_every": 3, "eval_every": 6, "device": "cpu"},
    }
    killers = [Killer()] if "KILLED" in os.environ else []
    regard.train(settings, task=Adding, out=sys.argv[2], callbacks=killers, quiet=True)
