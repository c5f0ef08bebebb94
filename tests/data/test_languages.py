"""The guess at a language: right on nearly all shipped pairs, silent when nothing speaks."""

import gzip
from importlib import resources

import pytest

from regard.data.languages import guess


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("The agreement was signed in August.", "en"),
        ("I don't know.", "en"),
        ("L'accord fut signé en août.", "fr"),
        ("Où est-il ?", "fr"),
        ("Ich weiß es nicht.", "de"),
        ("", None),
        ("12345 !", None),
        ("OK", None),
    ],
)
def test_small_words_tell_languages_apart(text: str, code: str | None):
    assert guess(text, ["en", "fr", "de"]) == code


def test_only_the_languages_asked_for_are_answered():
    assert guess("Ich weiß es nicht.", ["en"]) is None
    assert guess("The cat", ["xx"]) is None


def test_it_is_right_on_nearly_all_shipped_sentences():
    file = resources.files("regard") / "samples" / "tatoeba-fra-eng.test.tsv.gz"
    lines = gzip.decompress(file.read_bytes()).decode().splitlines()
    pairs = [line.split("\t")[:2] for line in lines]
    right = sum(guess(english, ["en", "fr"]) == "en" for english, _ in pairs)
    right += sum(guess(french, ["en", "fr"]) == "fr" for _, french in pairs)
    assert right / (2 * len(pairs)) > 0.93
