"""What tests of small tasks share: a stop in between changes nothing, and one row can be learnt by heart."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from regard import checkpoint, recipe


def goes_on_to_the_same_bit(settings: Mapping[str, Any], folder: Path, *, steps: int, stop: int) -> None:
    """Train at once, and in two parts; weights and scores must be the same."""

    def train(name: str, *changes: str, **how: Any) -> recipe.Outcome:
        return recipe.train(recipe.settings(settings, *changes), out=folder / name, quiet=True, **how)

    whole = train("whole", f"training.steps={steps}")
    first = train("parts", f"training.steps={stop}")
    assert first.result.step == stop
    second = train("parts", f"training.steps={steps}", resume=True)
    assert second.result.step == steps
    ends = [checkpoint.read(out.folder / "checkpoints" / f"step-{steps}").tensors() for out in (whole, second)]
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])
    assert whole.metrics == second.metrics


def by_heart(task: Any, *, steps: int, rate: float = 0.01) -> float:
    """The loss of the first row after learning it alone."""
    optimizer = torch.optim.Adam(task.model.parameters(), rate)
    row = task.batch(0)
    for _ in range(steps):
        optimizer.zero_grad()
        step = task.step(row, "model")
        (step.loss / step.weight).backward()
        optimizer.step()
    return step.loss.item() / step.weight


def halves_add_up(task: Any) -> None:
    """Two halves of a row cost what the row costs, and so do their gradients."""
    task.model.eval()
    whole = task.step(task.batch(3), "model")
    halves = [task.step(half, "model") for half in task.split(task.batch(3))]
    assert len(halves) == 2
    torch.testing.assert_close(sum(half.loss for half in halves), whole.loss, rtol=1e-4, atol=1e-4)
    assert sum(half.weight for half in halves) == whole.weight
    parameters = task.parts()["model"]
    wanted = torch.autograd.grad(whole.loss, parameters)
    found = torch.autograd.grad(sum(half.loss for half in halves), parameters)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
