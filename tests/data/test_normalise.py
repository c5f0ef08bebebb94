"""Normalisation: what looks the same is the same, what is seen stays, and doing it twice changes nothing."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.normalise import TextConfig, normal, plain, read_text_settings, remove_invisible

AWKWARD = (
    "‘’“”„´′…‑−«»–—\u00a0\u202f\u2009\t\n\r\x0b\x85\u2028\u200b\u200c\u200d\u2060\ufeff\u00ad\u202e\0\x07"
    "e\u0301漢👩é'\" "
)
texts = st.text() | st.text(alphabet=AWKWARD, max_size=12)


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("I can’t swim.", "I can't swim."),
        ("It´s 5 o′clock", "It's 5 o'clock"),
        ("He said “hello” to „me‟.", 'He said "hello" to "me".'),
        ("I\u00a0like\u202ftea\u2009!", "I like tea !"),
        ("\tI\tlike  tea\r", "I like tea"),
        ("co\u00adopé\u200bra\u2060tion\ufeff", "coopération"),
        ("a\x00b\x07c\x9fd", "abcd"),
        ("e\u200bte\u0301", "eté"),
        ("well‑known… −5", "well-known... -5"),
        ("« Bonjour » – dit-il", "« Bonjour » – dit-il"),
        ("\u200b", ""),
        ("\u202aabc\u202c", "abc"),
        ("👩\u200d👩\u200d👧", "👩\u200d👩\u200d👧"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("wo\u200crd \u200d", "word"),
    ],
)
def test_what_looks_alike_is_read_alike(typed, read):
    assert normal(typed, "full") == read


def test_an_answer_keeps_its_typography_and_loses_what_is_invisible():
    how = TextConfig(normalise="full")
    assert how.normal("«\u00a0J’aime\u200b ça\u202f!\u00a0»", written=True) == "«\u00a0J’aime ça\u202f!\u00a0»"
    assert TextConfig(normalise="clean").normal("J’ai\u00ad\t") == "J’ai\t"
    assert TextConfig(normalise="none").normal("J’ai\u00ad\t") == "J’ai\u00ad\t"


@given(texts)
def test_normalising_twice_changes_nothing_more(text):
    for level in ("full", "clean", "none"):
        once = normal(text, level)
        assert normal(once, level) == once
    assert plain(plain(text)) == plain(text)
    assert remove_invisible(plain(text)) == plain(text)
    assert normal(plain(text), "full") == normal(text, "full")


@given(texts)
def test_letters_digits_and_marks_all_stay(text):
    def seen(text: str) -> str:
        return "".join(c for c in unicodedata.normalize("NFC", text) if c.isalnum() and c != "ʼ")

    assert seen(normal(text, "full")) == seen(remove_invisible(text))
    assert [c for c in remove_invisible(text) if c.isspace()] == [
        c for c in unicodedata.normalize("NFC", text) if c.isspace()
    ]


def test_a_checkpoint_without_a_record_is_read_as_it_was_trained():
    assert read_text_settings({"kind": "bpe"})["normalise"] == "none"
    assert read_text_settings(None)["normalise"] == "none"
    assert read_text_settings({"normalise": "full"})["normalise"] == "full"
