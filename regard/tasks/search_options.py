"""Options of looking at a search: how its answer begins, and how wide it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from regard.config.ranges import Length, Range, Small, Whole


@dataclass(frozen=True, kw_only=True)
class ForcedOptions:
    """The beginning of an answer."""

    prefix: tuple[Whole, ...] = ()
    """Ids of tokens that the answer must begin with; the search goes on after them."""


@dataclass(frozen=True, kw_only=True)
class TreeOptions(ForcedOptions):
    """How an answer is searched for, and how it begins."""

    beams: Small | None = None
    """Beam width; as the model answers if not given."""
    length_penalty: Annotated[float, Range(-100, 100)] | None = None
    """Scores are divided by the length to this power; as the model answers if not given."""


@dataclass(frozen=True, kw_only=True)
class ContinuationTreeOptions(ForcedOptions):
    """How the likeliest continuation of a prompt is searched for."""

    beams: Small = 4
    """Beam width: hypotheses kept side by side."""
    length_penalty: Annotated[float, Range(-100, 100)] = 1.0
    """Scores are divided by the length to this power; larger prefers longer continuations."""
    length: Length = 24
    """Most tokens written."""


def name_changes(**settings: Any) -> Mapping[str, Any]:
    """Return the settings that are given."""
    return {name: value for name, value in settings.items() if value is not None}
