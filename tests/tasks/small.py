"""What tests of small tasks share: one row can be learnt by heart, and its halves add up."""

from typing import Any

import torch


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
