"""Tiny real tasks to train: a regression with dropout, and two networks that pull at each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn

from regard import checkpoint
from regard.training import run as runs
from regard.training.loop import Evaluation, Result, Step, TrainingConfig, fit
from regard.training.optim import OptimConfig
from regard.training.run import Run
from regard.training.task import Learner, alone

SIZE = 4  # examples in a row


class Regression(Learner):
    """y = Wx + noise, learnt by a perceptron with dropout; an epoch is three rows in an order of its own."""

    goal: tuple[str, Literal["max", "min"]] = ("loss", "min")

    def __init__(self, *, dropout: float = 0.1, rows: int = 3, size: int = SIZE) -> None:
        torch.manual_seed(1)
        self.model: nn.Module = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Dropout(dropout), nn.Linear(5, 2))
        generator = torch.Generator().manual_seed(2)
        self.inputs = torch.randn(rows * size, 3, generator=generator)
        self.targets = self.inputs @ torch.randn(3, 2, generator=generator)
        self.rows, self.size = rows, size
        self.scores: Iterator[float] | None = None

    def batch(self, row: int) -> tuple[Tensor, Tensor]:
        epoch, place = divmod(row, self.rows)
        order = torch.randperm(self.rows, generator=torch.Generator().manual_seed(epoch))
        first = int(order[place]) * self.size
        return self.inputs[first : first + self.size], self.targets[first : first + self.size]

    def step(self, batch: tuple[Tensor, Tensor], part: str) -> Step:
        inputs, targets = batch
        loss = (self.model(inputs) - targets).square().sum()
        return Step(loss=loss, weight=len(inputs), counts={"tokens": len(inputs)})

    def evaluate(self, spread: Any = alone) -> Evaluation:
        loss = float((self.model(self.inputs) - self.targets).square().mean())
        if self.scores is not None:
            loss = next(self.scores)
        return Evaluation(metrics={"loss": loss}, samples=[{"source": "a", "answer": "b"}])

    def contents(self) -> dict[str, Any]:
        return {"config.yaml": {"task": "regression"}, "README.md": "# A regression\n"}


class Rivals(Regression):
    """One network draws points, the other tells them from real ones: two optimizers in turn."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        torch.manual_seed(3)
        self.judge, self.artist = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.2), nn.Linear(4, 1)), nn.Linear(2, 3)
        self.model = nn.ModuleDict({"judge": self.judge, "artist": self.artist})

    def parts(self) -> dict[str, list[nn.Parameter]]:
        return {"judge": list(self.judge.parameters()), "artist": list(self.artist.parameters())}

    def step(self, batch: tuple[Tensor, Tensor], part: str) -> Step:
        real, _ = batch
        drawn = self.judge(self.artist(torch.randn(len(real), 2)))
        softplus = nn.functional.softplus
        loss = softplus(-drawn).sum() if part == "artist" else (softplus(drawn) + softplus(-self.judge(real))).sum()
        return Step(loss=loss, weight=float(len(real)), counts={"tokens": len(real)})

    def evaluate(self, spread: Any = alone) -> Evaluation:
        return Evaluation(metrics={"loss": float(self.judge(self.inputs).mean())})


@pytest.fixture(autouse=True)
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody pulls the plug during these tests, so they need not wait for the disk."""
    monkeypatch.setattr(checkpoint.Disk, "sync", lambda disk, path: None)


@pytest.fixture
def regression() -> type[Regression]:
    return Regression


@pytest.fixture
def rivals() -> type[Rivals]:
    return Rivals


Train = Callable[..., tuple[Result, Run]]


@pytest.fixture
def train(tmp_path: Path) -> Train:
    """Trains a task quietly in a folder under the test's own; settings are those of the training."""

    def run_it(
        task: Any,
        name: str = "run",
        *,
        resume: bool = False,
        optim: Any = None,
        **settings: Any,
    ) -> tuple[Result, Run]:
        defaults = {"steps": 6, "log_every": 2, "eval_every": 3, "save_every": 2, "device": "cpu", "tensorboard": False}
        config = TrainingConfig(**(defaults | settings))
        run = runs.start(tmp_path / name, settings={"model": {"width": 5}}, resume=resume)
        with run.log(quiet=True) as log:
            return fit(task, config, optim or OptimConfig(learning_rate=0.05, warmup=2), run, log=log), run

    return run_it
