"""Rows that run ahead of the host, and that examples take from one another, change no answer, whoever asks between."""

import math
from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.decoding import tables
from regard.decoding.batch import BrokenScores, stream
from regard.decoding.beam import Beam, SearchPolicy, search
from regard.decoding.constraints import Forbid, Force, MinimumLength, NoRepeat, Prefix
from regard.decoding.generate import SamplingPolicy, generate, stream_one
from regard.decoding.lane import NOT_NUMBERS, Group, Lane
from regard.decoding.sampling import Sampler
from regard.models.inference.cuda import FusedDecoder
from regard.models.transformer import Transformer, TransformerConfig
from tests.decoding.steppers import Writer

VOCAB = 9
SHAPE = {"width": 16, "heads": 2, "hidden": 16, "dropout": 0.0, "context": 64}
RULES = {
    "free": (),
    "prefix": (Prefix([2, 1]),),
    "no repeated pair": (NoRepeat(2),),
    "forbidden and long": (Forbid([[3], [1, 2]]), MinimumLength(3)),
    "forced": (Force([[4, 5], [1]]),),
}


def sharp(model):
    """Weights for which answers differ and end."""
    for number in model.parameters():
        torch.nn.init.normal_(number, std=0.5)
    return model.eval()


@pytest.fixture(scope="module", params=["encoder-decoder", "decoder-only"])
def pair(request):
    """A model and its lean copy."""
    torch.manual_seed(3)
    if request.param == "decoder-only":
        model = sharp(Writer(VOCAB, **{**SHAPE, "blocks": 2}))
    else:
        model = sharp(Transformer(TransformerConfig(vocab=VOCAB, encoder=1, decoder=2, **SHAPE)))
    return model, FusedDecoder(model)


def inputs(model, batch, width, chance):
    lengths = torch.tensor([chance.randint(1, width) for _ in range(batch)])
    source = torch.tensor([[chance.randrange(VOCAB) for _ in range(width)] for _ in range(batch)]).reshape(batch, width)
    prompt = torch.tensor([[chance.randrange(VOCAB)] for _ in range(batch)]).reshape(batch, 1)
    return (source, lengths) if isinstance(model, Writer) else (source, lengths, prompt)


def same(one, other):
    """The same texts, paths and ends; scores to what arithmetic in another order allows."""
    for own, theirs in zip(one, other, strict=True):
        facts = [[(each.tokens, each.path, each.finished) for each in answers] for answers in (own, theirs)]
        assert facts[0] == facts[1]
        for a, b in zip(own, theirs, strict=True):
            assert (a.score, a.normalized) == pytest.approx((b.score, b.normalized), abs=1e-4)


beams = st.integers(1, 5).flatmap(
    lambda width: st.builds(
        Beam,
        beams=st.just(width),
        nbest=st.integers(1, width),
        length_penalty=st.sampled_from([0.0, 1.0, -0.5, 0.6]),
        patience=st.sampled_from([0.0, 0.5, 1.0, 2.0, math.inf]),
    )
)


@settings(max_examples=10)
@given(
    beam=beams,
    limit=st.lists(st.integers(1, 12), min_size=1, max_size=5),
    width=st.integers(1, 6),
    eos=st.sampled_from([0, 0, 0, None]),
    rules=st.sampled_from(sorted(RULES)),
    chance=st.randoms(use_true_random=False),
)
def test_rounds_give_what_the_plain_search_gives(pair, beam, limit, width, eos, rules, chance):
    model, lean = pair
    given = inputs(model, len(limit), width, chance)
    plain = search(model, given, beam, limit=limit, eos=eos, constraints=RULES[rules])
    same(search(lean, given, beam, limit=limit, eos=eos, constraints=RULES[rules]), plain)


