"""JSON schemas of the settings of a dataclass, for forms, servers and tool descriptions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from regard.config.describing import read_helps
from regard.config.fields import UNIONS, bare, default_of, hints
from regard.config.ranges import Range
from regard.config.text import plain

TYPES: dict[Any, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    Path: "string",
    NoneType: "null",
    dict: "object",
}
BOUNDS = {"least": "minimum", "most": "maximum", "above": "exclusiveMinimum", "below": "exclusiveMaximum"}


def json_schema(cls: type) -> dict[str, Any]:
    """Return the JSON schema of a dataclass: types, defaults, help, choices and ranges of all its settings."""
    kinds, helps = hints(cls), read_helps(cls)
    properties, required = {}, []
    for field in dataclasses.fields(cls):
        if not field.init:
            continue
        schema, default = _type_schema(kinds[field.name]), default_of(field)
        if help := helps.get(field.name):
            schema["description"] = help
        if default is dataclasses.MISSING:
            required.append(field.name)
        else:
            schema["default"] = plain(default)
        properties[field.name] = schema
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | ({"required": required} if required else {})


def _type_schema(annotation: Any) -> dict[str, Any]:
    """Return the schema of the values that an annotation allows."""
    kind, notes = bare(annotation)
    ranges = [note for note in notes if isinstance(note, Range)]
    bounds = {word: getattr(note, name) for note in ranges for name, word in BOUNDS.items()}
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return {}
    if origin in UNIONS:
        return _union_schema(arguments)
    if origin is Literal:
        return {"enum": list(arguments)}
    if dataclasses.is_dataclass(kind):
        return json_schema(kind)  # type: ignore[arg-type]
    if origin in (tuple, list):
        return _sequence_schema(origin, arguments)
    if origin is dict:
        return {"type": "object", "additionalProperties": _type_schema(arguments[1])}
    return {"type": TYPES[kind], **{word: bound for word, bound in bounds.items() if bound is not None}}


def _union_schema(arguments: Sequence[Any]) -> dict[str, Any]:
    """Return the schema of several annotations; one scalar type or null becomes a schema with two types."""
    schemas = [_type_schema(argument) for argument in arguments]
    first, *others = [schema for schema in schemas if schema != {"type": "null"}]
    if not others and isinstance(first.get("type"), str) and "properties" not in first:
        return {**first, "type": [first["type"], "null"]}
    return {"anyOf": schemas}


def _sequence_schema(origin: Any, arguments: Sequence[Any]) -> dict[str, Any]:
    """Return the schema of a list, or of a tuple with a fixed number of entries."""
    if origin is tuple and arguments[-1] is not Ellipsis:
        entries = [_type_schema(argument) for argument in arguments]
        return {"type": "array", "prefixItems": entries, "minItems": len(entries), "maxItems": len(entries)}
    return {"type": "array", "items": _type_schema(arguments[0])}
