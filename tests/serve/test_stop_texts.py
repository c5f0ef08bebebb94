"""Stop texts: the earliest ends a text, in whatever pieces it grows."""

from __future__ import annotations

import itertools
import random

import pytest

from regard.serve.stop_texts import cut_at_stop, settle_before_stop

STOPS = (["abcd", "bc"], ["aab", "ab", "b"], ["aaa"], ["abab"], [])
LETTERS = "abcd"


def before_stop(text: str, stops: list[str]) -> str:
    """Return what is before the earliest stop text."""
    return text[: min([place for stop in stops if (place := text.find(stop)) >= 0], default=len(text))]


@pytest.mark.parametrize("stops", STOPS, ids="-".join)
def test_all_is_sent_that_no_further_letter_can_take_back_and_no_more(stops):
    """All texts of five letters, and all that they can become by three more."""
    for letters in itertools.product(LETTERS, repeat=5):
        text = "".join(letters)
        futures = [before_stop(text + "".join(more), stops) for more in itertools.product(LETTERS, repeat=3)]
        settled, is_ended = settle_before_stop(text, stops)
        beginnings = [text[:length] for length in range(len(text) + 1)]
        assert settled == max(
            (begin for begin in beginnings if all(future.startswith(begin) for future in futures)), key=len
        )
        assert is_ended == all(future == settled for future in futures)
        assert cut_at_stop(text, stops) == (before_stop(text, stops), before_stop(text, stops) != text)


def test_nothing_is_held_back_without_a_stop_text():
    assert settle_before_stop("abc", []) == ("abc", False)
    assert cut_at_stop("abc", []) == ("abc", False)


def test_a_stop_text_waits_for_one_that_began_before_it():
    """Pieces of one letter and of many agree: the longer one began first, if it is ever finished."""
    stops = ["long stop", "stop"]
    assert settle_before_stop("a lon", stops) == ("a ", False)
    assert settle_before_stop("a long sto", stops) == ("a ", False)
    assert settle_before_stop("a long stop", stops) == ("a ", True)
    assert settle_before_stop("a stop", stops) == ("a ", True)
    assert settle_before_stop("xabc", ["abcd", "bc"]) == ("x", False)
    assert settle_before_stop("xabce", ["abcd", "bc"]) == ("xa", True)
    assert cut_at_stop("xabc", ["abcd", "bc"]) == ("xa", True)


def test_a_long_text_is_settled_as_it_grows():
    letters = random.Random(1)
    text = "".join(letters.choice("ab ") for _ in range(2_000)) + "STOP" + "more"
    sent = ""
    for end in range(1, len(text)):
        settled, is_ended = settle_before_stop(text[:end], ["STOP", "STOPPED"])
        assert settled.startswith(sent)
        sent = settled
        if is_ended:
            break
    assert sent == text[:2_000]
