"""Filters: a file that is filtered trains as the file from which those lines were taken."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data import dedup
from regard.data.readers import Corpus
from regard.data.tokenizers import TokenizerConfig
from regard.tasks.translation.pairs import PairsConfig, Prepared, prepare

SMALL = TokenizerConfig(vocab=320)
words = st.sampled_from(["un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf", "dix", "onze chats"])
pair = st.tuples(words, words)


@st.composite
def repeating(draw) -> list[tuple[str, str]]:
    """At least nine different pairs, some of them several times."""
    different = draw(st.lists(pair, min_size=9, max_size=25, unique=True))
    return draw(st.permutations(different + draw(st.lists(st.sampled_from(different), max_size=20))))


def prepared(tmp_path, name: str, pairs, **filters) -> Prepared:
    path = tmp_path / name
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    config = PairsConfig(train=(Corpus(path=str(path)),), max_length=32, validation_size=2, **filters)
    return prepare(config, SMALL, seed=0, cache=tmp_path / "cache")


def same(one: Prepared, other: Prepared) -> bool:
    return (
        one.source_tokenizer.json() == other.source_tokenizer.json()
        and one.train.fingerprint == other.train.fingerprint
        and one.valid.fingerprint == other.valid.fingerprint
    )


@settings(max_examples=10)
@given(repeating(), st.integers(1, 30))
def test_dropping_duplicates_is_training_on_the_file_without_them(tmp_path, pairs, held):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dedup, "ROWS", held)
        dropped = prepared(tmp_path, "a.tsv", pairs, duplicates="drop")
    assert same(dropped, prepared(tmp_path, "b.tsv", list(dict.fromkeys(pairs))))
    (report,) = dropped.report["train"]["corpora"]
    found = report["dropped"].get("repeating an earlier pair", {"count": 0, "places": []})
    lines = [number for number, pair in enumerate(pairs, start=1) if pair in pairs[: number - 1]]
    assert found["count"] == len(lines)
    assert found["places"] == [f"{tmp_path / 'a.tsv'}:{line}" for line in lines[:5]]


@settings(max_examples=10)
@given(repeating(), st.sampled_from([1.0, 1.5, 2.0, 4.0]))
def test_a_ratio_is_training_on_the_file_without_what_exceeds_it(tmp_path, pairs, ratio):
    rest = [pair for pair in pairs if max(map(len, pair)) / min(map(len, pair)) <= ratio]
    if len(set(rest)) < 9:
        return
    filtered = prepared(tmp_path, "a.tsv", pairs, ratio=ratio)
    assert same(filtered, prepared(tmp_path, "b.tsv", rest))
    (report,) = filtered.report["train"]["corpora"]
    found = report["dropped"].get(f"over {ratio:g} times as long on one side", {"count": 0})
    assert found["count"] == len(pairs) - len(rest)


def test_the_same_pair_in_another_corpus_is_a_duplicate_unless_its_tag_differs(tmp_path, corpus):
    one = Corpus(source=str(corpus.source), target=str(corpus.target))
    twice = PairsConfig(train=(one, one), duplicates="drop")
    found = prepare(twice, SMALL, seed=0, cache=tmp_path / "cache")
    assert found.report["train"]["corpora"][1]["kept"] == 0
    assert found.report["train"]["corpora"][1]["dropped"]["repeating an earlier pair"]["count"] == 180
    tagged = replace(twice, train=(replace(one, tag="en"), replace(one, tag="fr")))
    both = [corpus["kept"] for corpus in prepare(tagged, SMALL, seed=0).report["train"]["corpora"]]
    assert both[0] == both[1] > 0


def test_a_validation_corpus_is_measured_on_whole_whatever_the_filters(tmp_path, corpus):
    one = Corpus(source=str(corpus.source), target=str(corpus.target))
    path = tmp_path / "valid.tsv"
    path.write_text("a\tbbbbbbbbbb\n" * 3)
    config = PairsConfig(train=(one,), valid=(Corpus(path=str(path)),), duplicates="drop", ratio=2.0)
    assert len(prepare(config, SMALL, seed=0, cache=tmp_path / "cache").valid) == 3


def test_a_filter_that_leaves_nothing_is_an_error_that_says_so(tmp_path):
    with pytest.raises(ValueError, match=r"no pair is left for train: 9 over 2 times .*a\.tsv:1, .*raise data\.ratio"):
        prepared(tmp_path, "a.tsv", [("a", "bbb")] * 9, ratio=2.0)
    with pytest.raises(ValueError, match="no pair is left for train"):
        prepared(tmp_path, "a.tsv", [("a", "bbb")] * 9, duplicates="drop")


def test_places_in_a_filtered_corpus_are_lines_of_the_file(tmp_path):
    found = prepared(tmp_path, "a.tsv", [(f"mot {n // 2}", f"word {n // 2}") for n in range(40)], duplicates="drop")
    lines = [int(place.rpartition(":")[2]) for place in found.train.places(np.arange(len(found.train)))]
    assert all(line % 2 for line in lines)
    assert len(lines) == len(found.train)
