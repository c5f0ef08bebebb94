"""A small step takes one thread, and leaves the number as it was."""

import pytest
import torch

from regard.decoding import threads
from regard.decoding.generate import generate
from regard.models.gpt import GPT, GPTConfig


@pytest.fixture
def two():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def seen_in_steps(model):
    """How many threads each step of a text had."""
    seen, step = [], model.step
    model.step = lambda *given: seen.append(torch.get_num_threads()) or step(*given)
    generate(model, (torch.zeros(1, 2, dtype=torch.int64),), limit=4, eos=None)
    return seen


def test_a_small_step_takes_one_thread_and_a_large_one_all(two, monkeypatch):
    model = GPT(GPTConfig(vocab=7, width=8, heads=2, hidden=16, depth=1, context=16, dropout=0.0)).eval()
    assert threads.multiplications_per_row(model) == sum(weight.numel() for weight in model.parameters())
    assert seen_in_steps(model) == [1, 1, 1]
    assert torch.get_num_threads() == 2
    monkeypatch.setattr(threads, "LITTLE", threads.multiplications_per_row(model) - 1)
    assert seen_in_steps(model) == [2, 2, 2]


def fail():
    raise KeyError(torch.get_num_threads())


def test_what_fails_leaves_the_threads_as_they_were(two):
    with pytest.raises(KeyError, match="1"), threads.limit_threads(1):
        fail()
    assert torch.get_num_threads() == 2


def test_where_nobody_knows_the_work_nothing_is_changed(two):
    assert threads.multiplications_per_row(object()) is None
    with threads.limit_threads(None):
        assert torch.get_num_threads() == 2
