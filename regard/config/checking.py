"""Building frozen dataclasses from mappings, with all values checked against their annotations."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from regard.config import aliases, former_names
from regard.config.aliases import UnknownSetting
from regard.config.fields import UNIONS, bare, default_of, hints, named_sections, presets, short_setting
from regard.config.ranges import Range
from regard.config.text import NUMBER
from regard.config.words import describe_type, join, quote, suggest, suggest_name

T = TypeVar("T")
MOST = 10_000  # entries of a list


def build(cls: type[T], mapping: Any, *, where: str = "") -> T:
    """Build a dataclass from a mapping, checking all values; `where` is the name of the section."""
    if isinstance(mapping, Mapping):
        mapping = former_names.rename_former_settings(cls, mapping, where=where)
    try:
        return _build(cls, mapping, where)
    except UnknownSetting as error:  # the whole recipe has more names to suggest than the section
        raise ValueError(aliases.answer(error, cls, where)) from None


def section(cls: type, mapping: Mapping[str, Any], name: str) -> Any:
    """Build one section of a dataclass from a mapping, if it is there; all other settings are ignored."""
    if name not in mapping or name not in hints(cls):
        return None
    mapping = former_names.rename_former_settings(cls, {name: mapping[name]})
    try:
        return _convert(hints(cls)[name], mapping[name], name)
    except UnknownSetting as error:
        raise ValueError(aliases.answer(error, cls, "")) from None


def arguments(function: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert keyword arguments to the annotations of a function; arguments without annotation are unchanged."""
    kinds = get_type_hints(function, include_extras=True)
    return {name: _convert(kinds.get(name, Any), value, name) for name, value in values.items()}


def _build(cls: type[T], mapping: Any, where: str) -> T:
    original = mapping
    if _is_short(cls, mapping):
        mapping = {short_setting(cls): str(mapping)}
    if isinstance(original, cls):
        cls, mapping = type(original), {field.name: getattr(original, field.name) for field in _settable(original)}
    if not isinstance(mapping, Mapping):
        raise ValueError(_not_a_section(cls, mapping, where))
    fields = {field.name: field for field in _settable(cls)}
    mapping = _with_preset(cls, mapping, fields, where)
    for name in mapping:
        if name not in fields:
            raise UnknownSetting(where, str(name), tuple(fields))
    missing = [
        join(where, name)
        for name, field in fields.items()
        if name not in mapping and default_of(field) is dataclasses.MISSING
    ]
    if missing:
        raise ValueError(f"missing setting {', '.join(missing)}")
    values = {name: _convert(hints(cls)[name], value, join(where, name)) for name, value in mapping.items()}
    try:
        return cls(**values)
    except ValueError as error:  # the dataclass checks combinations of values
        raise ValueError(f"{where}: {error}" if where else str(error)) from None


def _settable(cls: Any) -> list[dataclasses.Field]:
    return [field for field in dataclasses.fields(cls) if field.init]


def _is_short(cls: Any, value: Any) -> bool:
    """True if a text stands for the whole section."""
    return isinstance(value, str | Path) and bool(short_setting(cls))


def _not_a_section(cls: type, value: Any, where: str) -> str:
    remedy = f", write {join(where, 'preset')}={value}" if isinstance(value, str) and value in presets(cls) else ""
    return f"{where or 'settings'} must be a section of `name: value` lines, not {quote(value)}{remedy}"


