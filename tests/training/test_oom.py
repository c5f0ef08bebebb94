"""Rows that do not fit the memory: split and redone, with the gradient of the whole."""

import gc
from dataclasses import asdict
from typing import Any

import pytest
import torch

from regard.training.loop import Step
from regard.training.oom import Piece, is_out_of_memory, run_within_memory
from regard.training.optim import OptimConfig
from regard.training.task import Learner
from tests.training.lines import Lines, Narrow, Numbered, close, counted, ending, equal, state

PLAIN = OptimConfig(name="sgd", learning_rate=0.05, schedule="constant", warmup=0)  # weights that tell the gradients


def said(run: Any) -> str:
    return (run.folder / "train.log").read_text()


@pytest.mark.parametrize("when", ["forward", "backward"])
@pytest.mark.parametrize(("most", "splits"), [(4, 1), (3, 3), (1, 7)])
def test_a_row_that_does_not_fit_is_halved_and_gives_the_same_gradient(
    when: str, most: int, splits: int, train: Any
) -> None:
    settings = {"accumulate": 2, "steps": 3, "optim": PLAIN}
    _, whole = train(Narrow(most=99, size=8, dropout=0.0), "whole", **settings)
    result, split = train(Narrow(most=most, when=when, size=8, dropout=0.0), "split", **settings)
    assert close(state(split, 3), state(whole, 3))
    assert result.faults.split == splits * 2 * 3
    assert counted(split) == asdict(result.faults)
    assert result.counts == {"tokens": 48.0}, "no example is counted twice"
    assert "step 1: row 0 (train.tsv:1, train.tsv:2, train.tsv:3 and 5 more) does not fit into memory: halved" in said(
        split
    )


def test_an_example_that_does_not_fit_alone_is_left_out_and_named(train: Any) -> None:
    class Long(Narrow):
        """One line of the corpus is too long for the machine."""

        def step(self, batch: Lines, part: str) -> Step:
            self.most = 0 if 6 in batch.numbers else 99
            return super().step(batch, part)

    class Without(Narrow):
        """A corpus that does not have that line."""

        def batch(self, row: int) -> Lines:
            batch = super().batch(row)
            return Lines(*(each[batch.numbers != 6] for each in batch))

    result, run = train(Long(most=99, dropout=0.0), "long", steps=3, optim=PLAIN)
    _, without = train(Without(most=99, dropout=0.0), "without", steps=3, optim=PLAIN)
    assert close(state(run, 3), state(without, 3))
    assert (result.faults.split, result.faults.dropped) == (2, 1)
    assert counted(run) == asdict(result.faults)
    assert "step 2: row 1 (train.tsv:7) does not fit into memory and cannot be halved: left out" in said(run)
    assert result.counts == {"tokens": 11.0}


def test_a_row_of_which_nothing_fits_changes_nothing(train: Any) -> None:
    class Never(Narrow):
        """A machine on which the second row does not fit at all."""

        def step(self, batch: Lines, part: str) -> Step:
            self.most = 0 if batch.numbers[0] in range(4, 8) else 99
            return super().step(batch, part)

    result, run = train(Never(most=99), steps=3, save_every=1, keep_every=1)
    assert equal(state(run, 2), state(run, 1))
    assert (result.faults.dropped, result.faults.skipped, result.step) == (4, 1, 3)
    assert "step 2: loss nan is not finite, no update; nothing was left of its rows" in said(run)


def test_where_most_does_not_fit_it_stops_with_a_reason(train: Any) -> None:
    result, run = train(Narrow(most=0), steps=50, failures=99)
    assert result.has_failed
    assert result.reason.startswith("out of memory: 12 examples in 3 steps do not fit alone: make rows")
    assert f" {result.reason}\n" in said(run)
    assert result.step == 3


def test_a_task_that_cannot_split_leaves_the_row_out(train: Any) -> None:
    class Whole(Narrow):
        """Rows are split and named as a learner does by itself: not at all."""

        split, origins = Learner.split, Learner.origins

    result, run = train(Whole(most=0), steps=4)
    assert (result.faults.split, result.faults.dropped) == (0, 4)
    assert "step 1: row 0 does not fit into memory and cannot be halved: left out" in said(run)


