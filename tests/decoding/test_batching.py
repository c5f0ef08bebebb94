"""Batches of similar length lose nothing and give everything back in its place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.decoding.batching import by_length, by_width, in_order, round_up

lengths = st.lists(st.integers(0, 40), max_size=60)


@given(lengths=lengths, budget=st.integers(1, 120), size=st.none() | st.integers(1, 9))
def test_every_example_is_in_one_batch_within_the_budget(lengths, budget, size):
    batches = by_length(lengths, budget=budget, size=size)
    assert sorted(example for batch in batches for example in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[example] for example in batch) <= budget
        assert size is None or len(batch) <= size


@given(lengths=lengths, budget=st.integers(1, 120))
def test_batches_go_from_long_to_short(lengths, budget):
    flat = [lengths[example] for batch in by_length(lengths, budget=budget) for example in batch]
    assert flat == sorted(lengths, reverse=True)


@given(lengths=lengths, budget=st.integers(1, 120))
def test_answers_come_back_in_the_order_of_the_examples(lengths, budget):
    batches = by_length(lengths, budget=budget)
    answers = ([(example, lengths[example]) for example in batch] for batch in batches)
    assert in_order(batches, answers) == list(enumerate(lengths))


@given(lengths=lengths, room=st.integers(1, 200), most=st.integers(1, 20), step=st.integers(1, 16))
def test_batches_by_width_have_one_size_for_each_width_and_lose_nothing(lengths, room, most, step):
    batches = by_width(lengths, room=room, most=most, step=step)
    flat = [example for batch in batches for example in batch]
    assert sorted(flat) == list(range(len(lengths)))
    assert [lengths[example] for example in flat] == sorted(lengths, reverse=True)
    sizes: dict[int, set[int]] = {}
    for batch in batches[:-1]:
        sizes.setdefault(round_up(lengths[batch[0]], step), set()).add(len(batch))
        assert len(batch) == 1 or len(batch) * round_up(lengths[batch[0]], step) <= room
        assert len(batch) <= most
        assert len(batch).bit_count() == 1
    assert all(len(each) == 1 for each in sizes.values())


def test_a_batch_that_holds_nothing_is_refused():
    with pytest.raises(ValueError, match="0 tokens"):
        by_length([1, 2], budget=0)