@settings(max_examples=10)
@given(
    limit=st.lists(st.integers(1, 12), min_size=1, max_size=5),
    samples=st.integers(1, 4),
    filters=st.sampled_from([None, {}, {"temperature": 2.0, "top_k": 5}, {"top_p": 0.8}, {"min_p": 0.1}]),
    rules=st.sampled_from([name for name in RULES if name != "forced"]),
    chance=st.randoms(use_true_random=False),
)
def test_rounds_draw_what_is_drawn_one_step_at_a_time(pair, limit, samples, filters, rules, chance):
    model, lean = pair
    given, found = inputs(model, len(limit), 4, chance), []
    for each in (model, lean):
        pick = None if filters is None else Sampler(**filters, generator=torch.Generator().manual_seed(5))
        asked = {"limit": limit, "eos": 0, "pick": pick, "samples": samples, "constraints": RULES[rules]}
        found.append(generate(each, given, **asked))
    same(*found)


@pytest.mark.unchecked
@settings(max_examples=10)
@given(
    beam=beams,
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    rows=st.integers(1, 8),
    rules=st.sampled_from(sorted(RULES)),
    chance=st.randoms(use_true_random=False),
)
def test_examples_that_take_the_rows_of_others_get_their_own_answers(pair, beam, sizes, rows, rules, chance):
    model, lean = pair
    groups = [
        Group(inputs(model, size, width, chance), [chance.randint(1, 12) for _ in range(size)])
        for size, width in zip(sizes, range(7, 0, -1), strict=False)
    ]
    policy = SearchPolicy(beam, 0, RULES[rules])
    for group, answers in zip(groups, stream(lean, groups, policy, rows=rows), strict=True):
        same(answers, search(model, group.inputs, beam, limit=group.limit, eos=0, constraints=RULES[rules]))


def served(lane, groups, chance, *, rounds=200):
    """The answers of examples that come one after the other while others are on their way."""
    found, waiting = {}, list(enumerate(groups))
    tickets = {}
    for _ in range(rounds):
        while waiting and lane.free >= len(waiting[0][1].limit) and chance.random() < 0.5:
            number, group = waiting.pop(0)
            tickets |= {ticket: (number, place) for place, ticket in enumerate(lane.seat(group))}
        lane.advance()
        found |= {tickets[ticket]: answers for ticket, answers in lane.take_finished().items()}
        if not waiting and not lane.busy:
            return found
    raise AssertionError("the lane never came to an end")


@pytest.mark.unchecked
@settings(max_examples=8)
@given(
    beam=beams,
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=6),
    rules=st.sampled_from(sorted(RULES)),
    chance=st.randoms(use_true_random=False),
)
def test_who_joins_in_the_middle_is_answered_as_if_alone(pair, beam, sizes, rules, chance):
    model = pair[0]
    groups = [Group(inputs(model, size, 6, chance), [chance.randint(1, 12) for _ in range(size)]) for size in sizes]
    alone = [search(model, each.inputs, beam, limit=each.limit, eos=0, constraints=RULES[rules]) for each in groups]
    for served_by in pair:
        lane = Lane.of(served_by, SearchPolicy(beam, 0, RULES[rules]), rows=4, longest=12)
        found = served(lane, groups, chance)
        for number, answers in enumerate(alone):
            same([found[number, place] for place in range(len(answers))], answers)


@pytest.mark.parametrize("fast", [False, True])
def test_who_leaves_frees_a_row_and_changes_nothing_for_the_others(pair, fast):
    model, chance = pair[0], Random(2)
    first, second = (Group(inputs(model, size, 5, chance), [12] * size) for size in (3, 2))
    policy = SearchPolicy(Beam(beams=2), -1)
    lane = Lane.of(pair[fast], policy, rows=3, longest=12)
    a, b, c = lane.seat(first)
    lane.advance()
    assert lane.free == 0
    lane.leave([a, c])
    assert lane.free == 2
    d, e = lane.seat(second)
    found = {}
    while lane.busy:
        lane.advance()
        found |= lane.take_finished()
    assert found.keys() == {b, d, e}
    alone = [search(model, group.inputs, Beam(beams=2), limit=12, eos=None) for group in (first, second)]
    same([found[b], found[d], found[e]], [alone[0][1], *alone[1]])


