"""The laws of a state, which any model that generates must keep."""

import pytest
import torch

from regard.decoding.stepper import State, Stepper, limits

BEAMS, LIMIT = 3, 6


def fed(case, examples, texts):
    """Logits and state after every beam of every example was fed its own text; the texts are equally long."""
    logits, state = case.model.start(*case.inputs(examples), beams=BEAMS, limit=LIMIT)
    for tokens in texts.unbind(-1):
        logits, state = case.model.step(tokens, state)
    return logits, state


def texts(case, examples, length, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(case.vocab, (len(examples), BEAMS, length), generator=generator)


def close(one, other):
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_the_models_here_are_steppers_with_states(case):
    assert isinstance(case.model, Stepper)
    assert isinstance(case.model.start(*case.every(), beams=1, limit=3)[1], State)


def test_all_beams_start_equal(case):
    logits, _ = case.model.start(*case.every(), beams=BEAMS, limit=LIMIT)
    assert logits.shape == (case.examples, BEAMS, case.vocab)
    close(logits, logits[:, :1].expand_as(logits))


def test_a_beam_goes_on_from_the_parent_it_was_given(case):
    examples = [0, 1, 2]
    past, future = texts(case, examples, 2), texts(case, examples, 2, seed=1)
    parents = torch.tensor([[2, 2, 0], [0, 1, 2], [1, 0, 1]])
    logits, state = fed(case, examples, past)
    state = state.reorder(parents)
    for tokens in future.unbind(-1):
        logits, state = case.model.step(tokens, state)
    adopted = past.gather(1, parents[..., None].expand_as(past))
    close(logits, fed(case, examples, torch.cat([adopted, future], -1))[0])


def test_reordering_twice_is_reordering_by_both(case):
    examples = [0, 1]
    past, future = texts(case, examples, 2), texts(case, examples, 1, seed=1)
    first, second = torch.tensor([[1, 2, 0], [2, 2, 1]]), torch.tensor([[0, 0, 2], [1, 0, 1]])
    _, state = fed(case, examples, past)
    twice, _ = case.model.step(future[..., 0], state.reorder(first).reorder(second))
    _, state = fed(case, examples, past)
    once, _ = case.model.step(future[..., 0], state.reorder(first.gather(1, second)))
    close(twice, once)


def test_the_examples_that_leave_change_nothing_for_those_that_stay(case):
    examples, rows = [0, 1, 2, 3], torch.tensor([3, 1])
    past, future = texts(case, examples, 2), texts(case, examples, 1, seed=1)
    expected, _ = fed(case, examples, torch.cat([past, future], -1))
    _, state = fed(case, examples, past)
    logits, _ = case.model.step(future[rows, :, 0], state.keep(rows))
    close(logits, expected[rows])


@pytest.mark.parametrize(("first", "second"), [(2, 2), (3, 1), (0, 2), (1, 3)])
def test_examples_that_join_go_on_from_their_own_position(case, first, second):
    mine, theirs = texts(case, [0, 1], first), texts(case, [2, 3, 4], second, seed=1)
    future, parents = (
        texts(case, range(5), 2, seed=2),
        torch.tensor([[1, 0, 0], [2, 2, 2], [0, 1, 2], [1, 1, 0], [2, 0, 1]]),
    )

    def follow(state, rows):
        _logits, state = case.model.step(future[rows, :, 0], state.reorder(parents[rows]))
        return case.model.step(future[rows, :, 1], state)[0]

    apart = [follow(fed(case, [0, 1], mine)[1], slice(0, 2)), follow(fed(case, [2, 3, 4], theirs)[1], slice(2, 5))]
    together = fed(case, [0, 1], mine)[1].join(fed(case, [2, 3, 4], theirs)[1])
    close(follow(together, slice(0, 5)), torch.cat(apart))


def test_limits_are_one_for_all_or_one_each():
    assert limits(3, 2) == [3, 3]
    assert limits([3, 4], 2) == [3, 4]
    with pytest.raises(ValueError, match="2 limits for 3 examples"):
        limits([3, 4], 3)
    with pytest.raises(ValueError, match="limit 0"):
        limits([3, 0], 2)
