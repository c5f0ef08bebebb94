"""Holding out: by content alone, and without leaving a held-out sentence in training."""

import hashlib
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.holdout import (
    Choice,
    Held,
    count_to_hold_out,
    draw_of_classes,
    hold_out,
    hold_out_of_classes,
    leave_out_measured,
    sentence,
    share,
)

words = st.sampled_from(["a", "b", "c", "d", "e", "A", "b!", " c", "Straße", "STRASSE"])
pairs = st.lists(st.tuples(words, words, st.sampled_from([None, "fr", "de"])), min_size=1, max_size=30)


def chosen(pairs, most: int, part: float) -> Held:
    choice = Choice(most)
    for line, (source, target, tag) in enumerate(pairs):
        choice.offer(0, line, (source, target), tag)
    return choice.held(part, of=len(pairs))


@given(pairs, st.integers(1, 5), st.floats(0.01, 0.9), st.randoms(use_true_random=False))
def test_the_choice_does_not_depend_on_the_order_of_the_lines(pairs, most, part, random):
    mixed = random.sample(pairs, len(pairs))
    first, second = chosen(pairs, most, part), chosen(mixed, most, part)
    assert first.sentences == second.sentences
    assert {pairs[line] for _, line in first.lines} == {mixed[line] for _, line in second.lines}


@given(pairs, st.integers(1, 5), st.floats(0.01, 0.9))
def test_what_does_not_touch_the_held_out_pairs_shares_no_sentence_with_them(pairs, most, part):
    held = chosen(pairs, most, part)
    assert held.lines
    taken = {sentence(text) for _, line in held.lines for text in pairs[line][:2]}
    kept = [pair for line, pair in enumerate(pairs) if not held.touches(*pair[:2])]
    assert not taken & {sentence(text) for pair in kept for text in pair[:2]}
    assert len({sentence(pairs[line][0]) for _, line in held.lines}) <= most


def test_a_source_with_many_translations_is_held_out_once_for_each_language():
    pairs = [("go", f"va {n}", tag) for n in range(20) for tag in ("fr", "de")]
    assert len(chosen(pairs, 10, 0.5).lines) == 2


def test_sentences_that_differ_in_case_and_punctuation_are_alike():
    assert sentence("Vas-y !") == sentence("vas y.")
    assert sentence("!") != sentence("?")
    assert sentence("a b") != sentence("a c")


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_plain_letters_are_no_other_sentence_than_the_same_among_accents(text):
    reference = re.sub(r"\W+", "", text.casefold()) or text
    number = int.from_bytes(hashlib.blake2b(reference.encode(), digest_size=8).digest(), "little")
    assert sentence(text) == number
    assert sentence(f"{text}é") == sentence(f"{text.upper()} É!")


def test_shares_are_spread_evenly():
    shares = [share(str(n), "x") for n in range(2000)]
    assert all(0 <= one < 1 for one in shares)
    assert 0.45 < sum(shares) / len(shares) < 0.55


keyed = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 3)), min_size=1, max_size=40)


@given(keyed, st.floats(0.01, 0.99), st.booleans(), st.randoms(use_true_random=False))
def test_equal_examples_are_on_one_side_in_whatever_order_they_come(examples, part, by_group, random):
    def held(examples) -> set[int]:
        keys = np.array([key for key, _ in examples], np.uint64)
        total = len(np.unique(keys)) if by_group else len(keys)
        mask = hold_out(keys, count_to_hold_out(part, total), by_group=by_group)
        assert not set(keys[mask].tolist()) & set(keys[~mask].tolist())
        assert mask.sum() >= count_to_hold_out(part, total)
        return set(keys[mask].tolist())

    assert held(examples) == held(random.sample(examples, len(examples)))


@given(keyed, st.floats(0.01, 0.99), st.integers(0, 1))
def test_a_share_of_every_class_is_held_out_and_never_all_of_it(examples, part, leave):
    keys, labels = (np.array(column) for column in zip(*examples, strict=True))
    mask = hold_out_of_classes(keys.astype(np.uint64), labels, part, leave=leave)
    for label in np.unique(labels):
        members = labels == label
        assert not mask[members].all()
        assert set(keys[members & mask]).isdisjoint(keys[members & ~mask])
        if len(set(keys[members])) == members.sum() > 1 and count_to_hold_out(part, int(members.sum()), leave=leave):
            expected = count_to_hold_out(part, int(members.sum()), leave=leave)
            assert mask[members].sum() == expected % members.sum()


def test_at_least_one_example_is_held_out_and_no_more_than_allowed():
    assert [count_to_hold_out(0.01, total) for total in (1, 10, 1000)] == [1, 1, 10]
    assert count_to_hold_out(0.9, 4) == 4
    assert count_to_hold_out(0.9, 4, leave=1) == 3
    assert count_to_hold_out(0.5, 100, most=7) == 7


def test_examples_known_by_number_are_drawn_alike_for_a_seed_and_one_of_a_class_stays():
    labels = np.array([0, 1, 1, -1, 0, 0, 1, 2, -1] * 5)
    masks = [draw_of_classes(labels, 3, 0.9, seed=seed) for seed in (0, 0, 1)]
    assert np.array_equal(masks[0], masks[1])
    assert not np.array_equal(masks[0], masks[2])
    assert [int((labels[~masks[0]] == label).sum()) for label in range(3)] == [1, 1, 1]
    assert not masks[0][labels < 0].any()


def test_what_equals_an_example_to_measure_on_is_left_out_and_told_in_a_line():
    stay, notes = leave_out_measured(np.array([1, 2, 3, 2]), np.array([2, 9]), lambda number: f"{number}.png")
    assert stay.tolist() == [True, False, True, False]
    assert notes == ["left out of training: 2 equal to pictures that are measured on: 1.png, 3.png"]
    assert leave_out_measured(np.array([1]), np.array([2]), str) == (np.array([True]), [])
    with pytest.raises(ValueError, match=r"0: every training picture is also measured on: give others in data\.valid"):
        leave_out_measured(np.array([2]), np.array([2]), str)
