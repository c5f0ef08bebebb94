"""Batches come apart and together again, rows made ahead are the rows asked for, and a replay is what it replays."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.decoding import graphs
from regard.training import graphs as capture
from regard.training.graphs import fill_batch, layout, replace_gradients, tensors
from regard.training.loop import TrainingConfig, fit
from regard.training.optim import OptimConfig, on_device
from regard.training.prefetch import Prefetch
from regard.training.task import Evaluation, Learner, Step, alone

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@dataclass(frozen=True)
class Inner:
    values: Tensor
    bound: int


@dataclass(frozen=True)
class Batch:
    inputs: Tensor
    inner: Inner
    more: tuple[Tensor, Tensor]

    def to(self, device: Any) -> Batch:
        inner = Inner(self.inner.values.to(device), self.inner.bound)
        return Batch(self.inputs.to(device), inner, (self.more[0].to(device), self.more[1].to(device)))


def batch(bound: int = 3, size: int = 4) -> Batch:
    return Batch(torch.arange(size), Inner(torch.ones(2, size), bound), (torch.zeros(1), torch.ones(2)))


def test_a_batch_comes_apart_and_together_again() -> None:
    one = batch()
    parts = tensors(one)
    assert [part.shape for part in parts] == [(4,), (2, 4), (1,), (2,)]
    other = fill_batch(one, iter([part + 1 for part in parts]))
    assert type(other) is Batch
    assert other.inner.bound == 3
    assert all(a.equal(b + 1) for a, b in zip(tensors(other), parts, strict=True))


def test_what_is_not_a_tensor_belongs_to_the_layout() -> None:
    assert layout(batch(3)) == layout(batch(3))
    assert layout(batch(3)) != layout(batch(4))
    assert hash(layout(batch())) == hash(layout(batch()))


def test_gradients_take_the_place_of_those_there_were() -> None:
    used, unused, other = (nn.Parameter(torch.tensor([2.0, 3.0])) for _ in range(3))
    for parameter in (used, unused, other):
        parameter.grad = torch.tensor([100.0, 200.0])
    places = [parameter.grad.data_ptr() for parameter in (used, unused, other) if parameter.grad is not None]

    def work() -> Step:
        loss = (used * other * used).sum()
        loss.backward()
        return Step(loss=loss.detach(), weight=1)

    assert float(replace_gradients([used, unused], work).loss) == 35
    gradients = [parameter.grad for parameter in (used, unused, other) if parameter.grad is not None]
    assert [each.tolist() for each in gradients] == [[8, 18], [0, 0], [104, 209]], "that of the other was added to"
    assert [each.data_ptr() for each in gradients] == places, "what is recorded reads them where they were"


def test_gradients_are_where_they_were_when_the_work_fails() -> None:
    weight = nn.Parameter(torch.ones(2))
    weight.grad = place = torch.ones(2)

    def work() -> Step:
        weight.sum().backward()
        raise torch.OutOfMemoryError

    with pytest.raises(torch.OutOfMemoryError):
        replace_gradients([weight], work)
    assert weight.grad is place


def test_rows_made_ahead_are_those_asked_for() -> None:
    made: list[int] = []

    def make(row: int) -> int:
        made.append(row)
        return 10 * row

    ahead = Prefetch(make, torch.device("cpu"))
    assert ahead.take([0, 1], then=[2, 3]) == [0, 10]
    assert ahead.take([5]) == [50]
    assert made == [0, 1, 5], "on a CPU nothing is made that nobody asked for"
    ahead.close()


@pytest.fixture
def threaded() -> Iterator[tuple[Prefetch, list[tuple[int, str]]]]:
    """Rows made by the thread that serves a GPU, here without one, and who made which."""
    made: list[tuple[int, str]] = []

    def make(row: int) -> int:
        made.append((row, threading.current_thread().name))
        if row == 13:
            raise ValueError("row 13 is broken")
        return 10 * row

    ahead = Prefetch(make, torch.device("cpu"))
    ahead.pool = ThreadPoolExecutor(1, "ahead")
    yield ahead, made
    ahead.close()


def test_the_thread_makes_what_comes_next_once_and_in_the_background(
    threaded: tuple[Prefetch, list[tuple[int, str]]],
) -> None:
    ahead, made = threaded
    assert ahead.take([0, 1], then=[2, 3]) == [0, 10]
    for future in ahead.waiting.values():
        future.result(timeout=3600)
    assert [row for row, _ in made] == [0, 1, 2, 3], "what comes next is made before it is asked for"
    assert ahead.take([2, 3], then=[4]) == [20, 30]
    assert ahead.take([9], then=[]) == [90]  # 4 was made in vain
    assert sorted(row for row, _ in made) == [0, 1, 2, 3, 4, 9], "nothing is made twice"
    assert all(name.startswith("ahead") for _, name in made)


def test_a_row_that_fails_in_the_background_fails_where_it_is_asked_for(
    threaded: tuple[Prefetch, list[tuple[int, str]]],
) -> None:
    ahead, _ = threaded
    assert ahead.take([12], then=[13]) == [120]
    with pytest.raises(ValueError, match="row 13 is broken"):
        ahead.take([13])


class Sums(Learner):
    """A network with dropout that learns sums of rows of numbers, in two shapes of batch."""

    goal = ("loss", "min")
    rows = 10

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 1))

    def batch(self, row: int) -> Batch:
        generator = torch.Generator().manual_seed(row)
        size = 16 if row % 3 else 24
        values = torch.randn(size, 8, generator=generator)
        return Batch(torch.arange(size), Inner(values, size), (torch.zeros(1), torch.zeros(1)))

    def step(self, batch: Batch, part: str) -> Step:
        values = batch.inner.values
        loss = (self.model(values).squeeze(-1) - values.sum(-1)).square().sum()
        return Step(loss=loss, weight=len(values), counts={"rows": len(values)})

    def evaluate(self, spread: Any = alone) -> Evaluation:
        return Evaluation(metrics={"loss": 0.0})


def test_a_number_is_put_on_the_device_as_it_is() -> None:
    place = torch.device("cpu")
    for given in (7, 7.0, torch.tensor(7), torch.tensor(7.0, dtype=torch.float64)):
        found = on_device(given, place)
        assert found.dtype == torch.float32
        assert found.equal(torch.tensor(7.0))
    assert on_device(torch.tensor([1.0, 2.0]), place).tolist() == [1.0, 2.0]


@CUDA
@pytest.mark.parametrize("rows", [1, 2])
def test_a_replayed_training_is_the_same_to_the_bit(rows: int, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.training import run as runs

    ends = []
    for most in (32, 0):
        monkeypatch.setattr(capture, "MOST", most)
        if not most:
            monkeypatch.setattr(graphs, "captures", lambda device: False)
        task = Sums()
        run = runs.start(tmp_path / str(most), settings={}, command="", data={})
        config = TrainingConfig(
            steps=40, accumulate=rows, log_every=10, eval_every=40, save_every=40, device="cuda", tensorboard=False
        )
        with run.log(quiet=True) as log:
            fit(task, config, OptimConfig(learning_rate=1e-2, warmup=1), run, log=log)
        ends.append([parameter.detach().cpu() for parameter in task.model.parameters()])
    assert all(a.equal(b) for a, b in zip(*ends, strict=True))
    assert not ends[0][0].equal(next(iter(Sums().model.parameters())))


class Pinned(Batch):
    """A batch whose way to the device nobody waits for."""

    def to(self, device: Any) -> Batch:
        moved = [each.pin_memory().to(device, non_blocking=True) for each in tensors(self)]
        return fill_batch(Batch(self.inputs, self.inner, self.more), iter(moved))


class PinnedSums(Sums):
    def batch(self, row: int) -> Batch:
        return Pinned(**vars(super().batch(row)))


@CUDA
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_no_step_waits_for_the_device(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.training import loop
    from regard.training import run as runs

    own, seen = loop._Loop._update, []

    def watched(self: Any, part: str, number: int, pieces: Any) -> None:
        recorded = self.books.progress.step > 15  # every shape has been met and recorded
        torch.cuda.set_sync_debug_mode("error" if recorded else "default")
        try:
            own(self, part, number, pieces)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        seen.append(recorded)

    monkeypatch.setattr(loop._Loop, "_update", watched)
    run = runs.start(tmp_path / "run", settings={}, command="", data={})
    config = TrainingConfig(steps=40, log_every=100, eval_every=100, save_every=100, device="cuda", tensorboard=False)
    with run.log(quiet=True) as log:
        fit(PinnedSums(), config, OptimConfig(learning_rate=1e-2, warmup=1), run, log=log)
    assert sum(seen) == 25
