"""Pronouns and their nouns: a head that knows them is found, one that looks at a place or at any noun is not."""

import json
from collections.abc import Callable

import pytest
import torch

from regard.cli import run
from regard.interpret.measure.pronouns import (
    PronounSentence,
    measure_looks,
    pronoun_table,
    read_sentences,
    score_chosen_head,
    score_heads,
)
from regard.interpret.trace import Item, Trace, Weights

SENTENCES = read_sentences()
Look = Callable[[PronounSentence], dict[int, float]]


def knows(sentence: PronounSentence) -> dict[int, float]:
    """All on the right noun."""
    return {sentence.noun: 1.0}


def looks_back(sentence: PronounSentence) -> dict[int, float]:
    """All on the noun that stands first."""
    return {min(sentence.noun, sentence.other): 1.0}


def looks_at_nouns(sentence: PronounSentence) -> dict[int, float]:
    """Half on either noun."""
    return {sentence.noun: 0.5, sentence.other: 0.5}


def trace(sentence: PronounSentence, *heads: Look) -> Trace:
    """What heads give from the pronoun; other words look at themselves, and every word is one token."""
    words = [*sentence.text.removesuffix(".").split(), "."]
    items = [*(Item(word, number) for number, word in enumerate(words)), Item("<eos>", special=True)]
    weights = torch.eye(len(items)).repeat(len(heads), 1, 1)
    for head, look in enumerate(heads):
        weights[head, sentence.pronoun] = 0
        for place, weight in look(sentence).items():
            weights[head, sentence.pronoun, place] = weight
    attention = Weights("encoder.0.attention", "source", "source", weights)
    return Trace("made", "translation", {"source": items}, [attention])


def looked(*heads: Look):
    return measure_looks(SENTENCES, [trace(sentence, *heads) for sentence in SENTENCES])


def test_the_sentences_are_twins_whose_nouns_change_places():
    assert [sentence.clue for sentence in SENTENCES] == ["meaning"] * 24 + ["form"] * 12
    for first, second in zip(SENTENCES[::2], SENTENCES[1::2], strict=True):
        words, twin = first.text.split(), second.text.split()
        assert words[: first.pronoun] == twin[: second.pronoun]
        assert words != twin
        assert (first.pronoun, first.noun, first.other) == (second.pronoun, second.other, second.noun)
        assert max(first.noun, first.other) < first.pronoun
        pronouns = {words[first.pronoun], twin[second.pronoun]}
        assert pronouns == {"it"} if first.clue == "meaning" else len(pronouns) == 2
        assert pronouns <= {"it", "he", "she", "they"}


def test_only_a_head_that_knows_the_noun_prefers_it():
    scores = {score.head: score for score in score_heads(looked(knows, looks_back, looks_at_nouns), "meaning")}
    assert (scores[0].noun, scores[0].other, scores[0].preferred) == (1.0, 0.0, 24)
    assert (scores[1].noun, scores[1].other, scores[1].preferred) == (0.5, 0.5, 12)
    assert (scores[2].noun, scores[2].other, scores[2].preferred) == (0.5, 0.5, 0)
    assert [score.head for score in score_heads(looked(looks_back, knows), "form")] == [1, 0]


def test_a_head_is_chosen_on_one_half_of_the_twins_and_scored_on_the_other():
    def knows_every_other_pair(sentence: PronounSentence) -> dict[int, float]:
        return knows(sentence) if SENTENCES.index(sentence) // 2 % 2 == 0 else looks_back(sentence)

    def knows_the_others(sentence: PronounSentence) -> dict[int, float]:
        return knows(sentence) if SENTENCES.index(sentence) // 2 % 2 else looks_back(sentence)

    by_luck = score_chosen_head(looked(knows_every_other_pair, knows_the_others), "meaning")
    assert (by_luck.noun, by_luck.other, by_luck.preferred, by_luck.sentences) == (0.5, 0.5, 12, 24)
    steady = score_chosen_head(looked(looks_back, knows), "meaning")
    assert (steady.noun, steady.preferred) == (1.0, 24)


def test_an_even_look_shares_among_what_is_in_sight():
    def looks_evenly(sentence: PronounSentence) -> dict[int, float]:
        size = len(sentence.text.split()) + 2  # full stop and end
        return dict.fromkeys(range(size), 1 / size)

    [score] = score_heads(looked(looks_evenly), "form")
    assert score.noun == pytest.approx(score.even) == pytest.approx(score.other)


def test_the_table_says_both_clues_and_a_text_of_other_words_is_refused():
    table = pronoun_table(looked(knows, looks_back))
    assert table.finding.count("gives 100% to the right noun") == 2
    assert [table.rows[number][0] for number in table.main] == ["meaning"] * 3 + ["form"] * 3
    first = SENTENCES[0]
    with pytest.raises(ValueError, match="not the words of English"):
        measure_looks([first], [trace(SENTENCES[-1], knows)])


def test_the_command_measures_the_shipped_encoder_and_refuses_what_it_has_no_use_for(capsys, tmp_path):
    assert run(["explain", "encoder", "--pronouns", "--json"]) == 0
    [table] = json.loads(capsys.readouterr().out)
    assert len(table["rows"]) == 2 * (1 + 6 * 5)  # six blocks of five heads, and the one that is chosen
    for row in table["rows"]:
        assert 0 <= row[2] + row[3] <= 1
    for words, message in (
        (["encoder", "x"], "--pronouns reads sentences of its own: leave an input out"),
        (["encoder", "--measures"], "leave --measures out"),
        (["encoder", "-o", str(tmp_path / "a.png")], "measures are written as .json"),
        (["stories"], "stories reads no whole text at once"),
    ):
        assert run(["explain", *words, "--pronouns"]) == 1
        captured = capsys.readouterr().err
        assert message in captured
        assert captured.count("\n") == 1
