"""The guess at a language: right on nearly all shipped pairs, silent when nothing speaks, and no false alarm."""

import gzip
from importlib import resources

import numpy as np
import pytest

from regard.data import languages
from regard.data.language_names import LANGUAGES
from regard.data.languages import (
    BUCKETS,
    features,
    guess,
    identify,
    identify_foreign,
    identify_foreign_many,
    identify_many,
    is_surely,
    likeliest,
)

SAMPLES = resources.files("regard") / "samples"
OTHERS = {
    "de": "Ich hätte gern ein Zimmer mit Blick auf den See.",
    "es": "¿Dónde está la estación de tren más cercana?",
    "it": "Vorrei prenotare un tavolo per quattro persone.",
    "pt": "Não sei onde deixei as minhas chaves.",
    "nl": "Kunt u mij vertellen waar het station is?",
    "ca": "No sé on he deixat les claus de casa.",
    "ro": "Unde pot cumpăra un bilet de tren?",
    "pl": "Nie wiem, gdzie zostawiłem swoje klucze.",
    "cs": "Nevím, kde jsem nechal své klíče.",
    "sv": "Jag vet inte var jag har lagt mina nycklar.",
    "fi": "En tiedä, mihin olen jättänyt avaimeni.",
    "hu": "Nem tudom, hová tettem a kulcsaimat.",
    "tr": "Anahtarlarımı nereye koyduğumu bilmiyorum.",
}


def pairs() -> list[tuple[str, str]]:
    """English and French sentences that the table was not made from, or hardly: Tatoeba's, and our own."""
    tatoeba = gzip.decompress((SAMPLES / "tatoeba-fra-eng.test.tsv.gz").read_bytes()).decode().splitlines()
    everyday = (SAMPLES / "everyday.tsv").read_text(encoding="utf-8").splitlines()
    return [(line.split("\t")[0], line.split("\t")[1]) for line in (*tatoeba, *everyday)]


def sum_plainly(text: str) -> np.ndarray:
    """The log-odds of the languages: for every feature of a text a row of the table."""
    weights = np.frombuffer(languages.TABLE.read_bytes(), np.int8).reshape(BUCKETS, len(LANGUAGES))
    return weights[features(text)].sum(0, dtype=np.int64) / languages.SCALE


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
        ("anna@example.org", None),
    ],
)
def test_letters_and_words_tell_languages_apart(text: str, code: str | None):
    assert guess(text, ["en", "fr", "de"]) == code


def test_only_the_languages_asked_for_are_answered():
    assert guess("Ich weiß es nicht.", ["en"]) is None
    assert guess("The cat", ["xx"]) is None
    assert likeliest("The cat", ["xx"]) is None
    assert likeliest("Ich weiß es nicht.", ["en", "fr"]) in ("en", "fr"), "the nearer one, however far"


def test_it_is_right_on_nearly_all_shipped_sentences():
    both = pairs()
    right = sum(guess(english, ["en", "fr"]) == "en" for english, _ in both)
    right += sum(guess(french, ["en", "fr"]) == "fr" for _, french in both)
    assert right / (2 * len(both)) > 0.985  # some have two words


def test_no_sentence_is_taken_for_the_other_language_and_none_of_four_words_for_a_foreign_one():
    for english, french in pairs():
        assert not is_surely(english, "fr"), english
        assert not is_surely(french, "en"), french
        for text in (english, french):
            assert len(text.split()) < 4 or identify_foreign(text, ["en", "fr"]) is None, text


@pytest.mark.parametrize("code", OTHERS)
def test_other_languages_are_named(code: str):
    assert identify(OTHERS[code]).code == code
    assert identify_foreign(OTHERS[code], ["en", "fr"]) == code
    assert identify_foreign(OTHERS[code], ["en", code]) is None


def test_another_script_is_named_and_a_foreign_word_is_no_alarm():
    assert identify_foreign("Где находится вокзал?", ["en", "fr"]) == "Cyrillic"
    assert identify_foreign("駅はどこですか。", ["en", "fr"]) in ("CJK", "Hiragana")
    assert identify_foreign("Πού είναι ο σταθμός;", ["en", "fr"]) == "Greek"
    assert identify_foreign("The word спасибо is Russian.", ["en", "fr"]) is None
    assert identify_foreign("Wo ist der Bahnhof?", ["en", "xx"]) is None, "what the model knows is not known here"
    assert identify_foreign("42", ["en", "fr"]) is None


def test_short_text_is_never_sure_of_little():
    for text in ("Table", "OK", "Tom", "Paris", "Restaurant", "Pardon"):
        assert identify_foreign(text, ["en", "fr"]) is None
        assert not (is_surely(text, "en") and is_surely(text, "fr"))


def test_features_are_rows_of_the_table_and_see_no_case():
    found = features("Où EST la gare ?")
    assert found.min() >= 0
    assert found.max() < BUCKETS
    np.testing.assert_array_equal(found, features("où est la gare"))
    assert set(OTHERS) < set(LANGUAGES)


def test_many_texts_are_judged_as_each_alone():
    texts = [
        "",
        "...",
        "a",
        *(text for pair in pairs()[:700] for text in pair),
        *OTHERS.values(),
        "the " * 900,
        "Привет",
    ]
    together = identify_many(texts)
    assert together[0] is together[1] is together[-1] is None
    assert identify_many(texts) == together, "remembered"
    strange = identify_foreign_many(texts, ["en", "fr"])
    for text, found, stranger in zip(texts, together, strange, strict=True):
        languages._recent[0] = {}
        assert identify(text) == found
        if found is not None:
            odds = np.exp((logits := sum_plainly(text)) - logits.max())
            assert list(found.probabilities.values()) == pytest.approx((odds / odds.sum()).tolist(), rel=1e-12)
        assert identify_foreign(text, ["en", "fr"]) == stranger


def test_sums_of_the_longest_text_fit_beside_one_another():
    weights = np.frombuffer(languages.TABLE.read_bytes(), np.int8)
    rows = 5 * (languages.LONGEST + 2)  # words, and one to four letters in a row
    assert rows * int(np.abs(weights.astype(int)).max()) < 1 << (languages.BITS - 1)
    assert languages.BITS * languages.LANES <= 64
