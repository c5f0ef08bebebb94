"""Sentences: joining the pieces gives the text back, and they end where a reader would say so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.sentences import Piece, as_one_piece, split_sentences

parts = ["Mr.", "M.", "3.", "z.B.", "end.", "Oui !", "«", "» ", "…", "?!", '"', ")", " ", "\n", "\r\n", "\u2028"]
texts = st.text() | st.lists(st.sampled_from(parts) | st.text(max_size=4)).map("".join)


def joined(pieces: list[Piece]) -> str:
    return "".join(text + gap for text, gap in pieces)


@given(texts, st.integers(1, 30))
def test_joining_the_pieces_gives_the_text_back(text, limit):
    for pieces in (
        split_sentences(text),
        as_one_piece(text),
        split_sentences(text, fits=lambda part: len(part) <= limit),
    ):
        assert joined(pieces) == text
        assert all(piece.text == piece.text.strip() for piece in pieces)
        assert all(not piece.gap.strip() for piece in pieces)
        assert all(piece.text for piece in pieces[1:])


@given(texts, st.integers(1, 30))
def test_every_piece_fits(text, limit):
    assert all(len(piece.text) <= limit for piece in split_sentences(text, fits=lambda part: len(part) <= limit))


@given(texts)
def test_no_sentence_runs_over_a_line_break(text):
    assert all("\n" not in piece.text for piece in split_sentences(text))


@pytest.mark.parametrize(
    "sentences",
    [
        ["Mr. Smith paid 3.14 dollars.", "He left... then came back!", "Why?!", "Nobody knows."],
        ["J. R. R. Tolkien wrote it, e.g. in Oxford.", "(He lived there.)", "It is 5 p.m. now."],
        ['He said "Stop!" and left.', '"No."', "She nodded.", "In 1999.", "Then nothing."],
        ["They sell tea, coffee, etc.", "Dr. Who vs. the U.S. Army.", "1. Open it.", "2. Close it."],
        ["M. Dupont et Mme. Martin sont là.", "Bonjour !", "Ça va ?", "« Oui ! » dit-il.", "« Non. »", "Il part…"],
        ["L'homme\u202f!", "«\u202fQuoi\u202f?\u202f»", "Voir p. 12 et art. 3 du code.", "Fin."],
        ["Am 3. Oktober kam z. B. Dr. Müller.", "Er sagte: »Geh!«", "Dann ging er bzw. lief er.", "Ende."],
        ["„Wirklich?“, fragte sie.", "Ja, d.h. nein.", "Das war 1999.", "Danach nichts."],
        ["Version 2.0 of example.org is out.", "See www.example.org.", "Bye."],
    ],
)
def test_sentences_end_where_a_reader_would_end_them(sentences):
    assert [piece.text for piece in split_sentences(" ".join(sentences))] == sentences


def test_blank_lines_and_indents_stay():
    text = "  Title\n\n\tFirst line\nsecond line.  Third.\n"
    assert split_sentences(text) == [
        Piece("", "  "),
        Piece("Title", "\n\n\t"),
        Piece("First line", "\n"),
        Piece("second line.", "  "),
        Piece("Third.", "\n"),
    ]
    assert split_sentences("") == as_one_piece("") == []
    assert split_sentences(" \n ") == [Piece("", " \n ")]


def test_a_long_sentence_is_cut_at_a_pause_then_at_a_space():
    text = "a sentence with many words, and then some; it goes on and on and on without any stop"
    pieces = split_sentences(text, fits=lambda part: len(part) <= 48)
    assert [piece.text for piece in pieces] == [
        "a sentence with many words, and then some;",
        "it goes on and on and on without any stop",
    ]
    assert all(part.text.split() for part in split_sentences(text, fits=lambda part: len(part) <= 12))
    assert joined(split_sentences(text, fits=lambda part: False)) == text


@pytest.mark.parametrize("text", [". " * 10_000, "." * 200_000, " " * 200_000, "\n" * 200_000, "1. Mai " * 10_000])
def test_strange_texts_take_no_more_than_a_moment(text):
    assert joined(split_sentences(text)) == text
