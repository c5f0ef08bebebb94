"""Forbidden phrases: no whole word gets through, however it is cut; everything else does."""

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.decoding.forbidden import Forbidden
from regard.tasks.translation.phrases import holds_phrase, remove_phrases

PIECES = [
    None,
    None,
    b" ",
    b"s",
    b"'",
    b"occ",
    b"uper",
    b"occuper",
    b" occ",
    b"er",
    b"pr",
    b"\xc3\xa9",
    b"o",
    b"u",
    b"p",
]
PIECES += [b"!", b"\xe2", b"\x80", b"\xaf", b" s'", b"e", b"r", b" O", b"O", b"c", b"cc", b"-", b"upe"]
PIECES += [b"\xc3", b"\x89", b"\xc3\x89", b"R", b"OCC", b"CuP"]
END = 1


def banned(rule: Forbidden, tokens: list[int]) -> set[int]:
    scores = torch.zeros(1, 1, len(PIECES))
    rule.forbid(scores, torch.tensor([[[-1, -1, *tokens]]]), torch.tensor([0]), END)
    return set(torch.isinf(scores[0, 0]).nonzero().flatten().tolist())


def says(text: str, phrase: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", text, re.IGNORECASE) is not None


@given(
    st.lists(st.integers(2, len(PIECES) - 1), max_size=14),
    st.sampled_from([("occuper",), ("OCC", "o"), ("s'O",), ("É", "RO")]),
)
def test_a_text_gets_through_exactly_if_it_does_not_say_it(tokens, phrases):
    rule = Forbidden(tuple(PIECES), phrases)
    text = b"".join(PIECES[token] for token in tokens)
    try:
        text.decode()
    except UnicodeDecodeError:
        return
    stopped = any(token in banned(rule, tokens[:place]) for place, token in enumerate([*tokens, END]))
    assert stopped == any(says(text.decode(), phrase) for phrase in phrases) == holds_phrase(text.decode(), phrases)


def test_one_word_in_three_spellings():
    rule = Forbidden(tuple(PIECES), ("occuper",))
    number = {piece: place for place, piece in enumerate(PIECES)}
    for spelling in ([b"occuper"], [b"occ", b"uper"], [b"o", b"cc", b"upe", b"r"]):
        tokens = [number[b" s'"], *(number[piece] for piece in spelling)]
        found = banned(rule, tokens)
        assert {END, number[b" "], number[b"!"], number[b"\xe2"]} <= found  # none of these may end the word
        assert not {number[b"e"], number[b"er"], number[b"\xc3\xa9"]} & found  # a longer word is another one
    inside = [number[piece] for piece in (b"pr", b"\xc3\xa9", b"occ", b"uper")]
    assert banned(rule, inside) == set()


@pytest.mark.parametrize("phrase", ["Facebook", "facebook", "FACEBOOK"])
@pytest.mark.parametrize("text", ["facebook", "on Facebook!", "FACEBOOK IS", "FaceBook"])
def test_capitals_make_no_difference_in_either_direction(phrase, text):
    assert holds_phrase(text, [phrase])
    pieces = tuple(bytes([byte]) for byte in range(256))
    rule, written = Forbidden(pieces, (phrase,)), list(text.encode())
    scores = [torch.zeros(1, 1, 256) for _ in range(len(written) + 1)]
    for place, score in enumerate(scores):
        rule.forbid(score, torch.tensor([[[-1, *written[:place]]]]), torch.tensor([0]), 0)
    last = [*written, 0]
    assert any(torch.isinf(score[0, 0, last[place]]) for place, score in enumerate(scores))


def test_letters_with_two_small_forms_and_other_lengths_are_found():
    assert holds_phrase("STRASSE", ["Straße"])
    assert holds_phrase("l’ÉTÉ", ["l'été"])
    assert not holds_phrase("étés", ["été"])


def test_phrases_are_taken_out_of_a_text():
    assert remove_phrases("😀 12 + 3 😀", ["😀", "12"]) == "+ 3"
    assert remove_phrases("123", ["12"]) == "123"


def test_nothing_cannot_be_forbidden():
    with pytest.raises(ValueError, match="empty"):
        Forbidden(tuple(PIECES), (" ",)).check(1, len(PIECES))
