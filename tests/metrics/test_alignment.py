"""Alignment scores: values computed by hand, controls equal to what drawing at random gives, gold that is in range."""

import random
import re
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.tokenizers import WORD
from regard.metrics import alignment
from regard.metrics.alignment import (
    Counts,
    Gold,
    corpus,
    count_links,
    diagonal,
    parse_links,
    permutation_baseline,
    uniform_baseline,
)

SURE, POSSIBLE = parse_links("0-0 1-2 2-1 2p2")
LEAST = 25  # pairs in which an adjective follows its noun


def example(links: str, sources: int, targets: int) -> Gold:
    words = tuple("abcdefgh"[:sources]), tuple("ABCDEFGH"[:targets])
    return Gold(" ".join(words[0]), " ".join(words[1]), *words, *parse_links(links))


@pytest.fixture(scope="module")
def shipped() -> list[Gold]:
    return alignment.read()


def test_sure_links_are_possible_too():
    assert {(0, 0), (1, 2), (2, 1)} == SURE
    assert SURE | {(2, 2)} == POSSIBLE


@pytest.mark.parametrize(
    ("links", "message"), [("0:0", "is no link"), ("0-0 0p0", "linked twice"), ("-1-2", "no link")]
)
def test_a_link_that_cannot_be_read_is_refused(links: str, message: str):
    with pytest.raises(ValueError, match=message):
        parse_links(links)


def test_scores_are_those_computed_by_hand():
    links = {(0, 0), (2, 1), (2, 2), (1, 1)}  # two sure, one possible, one wrong
    assert alignment.precision(links, SURE, POSSIBLE) == 3 / 4
    assert alignment.recall(links, SURE, POSSIBLE) == 2 / 3
    assert alignment.aer(links, SURE, POSSIBLE) == pytest.approx(1 - (2 + 3) / (4 + 3))


def test_perfect_empty_and_wrong_links_have_their_scores():
    assert alignment.aer(SURE, SURE, POSSIBLE) == 0.0
    assert alignment.aer(POSSIBLE, SURE, POSSIBLE) == 0.0  # possible ones cost nothing
    assert alignment.aer(set(), SURE, POSSIBLE) == 1.0
    assert alignment.aer({(5, 5)}, SURE, POSSIBLE) == 1.0
    assert alignment.aer(set(), frozenset(), frozenset()) == 0.0


def test_with_sure_links_only_the_error_rate_is_one_minus_f1():
    links = {(0, 0), (2, 1), (1, 1)}
    precision, recall = alignment.precision(links, SURE, SURE), alignment.recall(links, SURE, SURE)
    assert alignment.aer(links, SURE, SURE) == pytest.approx(1 - 2 * precision * recall / (precision + recall))


def test_a_corpus_adds_counts_and_not_rates():
    one, other = count_links({(0, 0)}, SURE, POSSIBLE), count_links({(0, 0), (1, 1)}, *parse_links("0-0 1-1"))
    assert corpus([one, other]) == Counts(3, 5, 3, 3)
    assert corpus([one, other]).aer == pytest.approx(1 - 6 / 8)


def test_the_diagonal_is_the_identity_between_equal_lengths_and_never_leaves_the_sentence():
    assert diagonal(3, 3) == {(0, 0), (1, 1), (2, 2)}
    assert diagonal(2, 4) == {(0, 0), (0, 1), (1, 2), (1, 3)}
    assert diagonal(4, 2) == {(1, 0), (3, 1)}


@given(st.integers(1, 30), st.integers(1, 30))
def test_the_diagonal_links_every_target_word_once_in_order(sources: int, targets: int):
    links = sorted(diagonal(sources, targets), key=lambda link: link[1])
    assert [target for _, target in links] == list(range(targets))
    assert all(0 <= source < sources for source, _ in links)
    assert [source for source, _ in links] == sorted(source for source, _ in links)


def test_the_uniform_control_is_the_mean_of_random_links():
    gold = example("0-0 1-2 2-1 3p1", 4, 3)
    assert uniform_baseline(gold) == Counts(3, 3, 3 / 4, 4 / 4)
    draw = random.Random(0)
    drawn = [{(draw.randrange(4), place) for place in range(3)} for _ in range(4000)]
    mean = corpus(count_links(links, gold.sure, gold.possible) for links in drawn)
    assert mean.aer == pytest.approx(uniform_baseline(gold).aer, abs=0.01)


