"""Holding out: by content alone, and without leaving a held-out sentence in training."""

import hashlib
import re

from hypothesis import given
from hypothesis import strategies as st

from regard.data.holdout import Choice, Held, sentence, share

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
