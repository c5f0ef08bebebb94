"""Settings laid over settings, section by section."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def chosen_before(suited: Mapping[str, Any], begun: Any) -> dict[str, Any]:
    """What suits the data, but as it was when a run began."""
    before = begun if isinstance(begun, Mapping) else {}
    return {
        name: chosen_before(value, before.get(name)) if isinstance(value, Mapping) else before.get(name, value)
        for name, value in suited.items()
    }


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Settings over settings: what stands above counts, section by section."""
    both = {name: merged(below[name], above[name]) for name in above if _sections(below.get(name), above[name])}
    return {**below, **above, **both}


def _sections(*values: Any) -> bool:
    return all(isinstance(value, Mapping) for value in values)
