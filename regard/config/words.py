"""Values and annotations in words, for errors and documents."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from regard.config.fields import UNIONS, bare, short_setting
from regard.config.ranges import Range

JSON_SHOWN = 60  # characters of a JSON value shown in an error
LISTED = 40  # names listed in an error
LETTERS_PER_TYPO = 4  # letters of a name per typing mistake that is allowed, rounded
SHORTEST_TYPED = 4  # shortest name, in letters, in which typing mistakes are recognised


def describe_type(kind: Any) -> str:
    """Describe an annotation in words: `a whole number from 1 to 8`, `one of adam, sgd`."""
    kind, notes = bare(kind)
    if ranges := [str(note) for note in notes if isinstance(note, Range)]:
        return f"{describe_type(kind)} {' and '.join(ranges)}"
    origin, arguments = get_origin(kind), get_args(kind)
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "null"}
    if kind in words:
        return words[kind]
    if kind is Path:
        return words[str]
    if origin in UNIONS:
        return " or ".join(dict.fromkeys(describe_type(arm) for arm in arguments))
    if origin is Literal:
        return f"one of {', '.join(map(str, arguments))}" if len(arguments) > 1 else str(arguments[0])
    if origin in (tuple, list):
        element = describe_type(arguments[0])
        return f"{element}, or a list of them" if short_setting(arguments[0]) else f"a list, each {element}"
    if short := short_setting(kind):
        return f"a {short} or a section"
    return "a section" if dataclasses.is_dataclass(kind) else "a mapping" if kind is not Any else "anything"


def quote(value: Any) -> str:
    """Quote a value for an error message."""
    if isinstance(value, Mapping):
        return "a section"
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def clip_name(name: str) -> str:
    """Return a name from outside unchanged if it is short and printable, else quoted and cut."""
    return name if len(name) <= 60 and name.isprintable() else quote(name)


def suggest_name(name: str, names: Any) -> str:
    """Return the known name that was probably meant, or list the known names, the first of many."""
    names = list(names)
    if hint := suggest(name, names):
        return hint
    more = f" and {len(names) - LISTED:,} more" if len(names) > LISTED else ""
    return f"; there are {', '.join(names[:LISTED])}{more}" if names else "; there are none to set"


def suggest(name: str, names: Iterable[str]) -> str:
    """Return the known name that was probably meant, as the end of a message; empty if none is close."""
    close = closest(name, names)
    return "" if close is None else f", did you mean {close}?"


def closest(name: str, names: Iterable[str]) -> str | None:
    """Return the known name that a typing mistake or an abbreviation stands for; None if none is close enough.

    One letter of four may be wrong, rounded, so that a name which only ends alike (alexnet, resnet) is not proposed.
    """
    typed = _fold(name)
    best, fewest = None, math.inf
    for candidate in names:
        folded = _fold(candidate)
        longer, shorter = max(len(typed), len(folded)), min(len(typed), len(folded))
        limit = (longer + LETTERS_PER_TYPO // 2) // LETTERS_PER_TYPO if longer >= SHORTEST_TYPED else 0
        shortened = 2 * shorter >= longer and (typed.startswith(folded) or folded.startswith(typed))
        if longer - shorter > limit and not shortened:
            continue
        distance = count_typos(typed, folded)
        if (distance <= limit or shortened) and distance < fewest:
            best, fewest = candidate, distance
    return best


def count_typos(typed: str, target: str) -> int:
    """Return the number of letters to insert, delete, replace, or swap with the next (Damerau 1964)."""
    before, row = [0] * (len(target) + 1), list(range(len(target) + 1))
    for i, letter in enumerate(typed, start=1):
        previous, row, before = before, [i], row
        for j, other in enumerate(target, start=1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and (letter, typed[i - 2]) == (target[j - 2], other):
                cost = min(cost, previous[j - 2] + 1)
            row.append(cost)
    return row[-1]


def _fold(name: str) -> str:
    """Normalise a name: lower case, and underscores between words."""
    return name.casefold().replace("-", "_").replace(" ", "_")


def quantity(count: int, noun: str) -> str:
    """Return a number with its noun: 1 text, 2 texts."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def list_scores(scores: Mapping[str, float | None]) -> str:
    """List scores by name: loss 0.3, accuracy 0.9; a score that is null on disk is shown as not finite."""
    return ", ".join(f"{name} {'not finite' if value is None else f'{value:.4g}'}" for name, value in scores.items())


def join(where: str, name: str) -> str:
    """Return the full name of a setting."""
    return f"{where}.{name}" if where else name


def as_json(value: Any) -> str:
    """Return a value as JSON, cut if it is long."""
    text = json.dumps(value)
    return text if len(text) <= JSON_SHOWN else f"{text[: JSON_SHOWN - 3]}..."
