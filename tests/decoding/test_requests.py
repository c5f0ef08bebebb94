"""Requests of every kind beside each other are answered as if each were alone, and one that fails harms no other."""

import math
import threading
from dataclasses import replace
from functools import partial
from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.decoding.beam import Beam, search
from regard.decoding.constraints import Forbid, Force, MinimumLength, NoRepeat, Prefix
from regard.decoding.engine import DELAY, TOGETHER, Engine
from regard.decoding.generate import generate
from regard.decoding.lane import NOT_NUMBERS, Failure
from regard.decoding.request import Request, Sampling, Score
from regard.decoding.sampling import Sampler
from regard.decoding.teacher_forcing import score_continuations
from regard.interpret.watch import SearchWatcher, watch
from regard.models.inference.cpu import LeanDecoder
from tests.decoding.steppers import Writer
from tests.decoding.test_lane import VOCAB, Poisoned, pair, same

__all__ = ["pair"]
pytestmark = pytest.mark.unchecked
LONGEST = 14
RULES = [(), (Prefix([2, 1]),), (NoRepeat(2),), (Forbid([[3], [1, 2]]), MinimumLength(3)), (Forbid([[4]]),)]
GOALS = [(Force([[4, 5]]),), (Force([[1]]), NoRepeat(2))]


def example(model, chance, *, first=None, width=6):
    """The inputs of one example: tokens and how many there are, and where there is a source, a beginning."""
    tokens = [chance.randrange(VOCAB - 2) for _ in range(chance.randint(1, width))]
    tokens = tokens if first is None else [first, *tokens[1:]]
    text = torch.tensor(tokens), torch.tensor(len(tokens))
    return text if isinstance(model, Writer) else (*text, torch.tensor([chance.randrange(VOCAB)]))


def ways(chance):
    """A way to answer, and rules that go with it."""
    kind = chance.choice(["beam", "beam", "greedy", "sampling", "score"])
    if kind == "sampling":
        filters = chance.choice([{}, {"temperature": 2.0, "top_k": 5}, {"top_p": 0.8}, {"min_p": 0.1}])
        return Sampling(samples=chance.choice([1, 3]), **filters), chance.choice(RULES)
    if kind == "score":
        return Score([[chance.randrange(VOCAB) for _ in range(chance.randint(1, 5))] for _ in range(2)]), ()
    width = 1 if kind == "greedy" else chance.choice([2, 4])
    beam = Beam(
        beams=width,
        nbest=chance.randint(1, width),
        length_penalty=chance.choice([0.0, 1.0, -0.5]),
        patience=chance.choice([0.0, 1.0, math.inf]),
    )
    return beam, chance.choice(RULES + GOALS if width > 2 else RULES)


def anything(model, chance):
    """A request of any kind."""
    how, rules = ways(chance)
    limit, seed = chance.randint(1, LONGEST), chance.randrange(99)
    return Request(inputs=example(model, chance), limit=limit, how=how, rules=rules, seed=seed)


def alone(model, request):
    """What the plain loops give for one request."""
    given, asked = [each[None] for each in request.inputs], {"limit": request.limit, "eos": 0}
    if isinstance(request.how, Score):
        [scores] = score_continuations(model, given, [request.how.targets])
        return [sum(each) for each in scores]
    if isinstance(request.how, Beam):
        return search(model, given, request.how, **asked, constraints=request.rules)[0]
    how, generator = request.how, [torch.Generator().manual_seed(request.seed)]
    pick = Sampler(
        generator=generator, **dict(zip(("temperature", "top_k", "top_p", "min_p"), how.warping, strict=True))
    )
    return generate(model, given, **asked, pick=pick, samples=how.samples, constraints=request.rules)[0]


def drain(engine, found=None):
    found = {} if found is None else found
    for _ in range(300):
        if not engine.busy:
            return found
        engine.step()
        found |= engine.collect()
    raise AssertionError("the engine never came to an end")


def agree(request, answers, expected):
    if isinstance(request.how, Score):
        assert [each.tokens for each in answers] == [list(target) for target in request.how.targets]
        assert [each.score for each in answers] == pytest.approx(expected, abs=1e-4)
    else:
        same([answers], [expected])


