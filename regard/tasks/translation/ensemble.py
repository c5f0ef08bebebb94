"""Ensembles of trained translators: every token is chosen by the mean of their probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TypeVar

from regard.models.ensemble import Ensemble
from regard.models.inference.fast_path import FastPath
from regard.tasks.translation.search import find_crossing
from regard.tasks.translation.sentence_translator import SentenceTranslator

Member = TypeVar("Member", bound=SentenceTranslator)


def combine_translators(translators: Sequence[Member]) -> Member:
    """Return a translator that decodes with all of these models; texts and settings are handled as by the first."""
    first, *others = translators
    for other in others:
        _check_compatible(first, other)
    ensemble = copy(first)
    ensemble.model = Ensemble([translator.model for translator in translators])
    ensemble.ready = FastPath(ensemble.model)
    ensemble.context = ensemble.model.config.context
    ensemble.crossing = tuple(find_crossing(ensemble.model))
    ensemble.name = " + ".join(translator.name for translator in translators)
    return ensemble


def _check_compatible(first: SentenceTranslator, other: SentenceTranslator) -> None:
    """Raise ValueError for models with other vocabularies or another translation direction."""
    remedy = "train the models of an ensemble with the same data and tokenizer settings, and another training.seed"
    for side in ("source", "target"):
        one, another = getattr(first, side), getattr(other, side)
        if one.json() != another.json() or one.how != another.how:
            sizes = f"{one.vocab:,} and {another.vocab:,} tokens"
            raise ValueError(
                f"{first.name} and {other.name} have different {side} vocabularies ({sizes}), "
                f"so their probabilities cannot be averaged: {remedy}"
            )
    directions = first.trained_direction, other.trained_direction
    if None not in directions and directions[0] != directions[1]:
        described = " and ".join(" to ".join(direction or ()) for direction in directions)
        raise ValueError(f"{first.name} and {other.name} translate in different directions, {described}: {remedy}")
