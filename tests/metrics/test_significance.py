"""Paired tests: the same numbers as sacreBLEU's from the same resamples, and sound where ties are."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest

from regard.metrics import significance
from regard.metrics.overlap import bleu, chrf, ter
from regard.metrics.significance import Statistics, corpus, interval, paired_test, statistics

TEXT = "the cat sat on a mat while many small dogs ran fast through our old garden . today it rains"
WORDS = TEXT.split()
THEIRS = {"bleu": BLEU, "chrf": CHRF, "ter": TER}


def texts(number: int, *, wrong: float, seed: int) -> tuple[list[str], list[str]]:
    """References, and the answers of a system that gets this share of their words wrong."""
    chance = random.Random(0)
    references = [[chance.choice(WORDS) for _ in range(chance.randint(3, 20))] for _ in range(number)]
    chance = random.Random(seed)
    answers = [[word if chance.random() > wrong else chance.choice(WORDS) for word in line] for line in references]
    return [" ".join(line) for line in references], [" ".join(line) for line in answers]


REFERENCES, BASELINE = texts(150, wrong=0.3, seed=1)
SYSTEMS = {"baseline": BASELINE} | {
    name: texts(150, wrong=wrong, seed=seed)[1] for name, wrong, seed in (("near", 0.29, 2), ("good", 0.2, 3))
}


@pytest.fixture(scope="module", params=["bleu", "chrf", "ter"])
def counts(request: pytest.FixtureRequest) -> dict[str, Statistics]:
    return {name: statistics(request.param, answers, REFERENCES) for name, answers in SYSTEMS.items()}


def theirs(counts: dict[str, Statistics], kind: str, samples: int) -> list:
    metric = counts["baseline"].metric
    test = PairedTest(
        list(SYSTEMS.items()), {metric: THEIRS[metric]()}, [REFERENCES], test_type=kind, n_samples=samples
    )
    _, scores = test()
    [results] = [results for name, results in scores.items() if name != "System"]
    return results


@pytest.mark.parametrize(("kind", "test"), [("bs", "bootstrap"), ("ar", "randomisation")])
def test_scores_and_p_values_are_those_of_sacrebleu_but_for_ties(counts, kind, test, monkeypatch):
    monkeypatch.setattr(significance, "TIE", -significance.TIE)  # as sacreBLEU: reached only when exceeded
    monkeypatch.setattr(significance, "ROWS", 64)  # several blocks give the same stream
    samples = 300
    for one, other in zip(paired_test(counts, test=test, samples=samples), theirs(counts, kind, samples), strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-9)
        assert one.p == other.p_value
        if kind == "bs":
            assert one.interval.mean == pytest.approx(other.mean, abs=1e-3)  # theirs sums in single precision
            assert one.interval.half == pytest.approx(other.ci, abs=1e-3)


@pytest.mark.parametrize("test", ["bootstrap", "randomisation"])
def test_a_clear_difference_is_found_and_a_system_differs_from_itself_by_chance(counts, test):
    [_, near, good] = paired_test(counts, test=test, samples=500)
    assert good.p < 0.01 < near.p
    assert good.wins > 0.99
    assert (good.difference < 0) == (good.metric == "ter")
    [_, again] = paired_test({"one": counts["baseline"], "same": counts["baseline"]}, test=test, samples=100)
    assert again.p == 1
    assert again.wins == 0


def test_randomisation_keeps_its_promise_when_there_is_no_difference():
    """Of many comparisons of two equally good systems, about one in five has p below 0.2."""
    chance, found = np.random.default_rng(0), []
    for _ in range(200):
        edits = chance.poisson(3.0, size=(2, 40, 1)).astype(float)
        lengths = np.full((40, 1), 10.0)
        one, other = (Statistics("ter", np.concatenate([own, lengths], 1), "") for own in edits)
        found.append(paired_test({"one": one, "other": other}, test="randomisation", samples=200)[1].p)
    assert 0.12 < np.mean(np.array(found) < 0.2) < 0.28


def test_the_same_seed_gives_the_same_verdict_and_another_does_not(counts):
    assert paired_test(counts, samples=50) == paired_test(counts, samples=50)
    assert paired_test(counts, samples=50)[1].interval != paired_test(counts, samples=50, seed=1)[1].interval


SENTENCES = st.lists(st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join), min_size=1, max_size=4)


@given(SENTENCES, SENTENCES)
def test_every_score_is_sacrebleus_even_of_next_to_nothing(answers, references):
    answers, references = (list(side) for side in zip(*zip(answers, references, strict=False), strict=True))
    for metric, ours in (("bleu", bleu), ("chrf", chrf), ("ter", ter)):
        counts, truth = statistics(metric, answers, references), ours(answers, references)
        assert counts.score == pytest.approx(truth.value, abs=1e-9)
        assert corpus(counts) == truth
    for metric, each in (("chrf", chrf), ("ter", ter)):
        expected = [each([answer], [reference]).value for answer, reference in zip(answers, references, strict=True)]
        assert statistics(metric, answers, references).sentences.tolist() == pytest.approx(expected)


def test_several_references_are_used_as_sacrebleu_uses_them():
    several = [
        [one, other] if number % 2 else [one]
        for number, (one, other) in enumerate(zip(REFERENCES, BASELINE, strict=True))
    ]
    for metric, ours in (("bleu", bleu), ("chrf", chrf), ("ter", ter)):
        assert corpus(statistics(metric, SYSTEMS["good"], several)) == ours(SYSTEMS["good"], several)


def test_an_interval_holds_the_score_and_narrows_with_more_sentences(counts):
    whole = interval(counts["good"], samples=200)
    part = interval(counts["good"].some(range(30)), samples=200)
    assert whole.low < counts["good"].score < whole.high
    assert whole.half < part.half


def test_what_cannot_be_compared_is_refused(counts):
    metric = counts["good"].metric
    with pytest.raises(ValueError, match="at least two"):
        paired_test({"one": counts["good"]})
    with pytest.raises(ValueError, match="one has 150, two has 3"):
        paired_test({"one": counts["good"], "two": counts["good"].some([0, 1, 2])})
    with pytest.raises(ValueError, match="unknown test"):
        paired_test(counts, test="guess")
    other = statistics("ter" if metric == "bleu" else "bleu", BASELINE, REFERENCES)
    with pytest.raises(ValueError, match="different metrics"):
        paired_test({"one": counts["good"], "two": other})


def test_what_cannot_be_counted_is_refused():
    with pytest.raises(ValueError, match="unknown metric meteor"):
        statistics("meteor", ["a"], ["a"])
    with pytest.raises(ValueError, match="unknown BLEU tokenizer 13b"):
        statistics("bleu", ["a"], ["a"], tokenize="13b")
    with pytest.raises(ValueError, match="2 answers but references for 1"):
        statistics("bleu", ["a", "b"], ["a"])
    with pytest.raises(ValueError, match="no answers"):
        statistics("bleu", [], [])