@settings(max_examples=12)
@given(seed=st.integers(0, 2**20), count=st.integers(1, 14), rows=st.sampled_from([3, 8, 64]))
def test_requests_of_every_kind_are_answered_as_if_alone(pair, seed, count, rows):
    chance = Random(seed)
    requests = [anything(pair[0], chance) for _ in range(count)]
    expected = [alone(pair[0], request) for request in requests]
    for model in pair:
        engine = Engine(model, eos=0, longest=LONGEST, rows=rows, source=6, prompt=6)
        waiting, tickets, found = list(range(count)), {}, {}
        while waiting or engine.busy:
            arriving = [waiting.pop(0) for _ in range(min(len(waiting), chance.randint(0, 3)))]
            tickets |= dict(zip(engine.submit([requests[number] for number in arriving]), arriving, strict=True))
            engine.step()
            found |= engine.collect()
        assert sorted(tickets[ticket] for ticket in found) == list(range(count))
        for ticket, answers in found.items():
            agree(requests[tickets[ticket]], answers, expected[tickets[ticket]])


def plain(model, chance, **changes):
    request = Request(inputs=example(model, chance), limit=LONGEST, how=Beam(beams=2))
    return replace(request, **changes)


@pytest.mark.parametrize("fast", [False, True])
def test_what_does_not_fit_is_refused_before_anything_is_taken(pair, fast):
    chance, model = Random(1), pair[0]
    engine = Engine(pair[fast], eos=0, longest=LONGEST, rows=4, source=6, prompt=3 if not fast else 6)
    good = plain(model, chance)
    wide = tuple(torch.zeros(7, dtype=torch.int64) if each.dim() else torch.tensor(7) for each in good.inputs)
    for bad, message in (
        (replace(good, limit=LONGEST + 1), f"an answer of {LONGEST + 1} tokens where there is room for {LONGEST}"),
        (replace(good, inputs=wide), "of 7 tokens where there is room for"),
        (replace(good, how=Score([[1] * (LONGEST + 1)])), f"an answer of {LONGEST + 1} tokens where there is room"),
        (replace(good, how=Sampling(), rules=(Force([[1]]),)), "use a beam search"),
    ):
        with pytest.raises(ValueError, match=message):
            engine.submit([good, bad])
    assert not engine.busy
    for wrong in ({"limit": 0}, {"inputs": ()}, {"inputs": (torch.zeros(0, dtype=torch.int64),)}):
        with pytest.raises(ValueError, match="at least"):
            replace(good, **wrong)
    for targets in ([], [[]]):
        with pytest.raises(ValueError, match="no tokens"):
            Score(targets)


@pytest.mark.parametrize("fast", [False, True])
def test_a_longer_request_after_a_short_one_is_answered_or_refused(pair, fast):
    chance, model = Random(5), pair[0]
    short, long = (
        plain(model, chance, inputs=example(model, Random(seed), width=width)) for seed, width in ((1, 2), (2, 40))
    )
    engine = Engine(pair[fast], eos=0, longest=LONGEST, rows=4)
    first = engine.submit([short])
    engine.step()
    second = engine.submit([long, short])
    found = drain(engine, engine.collect())
    for ticket, request in zip([*first, *second], [short, long, short], strict=True):
        agree(request, found[ticket], alone(model, request))


@pytest.mark.parametrize("fast", [False, True])
def test_one_that_fails_is_a_failure_of_its_own(pair, fast):
    chance, model = Random(2), pair[0]
    good = [plain(model, chance) for _ in range(5)]
    unread = plain(model, chance, inputs=example(model, chance, first=7))
    broken = plain(model, chance, inputs=example(model, chance, first=8))
    misruled = plain(model, chance, rules=(Forbid([[VOCAB + 3]]),))
    unscored = replace(unread, how=Score([[1, 2]]))
    unknown = [replace(good[0], how=Score([[1], [2, token]])) for token in (VOCAB, -1)]
    poisoned = Poisoned(pair[fast])  # which rows do not keep alive
    engine = Engine(poisoned, eos=0, longest=LONGEST, rows=8, source=6, prompt=6)
    requests = [good[0], unread, good[1], broken, good[2], misruled, good[3], unscored, *unknown, good[4]]
    tickets = engine.submit(requests[:5])
    engine.step()
    found = engine.collect()
    tickets += engine.submit(requests[5:])
    found |= drain(engine)
    assert found.keys() == set(tickets)
    for ticket, request in zip(tickets, requests, strict=True):
        answers = found[ticket]
        if request in (unread, unscored):
            assert answers == Failure("7 cannot be read")
        elif request in unknown:
            assert isinstance(answers, Failure)
            assert f"is not in the vocabulary of {VOCAB}" in answers.reason
        elif request is broken:
            assert answers == NOT_NUMBERS
        elif request is misruled:
            assert isinstance(answers, Failure)
            assert f"token {VOCAB + 3} is not in the vocabulary" in answers.reason
        else:
            agree(request, answers, alone(model, request))
    [again] = engine.submit([good[0]])
    agree(good[0], drain(engine)[again], alone(model, good[0]))


