"""A tiny real task whose examples have places and whose rows can be split, with data as bad as a test wants it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard import checkpoint
from regard.models.parts.batch_norm import RunningNorm
from regard.training.loop import Evaluation, Step
from regard.training.resume import NUMBERS, TENSORS
from regard.training.task import alone
from tests.training.conftest import Regression


class Lines(NamedTuple):
    """Some lines of a file."""

    inputs: Tensor
    targets: Tensor
    numbers: Tensor


class Numbered(Regression):
    """A regression on the lines of `train.tsv`; the first line of the rows in `bad` holds the value `hurt`."""

    def __init__(self, *, bad: Iterable[int] = (), hurt: float = float("inf"), rows: int = 200, **settings: Any):
        super().__init__(rows=rows, **settings)
        self.bad, self.hurt = frozenset(bad), hurt

    def batch(self, row: int) -> Lines:
        first = row % self.rows * self.size
        numbers = torch.arange(first, first + self.size)
        targets = self.targets[numbers]
        if row in self.bad:
            targets[0, 0] = self.hurt
        return Lines(self.inputs[numbers], targets, numbers)

    def step(self, batch: Lines, part: str) -> Step:
        return super().step((batch.inputs.to(self.device), batch.targets.to(self.device)), part)

    def evaluate(self, spread: Any = alone) -> Evaluation:
        self.inputs, self.targets = self.inputs.to(self.device), self.targets.to(self.device)
        evaluation = super().evaluate()
        self.inputs, self.targets = self.inputs.cpu(), self.targets.cpu()
        return evaluation

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def origins(self, batch: Lines) -> list[str]:
        return [f"train.tsv:{int(number) + 1}" for number in batch.numbers]

    def split(self, batch: Lines) -> list[Lines]:
        half = (len(batch.numbers) + 1) // 2
        halves = [Lines(*(each[:half] for each in batch)), Lines(*(each[half:] for each in batch))]
        return [each for each in halves if len(each.numbers)]


class Normed(Numbered):
    """The same with a norm that has running statistics."""

    def __init__(self, **settings: Any):
        super().__init__(**settings)
        first, *others = self.model
        first.bias = None  # a norm takes it away again: its gradient would be nothing but rounding
        self.model = nn.Sequential(first, RunningNorm(first.out_features), *others)

    def parts(self) -> dict[str, list[nn.Parameter]]:
        return {"model": list(self.model.parameters())}


class Narrow(Numbered):
    """A machine on which rows of more than `most` examples fail, in the forward or half-way through the backward."""

    def __init__(self, *, most: float, when: str = "backward", **settings: Any):
        super().__init__(**settings)
        self.most, self.when = most, when
        self.model = nn.Sequential(*list(self.model)[:2], Full(self), *list(self.model)[2:])

    def parts(self) -> dict[str, list[nn.Parameter]]:
        return {"model": list(self.model.parameters())}


class Full(nn.Module):
    """The layer at which the memory ends."""

    def __init__(self, task: Narrow) -> None:
        super().__init__()
        self.task = [task]  # not a submodule

    def forward(self, hidden: Tensor) -> Tensor:
        if self.training and len(hidden) > self.task[0].most:
            if self.task[0].when == "forward":
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
            hidden.register_hook(_refuse)  # by then the layers behind have added their gradients
        return hidden


def _refuse(gradient: Tensor) -> None:
    raise RuntimeError("[enforce fail at alloc_cpu.cpp:119] err == 0. DefaultCPUAllocator: can't allocate memory")


def state(run: Any, step: int) -> dict[str, Tensor]:
    """Weights and optimizer of a checkpoint."""
    found = checkpoint.read(run.directory(step))
    return {**found.tensors(), **found.tensors(TENSORS)}


def equal(found: dict[str, Tensor], expected: dict[str, Tensor]) -> bool:
    """Whether two states are the same to the bit."""
    return found.keys() == expected.keys() and all(torch.equal(found[name], expected[name]) for name in expected)


def close(found: dict[str, Tensor], expected: dict[str, Tensor], within: float = 1e-6) -> bool:
    """Whether two states differ by no more than the order in which numbers were added."""
    same = (torch.allclose(found[name], expected[name], rtol=0, atol=within) for name in expected)
    return found.keys() == expected.keys() and all(same)


def records(run: Any) -> list[dict[str, Any]]:
    """What metrics.jsonl says, but for how fast it was."""
    lines = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    timed = ("per_second", "seconds")
    return [{name: value for name, value in line.items() if not name.endswith(timed)} for line in lines]


def counted(run: Any) -> dict[str, int]:
    """The sums of all faults in metrics.jsonl."""
    names = ("skipped", "spikes", "split", "dropped", "rolled_back")
    return {name: sum(record.get(name, 0) for record in records(run)) for name in names}


def ending(result: Any, run: Any) -> dict[str, Any]:
    """Everything of a run that must not depend on where it was interrupted."""
    last = checkpoint.read(run.directory(run.steps()[-1]))
    numbers = last.json(NUMBERS)
    for name in ("seconds", "evaluating"):
        numbers["progress"].pop(name)
    best = {path.name: path.read_bytes() for path in run.best.glob("m[eo]*") if path.name != "manifest.json"}
    return {
        "state": {name: tensor.numpy().tobytes() for name, tensor in state(run, last.step).items()},
        "numbers": numbers,
        "steps": run.steps(),
        "best": best,
        "records": [record for record in records(run) if "failed" not in record],  # that is how it was interrupted
        "result": (result.step, result.reason, result.faults, result.counts, result.best),
    }


def said(run: Any) -> str:
    """The log of a run."""
    return (run.folder / "train.log").read_text()
