"""Many askers over one engine: each goes on when its own requests are answered, and what fails is its own matter."""

from dataclasses import replace
from random import Random

import pytest
import torch

from regard.decoding.beam import Beam, search
from regard.decoding.engine import Engine
from regard.decoding.exchange import ExchangeLoop, run_exchange
from regard.decoding.request import Request, Score
from tests.decoding.test_lane import VOCAB, Poisoned, pair
from tests.decoding.test_requests import LONGEST, example

__all__ = ["pair"]
pytestmark = pytest.mark.unchecked


def request(model, chance, **changes):
    return replace(Request(inputs=example(model, chance), limit=LONGEST, how=Beam(beams=2)), **changes)


def best(model, asked):
    given = [each[None] for each in asked.inputs]
    return search(model, given, asked.how, limit=asked.limit, eos=0, constraints=asked.rules)[0][0].tokens


def in_turns(rounds):
    """An exchange that asks one list of requests after the other, and answers all best tokens."""
    found = []
    for requests in rounds:
        answers = yield requests
        found.append([hypotheses[0].tokens for hypotheses in answers])
    return found


def finish(loop):
    for _ in range(500):
        if not loop.busy:
            return loop.collect()
        loop.step()
    raise AssertionError("the loop never came to an end")


@pytest.mark.parametrize("seed", range(3))
def test_every_asker_gets_what_it_would_get_alone(pair, seed):
    model, chance = pair[0], Random(seed)
    askers = [
        [[request(model, chance) for _ in range(chance.randint(0, 3))] for _ in range(chance.randint(0, 3))]
        for _ in range(6)
    ]
    loop = ExchangeLoop(Engine(model, eos=0, longest=LONGEST, rows=4))
    numbers = []
    for rounds in askers:
        numbers.append(loop.open(in_turns(rounds)))
        loop.step()
    outcomes = finish(loop)
    for number, rounds in zip(numbers, askers, strict=True):
        expected = [[best(model, asked) for asked in requests] for requests in rounds]
        assert outcomes[number].error is None
        assert outcomes[number].answer == expected
        assert run_exchange(Engine(model, eos=0, longest=LONGEST), in_turns(rounds)) == expected


def test_a_request_that_fails_is_thrown_into_its_own_exchange(pair):
    model, chance = pair[0], Random(4)
    good = request(model, chance)
    unread = request(model, chance, inputs=example(model, chance, first=7))

    def forgiving():
        try:
            yield [good, unread]
        except FloatingPointError as reason:
            [[again, *_]] = yield [good]
            return str(reason), again.tokens

    poisoned = Poisoned(model)
    loop = ExchangeLoop(Engine(poisoned, eos=0, longest=LONGEST))
    patient, strict = loop.open(forgiving()), loop.open(in_turns([[good, unread, good]]))
    other = loop.open(in_turns([[good], [good]]))
    outcomes = finish(loop)
    assert outcomes[patient].answer == ("7 cannot be read", best(model, good))
    assert isinstance(outcomes[strict].error, FloatingPointError)
    assert outcomes[other].answer == [[best(model, good)]] * 2
    with pytest.raises(FloatingPointError, match="7 cannot be read"):
        run_exchange(Engine(poisoned, eos=0, longest=LONGEST), in_turns([[unread]]))


def test_what_does_not_fit_ends_the_exchange_that_asked_for_it(pair):
    model, chance = pair[0], Random(5)
    good = request(model, chance)
    loop = ExchangeLoop(Engine(model, eos=0, longest=LONGEST))
    long, well = loop.open(in_turns([[replace(good, limit=99)]])), loop.open(in_turns([[good]]))
    outcomes = finish(loop)
    assert "99 tokens where there is room for" in str(outcomes[long].error)
    assert outcomes[well].answer == [[best(model, good)]]


def test_an_exchange_that_is_called_off_frees_its_rows(pair):
    model, chance = pair[0], Random(6)
    good, closed = request(model, chance), []

    def asking():
        try:
            yield [good, replace(good, how=Score([[1] * 9])), good]
        finally:
            closed.append(True)

    engine = Engine(model, eos=None, longest=LONGEST, rows=2)
    loop = ExchangeLoop(engine)
    off, on = loop.open(asking()), loop.open(in_turns([[good]]))
    loop.step()
    loop.cancel(off)
    assert closed == [True]
    outcomes = finish(loop)
    assert outcomes.keys() == {on}
    assert not engine.busy
    loop.cancel(on)  # over already


def test_who_asks_for_nothing_needs_no_engine(pair):
    def quiet():
        yield from ()
        return "at once"

    assert run_exchange(None, quiet()) == "at once"
    with pytest.raises(ValueError, match="1 request and no engine"):
        run_exchange(None, in_turns([[Request(inputs=(torch.tensor([VOCAB - 1]),), limit=1)]]))