class Burning(Poisoned):
    """A model whose keys and values are not numbers for texts that begin with token 8."""

    def start(self, *inputs, **settings):
        logits, state = super().start(*inputs, **settings)
        for row in (inputs[0][:, 0] == 8).nonzero()[:, 0].tolist():
            for held in (*state.caches, *state.memories):
                for each in held:
                    each[row] = math.nan
        return logits, state

    def step(self, *given):
        return self.model.step(*given)


@pytest.mark.parametrize("fast", [False, True])
def test_who_takes_the_row_of_one_without_numbers_is_not_affected(pair, fast):
    chance, model = Random(9), pair[0]
    engine = Engine(burning := Burning(pair[fast]), eos=None, longest=LONGEST, rows=2, source=6, prompt=6)
    assert burning is engine.model
    company = plain(model, chance)
    long, short = (example(model, Random(seed), first=first, width=6) for seed, first in ((1, 8), (3, 1)))
    for _ in range(3):
        [kept, broken] = engine.submit([company, plain(model, chance, inputs=long)])
        found = {}
        while broken not in found:
            engine.step()
            found |= engine.collect()
        assert found[broken] == NOT_NUMBERS
        [after] = engine.submit([plain(model, chance, inputs=short)])
        found |= drain(engine)
        for ticket, request in ((kept, company), (after, plain(model, chance, inputs=short))):
            given = [each[None] for each in request.inputs]
            same([found[ticket]], search(model, given, request.how, limit=LONGEST, eos=None))


@pytest.mark.parametrize("fast", [False, True])
def test_who_is_called_off_is_not_heard_of_again_and_the_others_go_on(pair, fast):
    chance, model = Random(3), pair[0]
    requests = [plain(model, chance, how=way) for way in (Beam(beams=2), Beam(beams=2), Sampling(), Score([[1] * 9]))]
    requests += [plain(model, chance, rules=(NoRepeat(2),)) for _ in range(2)]
    engine = Engine(pair[fast], eos=None, longest=LONGEST, rows=2, source=6, prompt=6)
    tickets = engine.submit(requests)
    engine.step()
    later = engine.submit(requests[:1])
    engine.cancel([tickets[0], tickets[2], tickets[3], tickets[4], *later])
    found = drain(engine, engine.collect())
    assert set(found) == {tickets[1], tickets[5]}
    for number in (1, 5):
        request = requests[number]
        given = [each[None] for each in request.inputs]
        [expected] = search(model, given, request.how, limit=LONGEST, eos=None, constraints=request.rules)
        agree(request, found[tickets[number]], expected)
    with pytest.raises(KeyError, match="no request has ticket"):
        engine.peek(tickets[0])


@pytest.mark.parametrize("fast", [False, True])
def test_answers_can_be_watched_as_they_grow(pair, fast):
    request = plain(pair[0], Random(4), how=Beam(beams=3))
    engine = Engine(pair[fast], eos=None, longest=LONGEST, rows=2, source=6, prompt=6)
    [ticket, other] = engine.submit([request, replace(request, how=Score([[1, 2, 3]]))])
    assert engine.peek(ticket) == engine.peek(other) == []
    sizes = []
    while engine.busy:
        engine.step()
        sizes.append(len(engine.peek(ticket)[0].tokens))
    assert sizes == sorted(sizes)
    assert len(set(sizes)) > 1
    assert engine.peek(ticket) == engine.collect()[ticket]