def test_the_permuted_control_is_the_mean_over_all_permutations():
    gold = example("0-0 1-2 2-1 2p2 3p1", 4, 3)
    chosen = [2, 0, 2]
    dealt = [{(source, place) for place, source in enumerate(order)} for order in permutations(chosen)]
    mean = corpus(count_links(links, gold.sure, gold.possible) for links in dealt)
    exact = permutation_baseline({(source, place) for place, source in enumerate(chosen)}, gold)
    assert exact.aer == pytest.approx(mean.aer)
    assert exact.found_sure == pytest.approx(mean.found_sure / 6)


def test_turning_twice_changes_nothing(shipped: list[Gold]):
    for gold in shipped:
        assert gold.swap_languages().swap_languages() == gold
        assert gold.swap_languages().source == gold.target


def test_a_hundred_pairs_ship_with_words_the_tokenizer_groups(shipped: list[Gold]):
    assert len(shipped) == 100
    assert len({gold.source_text for gold in shipped}) == 100
    for gold in shipped:
        assert list(gold.source) == WORD.findall(gold.source_text)
        assert list(gold.target) == WORD.findall(gold.target_text)
        assert 4 <= sum(word[0].isalnum() for word in gold.source) <= 16
        assert gold.sure < gold.possible or gold.sure == gold.possible
        assert re.fullmatch(r"CC-BY 2\.0 \(France\) Attribution: tatoeba\.org #\d+ .+ & #\d+ .+", gold.attribution)


def test_every_word_is_aligned_except_commas_without_a_partner(shipped: list[Gold]):
    for gold in shipped:
        linked = {source for source, _ in gold.possible}, {target for _, target in gold.possible}
        for words, own in zip((gold.source, gold.target), linked, strict=True):
            assert {word for place, word in enumerate(words) if place not in own} <= {","}


def test_punctuation_is_linked_with_punctuation_only(shipped: list[Gold]):
    for gold in shipped:
        for source, target in gold.possible:
            assert gold.source[source][0].isalnum() == gold.target[target][0].isalnum()


def test_adjectives_that_follow_their_nouns_are_many_and_their_links_cross(shipped: list[Gold]):
    assert sum(bool(gold.adjectives) for gold in shipped) >= LEAST
    for gold in shipped:
        for phrase in gold.adjectives:
            assert {phrase.word, phrase.noun} <= gold.sure
            assert phrase.word[0] < phrase.noun[0]
            assert phrase.word[1] > phrase.noun[1]


def test_articles_are_articles_on_both_sides_and_stand_before_their_nouns(shipped: list[Gold]):
    found = [(gold, phrase) for gold in shipped for phrase in gold.articles]
    assert len(found) >= LEAST
    for gold, phrase in found:
        assert gold.source[phrase.word[0]].lower() in {"the", "a", "an"}
        assert gold.target[phrase.word[1]].lower() in {"le", "la", "les", "un", "une"}
        assert phrase.word[0] < phrase.noun[0]
        assert phrase.word[1] < phrase.noun[1]


def test_the_rules_count_what_is_in_the_file(shipped: list[Gold]):
    rules = (alignment.SHIPPED.parent / "ALIGNMENT.md").read_text(encoding="utf-8")
    sure, possible = sum(len(gold.sure) for gold in shipped), sum(len(gold.possible) for gold in shipped)
    assert f"{sure} sure and {possible - sure} possible links" in rules
    assert f"{sum(len(gold.adjectives) for gold in shipped)} adjectives" in rules
    assert f"{sum(len(gold.articles) for gold in shipped)} articles" in rules


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a b\tA B\t0-0", "gold.tsv:1: 3 columns"),
        ("a b\tA B\t0-2\t\ta b\tA B\t\t", "no link 0-2 between 2 and 2 words"),
        ("a b\tA B\t0=1\t\ta b\tA B\t\t", "gold.tsv:1: '0=1' is no link"),
        ("a b\tA B\t0-1\t\ta c\tA B\t\t", "are not those of 'a b'"),
        ("a b\tA B\t0-1 1p0\t\ta b\tA B\t0-1\t", "both with sure links"),
    ],
)
def test_a_wrong_line_is_refused_with_its_place(tmp_path: Path, line: str, message: str):
    path = tmp_path / "gold.tsv"
    path.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(message)):
        alignment.read(path)
