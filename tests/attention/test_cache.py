"""Caches are written in place and never moved; a small index knows whose past lies where."""

import random
from functools import partial

import pytest
import torch

from regard.attention.cache import DecoderState, KeyValues, LayerCache, StaticDecoderState
from regard.attention.masks import Grid, Stepping, stepping

GROUPS, DEPTH, FEATURES = 2, 3, 2


def begin(*, batch=2, beams=3, limit=4, room=2, source=None, even=False):
    """A past of two layers, its prompt filled with recognisable numbers."""
    where = Stepping.begin(torch.full((batch,), room), beams=beams, limit=limit, room=room, even=even)
    like = torch.zeros(batch, GROUPS, room, DEPTH)
    caches = tuple(LayerCache.empty(like, FEATURES, room + beams * limit) for _ in range(2))
    for cache in caches:
        cache.keys[:, :, :room], cache.values[:, :, :room] = 0.5, 0.25
    memories = ()
    if source is not None:
        keys = torch.randn(batch, GROUPS, source, DEPTH)
        memories = (KeyValues(keys, torch.randn(batch, GROUPS, source, FEATURES)),) * 2
    grid = None if source is None else Grid(torch.full((batch,), source), source)
    return DecoderState(where, caches, memories, grid)


def feed(past, label):
    """One more token of every beam, whose keys are full of `label(example, beam)`; answers what may be looked at."""
    past = past.advance()
    batch, beams = past.where.slots.shape[:2]
    labels = torch.tensor([[float(label(example, beam)) for beam in range(beams)] for example in range(batch)])
    key = labels[:, None, :, None].expand(-1, GROUPS, -1, DEPTH)
    value = -labels[:, None, :, None].expand(-1, GROUPS, -1, FEATURES)
    return past, [cache.extend(key, value, stepping(past.where)) for cache in past.caches]


def sights(past, answers):
    """What each beam of each example sees: the labels of the visible keys, in order, prompt first."""
    allowed = past.where.visible_pairs()
    keys, values = answers[-1]
    assert allowed.shape == (*past.where.slots.shape[:2], keys.shape[2])
    assert torch.equal(values[:, 0, past.where.room :, 0], -keys[:, 0, past.where.room :, 0])
    return [[keys[e, 0, row, 0].tolist() for row in beams] for e, beams in enumerate(allowed)]


def shuffle(past, generator):
    """Random parents for every beam, and the past that goes on from them."""
    batch, beams = past.where.slots.shape[:2]
    parents = [[generator.randrange(beams) for _ in range(beams)] for _ in range(batch)]
    return parents, past.reorder(torch.tensor(parents))


@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_every_beam_sees_the_prompt_and_exactly_its_own_past_through_any_reordering(seed, even):
    generator, past, numbers = random.Random(seed), begin(even=even), iter(range(1000, 9999))
    histories = [[[] for _ in range(3)] for _ in range(2)]
    for _ in range(4):
        parents, past = shuffle(past, generator)
        fed = [[next(numbers) for _ in range(3)] for _ in range(2)]
        histories = [[histories[e][parents[e][k]] + [fed[e][k]] for k in range(3)] for e in range(2)]
        past, answers = feed(past, lambda example, beam, fed=fed: fed[example][beam])
        expected = [[[0.5, 0.5, *history] for history in beams] for beams in histories]
        assert sights(past, answers) == expected
        newest, places = past.where.places(3, answers[0][0].shape[2])
        assert newest.eq(2 + len(histories[0][0]) - 1).all()
        seen = [places[e][past.where.visible_pairs()[e, k]].tolist() for e in range(2) for k in range(3)]
        assert seen == [[*range(2 + len(histories[0][0]))]] * 6


def test_keys_never_move_and_what_was_written_stays_bit_for_bit():
    generator, past = random.Random(0), begin()
    addresses = [(cache.keys.data_ptr(), cache.values.data_ptr()) for cache in past.caches]
    for step in range(4):
        _, past = shuffle(past, generator)
        before = [(cache.keys.clone(), cache.values.clone()) for cache in past.caches]
        past, answers = feed(past, lambda example, beam, step=step: 100 * step + 10 * example + beam + 1)
        written = slice(2 + step * 3, 2 + (step + 1) * 3)
        for cache, (keys, values), answer in zip(past.caches, before, answers, strict=True):
            assert answer[0].data_ptr() == cache.keys.data_ptr()  # a view, not a copy
            for now, then in ((cache.keys, keys), (cache.values, values)):
                changed = (now != then).any(-1).any(1)
                assert changed[:, written].all()
                changed[:, written] = False
                assert not changed.any()
        assert [(cache.keys.data_ptr(), cache.values.data_ptr()) for cache in past.caches] == addresses