def test_requests_that_come_while_others_are_decoded_are_read_together_but_not_kept_waiting(pair):
    chance, model = Random(5), pair[0]
    groups = []

    class Counted:
        def start(self, *inputs, **settings):
            groups.append(len(inputs[0]))
            return model.start(*inputs, **settings)

        def step(self, *given):
            return model.step(*given)

    engine = Engine(Counted(), eos=None, longest=LONGEST)
    engine.submit([plain(model, chance)])
    engine.step()
    assert groups == [1]  # nobody to wait for
    for _ in range(DELAY):
        engine.submit([plain(model, chance)])
        engine.step()
    engine.step()
    assert groups == [1, DELAY]
    engine.submit([plain(model, chance) for _ in range(TOGETHER)])
    engine.step()
    assert groups == [1, DELAY, TOGETHER]


def test_an_engine_belongs_to_one_thread(pair):
    engine, refused = Engine(pair[0], eos=0, longest=LONGEST), []
    engine.submit([plain(pair[0], Random(6))])

    def interfere():
        for call in (engine.step, engine.collect, lambda: engine.submit([]), lambda: engine.peek(0)):
            try:
                call()
            except RuntimeError as reason:
                refused.append(str(reason))

    thread = threading.Thread(target=interfere)
    thread.start()
    thread.join()
    assert len(refused) == 4
    assert "belongs to the thread that used it first" in refused[0]
    assert len(drain(engine)) == 1


def test_an_engine_without_work_holds_no_rows(pair):
    engine = Engine(pair[0], eos=0, longest=LONGEST)
    chance = Random(7)
    for _ in range(3):
        engine.submit([anything(pair[0], chance) for _ in range(6)])
        drain(engine)
        assert not engine._lanes
        assert not engine._single


def test_the_memory_of_a_request_is_known_before_it_has_any(pair):
    model, lean = pair
    request = plain(model, Random(8), how=Beam(beams=3))
    if isinstance(model, Writer):
        assert Engine(model, eos=0, longest=LONGEST).measure(request) is None  # it does not say
    for each in (LeanDecoder(model), lean):
        engine = Engine(each, eos=0, longest=LONGEST)
        _, state = each.start(*(part[None] for part in request.inputs), beams=3, limit=LONGEST)
        held = sum(part.nbytes for group in (*state.caches, *state.memories) for part in group)
        assert engine.measure(request) == held
        twice = replace(request, how=Sampling(samples=6))
        assert engine.measure(twice) > held
        assert engine.measure(replace(request, how=Score([[1] * LONGEST] * 3))) == held


@pytest.mark.parametrize("how", [Beam(beams=3, nbest=2), Beam(beams=1), Sampling(samples=2, temperature=0.7)])
def test_weights_are_those_that_watching_the_search_shows_and_none_of_others(pair, how):
    model, chance = pair[0], Random(10)
    request = plain(model, chance, how=how, seed=3)
    with watch(model) as seen:
        expected = alone(model, request)
    engine = Engine(pair[1], eos=0, longest=LONGEST, source=6, prompt=6, watch=partial(SearchWatcher, model))
    others = [plain(model, chance) for _ in range(3)]
    [first, ticket, *rest] = engine.submit([others[0], replace(request, weights=True), *others[1:]])
    assert engine.peek(ticket) == []
    engine.step()
    engine.step()
    assert engine.peek(ticket)
    found = drain(engine)
    same([found[ticket]], [expected])
    for answer, plainly in zip(found[ticket], expected, strict=True):
        assert answer.weights.keys() == set(seen)
        for name, [weights] in seen.along([plainly]).items():
            assert torch.allclose(answer.weights[name], weights, atol=1e-5)
    for number, other in zip([first, *rest], others, strict=True):
        agree(other, found[number], alone(model, other))
        assert all(answer.weights is None for answer in found[number])
    with pytest.raises(ValueError, match="make one with watch="):
        Engine(model, eos=0, longest=LONGEST).submit([replace(request, weights=True)])
    with pytest.raises(ValueError, match="make one with watch="):
        Engine(model, eos=0, longest=LONGEST).submit([replace(request, how=Score([[1]]), weights=True)])
