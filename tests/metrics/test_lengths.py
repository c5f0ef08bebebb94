"""Scores by length: every sentence in one bucket, each bucket scored as if it were alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.metrics.lengths import by_length, count_words, length_ratio
from regard.metrics.overlap import bleu
from regard.metrics.significance import statistics

SOURCES = [" ".join(["mot"] * length) for length in (1, 3, 5, 6, 10, 11, 25, 70)]
REFERENCES = [source.replace("mot", "a word") for source in SOURCES]
ANSWERS = [" ".join(text.split()[:-1]) or "a" for text in REFERENCES]


def test_a_bucket_scores_as_its_sentences_alone():
    buckets = by_length(SOURCES, statistics("bleu", ANSWERS, REFERENCES), samples=20)
    assert [bucket.name for bucket in buckets] == ["1-5", "6-10", "11-15", "21-30", "61+"]
    for bucket in buckets:
        answers, references = ([side[i] for i in bucket.members] for side in (ANSWERS, REFERENCES))
        assert bucket.score == pytest.approx(bleu(answers, references).value)
        assert bucket.interval.low - 1e-9 <= bucket.interval.mean <= bucket.interval.high + 1e-9
        written, wanted = (sum(len(text.split()) for text in side) for side in (answers, references))
        assert bucket.ratio == pytest.approx(written / wanted)


@given(st.lists(st.integers(0, 90), min_size=1, max_size=12), st.sets(st.integers(1, 80), max_size=5))
def test_every_sentence_is_in_exactly_one_bucket(lengths, bounds):
    sources = ["x " * length for length in lengths]
    counts = statistics("bleu", ["a"] * len(sources), ["a"] * len(sources))
    buckets = by_length(sources, counts, bounds=sorted(bounds), samples=1)
    assert sorted(i for bucket in buckets for i in bucket.members) == list(range(len(sources)))
    for bucket in buckets:
        assert all(bucket.low <= lengths[i] <= (bucket.high or 10**9) for i in bucket.members)


def test_words_are_between_spaces_and_characters_where_there_are_none():
    assert [count_words(text) for text in ("", " a  b\tc'd ", "我是 Tom。", "l'eau-vive !")] == [0, 3, 3, 2]


def test_the_ratio_is_that_of_sacrebleu():
    text = bleu(ANSWERS, REFERENCES).text
    assert f"ratio = {length_ratio(statistics('bleu', ANSWERS, REFERENCES)):.3f}" in text


def test_bounds_that_do_not_rise_and_missing_sources_are_refused():
    counts = statistics("bleu", ANSWERS, REFERENCES)
    with pytest.raises(ValueError, match="must rise"):
        by_length(SOURCES, counts, bounds=[10, 5])
    with pytest.raises(ValueError, match="7 sources but 8 answers"):
        by_length(SOURCES[1:], counts)
