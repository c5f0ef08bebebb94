"""Registries: literal tables of names and the objects they stand for, which are imported on access."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


def load_module(name: str) -> ModuleType:
    """Return a module of this package by its name."""
    if not name.startswith("regard."):
        raise ValueError(f"{name} is no part of regard")
    return import_module(name)


def load_object(place: str) -> Any:
    """Return the object at `module:name`, importing the module."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


class Registry(Mapping[str, Any]):
    """A mapping of names to objects that are imported on access.

    `"gpt": "regard.models.gpt:GPT"` is one object; with several names after the colon, separated by commas, or several
    places, separated by spaces, a name stands for a tuple of them.
    """

    def __init__(self, places: Mapping[str, str]) -> None:
        """Check that all places are inside the package: names may come from files, objects may not."""
        every = (place for some in places.values() for place in some.split())
        if foreign := [place for place in every if not place.startswith("regard.")]:
            raise ValueError(f"{foreign[0]} is no part of regard")
        self.places = places

    def __getitem__(self, name: str) -> Any:
        objects: list[Any] = []
        for place in self.places[name].split():
            module, _, names = place.partition(":")
            objects += [getattr(import_module(module), attribute) for attribute in names.split(",")]
        return tuple(objects) if len(objects) > 1 else objects[0]

    def __contains__(self, name: object) -> bool:
        return name in self.places  # without an import

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)
