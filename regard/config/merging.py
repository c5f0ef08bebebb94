"""Merging of settings, section by section."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

AUTO = "auto"


def keep_earlier_values(defaults: Mapping[str, Any], earlier: Any) -> dict[str, Any]:
    """Return the defaults, with the values that a run was started with where it has them."""
    before = earlier if isinstance(earlier, Mapping) else {}
    return {
        name: keep_earlier_values(value, before.get(name)) if isinstance(value, Mapping) else before.get(name, value)
        for name, value in defaults.items()
    }


def merge_settings(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two mappings of settings, section by section; values of `above` take precedence."""
    both = {name: merge_settings(below[name], above[name]) for name in above if _sections(below.get(name), above[name])}
    return {**below, **above, **both}


def preset_of(settings: Mapping[str, Any]) -> Any:
    """Return the preset that the model section names, or None."""
    model = settings.get("model")
    return model.get("preset") if isinstance(model, Mapping) else None


def drop_automatic_preset(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings without `model.preset: auto`, which names no preset."""
    explicit = dict(settings)
    if preset_of(settings) == AUTO:
        explicit["model"] = {key: value for key, value in explicit["model"].items() if key != "preset"}
    return explicit


def _sections(*values: Any) -> bool:
    return all(isinstance(value, Mapping) for value in values)
