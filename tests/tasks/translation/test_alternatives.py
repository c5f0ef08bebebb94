"""What else was considered: probabilities are the model's, words are whole, the written word is never its own rival."""

import json
import math
from pathlib import Path

import pytest

import regard
from regard.tasks.translation.alternatives import Considered, consider
from regard.tasks.translation.model_calls import ScoreCall
from regard.tasks.translation.teacher_forcing import score_targets, score_tokens
from regard.tasks.translation.translator import Translator

TEXT = "Le chat noir dort. Le roi mange !"


@pytest.fixture(scope="module")
def translator(trained: Path) -> Translator:
    return regard.load(trained, device="cpu")


def choices(translator, source, tokens, *, top):
    """At each place of a translation, and at its end, the likeliest next tokens with their probabilities."""
    [score] = score_targets(translator, ScoreCall([source], [tokens], top))
    return [[(token, math.exp(chance)) for token, chance in place] for place in score.choices]


def test_the_answer_is_the_translators_word_by_word_and_its_probability_the_product(translator):
    answers = translator.answers(["Le chat noir dort.", "Le roi mange !"], beams=4, nbest=4)
    for found, answer in zip(consider(translator, TEXT), answers, strict=True):
        assert found.answer == answer.text
        assert "".join(place.text for place in found.places) == answer.text.replace(" ", "")
        assert found.places[-1].text == ""
        assert sum(math.log(place.probability) for place in found.places) == pytest.approx(answer.score, abs=1e-3)
        assert [text for text, _ in found.others] == [other.text for other in answer.alternatives]


def test_rivals_are_other_words_with_the_probability_of_their_letters(translator):
    [found, _] = consider(translator, TEXT, top=3, least=1e-5)
    source = translator.encode("Le chat noir dort.", None)
    [[best, *_]] = translator.hypotheses([source], [0], translator.decoding)
    first = choices(translator, source, best.tokens, top=translator.target.vocab)[0]
    seen = 0
    for number, place in enumerate(found.places):
        assert len(place.others) <= 3
        assert place.text not in [other.text for other in place.others if not other.joined]
        chances = [other.probability for other in place.others]
        assert chances == sorted(chances, reverse=True)
        assert all(1e-7 < chance <= 1 for chance in chances)
        if number == 0:  # the chance of a word cannot exceed that of its beginnings together
            assert sum(chances) + place.probability <= sum(chance for _, chance in first) + 1e-4
        seen += len(chances)
    assert seen > len(found.places)


def test_a_rivals_probability_is_that_of_writing_it_instead(translator):
    """The tokens of a rival, wherever its letters are spelled as the tokenizer would, have the product it is given."""
    [found, _] = consider(translator, TEXT, top=5, least=1e-6)
    source = translator.encode("Le chat noir dort.", None)
    checked = 0
    for other in found.places[0].others:
        tokens = translator.target.encode(other.text)
        [(_, scores)] = score_tokens(translator, [source], [tokens])
        chance = math.exp(float(scores[: len(tokens)].sum()))
        assert other.probability >= chance - 1e-6 or other.text == ""
        checked += other.probability == pytest.approx(chance, rel=1e-3)
    assert checked


def test_the_end_is_a_place_and_may_be_a_rival(translator):
    [found] = consider(translator, "Le roi dort.", top=30, least=1e-4, nbest=1, beams=2)
    assert any(other.text == "" for place in found.places[:-1] for other in place.others)
    source = translator.encode("Le roi dort.", None)
    tokens = translator.hypotheses([source], [0], translator.decoding)[0][0].tokens
    ended = dict(choices(translator, source, tokens, top=5)[-1])[translator.end]
    assert found.places[-1].probability == pytest.approx(ended, rel=1e-4)


def test_it_is_json_and_a_table(translator):
    [found, _] = consider(translator, TEXT, nbest=2)
    told = json.loads(json.dumps(found.plain()))
    assert told["places"][0]["text"] == found.places[0].text
    assert told["others"][0]["text"] == found.others[0][0]
    assert len(found.lines()) == len(found.places) + 2


def test_answers_that_look_the_same_are_shown_once():
    others = (("Où ?", -2.0), ("Où est-ce ?", -3.0), ("Où\u202f?", -4.0))
    found = Considered("Where?", "Où\u00a0?", -1.0, (), others)
    assert found.lines() == [("-1.000", "Où\u00a0?"), ("-3.000", "Où est-ce ?")]
    assert len(found.plain()["others"]) == 3


def test_nonsense_is_refused(translator):
    with pytest.raises(ValueError, match="at least 1"):
        consider(translator, TEXT, top=0)
    with pytest.raises(ValueError, match=r"decoding\.beems"):
        consider(translator, TEXT, beems=2)
    assert consider(translator, "  ") == []
