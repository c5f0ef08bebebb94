"""Named entities in tagged sentences: precision, recall and F1 over whole entities.

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
    """An entity of a type: the words from `first` to `end`, exclusive."""

    type: str
    first: int
    end: int


def are_entities(tags: Sequence[str]) -> bool:
    """True if all tags are B-, I- or O and at least one begins with B-."""
    return any(tag.startswith("B-") for tag in tags) and all(TAG.fullmatch(tag) for tag in tags)


def is_orphan_tag(previous: str | None, tag: str) -> bool:
    """True if a tag continues an entity that did not begin; `previous` is the tag of the word before, if any."""
    return tag.startswith("I-") and (previous is None or previous[:2] not in ("B-", "I-") or previous[2:] != tag[2:])


def extract_entities(tags: Sequence[str]) -> list[Entity]:
    """Return the entities of a sentence."""
    spans = list[Entity]()
    first: int | None = None
    previous: str | None = None
    for position, tag in enumerate([*tags, "O"]):
        begins = tag.startswith("B-") or is_orphan_tag(previous, tag)
        if first is not None and previous is not None and (begins or tag == "O"):
            spans.append(Entity(previous[2:], first, position))
            first = None
        first = position if begins else first
        previous = tag
    return spans


@dataclass(frozen=True)
class EntityCounts:
    """Counts of the entities of a type: in the truth, predicted, and predicted correctly."""

    type: str
    right: int
    said: int
    there: int

    @property
    def precision(self) -> float:
        """The share of predicted entities that are right."""
        return self.right / max(self.said, 1)

    @property
    def recall(self) -> float:
        """The share of true entities that were predicted."""
        return self.right / max(self.there, 1)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return 2 * self.right / max(self.said + self.there, 1)


def compare(truth: Sequence[Sequence[str]], answers: Sequence[Sequence[str]]) -> tuple[Statistics, list[EntityCounts]]:
    """Return the counts of every sentence, from which F1 and its interval follow, and the counts of each type."""
    counts, types = list[tuple[int, int, int]](), [Counter[str](), Counter[str](), Counter[str]()]
    for true_tags, answer_tags in zip(truth, answers, strict=True):
        true_entities, answer_entities = set(extract_entities(true_tags)), set(extract_entities(answer_tags))
        groups = (true_entities & answer_entities, answer_entities, true_entities)
        counts.append((len(groups[0]), len(groups[1]), len(groups[2])))
        for counter, group in zip(types, groups, strict=True):
            counter.update(entity.type for entity in group)
    names = sorted({*types[1], *types[2]}, key=lambda name: (-types[2][name], name))
    by_type = [EntityCounts(name, *(counter[name] for counter in types)) for name in names]
    return Statistics("f1", np.array(counts, np.float64).reshape(-1, 3)), by_type