class Poisoned:
    """A model that has no numbers for texts that begin with token 8, and cannot read those that begin with token 7."""

    def __init__(self, model):
        self.model = model

    def __getattr__(self, name):
        return getattr(self.model, name)

    def start(self, *inputs, **settings):
        if (inputs[0][:, 0] == 7).any():
            raise ValueError("7 cannot be read")
        logits, state = self.model.start(*inputs, **settings)
        return logits.masked_fill((inputs[0][:, 0] == 8)[:, None, None], math.nan), state


def beginning(given, *tokens):
    """The same inputs, texts beginning with these tokens."""
    source = given[0].clone()
    source[:, 0] = torch.tensor(tokens)
    return source, *given[1:]


def drained(lane):
    found = {}
    while lane.busy:
        lane.advance()
        found |= lane.take_finished()
    return found


POLICIES = {"search": SearchPolicy(Beam(beams=2), -1), "greedy": SamplingPolicy(2, -1)}


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_whom_the_model_cannot_read_is_not_seated_and_changes_nothing_for_the_others(pair, fast, policy):
    chance = Random(2)
    first, second = (beginning(inputs(pair[0], 2, 5, chance), *tokens) for tokens in ((1, 2), (3, 4)))
    model = Poisoned(pair[fast])  # which rows do not keep alive
    lane = Lane.of(model, policy, rows=4, longest=12)
    a, b = lane.seat(Group(first, [12, 9]))
    lane.advance()
    with pytest.raises(ValueError, match="7 cannot be read"):
        lane.seat(Group(beginning(second, 3, 7), [5, 5]))
    with pytest.raises(ValueError, match="13 tokens where rows have room for 12"):
        lane.seat(Group(second, [5, 13]))
    with pytest.raises(ValueError, match="3 examples for 2 free rows"):
        lane.seat(Group(beginning(inputs(pair[0], 3, 5, chance), 1, 2, 3), [5, 5, 5]))
    assert lane.free == 2
    c, d = lane.seat(Group(second, [5, 12]))
    found = drained(lane)
    assert found.keys() == {a, b, c, d}
    alone = [stream(pair[0], [Group(*group)], policy)[0] for group in ((first, [12, 9]), (second, [5, 12]))]
    same([found[ticket] for ticket in (a, b, c, d)], [*alone[0], *alone[1]])


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_scores_that_are_not_numbers_are_the_failure_of_their_row_alone(pair, fast, policy):
    given = beginning(inputs(pair[0], 3, 5, Random(2)), 1, 8, 3)
    model = Poisoned(pair[fast])
    lane = Lane.of(model, policy, rows=3, longest=12)
    a, b, c = lane.seat(Group(given, [12, 12, 9]))
    found = drained(lane)
    assert found.pop(b) == NOT_NUMBERS
    [alone] = stream(pair[0], [Group(beginning(given, 1, 2, 3), [12, 12, 9])], policy)
    same([found[a], found[c]], [alone[0], alone[2]])
    told = []
    with pytest.raises(BrokenScores, match="not numbers") as error:
        stream(model, [Group(given, [12, 12, 9])], policy, hear=told.extend)
    assert error.value.failed == [(0, 1)]
    same([each.hypotheses for each in sorted(told)], [alone[0], alone[2]])


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("policy", [SearchPolicy(Beam(beams=3), -1), SamplingPolicy(2, -1)], ids=["search", "greedy"])
def test_what_is_read_between_two_steps_grows_into_the_answer(pair, fast, policy):
    model = pair[0]
    lane = Lane.of(pair[fast], policy, rows=2, longest=20)
    [ticket] = lane.seat(Group(inputs(model, 1, 5, Random(4)), [20]))
    lengths = []
    while lane.busy:
        lane.advance()
        lengths.append(len(lane.read(ticket)[0].tokens))
    assert lengths == sorted(lengths)
    assert len(set(lengths)) > 2
    assert lane.read(ticket) == lane.take_finished()[ticket]
    with pytest.raises(KeyError, match="ticket"):
        lane.read(ticket)


