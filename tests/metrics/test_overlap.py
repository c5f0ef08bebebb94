"""Scores of text: sacreBLEU's own, with its signature, and clear words about what cannot be scored."""

import pytest
import sacrebleu

from regard.metrics.overlap import bleu, chrf, ter

ANSWERS = ["The cat sat on the mat.", "A dog runs fast", "It is raining , today"]
REFERENCES = ["The cat sits on the mat.", "The dog runs very fast.", "It is raining today."]


@pytest.mark.parametrize(("metric", "perfect"), [(bleu, 100), (chrf, 100), (ter, 0)])
def test_an_answer_equal_to_its_reference_is_perfect(metric, perfect):
    assert metric(REFERENCES, REFERENCES).value == pytest.approx(perfect)


@pytest.mark.parametrize(("metric", "worst"), [(bleu, 0), (chrf, 0), (ter, 100)])
def test_an_answer_that_shares_nothing_is_worthless(metric, worst):
    assert metric(["xx yy"], ["a b"]).value == pytest.approx(worst)


def test_corpus_scores_and_signatures_are_those_of_sacrebleu():
    for ours, theirs in (
        (bleu(ANSWERS, REFERENCES), sacrebleu.metrics.BLEU()),
        (
            bleu(ANSWERS, REFERENCES, lowercase=True, tokenize="intl"),
            sacrebleu.metrics.BLEU(lowercase=True, tokenize="intl"),
        ),
        (chrf(ANSWERS, REFERENCES), sacrebleu.metrics.CHRF()),
        (chrf(ANSWERS, REFERENCES, words=2), sacrebleu.metrics.CHRF(word_order=2)),
        (ter(ANSWERS, REFERENCES), sacrebleu.metrics.TER()),
    ):
        expected = theirs.corpus_score(ANSWERS, [REFERENCES])
        assert ours.value == expected.score
        assert ours.signature == str(theirs.get_signature())
        assert str(ours) == str(expected)


def test_the_signature_says_how_the_score_was_made():
    parts = bleu(ANSWERS, REFERENCES).signature.split("|")
    assert {"case:mixed", "tok:13a", "nrefs:1"} <= set(parts)
    assert "case:lc" in bleu(ANSWERS, REFERENCES, lowercase=True).signature


def test_more_references_never_hurt_and_not_all_answers_need_the_same_number():
    several = [[REFERENCES[0], ANSWERS[0]], [REFERENCES[1]], [REFERENCES[2], "Rain.", "It rains today."]]
    assert bleu(ANSWERS, several).value > bleu(ANSWERS, REFERENCES).value
    assert bleu(ANSWERS, [[one] for one in REFERENCES]).value == bleu(ANSWERS, REFERENCES).value


def test_empty_text_is_text():
    assert bleu(["", "a b c d"], ["a", "a b c d"]).value >= 0
    assert chrf([""], ["a"]).value == 0


@pytest.mark.parametrize("metric", [bleu, chrf, ter])
def test_what_cannot_be_scored_is_refused(metric):
    with pytest.raises(ValueError, match="3 answers but references for 2"):
        metric(ANSWERS, REFERENCES[:2])
    with pytest.raises(ValueError, match="put it in a list"):
        metric("abc", "abc")
    with pytest.raises(ValueError, match="answer 1 has no reference"):
        metric(ANSWERS, [["a"], [], ["b"]])


def test_an_empty_corpus_and_an_unknown_tokenizer_are_refused():
    with pytest.raises(ValueError, match="no answers"):
        bleu([], [])
    with pytest.raises(ValueError, match=r"unknown BLEU tokenizer 13b: .*13a"):
        bleu(ANSWERS, REFERENCES, tokenize="13b")
