"""Entities in tagged sentences, and how well they are found: precision, recall and F1 over whole entities.

An entity is right if its first word, its last word and its type are, as in the CoNLL shared tasks (`conlleval`, Tjong
Kim Sang and Buchholz 2000): tags are B-TYPE, I-TYPE and O; an I- tag after another type, or after O, begins an entity.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from regard.metrics.significance import Statistics

TAG = re.compile(r"O|[BI]-(.+)")


class Entity(NamedTuple):
    """Words from the first to the one before `end` that are of a type."""

    type: str
    first: int
    end: int


def are_entities(tags: Sequence[str]) -> bool:
    """Whether tags are those of entities: B-, I- and O, and one at least begins with B-."""
    return any(tag.startswith("B-") for tag in tags) and all(TAG.fullmatch(tag) for tag in tags)


def broken(before: str | None, tag: str) -> bool:
    """Whether a tag continues an entity that did not begin; `before` is the tag of the word before, if there is one."""
    return tag.startswith("I-") and (before is None or before[:2] not in ("B-", "I-") or before[2:] != tag[2:])


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities of a sentence."""
    found = list[Entity]()
    first: int | None = None
    before: str | None = None
    for place, tag in enumerate([*tags, "O"]):
        begins = tag.startswith("B-") or broken(before, tag)
        if first is not None and before is not None and (begins or tag == "O"):
            found.append(Entity(before[2:], first, place))
            first = None
        first = place if begins else first
        before = tag
    return found


@dataclass(frozen=True)
class Found:
    """Entities of a type: how many there are, how many were said, and how many of these were right."""

    type: str
    right: int
    said: int
    there: int

    @property
    def precision(self) -> float:
        """Share of those said that are right."""
        return self.right / max(self.said, 1)

    @property
    def recall(self) -> float:
        """Share of those there that were said."""
        return self.right / max(self.there, 1)

    @property
    def f1(self) -> float:
        """The harmonic mean of both."""
        return 2 * self.right / max(self.said + self.there, 1)


def compare(truth: Sequence[Sequence[str]], answers: Sequence[Sequence[str]]) -> tuple[Statistics, list[Found]]:
    """Counts of every sentence, from which F1 and its interval follow, and each type by itself."""
    counts, types = list[tuple[int, int, int]](), [Counter[str](), Counter[str](), Counter[str]()]
    for right, said in zip(truth, answers, strict=True):
        there, told = set(entities(right)), set(entities(said))
        groups = (there & told, told, there)
        counts.append((len(groups[0]), len(groups[1]), len(groups[2])))
        for counter, group in zip(types, groups, strict=True):
            counter.update(one.type for one in group)
    names = sorted({*types[1], *types[2]}, key=lambda name: (-types[2][name], name))
    each = [Found(name, *(counter[name] for counter in types)) for name in names]
    return Statistics("f1", np.array(counts, np.float64).reshape(-1, 3)), each