@pytest.mark.parametrize("pick", [None, {"temperature": 0.9}], ids=["greedy", "drawn"])
def test_a_text_is_told_token_by_token_even_where_rounds_run_ahead(pair, pick):
    model, lean, given = pair[0], FusedDecoder(pair[0]), inputs(pair[0], 1, 5, Random(4))

    def sampler():
        return pick and Sampler(**pick, generator=torch.Generator().manual_seed(1))

    told = [list(stream_one(each, given, limit=20, eos=None, pick=sampler())) for each in (model, lean)]
    [[whole]] = generate(model, given, limit=20, eos=None, pick=sampler())
    for each in told:
        assert [one.tokens for one in each] == [whole.tokens[:size] for size in range(1, 21)]
        assert [len(one.path) for one in each] == [*range(19), len(whole.path)]
        same([each[-1:]], [[whole]])
    for one, other in zip(*told, strict=True):
        assert math.isclose(one.score, other.score, abs_tol=1e-3)
    end = whole.tokens[5]
    first = whole.tokens.index(end)
    for each in (model, lean):
        stages = list(stream_one(each, given, limit=20, eos=end, pick=sampler()))
        assert [one.tokens for one in stages] == [
            *(whole.tokens[:size] for size in range(1, first + 1)),
            whole.tokens[:first],
        ]
        assert [one.finished for one in stages] == [False] * first + [True]


def test_a_text_left_in_the_middle_leaves_its_rows_to_others_and_a_pause_keeps_nobody_waiting(pair):
    lean, given, other = FusedDecoder(pair[0]), *(inputs(pair[0], 1, 5, Random(seed)) for seed in (4, 5))
    [[whole]], [[second]] = (generate(pair[0], each, limit=20, eos=None) for each in (given, other))
    paused = stream_one(lean, given, limit=20, eos=None)
    begun = [next(paused) for _ in range(3)]
    [[meanwhile]] = generate(lean, other, limit=20, eos=None)  # while nobody can have the rows of the first
    assert meanwhile.tokens == second.tokens
    assert [*begun, *paused][-1].tokens == whole.tokens
    left = stream_one(lean, given, limit=20, eos=None)
    next(left)
    left.close()
    held = len(lean.tables)
    [[again]] = generate(lean, other, limit=20, eos=None)
    assert again.tokens == second.tokens
    assert len(lean.tables) == held == 2
    assert not any(table.lock.locked() for table in lean.tables)


def test_an_empty_batch_has_no_answers(pair):
    for model in pair:
        assert search(model, inputs(pair[0], 0, 3, Random(0)), Beam(), limit=4, eos=0) == []


def test_the_host_looks_every_few_rounds_and_stops_when_all_are_done(pair, monkeypatch):
    model, lean = pair
    spans, run = [], tables.StaticBatch.run
    monkeypatch.setattr(
        tables.StaticBatch, "run", lambda table, steps, going: spans.append(steps) or run(table, steps, going)
    )
    given = inputs(model, 1, 5, Random(0))
    [[free]] = search(lean, given, Beam(beams=1), limit=12, eos=None)
    spans.clear()
    end = free.tokens[-1]
    [[answer]] = search(lean, given, Beam(beams=1), limit=60, eos=end)
    assert (answer.tokens, answer.finished) == (free.tokens[: free.tokens.index(end)], True)
    assert max(spans) == tables.SPAN
    assert len(answer.tokens) <= sum(spans) <= len(answer.tokens) + 2 * tables.SPAN


def test_scores_that_are_not_numbers_are_refused(pair):
    broken = FusedDecoder(pair[0])
    broken.stack.embedding.weight.fill_(math.inf)
    with pytest.raises(FloatingPointError, match="precision"):
        search(broken, inputs(pair[0], 2, 3, Random(0)), Beam(), limit=4, eos=0)
