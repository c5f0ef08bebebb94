"""Values and annotations in words, for errors and documents."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from regard.config.fields import UNIONS, bare
from regard.config.ranges import Range

LISTED = 40  # names that an error lists


def named(kind: Any) -> str:
    """An annotation in words: `a whole number from 1 to 8`, `one of adam, sgd`."""
    kind, notes = bare(kind)
    if ranges := [str(note) for note in notes if isinstance(note, Range)]:
        return f"{named(kind)} {' and '.join(ranges)}"
    origin, arguments = get_origin(kind), get_args(kind)
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "null"}
    if kind in words:
        return words[kind]
    if kind is Path:
        return words[str]
    if origin in UNIONS:
        return " or ".join(dict.fromkeys(named(arm) for arm in arguments))
    if origin is Literal:
        return f"one of {', '.join(map(str, arguments))}" if len(arguments) > 1 else str(arguments[0])
    if origin in (tuple, list):
        each = named(arguments[0])
        return f"{each}, or a list of them" if hasattr(arguments[0], "SHORT") else f"a list, each {each}"
    if hasattr(kind, "SHORT"):
        return f"a {kind.SHORT} or a section"
    return "a section" if dataclasses.is_dataclass(kind) else "a mapping" if kind is not Any else "anything"


def shown(value: Any) -> str:
    """A value as an error quotes it."""
    if isinstance(value, Mapping):
        return "a section"
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def clipped(name: str) -> str:
    """Return a name that somebody else chose, as it is if it is short and plain, else quoted and cut."""
    return name if len(name) <= 60 and name.isprintable() else shown(name)


def nearest(name: str, names: Any) -> str:
    """The known name that was probably meant, or those there are, the first of very many."""
    names = list(names)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f", did you mean {close[0]}?"
    more = f" and {len(names) - LISTED:,} more" if len(names) > LISTED else ""
    return f"; there are {', '.join(names[:LISTED])}{more}" if names else "; there are none to set"


def join(where: str, name: str) -> str:
    """The full name of a setting."""
    return f"{where}.{name}" if where else name
