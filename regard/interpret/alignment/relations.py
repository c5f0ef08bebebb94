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

from regard.interpret.alignment.measures import Example
from regard.interpret.items import Weights
from regard.interpret.patterns import LEAST, TIMES
from regard.interpret.words import merge, units
from regard.metrics.alignment import Gold

RELATIONS = ("article to noun", "noun to article", "adjective to noun", "noun to adjective")
Pair = tuple[int, int]


@dataclass(frozen=True)
class Followed:
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
        return self.value >= max(LEAST, TIMES * self.even, TIMES * self.distance)


@dataclass(frozen=True)
class _Place:
    """What all heads of one attention give from one word to the one it is related to."""

    example: int
    values: Float[Tensor, "heads"]
    even: float
    elsewhere: Float[Tensor, "heads"] | None


Found = dict[tuple[str, str], list[_Place]]


def followed(examples: Sequence[Example]) -> list[Followed]:
    """Every head of every self-attention by every relation that occurs, the clearest first."""
    heads = [
        each for (relation, where), places in _gather(examples).items() for each in _heads(relation, where, places)
    ]
    return sorted(heads, key=lambda one: (RELATIONS.index(one.relation), -one.gain))


def best(examples: Sequence[Example]) -> list[Followed]:
    """For each relation the head that follows it best, chosen on one half of the pairs and scored on the other."""
    found, scored = _gather(examples), []
    for relation in RELATIONS:
        tables = {where: places for (own, where), places in found.items() if own == relation}
        parts = []
        for half in (0, 1):
            mine = _ranked(relation, tables, half)
            other = {(one.where, one.head): one for one in _ranked(relation, tables, 1 - half)}
            parts += [other[one.where, one.head] for one in mine[:1] if (one.where, one.head) in other]
        if parts:
            scored.append(_pooled(relation, parts))
    return scored


def _ranked(relation: str, tables: dict[str, list[_Place]], half: int) -> list[Followed]:
    """All heads on the even or the odd examples."""
    kept = {where: [one for one in places if one.example % 2 == half] for where, places in tables.items()}
    heads = [each for where, places in kept.items() if places for each in _heads(relation, where, places)]
    return sorted(heads, key=lambda one: -one.gain)


def _pooled(relation: str, parts: Sequence[Followed]) -> Followed:
    """Two halves as one, each place counting the same."""
    total = sum(one.places for one in parts)
    names = ("value", "even", "distance")
    means = {name: sum(getattr(one, name) * one.places for one in parts) / total for name in names}
    return Followed("best head, chosen on the other half", -1, relation, places=total, **means)


def _heads(relation: str, where: str, places: Sequence[_Place]) -> list[Followed]:
    values = torch.stack([one.values for one in places]).mean(0).tolist()
    others = [one.elsewhere for one in places if one.elsewhere is not None]
    elsewhere = torch.stack(others).mean(0).tolist() if others else [0.0] * len(values)
    even = sum(one.even for one in places) / len(places)
    return [
        Followed(where, head, relation, value, even, elsewhere[head], len(places)) for head, value in enumerate(values)
    ]


def _gather(examples: Sequence[Example]) -> Found:
    """Every related pair of words of every sentence, attention by attention."""
    found: Found = {}
    for number, example in enumerate(examples):
        for one in example.trace.weights:
            if one.name.endswith("cross"):
                continue
            backward = one.key == "fed"
            table, even = _by_word(example, one, backward=backward)
            for relation, pairs in _pairs(example.gold, side=int(backward)):
                sources = {query for query, _ in pairs}
                for query, key in pairs:
                    if backward and key > query:
                        continue
                    place = _Place(
                        number, table[:, query, key], float(even[query, key]), _elsewhere(table, key - query, sources)
                    )
                    found.setdefault((relation, one.name), []).append(place)
    return found


def _by_word(
    example: Example, one: Weights, *, backward: bool
) -> tuple[Float[Tensor, "heads word word"], Float[Tensor, "word word"]]:
    """Weights between words of one side, and those of a look at all that is in sight evenly."""
    words = units(example.trace.items[one.key])  # row r stands at key r: in a decoder it was fed that token
    values = one.values.float().cpu()
    seen = torch.ones_like(values[0])
    seen = seen.tril() if backward else seen
    return merge(values, words, words), merge(seen / seen.sum(-1, keepdim=True), words, words)


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
