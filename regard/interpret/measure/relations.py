"""Heads that follow a grammatical relation, such as an article and its noun, compared with controls.

A head that always attends one word ahead also attends from most articles to their nouns. So its weight on a relation is
compared with its weight at the same distance from the other words of the sentence, and that of a pronoun with what the
head gives the other nouns.
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
from regard.interpret.measure.pronoun_rule import list_nouns
from regard.interpret.words import group_items, merge

RELATIONS = ("article to noun", "noun to article", "adjective to noun", "noun to adjective", "pronoun to noun")
PRONOUN = RELATIONS[-1]
Pair = tuple[int, int]


@dataclass(frozen=True)
class RelationScore:
    """The weight of one head on one relation, and its controls."""

    where: str
    head: int
    relation: str
    value: float
    even: float
    """Control: the weight of the same words under uniform attention."""
    distance: float
    """Control: the head's weight at the same distance from words without the relation."""
    places: int
    others: float = 0.0
    """Control of pronouns: the mean weight on another noun of the sentence."""

    @property
    def control(self) -> float:
        """Return the largest control."""
        return max(self.even, self.distance, self.others)

    @property
    def gain(self) -> float:
        """Return by how much the weight exceeds the largest control."""
        return self.value - self.control

    @property
    def follows(self) -> bool:
        """Return True if the weight on the relation is high, and many times that of the controls."""
        return self.value >= max(MIN_SHARE, MIN_RATIO * self.control)


@dataclass(frozen=True)
class _Place:
    """The weights of all heads of one attention from one word to a related one."""

    example: int
    values: Float[Tensor, "heads"]
    even: float
    elsewhere: Float[Tensor, "heads"] | None
    others: Float[Tensor, "heads"] | None = None


PlacesByRelation = dict[tuple[str, str], list[_Place]]


def score_relations(examples: Sequence[Example]) -> list[RelationScore]:
    """Score every head of every self-attention on every relation that occurs, the highest gain first."""
    heads = [
        head
        for (relation, where), places in _gather_places(examples).items()
        for head in _score_heads(relation, where, places)
    ]
    return sorted(heads, key=lambda score: (RELATIONS.index(score.relation), -score.gain))


def best_heads(examples: Sequence[Example]) -> list[RelationScore]:
    """Return the best head for each relation, chosen on one half of the pairs and scored on the other."""
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
    """Rank all heads on the even or the odd examples."""
    places_of_half = {
        where: [entry for entry in places if entry.example % 2 == half] for where, places in tables.items()
    }
    heads = [
        score for where, places in places_of_half.items() if places for score in _score_heads(relation, where, places)
    ]
    return sorted(heads, key=lambda entry: -entry.gain)


def _pool_halves(relation: str, parts: Sequence[RelationScore]) -> RelationScore:
    """Combine the scores of two halves, weighted by their number of word pairs."""
    total = sum(part.places for part in parts)
    names = ("value", "even", "distance", "others")
    means = {name: sum(getattr(part, name) * part.places for part in parts) / total for name in names}
    return RelationScore("best head, chosen on the other half", -1, relation, places=total, **means)


def _score_heads(relation: str, where: str, places: Sequence[_Place]) -> list[RelationScore]:
    values = torch.stack([place.values for place in places]).mean(0).tolist()
    elsewhere, others = (
        _mean_or_zero([getattr(place, name) for place in places], len(values)) for name in ("elsewhere", "others")
    )
    even = sum(place.even for place in places) / len(places)
    return [
        RelationScore(where, head, relation, value, even, elsewhere[head], len(places), others[head])
        for head, value in enumerate(values)
    ]


def _mean_or_zero(controls: Sequence[Tensor | None], heads: int) -> list[float]:
    """Return each head's mean control over the places that have one."""
    measured = [control for control in controls if control is not None]
    return torch.stack(measured).mean(0).tolist() if measured else [0.0] * heads


def _gather_places(examples: Sequence[Example]) -> PlacesByRelation:
    """Collect every related pair of words of every sentence, by relation and attention."""
    places_by_relation: PlacesByRelation = {}
    for number, example in enumerate(examples):
        for attention in example.trace.weights:
            if attention.name.endswith("cross"):
                continue
            backward = attention.key == "fed"
            table, even = _merge_words(example, attention, backward=backward)
            nouns = [noun.place for noun in list_nouns((example.gold.source, example.gold.target)[backward])]
            for relation, pairs in _pairs(example, side=int(backward)):
                sources = {query for query, _ in pairs}
                for query, key in pairs:
                    if backward and key > query:
                        continue
                    around = [noun for noun in nouns if noun != key and not (backward and noun > query)]
                    place = _Place(
                        number,
                        table[:, query, key],
                        float(even[query, key]),
                        _elsewhere(table, key - query, sources),
                        table[:, query, around].mean(-1) if around and relation == PRONOUN else None,
                    )
                    places_by_relation.setdefault((relation, attention.name), []).append(place)
    return places_by_relation


def _merge_words(
    example: Example, attention: Weights, *, backward: bool
) -> tuple[Float[Tensor, "heads word word"], Float[Tensor, "word word"]]:
    """Return the weights between words of one side, and those of uniform attention over the visible words."""
    words = group_items(example.trace.items[attention.key])  # row r is key r: in a decoder the token fed there
    values = attention.values.float().cpu()
    visible = torch.ones_like(values[0])
    visible = visible.tril() if backward else visible
    return merge(values, words, words), merge(visible / visible.sum(-1, keepdim=True), words, words)


def _elsewhere(table: Tensor, distance: int, sources: set[int]) -> Tensor | None:
    """Return each head's mean weight at this distance from words without the relation; None if there is none."""
    size = table.shape[-1]
    rows = [row for row in range(size) if row not in sources and 0 <= row + distance < size]
    return torch.stack([table[:, row, row + distance] for row in rows]).mean(0) if rows else None


def _pairs(example: Example, *, side: int) -> Iterator[tuple[str, Sequence[Pair]]]:
    """Yield each relation with its pairs (query word, key word) on one side of a sentence pair."""
    for name, phrases in (("article", example.gold.articles), ("adjective", example.gold.adjectives)):
        forth = [(phrase.word[side], phrase.noun[side]) for phrase in phrases]
        yield f"{name} to noun", forth
        yield f"noun to {name}", [(noun, word) for word, noun in forth]
    yield PRONOUN, example.antecedents[side]
