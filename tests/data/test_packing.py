"""Order: every example as often as its weight says, the same row for everyone who asks, a new order every epoch."""

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.packing import Cell, Packing, buckets, number, pack, permute


@given(st.integers(1, 3000), st.integers(0, 2**64 - 1))
def test_a_keyed_permutation_is_a_permutation(size, key):
    assert sorted(permute(np.arange(size), size, key)) == list(range(size))


def test_a_keyed_permutation_can_be_asked_place_by_place_and_for_huge_sizes():
    size = 10**11
    places = np.arange(0, size, size // 1000)
    together = permute(places, size, 5)
    assert [int(permute(np.array([place]), size, 5)[0]) for place in places[:20]] == together[:20].tolist()
    assert len(set(together.tolist())) == len(places)
    assert together.min() >= 0
    assert together.max() < size
    assert abs(together.mean() / size - 0.5) < 0.05


@pytest.mark.parametrize("size", [2, 3, 5, 8])
def test_over_many_keys_every_place_goes_everywhere_about_equally_often(size):
    keys = 600
    reached = np.zeros((size, size))
    for key in range(keys):
        reached[np.arange(size), permute(np.arange(size), size, number(key))] += 1
    deviation = np.abs(reached - keys / size) / math.sqrt(keys / size)
    assert deviation.max() < 4.5


def test_bounds_grow_to_the_longest():
    assert buckets(5) == [5]
    bounds = buckets(256)
    assert bounds[0] == 8
    assert bounds[-1] == 256
    assert all(1 < after / before <= 1.25 for before, after in pairwise(bounds[:-1]))
    assert len(bounds) < 25


BOUNDS = {longest: buckets(longest) for longest in range(4, 25)}


@st.composite
def corpora(draw) -> tuple[list[list[int]], list[int], list[float], int]:
    """Examples by bucket and corpus, bounds, weights, token budget."""
    bounds = BOUNDS[draw(st.integers(4, 24))]
    weights = draw(st.lists(st.sampled_from([1.0, 1.0, 2.0, 0.5, 1.5, 0.1]), min_size=1, max_size=3))
    cells = [[draw(st.integers(0, 12)) for _ in weights] for _ in bounds]
    cells[-1][0] += 1
    return cells, bounds, weights, draw(st.integers(bounds[-1], 120))


def packed(corpora, seed: int = 0) -> Packing:
    cells, bounds, weights, tokens = corpora
    return pack(cells, bounds, weights=weights, tokens=tokens, seed=seed)


def seen(packing: Packing, rows: range) -> Counter:
    return Counter(int(place) for row in rows for place in packing.row(row)[0])


@given(corpora(), st.integers(0, 3), st.integers(0, 2**40))
def test_an_epoch_shows_every_example_as_often_as_its_weight_says(corpora, epoch, seed):
    cells, _, weights, _ = corpora
    packing = packed(corpora, seed)
    counts = seen(packing, range(epoch * packing.rows, (epoch + 1) * packing.rows))
    place = 0
    for bucket in cells:
        for size, weight in zip(bucket, weights, strict=True):
            times = [counts[place + example] for example in range(size)]
            assert all(math.floor(weight) <= time <= math.ceil(weight) for time in times)
            assert sum(times) == math.ceil(size * weight - 1e-9)
            place += size
    assert max(counts) < place


@given(corpora())
def test_a_row_fits_the_budget_and_is_never_empty(corpora):
    cells, bounds, weights, tokens = corpora
    packing = packed(corpora)
    longest = np.repeat(np.repeat(bounds, len(weights)), np.ravel(cells))  # the bound of each place's own bucket
    for row in range(packing.rows):
        places, bound = packing.row(row)
        assert len(places) >= 1
        assert len(places) * bound <= tokens
        assert longest[places].max() <= bound
        tail = -(-tokens // bound)
        assert len(places) + tail <= packing.segments


@given(corpora(), st.integers(1, 7))
def test_processes_together_see_what_one_sees_alone(corpora, world):
    packing = packed(corpora)
    rows = range(packing.rows + 3)
    shares = [seen(packed(corpora), rows[rank::world]) for rank in range(world)]
    assert sum(shares, Counter()) == seen(packing, rows)


def test_a_row_is_a_pure_function_of_seed_and_number():
    corpus = ([[50], [70], [20]], [8, 10, 12], [1.0], 40)
    asked = [3, 0, 40, 3, 10**9, 1, 0]
    first, second = ([packed(corpus, 7).row(row)[0].tolist() for row in order] for order in (asked, asked[::-1]))
    assert first == second[::-1]


def test_epochs_and_seeds_differ_in_rows_and_inside_them():
    corpus = ([[50], [70], [20]], [8, 10, 12], [1.0], 40)

    def epoch(seed: int, which: int) -> list[tuple[int, ...]]:
        packing = packed(corpus, seed)
        return [tuple(packing.row(which * packing.rows + row)[0].tolist()) for row in range(packing.rows)]

    orders = [epoch(seed, which) for seed in (0, 1) for which in (0, 1, 2)]
    contents = [{tuple(sorted(row)) for row in order} for order in orders]
    for index, order in enumerate(orders):
        for other in range(index):
            assert order != orders[other]
            assert contents[index] != contents[other]


def test_half_a_corpus_is_another_half_every_time_and_all_of_it_in_the_end():
    packing = packed(([[100]], [8], [0.5], 80))
    epochs = [set(seen(packing, range(epoch * packing.rows, (epoch + 1) * packing.rows))) for epoch in range(20)]
    assert all(len(epoch) == 50 for epoch in epochs)
    assert len({frozenset(epoch) for epoch in epochs}) == 20
    assert set.union(*epochs) == set(range(100))


def test_rows_mix_the_corpora_of_a_bucket():
    packing = packed(([[500, 500]], [8], [1.0, 1.0], 400))
    for row in range(packing.rows):
        shares = (packing.row(row)[0] < 500).mean()
        assert 0.2 < shares < 0.8


def test_a_hundred_million_examples_cost_no_more_than_a_hundred():
    packing = packed(([[60_000_000], [40_000_000]], [8, 10], [1.0], 512))
    places = np.concatenate([packing.row(row)[0] for row in range(50)])
    assert packing.rows == 60_000_000 // 64 + -(-40_000_000 // 51)
    assert len(set(places.tolist())) == len(places)


@pytest.mark.parametrize(("tokens", "least"), [(20480, 0.92), (4096, 0.88), (512, 0.70)])
def test_rows_of_known_lengths_are_nearly_full_and_never_too_full(tokens, least):
    chance = np.random.default_rng(0)
    source = chance.lognormal(3.2, 0.55, 100_000 if tokens > 512 else 20_000).clip(3, 128).astype(int)
    target = (source * chance.uniform(0.8, 1.3, len(source))).clip(3, 128).astype(int)
    bounds = buckets(128)
    bucket = np.searchsorted(bounds, np.maximum(source, target))
    order = np.argsort(bucket, kind="stable")
    inside = [np.stack([source, target])[:, bucket == number] for number in range(len(bounds))]
    cells = [
        [Cell(each.shape[1], tuple(each.sum(1).astype(float).tolist()), tuple((each**2).sum(1).astype(float).tolist()))]
        for each in inside
    ]
    packing = pack(cells, bounds, weights=[1.0], tokens=tokens, seed=0)
    sums = [[int(side[order[packing.row(row)[0]]].sum()) for side in (source, target)] for row in range(packing.rows)]
    assert np.max(sums) <= tokens
    assert np.mean(sums) / tokens > least
    assert max(len(packing.row(row)[0]) for row in range(packing.rows)) <= max(group.most for group in packing.groups)
    worst = pack([[cell.size for cell in each] for each in cells], bounds, weights=[1.0], tokens=tokens, seed=0)
    assert packing.rows < worst.rows


def test_a_few_long_examples_are_packed_as_if_all_were_longest():
    unlike = [[Cell(100, (2000.0, 2000.0), (90_000.0, 90_000.0))]]
    assert pack(unlike, [100], weights=[1.0], tokens=400, seed=0).rows == 25