def test_reordering_touches_the_index_of_slots_only():
    past = feed(begin(source=4), lambda example, beam: beam)[0]
    after = past.reorder(torch.tensor([[2, 2, 0], [1, 0, 1]]))
    assert after.caches is past.caches
    assert after.memories is past.memories
    assert after.where.slots[:, :, 0].tolist() == [[2, 2, 0], [1, 0, 1]]
    assert past.where.slots[:, :, 0].tolist() == [[0, 1, 2]] * 2


def test_only_kept_examples_go_on():
    past = feed(begin(batch=3, source=4), lambda example, beam: 10 * example + beam)[0]
    kept = past.keep(torch.tensor([2, 0]))
    assert kept.where.example.tolist() == [2, 0]
    assert len(kept.source.lengths) == 2
    assert torch.equal(kept.memories[1].values, past.memories[1].values[[2, 0]])
    kept, answers = feed(kept, lambda example, beam: 100 + 10 * example + beam)
    assert sights(kept, answers)[0] == [[0.5, 0.5, 20 + beam, 100 + beam] for beam in range(3)]
    assert sights(kept, answers)[1] == [[0.5, 0.5, beam, 110 + beam] for beam in range(3)]


def test_joined_examples_go_on_from_their_own_positions_under_the_larger_limit():
    early, late = begin(batch=1, limit=2, source=3), begin(batch=2, limit=5, source=6)
    early = feed(feed(early, lambda example, beam: 1)[0], lambda example, beam: 2)[0]
    joined = early.join(late)
    assert joined.where.taken.tolist() == [2, 0, 0]
    assert joined.where.example.tolist() == [0, 1, 2]
    assert joined.where.slots.shape == (3, 3, 5)
    assert joined.source.lengths.tolist() == [3, 6, 6]
    assert joined.source.longest == 6
    assert joined.memories[0].keys.shape[:3] == (3, GROUPS, 6)
    for step in range(3):
        joined, answers = feed(joined, lambda example, beam, step=step: 100 * (step + 1) + 10 * example + beam)
        first, second, third = sights(joined, answers)
        for beam in range(3):
            news = [[100.0 * (n + 1) + 10 * example + beam for n in range(step + 1)] for example in range(3)]
            assert first[beam] == [0.5, 0.5, 1, 2, *news[0]]
            assert second[beam] == [0.5, 0.5, *news[1]]
            assert third[beam] == [0.5, 0.5, *news[2]]
        newest, _ = joined.where.places(3, 0)
        assert newest[:, 0].tolist() == [4 + step, 2 + step, 2 + step]


def test_examples_keep_their_numbers_when_others_leave_and_join():
    past = begin(batch=3).keep(torch.tensor([2]))
    assert past.join(begin(batch=2)).where.example.tolist() == [2, 3, 4]


def test_the_number_of_an_example_that_left_is_not_given_again():
    past = begin(batch=3).keep(torch.tensor([0, 1])).keep(torch.tensor([0]))
    joined = past.join(begin(batch=2).keep(torch.tensor([0])))
    assert joined.where.example.tolist() == [0, 3]
    joined = joined.advance().reorder(torch.zeros(2, 3, dtype=torch.long)).keep(torch.tensor([0]))
    assert joined.join(begin(batch=1)).where.example.tolist() == [0, 5]
    nobody = begin(batch=2).keep(torch.tensor([], dtype=torch.long))
    assert nobody.join(begin(batch=1)).where.example.tolist() == [2]


def test_examples_of_different_prompts_see_their_own_and_no_more():
    where = Stepping.begin(torch.tensor([1, 3]), beams=2, limit=2, room=3).advance()
    assert where.visible_pairs()[0].int().tolist() == [[1, 0, 0, 1, 0], [1, 0, 0, 0, 1]]
    assert where.visible_pairs()[1].int().tolist() == [[1, 1, 1, 1, 0], [1, 1, 1, 0, 1]]
    newest, keys = where.places(2, 5)
    assert newest.tolist() == [[1, 1], [3, 3]]
    assert keys.tolist() == [[0, 1, 2, 1, 1], [0, 1, 2, 3, 3]]


def test_pasts_of_other_beams_cannot_join():
    with pytest.raises(ValueError, match="3 and of 2 beams cannot be stepped together"):
        begin().join(begin(beams=2))


def label(number, example, beam):
    return number + beam


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("rooms", [(1, 4), (4, 1), (2, 2)])
def test_examples_with_prompts_of_other_lengths_join_and_see_what_they_saw_alone(rooms, beams):
    def past(room, steps, number):
        one = begin(batch=1, beams=beams, room=room, limit=6)
        for step in range(steps):
            one, _ = feed(one, partial(label, 100 * number + 10 * step))
        return one

    alone = [past(room, steps, number) for number, (room, steps) in enumerate(zip(rooms, (2, 1), strict=True))]
    joined = past(rooms[0], 2, 0).join(past(rooms[1], 1, 1))
    assert joined.where.room == max(rooms)
    for _ in range(3):
        joined, answers = feed(joined, lambda example, beam: 7000 + beam)
        together = sights(joined, answers)
        for example in range(2):
            alone[example], answers = feed(alone[example], lambda example, beam: 7000 + beam)
            assert together[example] == sights(alone[example], answers)[0]


