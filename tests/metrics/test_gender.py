"""Man and woman in captions, against references, by cases that can be counted by hand."""

import numpy as np
import pytest

from regard.metrics import gender
from regard.metrics.significance import interval

RIDES, COOKS = ["A man is riding a bike .", "Someone riding a bike"], ["A woman cooking", "a person is cooking food"]


def cases() -> tuple[list[str], list[list[str]]]:
    """Six riders and four cooks: two of the riders and one of the cooks are a woman and a man, and captions err."""
    pictures = [
        ("a man riding", RIDES),
        ("a boy is riding a horse", RIDES),
        ("the man rides", RIDES),
        ("a guy riding", RIDES),
        ("A MAN RIDING", ["a woman is riding", "a girl riding"]),  # wrong
        ("a person riding", ["a woman is riding", "a girl riding"]),  # says neither
        ("a woman cooking", COOKS),
        ("a woman and a man cooking", COOKS),  # wrong about the man
        ("a woman", COOKS),
        ("a man cooking", ["a man cooking", "a chef cooking"]),
        ("a man with a dog", ["a dog running", "the dog runs, his tongue out"]),  # a guess
        ("a dog running", ["a dog running", "two dogs"]),
        ("a man dancing", ["a man and a woman dancing", "a couple dancing"]),  # either is right
    ]
    return [answer for answer, _ in pictures], [references for _, references in pictures]


def test_wrong_and_guessed_are_shares_of_the_captions_that_say_either():
    whole = gender.measure_activities(*cases(), least=3)[0]
    assert (whole.name, whole.pictures, whole.captions) == ("all", 10, 11)
    assert whole.wrong.score == pytest.approx(2 / 11)
    assert whole.guessed.score == pytest.approx(1 / 11)
    assert len(whole.wrong) == 11
    low, high = interval(whole.wrong).low, interval(whole.wrong).high
    assert 0 <= low < 2 / 11 < high < 1


def test_amplification_is_the_commoner_ones_share_in_captions_less_that_in_references():
    riding, cooking = (one for one in gender.measure_activities(*cases(), least=3) if one.name != "all")
    assert (riding.name, riding.pictures, riding.captions, riding.common) == ("riding", 6, 5, "man")
    assert riding.references == pytest.approx(4 / 6)
    assert riding.amplified.score == pytest.approx(5 / 5 - 4 / 6)
    assert riding.wrong.score == pytest.approx(1 / 5)
    assert (cooking.name, cooking.pictures, cooking.common) == ("cooking", 4, "woman")
    assert cooking.amplified.score == pytest.approx(2 / 3 - 3 / 4)  # a caption that says both says neither alone
    counts, chance = cooking.amplified.counts, np.random.default_rng(0)
    drawn = [counts[chance.integers(0, 4, 4)].sum(0) for _ in range(2000)]
    shares = np.sort([a / max(b, 1e-12) - c / d for a, b, c, d in drawn])
    assert interval(cooking.amplified).half == pytest.approx((shares[-51] - shares[50]) / 2, abs=0.1)


def test_an_activity_is_what_a_third_of_the_references_do():
    assert gender.activities(["riding", "a man riding", "sitting", "a man", "a horse"]) == {"riding"}
    assert gender.activities(["a man riding past a building", "a man, walking", "riding", "sitting"]) == {"riding"}
    assert gender.activities(["a man wearing a ring in the evening"]) == set()
    names = [one.name for one in gender.measure_activities(*cases(), least=5)]
    assert names == ["all", "riding"]


def test_pictures_without_either_have_nothing_to_be_measured_by():
    assert gender.measure_activities(["a man", "a dog"], [["a dog"], ["two dogs"]]) == []
    [silent] = gender.measure_activities(["a dog", "a person"], [["a man"], ["a woman"]])
    assert (silent.pictures, silent.captions, silent.wrong, silent.common) == (2, 0, None, None)
    assert gender.table([silent]).rows == [("all", "0", "", "", "neither", "50", "")]
    with pytest.raises(ValueError, match="1 captions but references for 2"):
        gender.measure_activities(["a"], [["a"], ["b"]])


def test_pronouns_of_dogs_are_not_men():
    assert gender.mentioned_genders("a dog with his ball") == set()
    assert gender.mentioned_genders("A Man, and two WOMEN") == {"man", "woman"}


def test_lines_and_json_have_every_number_with_its_interval():
    found = gender.measure_activities(*cases(), least=3)
    table = gender.table(found)
    assert [row[0] for row in table.rows] == ["all", "riding", "cooking"]
    assert table.rows[1][1] == "5"
    assert table.rows[1][2].startswith("20.0 ± ")
    assert table.rows[1][-1].startswith("+33.3 ± ")
    plain = found[1].plain()
    assert plain["amplified"]["low"] <= plain["amplified"]["score"] <= plain["amplified"]["high"]
    assert plain["common"] == "man"
