"""The rule that finds the noun of a pronoun, and the heads that are measured by it, beside their controls."""

from __future__ import annotations

import pytest
import torch

from regard.interpret.items import Item, Weights
from regard.interpret.measure.alignment_scores import Example
from regard.interpret.measure.pronoun_rule import WORD, find_antecedents, list_nouns, read_pairs
from regard.interpret.measure.pronouns import read_sentences
from regard.interpret.measure.relations import PRONOUN, score_relations
from regard.interpret.measure.summary import grammar_table, measures_for_page
from regard.interpret.trace import Trace
from regard.metrics.alignment import Gold

SENTENCES = {
    "The box was empty when I opened it.": [("it", "box")],
    "The boy had a letter, but he did not read it.": [("he", "boy"), ("it", "letter")],
    "The girls are in the house, and they are happy.": [("they", "girls")],
    "The children were in the garden, and it was cold.": [("it", "garden")],
    "It was late when she came.": [],
    "He was in the garden.": [],
    "La lampe est sur les livres, et elle est vieille.": [("elle", "lampe")],
    "Les livres sont sur une chaise, et ils sont vieux.": [("ils", "livres")],
    "Le garçon est avec la fille, et il y a des chiens.": [],
    "Son ami est dans la maison, et il dort.": [],
}


@pytest.mark.parametrize("text", SENTENCES)
def test_a_pronoun_stands_for_the_nearest_noun_before_it_that_agrees(text: str):
    words = WORD.findall(text)
    assert [(words[pronoun], words[noun]) for pronoun, noun in find_antecedents(words)] == SENTENCES[text]


def test_a_noun_stands_between_a_determiner_and_a_function_word():
    words = WORD.findall("The black cat sleeps in the house, but my dog is in a very small box.")
    assert [words[noun.place] for noun in list_nouns(words)] == ["house", "dog"], "what is not sure is left out"


def test_the_shipped_pairs_have_a_pronoun_on_both_sides_and_another_noun_to_compare_with():
    pairs = read_pairs()
    assert len(pairs) == 14
    sides = [[find_antecedents(words) for words in (pair.source, pair.target)] for pair in pairs]
    assert [sum(len(side[n]) for side in sides) for n in (0, 1)] == [15, 14]
    assert all(len(side) >= 1 for found in sides for side in found)
    assert all(len(list_nouns(words)) >= 2 for pair in pairs for words in (pair.source, pair.target))


def test_what_its_page_says_of_other_sentences_is_so():
    results = {"form": [0, 0], "meaning": [0, 0]}
    for sentence in read_sentences():
        nouns = dict(find_antecedents(WORD.findall(sentence.text)))
        if sentence.pronoun in nouns:
            results[sentence.clue][0] += 1
            results[sentence.clue][1] += nouns[sentence.pronoun] == sentence.noun
    assert results == {"form": [5, 5], "meaning": [24, 12]}


WORDS = ("The", "boy", "had", "a", "letter", "but", "he", "read", "it", ".")
SIZE = len(WORDS)


def example(*heads: torch.Tensor) -> Example:
    """An example with these self-attentions of the words read."""
    items = [Item(f" {word}", word=number) for number, word in enumerate(WORDS)]
    values = torch.stack([head / head.sum(-1, keepdim=True) for head in heads])
    weights = [
        Weights("encoder.0.attention", "source", "source", values),
        Weights("decoder.0.cross", "target", "source", values),
    ]
    sides = {"source": items, "target": items, "fed": items}
    gold = Gold("", "", WORDS, WORDS, frozenset({(0, 0)}), frozenset({(0, 0)}))
    return Example(gold, Trace("made", "translation", sides, weights), (find_antecedents(WORDS), ()))


def test_a_head_that_looks_at_the_noun_is_told_from_one_that_looks_at_any():
    right, nouns = torch.eye(SIZE), torch.eye(SIZE)
    for pronoun, noun in ((6, 1), (8, 4)):
        right[pronoun] = 0.1 / SIZE
        right[pronoun, noun] += 0.9
        nouns[pronoun] = 0
        nouns[pronoun, [1, 4]] = 0.5
    even = torch.ones(SIZE, SIZE)
    looked = example(right, nouns, even)
    scores = {score.head: score for score in score_relations([looked]) if score.relation == PRONOUN}
    assert scores[0].value == pytest.approx(0.9 + 0.1 / SIZE)
    assert scores[0].others == pytest.approx(0.1 / SIZE)
    assert scores[0].follows
    assert (scores[1].value, scores[1].others) == (pytest.approx(0.5), pytest.approx(0.5))
    assert not scores[1].follows, "the other noun gets as much"
    assert scores[2].value == pytest.approx(scores[2].even)
    assert scores[0].places == 2
    measured = measures_for_page([looked], pronouns=[looked])
    control = measured["pronoun to noun, control"]["encoder.0.attention"]
    assert control[1] == pytest.approx(0.5), "the highest control stands beside it"
    table = grammar_table([looked], score_relations([looked]))
    assert ("pronoun to noun", "encoder.0.attention head 0") in [row[:2] for row in table.rows]