def test_other_errors_are_not_taken_for_a_lack_of_memory(train: Any) -> None:
    task = Numbered()
    task.step = lambda batch, part: torch.ones(2) @ torch.ones(3)  # type: ignore
    with pytest.raises(RuntimeError, match="inconsistent tensor size"):
        train(task)


def test_a_real_lack_of_memory_is_recognised() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 60, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory."))
    assert not is_out_of_memory(RuntimeError("CUDA error: device-side assert triggered"))


def test_what_a_failed_backward_has_added_is_forgotten() -> None:
    weight = torch.nn.Parameter(torch.zeros(()))

    def backward(piece: Piece) -> int:
        (weight * piece.batch).backward()
        if piece.batch > 2:
            raise torch.OutOfMemoryError("after the gradient was added")
        return piece.batch

    def forget() -> None:
        weight.grad = None

    pieces = [Piece(0, 1), Piece(1, 7), Piece(2, 2)]

    def halves(piece: Piece) -> list[int]:
        return [piece.batch // 2, piece.batch - piece.batch // 2]

    assert run_within_memory(pieces, backward, start=forget, split=halves) == [1, 1, 2, 2, 2, 2]
    assert weight.grad is not None
    assert weight.grad.item() == 10
    assert [(piece.row, piece.path) for piece in pieces][1:4] == [(1, (0, 0)), (1, (0, 1)), (1, (1, 0))]


def test_what_failed_is_let_go_before_the_next_attempt() -> None:
    held: list[Any] = []

    class Big:
        """Something large that a failing step holds on to."""

        def __init__(self) -> None:
            held.append(1)

        def __del__(self) -> None:
            held.pop()

    def backward(piece: Piece) -> None:
        big = Big()
        assert len(held) == 1, "the attempt before still holds its memory"
        if piece.batch > 1:
            raise torch.OutOfMemoryError(f"no room for {big}")

    run_within_memory([Piece(0, 4)], backward, start=lambda: None, split=lambda piece: [piece.batch // 2] * 2)
    assert not held


def test_every_part_of_a_row_has_a_seed_of_its_own(train: Any) -> None:
    class Noting(Narrow):
        """Keeps the seed of every part that fits."""

        def step(self, batch: Lines, part: str) -> Step:
            if len(batch.numbers) <= self.most:
                seeds.append((torch.initial_seed(), batch.numbers.tolist()))
            return super().step(batch, part)

    seeds: list[tuple[int, list[int]]] = []
    train(Noting(most=1, when="forward"), "first", steps=2)
    first, seeds = dict(seeds), []
    train(Noting(most=1, when="forward"), "second", steps=2)
    assert len(first) == 8
    assert dict(seeds) == first


def test_dropout_on_a_split_row_is_that_of_row_and_part_whenever_it_is_split(train: Any) -> None:
    settings = {"steps": 6, "save_every": 2, "optim": PLAIN}
    whole = ending(*train(Narrow(most=2, dropout=0.5), "whole", **settings))
    train(Narrow(most=2, dropout=0.5), "parts", **(settings | {"steps": 3}))
    result, parts = train(Narrow(most=2, dropout=0.5), "parts", resume=True, **settings)
    assert ending(result, parts)["state"] == whole["state"]
    _, other = train(Narrow(most=1, dropout=0.5), "other", **settings)
    assert not equal(state(other, 6), state(parts, 6)), "other parts drop other features"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_a_real_lack_of_memory_on_cuda_is_survived(train: Any) -> None:
    class Greedy(Numbered):
        """Needs a gigabyte for every example."""

        def step(self, batch: Lines, part: str) -> Step:
            step = super().step(batch, part)
            hungry = step.loss * torch.ones(len(batch.numbers) << 28, device="cuda")
            return Step(hungry.mean(), step.weight, step.counts)

    gc.collect()
    torch.cuda.empty_cache()  # of the tests before
    room = torch.cuda.memory_reserved() + 3.5 * 2**30
    torch.cuda.set_per_process_memory_fraction(room / torch.cuda.get_device_properties(0).total_memory)
    try:
        settings = {"device": "cuda", "compile": "off", "precision": "float32", "steps": 3, "optim": PLAIN}
        result, run = train(Greedy(dropout=0.0), "split", **settings)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert result.faults.split >= 3
    assert result.faults.dropped == 0
    _, whole = train(Greedy(dropout=0.0), "whole", **settings)
    assert close(state(run, 3), state(whole, 3), 1e-5)
