"""Scores of captions: BLEU-1 to 4 are sacreBLEU's, CIDEr-D is that of pycocoevalcap.

`cider.json` holds the numbers of pycocoevalcap 1.2, made with its scorer on these very captions, which are tokenised
already: `scorer = CiderScorer(n=4)`, `scorer += (caption, references)` for each, `scorer.compute_score()`.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from regard.metrics.captions import cider, score_captions, words
from regard.metrics.significance import interval, paired_test

KEPT = json.loads((Path(__file__).parent / "cider.json").read_text())
ANSWERS = [one["caption"] for one in KEPT["pictures"]]
REFERENCES = [one["references"] for one in KEPT["pictures"]]


def test_cider_is_pycocoevalcaps():
    found = cider(ANSWERS, REFERENCES)
    assert np.allclose(found, [one["cider"] for one in KEPT["pictures"]], rtol=0, atol=1e-10)
    assert score_captions(ANSWERS, REFERENCES)["CIDEr-D"].score == pytest.approx(KEPT["corpus"], abs=1e-10)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_bleu_of_every_order_is_sacrebleus_with_and_without_penalty(order):
    short = [" ".join(answer.split()[:5]) for answer in ANSWERS]  # so that the penalty matters
    found = score_captions(short, REFERENCES)
    most = max(map(len, REFERENCES))
    streams = [[own[k] if k < len(own) else None for own in REFERENCES] for k in range(most)]
    theirs = BLEU(max_ngram_order=order, tokenize="none", force=True).corpus_score(short, streams)
    assert theirs.bp < 0.9
    assert found[f"BLEU-{order}"].score == pytest.approx(theirs.score, abs=1e-9)
    assert found[f"BLEU-{order} without penalty"].score == pytest.approx(theirs.score / theirs.bp, abs=1e-9)


def test_captions_are_compared_without_case_and_punctuation():
    assert words('A dog - wet , "happy" -- runs .') == ["a", "dog", "wet", "happy", "runs"]
    loud = [f"{answer.upper()} ." for answer in ANSWERS]
    told = {name: own.score for name, own in score_captions(ANSWERS, REFERENCES).items()}
    assert {name: own.score for name, own in score_captions(loud, REFERENCES).items()} == told


def test_the_own_references_as_answers_are_best():
    scores = score_captions([own[0] for own in REFERENCES], REFERENCES)
    assert scores["BLEU-4"].score == pytest.approx(100)
    assert scores["CIDEr-D"].score > KEPT["corpus"]


def test_every_score_has_an_interval_and_a_paired_test():
    good, bad = score_captions([own[0] for own in REFERENCES], REFERENCES), score_captions(ANSWERS, REFERENCES)
    for name, own in good.items():
        spread = interval(bad[name], samples=100)
        assert spread.low <= bad[name].score <= spread.high
        [_, verdict] = paired_test({"bad": bad[name], "good": own}, test="randomisation", samples=200)
        assert verdict.difference > 0
        assert verdict.p < 0.05
