"""Heads that follow a relation of grammar, as an article its noun: what they give to it, and what they give without it.

A head that always looks one word ahead also looks from most articles to their nouns. So what it gives to a relation
stands beside what it gives, from the other words of the same sentence, to the word at the same distance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.interpret.items import Weights
from regard.interpret.measure.alignment_scores import Example
from regard.interpret.measure.patterns import MIN_RATIO, MIN_SHARE
from regard.interpret.words import group_items, merge
from regard.metrics.alignment import Gold

RELATIONS = ("article to noun", "noun to article", "adjective to noun", "noun to adjective")
Pair = tuple[int, int]


@dataclass(frozen=True)
class RelationScore:
    """One head and one relation: the weight it gives, and its controls."""

    where: str
    head: int
    relation: str
    value: float
    even: float
    """Control: what an even look gives to the same words."""
    distance: float
    """Control: what the head gives at the same distance from words that do not have the relation."""
    places: int

    @property
    def gain(self) -> float:
        """By how much it exceeds the larger control."""
        return self.value - max(self.even, self.distance)

    @property
    def follows(self) -> bool:
        """Whether it gives much to the relation, and many times what the controls get."""
        return self.value >= max(MIN_SHARE, MIN_RATIO * self.even, MIN_RATIO * self.distance)


@dataclass(frozen=True)
class _Place:
    """What all heads of one attention give from one word to the one it is related to."""

    example: int
    values: Float[Tensor, "heads"]
    even: float
    elsewhere: Float[Tensor, "heads"] | None


PlacesByRelation = dict[tuple[str, str], list[_Place]]


def score_relations(examples: Sequence[Example]) -> list[RelationScore]:
    """Every head of every self-attention by every relation that occurs, the clearest first."""
    heads = [
        head
        for (relation, where), places in _gather_places(examples).items()
        for head in _score_heads(relation, where, places)
    ]
    return sorted(heads, key=lambda score: (RELATIONS.index(score.relation), -score.gain))


def best_heads(examples: Sequence[Example]) -> list[RelationScore]:
    """For each relation the head that follows it best, chosen on one half of the pairs and scored on the other."""
    places_by_relation, scored = _gather_places(examples), []
    for relation in RELATIONS:
        tables = {where: places for (name, where), places in places_by_relation.items() if name == relation}
        parts = []
        for half in (0, 1):
            mine = _rank_heads(relation, tables, half)
            other = {(score.where, score.head): score for score in _rank_heads(relation, tables, 1 - half)}
            parts += [other[score.where, score.head] for score in mine[:1] if (score.where, score.head) in other]
        if parts:
            scored.append(_pool_halves(relation, parts))
    return scored


def _rank_heads(relation: str, tables: dict[str, list[_Place]], half: int) -> list[RelationScore]:
    """All heads on the even or the odd examples."""
    places_of_half = {
        where: [entry for entry in places if entry.example % 2 == half] for where, places in tables.items()
    }
    heads = [
        score for where, places in places_of_half.items() if places for score in _score_heads(relation, where, places)
    ]
    return sorted(heads, key=lambda entry: -entry.gain)


def _pool_halves(relation: str, parts: Sequence[RelationScore]) -> RelationScore:
    """Two halves as one, each place counting the same."""
    total = sum(part.places for part in parts)
    names = ("value", "even", "distance")
    means = {name: sum(getattr(part, name) * part.places for part in parts) / total for name in names}
    return RelationScore("best head, chosen on the other half", -1, relation, places=total, **means)


def _score_heads(relation: str, where: str, places: Sequence[_Place]) -> list[RelationScore]:
    values = torch.stack([place.values for place in places]).mean(0).tolist()
    others = [place.elsewhere for place in places if place.elsewhere is not None]
    elsewhere = torch.stack(others).mean(0).tolist() if others else [0.0] * len(values)
    even = sum(place.even for place in places) / len(places)
    return [
        RelationScore(where, head, relation, value, even, elsewhere[head], len(places))
        for head, value in enumerate(values)
    ]


def _gather_places(examples: Sequence[Example]) -> PlacesByRelation:
    """Every related pair of words of every sentence, attention by attention."""
    places_by_relation: PlacesByRelation = {}
    for number, example in enumerate(examples):
        for attention in example.trace.weights:
            if attention.name.endswith("cross"):
                continue
            backward = attention.key == "fed"
            table, even = _merge_words(example, attention, backward=backward)
            for relation, pairs in _pairs(example.gold, side=int(backward)):
                sources = {query for query, _ in pairs}
                for query, key in pairs:
                    if backward and key > query:
                        continue
                    place = _Place(
                        number, table[:, query, key], float(even[query, key]), _elsewhere(table, key - query, sources)
                    )
                    places_by_relation.setdefault((relation, attention.name), []).append(place)
    return places_by_relation


def _merge_words(
    example: Example, attention: Weights, *, backward: bool
) -> tuple[Float[Tensor, "heads word word"], Float[Tensor, "word word"]]:
    """Weights between words of one side, and those of a look at all that is in sight evenly."""
    words = group_items(example.trace.items[attention.key])  # row r stands at key r: in a decoder it was fed that token
    values = attention.values.float().cpu()
    visible = torch.ones_like(values[0])
    visible = visible.tril() if backward else visible
    return merge(values, words, words), merge(visible / visible.sum(-1, keepdim=True), words, words)


def _elsewhere(table: Tensor, distance: int, sources: set[int]) -> Tensor | None:
    """What each head gives at this distance from words that do not have the relation; None if there is no such word."""
    size = table.shape[-1]
    rows = [row for row in range(size) if row not in sources and 0 <= row + distance < size]
    return torch.stack([table[:, row, row + distance] for row in rows]).mean(0) if rows else None


def _pairs(gold: Gold, *, side: int) -> Iterator[tuple[str, list[Pair]]]:
    """Each relation as (word that looks, word looked at) on one side of a pair of sentences."""
    for name, phrases in (("article", gold.articles), ("adjective", gold.adjectives)):
        forth = [(phrase.word[side], phrase.noun[side]) for phrase in phrases]
        yield f"{name} to noun", forth
        yield f"noun to {name}", [(noun, word) for word, noun in forth]
