"""Rounds that run ahead of the host, and rows that examples take from one another, change no answer."""

import math
from random import Random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.decoding import engine
from regard.decoding.beam import Beam, search
from regard.decoding.graphs import Replay
from regard.decoding.stepper import Fixed, Replayable
from regard.models.inference import FusedDecoder
from regard.models.transformer import Transformer, TransformerConfig

VOCAB = 9
SHAPE = {"width": 16, "heads": 2, "hidden": 16, "encoder": 1, "decoder": 2, "dropout": 0.0, "context": 64}


@pytest.fixture(scope="module")
def pair():
    """A model and its lean copy, sharp enough for answers to differ and to end."""
    torch.manual_seed(3)
    model = Transformer(TransformerConfig(vocab=VOCAB, **SHAPE)).eval()
    for number in model.parameters():
        torch.nn.init.normal_(number, std=0.5)
    return model, FusedDecoder(model)


def inputs(batch, width, chance):
    lengths = [chance.randint(1, width) for _ in range(batch)]
    source = [[chance.randrange(VOCAB) for _ in range(width)] for _ in range(batch)]
    prompt = [[chance.randrange(VOCAB)] for _ in range(batch)]
    return torch.tensor(source), torch.tensor(lengths), torch.tensor(prompt)


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


@given(
    beam=beams,
    limit=st.lists(st.integers(1, 20), min_size=1, max_size=7),
    width=st.integers(1, 6),
    eos=st.sampled_from([0, 0, 0, None]),
    chance=st.randoms(use_true_random=False),
)
def test_rounds_give_what_the_plain_search_gives(pair, beam, limit, width, eos, chance):
    model, lean = pair
    given = inputs(len(limit), width, chance)
    plain = search(model, given, beam, limit=limit, eos=eos)
    same(engine.search(lean, given, beam, limit=limit, eos=eos), plain)
    same(search(lean, given, beam, limit=limit, eos=eos), plain)  # a fixed state obeys the plain search too


@given(
    beam=beams,
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    rows=st.integers(1, 8),
    chance=st.randoms(use_true_random=False),
)
def test_examples_that_take_the_rows_of_others_get_their_own_answers(pair, beam, sizes, rows, chance):
    model, lean = pair
    groups = [
        engine.Group(inputs(size, width, chance), [chance.randint(1, 20) for _ in range(size)])
        for size, width in zip(sizes, range(7, 0, -1), strict=False)
    ]
    found = engine.stream(lean, groups, beam, eos=0, rows=rows)
    for group, answers in zip(groups, found, strict=True):
        same(answers, search(model, group.inputs, beam, limit=group.limit, eos=0))


def test_an_empty_batch_has_no_answers(pair):
    empty = (
        torch.zeros(0, 3, dtype=torch.int64),
        torch.zeros(0, dtype=torch.int64),
        torch.zeros(0, 1, dtype=torch.int64),
    )
    assert engine.search(pair[1], empty, Beam(), limit=4, eos=0) == []


def test_the_host_looks_every_few_rounds_and_stops_when_all_are_done(pair, monkeypatch):
    _, lean = pair
    spans, run = [], engine.Rounds.run
    monkeypatch.setattr(engine.Rounds, "run", lambda table, steps: spans.append(steps) or run(table, steps))
    given = inputs(1, 5, Random(0))
    [[free]] = engine.search(lean, given, Beam(beams=1), limit=12, eos=None)
    spans.clear()
    end = free.tokens[-1]
    [[answer]] = engine.search(lean, given, Beam(beams=1), limit=60, eos=end)
    assert (answer.tokens, answer.finished) == (free.tokens[: free.tokens.index(end)], True)
    assert max(spans) == engine.SPAN
    assert len(answer.tokens) <= sum(spans) <= len(answer.tokens) + 2 * engine.SPAN


def test_scores_that_are_not_numbers_are_refused(pair):
    broken = FusedDecoder(pair[0])
    broken.model.embedding.weight.fill_(math.inf)
    with pytest.raises(FloatingPointError, match="precision"):
        engine.search(broken, inputs(2, 3, Random(0)), Beam(), limit=4, eos=0)


def test_only_models_with_fixed_states_on_a_gpu_are_searched_in_rounds(pair):
    model, lean = pair
    assert isinstance(lean, Replayable)
    assert not isinstance(model, Replayable)
    assert not engine.fit(lean)  # not on a GPU
    _, state = lean.start(*inputs(2, 3, Random(0)), beams=2, limit=3)
    assert isinstance(state, Fixed)


def test_what_is_replayed_reads_what_it_is_given():
    double = Replay(lambda x: 2 * x, torch.zeros(3))
    for value in (1.0, 2.0, 3.0, 4.0):
        assert double(torch.full((3,), value)).tolist() == [2 * value] * 3
