"""Exact match and F1 of answers are those of SQuAD's official script."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.metrics.answers import exact_match, normalise, token_f1

WORDS = st.lists(
    st.sampled_from(["The", "a", "cat", "Cat.", "sat", "an", "1,000", "été", "“x”", "-", "theatre", "A.B."])
)


@pytest.mark.parametrize(
    ("answer", "right", "em", "f1"),
    [
        ("The Eiffel Tower!", ["eiffel tower"], 1, 1),
        ("cat sat", ["the cat sat down"], 0, 0.8),
        ("a b c d", ["x", "d c"], 0, 0.8),
        ("cat cat", ["cat"], 0, 2 / 3),
        ("", [], 1, 1),
        ("something", [], 0, 0),
        ("", ["x"], 0, 0),
        ("x", ["", "x"], 1, 1),
        ("", ["", "x"], 1, 1),
        ("", ["the", "x"], 0, 0),  # an answer of articles alone is none of the right ones
        ("the", ["the"], 1, 1),
        ("U.S.", ["US"], 1, 1),
    ],
)
def test_known_answers(answer, right, em, f1):
    assert exact_match(answer, right) == em
    assert token_f1(answer, right) == pytest.approx(f1)


def published(answer: str, right: str) -> float:
    """F1 as the paper defines it: the harmonic mean of precision and recall over words."""
    said, true = normalise(answer).split(), normalise(right).split()
    left, shared = list(true), 0
    for word in said:
        if word in left:
            left.remove(word)
            shared += 1
    if not said or not true:
        return float(said == true)
    precision, recall = shared / len(said), shared / len(true)
    return 2 * precision * recall / (precision + recall) if shared else 0.0


@given(WORDS, WORDS)
def test_f1_is_the_harmonic_mean_of_precision_and_recall(one, other):
    answer, right = " ".join(one), "\t".join(other)
    if normalise(right) or not right:
        assert exact_match(answer, [right]) == (normalise(answer) == normalise(right))
        assert token_f1(answer, [right]) == pytest.approx(published(answer, right))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("The  cat's-paw, an A.B.", "catspaw ab"),
        ("theatre of a man", "theatre of man"),
        ("“the” été", "“ ” été"),  # its punctuation is that of ASCII
        ("a\u00a0b", "b"),
    ],
)
def test_what_does_not_count_is_what_the_official_script_takes_away(text, left):
    assert normalise(text) == left
