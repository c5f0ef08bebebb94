"""Heads that follow grammar: made ones are found, and one that always looks one word ahead is not taken for one."""

import pytest
import torch
from torch import Tensor

from regard.interpret.measure import relations
from regard.interpret.measure.alignment_scores import Example
from regard.interpret.measure.relations import RelationScore, best_heads, score_relations
from regard.interpret.measure.summary import grammar_table, head_tables, measures_for_page
from regard.interpret.trace import Item, Trace, Weights
from regard.metrics.alignment import Gold, Phrase, parse_links

SOURCE, TARGET = ("the", "red", "cat", "sees", "a", "dog"), ("le", "chat", "rouge", "voit", "un", "chien")
GOLD = Gold(
    " ".join(SOURCE),
    " ".join(TARGET),
    SOURCE,
    TARGET,
    *parse_links("0-0 1-2 2-1 3-3 4-4 5-5"),
    adjectives=(Phrase((1, 2), (2, 1)),),
    articles=(Phrase((0, 0), (2, 1)), Phrase((4, 4), (5, 5))),
)
SIZE = len(SOURCE) + 1


def pointing(goals: dict[int, int], *, rest: float = 0.0) -> Tensor:
    """Rows that look where they are told with all but `rest`, the others at themselves."""
    weights = torch.full((SIZE, SIZE), rest / SIZE)
    for row in range(SIZE):
        weights[row, goals.get(row, row)] += 1.0 - rest
    return weights


AHEAD = pointing({row: row + 1 for row in range(SIZE - 1)})
GRAMMAR = pointing({0: 2, 4: 5}, rest=0.1)
BACK = pointing({2: 0, 5: 4})


def example(*head_weights: Tensor, decoder: bool = False) -> Example:
    sides = {
        "source": [*(Item(word, place) for place, word in enumerate(SOURCE)), Item("<eos>", special=True)],
        "target": [*(Item(word, place) for place, word in enumerate(TARGET)), Item("<eos>", special=True)],
        "fed": [Item("<bos>", special=True), *(Item(word, place) for place, word in enumerate(TARGET))],
    }
    own = ("decoder.0.attention", "target", "fed") if decoder else ("encoder.0.attention", "source", "source")
    weights = [
        Weights(*own, torch.stack(head_weights)),
        Weights("decoder.0.cross", "target", "source", torch.eye(SIZE)[None]),
    ]
    return Example(GOLD, Trace("made", "translation", sides, weights))


def of(found: list[RelationScore], relation: str) -> dict[int, RelationScore]:
    return {one.head: one for one in found if one.relation == relation}


def test_a_head_that_follows_articles_is_found_and_one_that_looks_ahead_is_not():
    found = of(score_relations([example(GRAMMAR, AHEAD, BACK)] * 2), "article to noun")
    assert found[0].value == pytest.approx(0.9 + 0.1 / SIZE)
    assert found[0].even == pytest.approx(1 / SIZE)
    assert found[0].distance == pytest.approx(0.1 / SIZE)
    assert found[0].follows
    assert found[1].value == pytest.approx(0.5), "it reaches the noun of one article of two"
    assert found[1].distance == pytest.approx(0.5), "and as often any word that is one word ahead"
    assert not found[1].follows
    assert not found[2].follows
    assert found[0].places == 4


def test_the_way_back_is_a_relation_of_its_own():
    found = score_relations([example(GRAMMAR, BACK)])
    assert of(found, "noun to article")[1].follows
    assert of(found, "noun to article")[1].value == 1.0
    assert not of(found, "noun to article")[0].follows
    assert of(found, "adjective to noun")[0].places == 1


def test_a_decoder_cannot_follow_what_is_not_yet_written():
    shifted = torch.zeros(SIZE, SIZE)
    for row in range(SIZE):  # row r was fed word r - 1
        shifted[row, {2: 1, 6: 5}.get(row, row)] = 1.0
    found = score_relations([example(shifted, decoder=True)])
    assert {one.relation for one in found} == {"noun to article", "adjective to noun"}
    assert of(found, "noun to article")[0].value == 1.0
    evenly = (1 / 3 + 1 / 7) / 2
    assert of(found, "noun to article")[0].even == pytest.approx(evenly)


def test_the_best_head_is_scored_where_it_was_not_chosen():
    luck = [example(BACK, GRAMMAR), example(GRAMMAR, BACK)]
    chosen = {one.relation: one for one in best_heads(luck)}
    assert chosen["article to noun"].value == 0.0, "good by chance on one half only"
    steady = {one.relation: one for one in best_heads([example(AHEAD, GRAMMAR)] * 4)}
    assert steady["article to noun"].value == pytest.approx(0.9 + 0.1 / SIZE)
    assert steady["article to noun"].places == 8


def test_tables_and_pages_name_them():
    looked = [example(GRAMMAR, AHEAD)] * 2
    grammar = score_relations(looked)
    table = grammar_table(looked, grammar)
    assert ("article to noun", "encoder.0.attention head 0") in [row[:2] for row in table.rows]
    assert [row[1] for row in table.rows].count("best head, chosen on the other half") == len(relations.RELATIONS) - 1
    assert {row[0] for row in table.rows} == {*relations.RELATIONS} - {relations.PRONOUN}, (
        "no pronoun, so no order by it"
    )
    [_, inward] = head_tables(looked, grammar)
    assert [row[-1] for row in inward.rows] == ["itself, article to noun", "next token"]
    numbers = measures_for_page(looked)
    assert numbers["article to noun"]["encoder.0.attention"] == pytest.approx([0.9 + 0.1 / SIZE, 0.5])
    assert "pronoun to noun" not in numbers
    assert numbers["AER"]["decoder.0.cross"] == pytest.approx([1 - 2 * 4 / 12])
    assert numbers["article to noun, control"]["encoder.0.attention"][0] < 0.5, "an even look, or the same distance"
    assert numbers["AER, control"]["decoder.0.cross"] == [
        min(numbers["AER, permuted"], numbers["AER, diagonal"], numbers["AER, even"])
    ]
    assert numbers["AER, mean"] == pytest.approx(1 - 2 * 4 / 12)
    assert numbers["AER, even"] == pytest.approx(1 - 2 * 1 / 12)