def _convert(kind: Any, value: Any, where: str) -> Any:
    """Convert a value to its annotation, or raise a ValueError with the place, the value and what is allowed."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin is Annotated:
        return _convert_annotated(kind, value, where)
    if origin in UNIONS:
        return _convert_union(kind, arguments, value, where)
    if origin is Literal:
        return _convert_choice(arguments, value, where)
    if dataclasses.is_dataclass(kind):
        return _build(kind, value, where)  # type: ignore[arg-type]
    if origin in (tuple, list):
        return _convert_sequence(kind, value, where)
    if origin is dict or kind is dict:
        if not isinstance(value, Mapping):
            raise ValueError(f"{where} must be {describe_type(kind)}, not {quote(value)}")
        inner = arguments[1] if arguments else Any
        return {str(key): _convert(inner, entry, join(where, str(key))) for key, entry in value.items()}
    if kind is Path:
        return Path(_convert_scalar(str, value, where))
    assert kind in (bool, int, float, str, type(None)), f"{where}: settings cannot be of type {kind}"
    return _convert_scalar(kind, value, where)


def _convert_annotated(kind: Any, value: Any, where: str) -> Any:
    """Convert a value and check that it is in the range of its field."""
    inner, notes = bare(kind)
    ranges = [note for note in notes if isinstance(note, Range)]
    if not ranges:
        return _convert(inner, value, where)
    converted = _convert_scalar(inner, value, where, expected=describe_type(kind))
    if not all(converted in allowed for allowed in ranges):
        raise ValueError(f"{where} must be {describe_type(kind)}, not {quote(value)}")
    return converted


def _convert_scalar(kind: type, value: Any, where: str, expected: str | None = None) -> Any:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is str and isinstance(value, (str, Path)):
        return str(value)
    if kind in (bool, type(None)) and isinstance(value, kind):
        return value
    if kind is int and number and value == value // 1:  # also 1e4
        return int(value)
    if kind is float and (number or (isinstance(value, str) and NUMBER.fullmatch(value))):
        with contextlib.suppress(OverflowError):
            if math.isfinite(finite := float(value)):
                return finite
    remedy = ", quote it to make it text" if kind is str and (number or isinstance(value, bool)) else ""
    raise ValueError(f"{where} must be {expected or describe_type(kind)}, not {quote(value)}{remedy}")


def _convert_union(kind: Any, arms: tuple, value: Any, where: str) -> Any:
    candidates = [arm for arm in arms if arm is not type(None)]
    choices = named_sections(kind)
    if len(candidates) > 1 and len(choices) == len(candidates) and value is not None:
        candidates = [_choose_section(choices, value, where)]
    if len(candidates) == 1 and value is not None:
        return _convert(candidates[0], value, where)  # its error message is more precise
    for arm in arms:
        with contextlib.suppress(ValueError):
            return _convert(arm, value, where)
    raise ValueError(f"{where} must be {describe_type(kind)}, not {quote(value)}")


def _choose_section(sections: Mapping[str, type], value: Any, where: str) -> type:
    """Return the section of several that a mapping names; the first if it names none."""
    first = next(iter(sections))
    built = next((name for name, kind in sections.items() if type(value) is kind), first)
    name = value.get("name", first) if isinstance(value, Mapping) else built
    return sections[_convert_choice(tuple(sections), name, join(where, "name"))]


def sections(cls: type, name: str) -> dict[str, type]:
    """Return the dataclasses that a section of a recipe may be, by name."""
    return named_sections(hints(cls)[name])


def _convert_choice(choices: tuple, value: Any, where: str) -> Any:
    if any(choice == value and type(choice) is type(value) for choice in choices):
        return value
    if renamed := aliases.renamed_value(where, value, choices):
        raise ValueError(f"{where}: {value} is called {renamed} here")
    hint = suggest(str(value), map(str, choices))
    raise ValueError(f"{where} must be one of {', '.join(map(str, choices))}, not {quote(value)}{hint}")


def _convert_sequence(kind: Any, value: Any, where: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(arguments[0]) and (isinstance(value, Mapping) or _is_short(arguments[0], value)):
        value = [value]  # a single entry may be written without a list
    if not isinstance(value, (list, tuple)):
        remedy = f": write [{quote(value)}]" if isinstance(value, (str, int, float)) else ""
        raise ValueError(f"{where} must be {describe_type(kind)}, not {quote(value)}{remedy}")
    if origin is tuple and arguments[-1] is not Ellipsis:
        if len(value) != len(arguments):
            raise ValueError(f"{where} must have {len(arguments)} entries, not {len(value)}: {quote(value)}")
    else:
        if len(value) > MOST:
            raise ValueError(f"{where} may have {MOST:,} entries at most, not {len(value):,}")
        arguments = arguments[:1] * len(value)
    pairs = zip(arguments, value, strict=True)
    return origin(_convert(element_kind, entry, f"{where}[{i}]") for i, (element_kind, entry) in enumerate(pairs))


def _with_preset(cls: type, mapping: Mapping[str, Any], fields: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Return the preset's values overridden by the mapping's; `preset` itself remains if the class has such a field."""
    available = presets(cls)
    if "preset" not in mapping or (not available and "preset" in fields):
        return mapping
    name = mapping["preset"]
    if not available:
        what = mapping.get("name", default_of(fields["name"])) if "name" in fields else where
        raise ValueError(f"{join(where, 'preset')}: {what} has no presets, leave it out")
    overrides = mapping if "preset" in fields else {key: value for key, value in mapping.items() if key != "preset"}
    if name is None:
        return overrides
    if not isinstance(name, str) or name not in available:
        raise ValueError(f"unknown preset {join(where, str(name))}{suggest_name(str(name), available)}")
    return _merge(available[name], overrides)


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for name, value in above.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(name), Mapping)
        merged[name] = _merge(merged[name], value) if both else value
    return merged