def test_rows_come_and_go_in_memory_that_stays_where_it_is():
    chance, past, held = random.Random(0), begin(batch=4, source=3, limit=8), None
    sources, numbers, fresh = {n: past.memories[0].keys[n].clone() for n in range(4)}, list(range(4)), 4
    for turn in range(30):
        staying = sorted(chance.sample(range(len(numbers)), chance.randint(1, min(3, len(numbers)))))
        chance.shuffle(staying)
        past, numbers = past.keep(torch.tensor(staying)), [numbers[row] for row in staying]
        new = begin(batch=chance.randint(1, 2), source=chance.randint(1, 3), limit=8)
        for row in range(len(new.where.taken)):
            sources[fresh] = new.memories[0].keys[row].clone()
            numbers.append(fresh)
            fresh += 1
        past = past.join(new)
        for row, number in enumerate(numbers):
            length = int(past.source.lengths[row])
            assert torch.equal(past.memories[0].keys[row, :, :length], sources[number])
        held = held or (past.caches[0].keys.data_ptr() if turn == 5 else None)
        assert held is None or past.caches[0].keys.data_ptr() == held
        if turn % 5 == 0:
            past, _ = feed(past, lambda example, beam: 1.0)


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("even", [False, True])
def test_a_past_beyond_its_limit_is_refused(beams, even):
    past = feed(begin(limit=1, beams=beams, even=even), lambda example, beam: 1)[0]
    with pytest.raises((RuntimeError, AssertionError, IndexError, ValueError)):
        feed(past, lambda example, beam: 1)


@pytest.mark.parametrize("beams", [1, 2])
def test_examples_that_are_known_to_be_even_are_stepped_as_if_they_were_not(beams):
    """Feeding, leaving, and joining at the same length or at another one, after which nothing is even any more."""
    told = iter(range(1, 9999))

    def same(known, unknown):
        labels = {(example, beam): next(told) for example in range(len(known.where.taken)) for beam in range(beams)}
        (known, one), (unknown, other) = (feed(past, lambda *at: labels[at]) for past in (known, unknown))
        assert sights(known, one) == sights(unknown, other)
        dense = stepping(known.where).dense(beams, one[0][0].shape[2])
        assert (dense is None) == known.where.open == (known.where.even and beams == 1)
        assert torch.equal(known.where.slots, unknown.where.slots)
        return known, unknown

    pair = same(*(begin(batch=3, beams=beams, limit=6, even=even) for even in (True, False)))
    pair = same(*(past.keep(torch.tensor([2, 0])) for past in pair))
    assert pair[0].where.even
    for steps in (2, 1):  # as long as they are, then shorter
        fresh = [begin(batch=1, beams=beams, limit=6, even=even) for even in (True, False)]
        for _ in range(steps):
            fresh = same(*fresh)
        pair = same(*(past.join(new) for past, new in zip(pair, fresh, strict=True)))
        assert pair[0].where.even == (steps == 2)
    assert not StaticDecoderState.of(begin(even=True)).where.even


def test_a_fixed_past_is_the_past_written_in_place():
    torch.manual_seed(0)
    past = begin(batch=2)
    fixed = StaticDecoderState.of(begin(batch=2))
    slots = fixed.where.slots
    for _ in range(3):
        parents = torch.randint(past.where.beams, (2, past.where.beams))
        past, fixed = past.reorder(parents).advance(), fixed.reorder(parents).advance()
        assert fixed.where.slots is slots
        taken = past.where.longest
        assert torch.equal(slots[:, :, :taken], past.where.slots[:, :, :taken])
        assert torch.equal(fixed.where.taken, past.where.taken)


def test_examples_take_rows_of_a_fixed_past_and_leave_the_others_alone():
    rows = StaticDecoderState.of(begin(batch=1, source=4)).blank(4, limit=5)
    rows.advance().reorder(torch.zeros(4, rows.where.beams, dtype=torch.long))
    new = StaticDecoderState.of(begin(batch=2, source=3))
    for memory in new.memories:
        memory.keys.fill_(7.0)
    rows.put(torch.tensor([2, 0]), new)
    assert rows.where.taken.tolist() == [0, 1, 0, 1]
    assert all(bool((memory.keys[[0, 2], :, :3] == 7.0).all()) for memory in rows.memories)
    assert all(bool((memory.keys[[1, 3]] == 0.0).all()) for memory in rows.memories)
    own = torch.arange(rows.where.beams)[:, None].expand(-1, 5)
    assert torch.equal(rows.where.slots[0], own)
    assert torch.equal(rows.source.lengths[[2, 0]], new.source.lengths)
