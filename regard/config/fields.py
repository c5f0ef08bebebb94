"""The fields of a dataclass: annotations with their notes, defaults, and the sections below."""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Union, get_args, get_origin, get_type_hints

UNIONS = (Union, types.UnionType)


class Section:
    """A dataclass of settings that can be abbreviated by a text, or start from a named preset."""

    SHORT: ClassVar[str] = ""
    """The setting that a mere text stands for, where one may be written instead of the section."""
    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Settings by the name of a preset, such as those of published sizes."""


def short_setting(cls: Any) -> str:
    """Return the setting of a section that a plain text sets; empty if a text cannot stand for the section."""
    return cls.SHORT if isinstance(cls, type) and issubclass(cls, Section) else ""


def presets(cls: Any) -> Mapping[str, Mapping[str, Any]]:
    """Return the presets of a section by their names."""
    return cls.PRESETS if isinstance(cls, type) and issubclass(cls, Section) else {}


def hints(cls: Any) -> dict[str, Any]:
    """Return the annotation of each field, with the notes of `Annotated`."""
    return _hints(cls)


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)


def bare(kind: Any) -> tuple[Any, tuple]:
    """Split an annotation into the type and its notes."""
    if get_origin(kind) is not Annotated:
        return kind, ()
    return get_args(kind)[0], kind.__metadata__


def default_of(field: dataclasses.Field) -> Any:
    """Return the default of a field, `dataclasses.MISSING` if it is required."""
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default


def sections(kind: Any) -> Iterator[type]:
    """Yield the dataclasses in an annotation, also inside Optional or as the entries of a list."""
    kind, _ = bare(kind)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        yield kind
    for inner in get_args(kind):
        yield from sections(inner)


def named_sections(kind: Any) -> dict[str, type]:
    """Return the dataclasses of a union that are distinguished by their `name`, by that name."""
    kind, _ = bare(kind)
    by_name: dict[str, type] = {}
    for arm in get_args(kind) if get_origin(kind) in UNIONS else (kind,):
        names = get_args(bare(hints(arm).get("name"))[0]) if dataclasses.is_dataclass(arm) else ()
        by_name |= {str(name): arm for name in names}
    return by_name
