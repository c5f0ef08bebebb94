"""Positional encodings and their properties, each checked on the encoding itself; and pictures of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.positions import binary_table, integer_table, normalised_table, sinusoidal_table
from regard.interpret.draw import plots
from regard.lab.demonstration import Measurement

SCHEMES: dict[str, Callable[[int], Tensor]] = {
    "normalised": normalised_table,
    "integer": integer_table,
    "binary": lambda length: binary_table(length, 16),
    "sinusoidal": lambda length: sinusoidal_table(length, 64),
}
DRAWN = 128  # positions of a picture
LONG = 200  # positions that are to be told apart


class Properties(NamedTuple):
    """Desirable properties of a positional encoding."""

    scheme: str
    unique: bool
    """No two positions are encoded alike."""
    bounded: bool
    """No number grows with the length."""
    steady: bool
    """A step means the same in a sequence of any length."""


def properties() -> list[Properties]:
    """Return the properties of every scheme."""
    return [Properties(name, *_check_properties(code)) for name, code in SCHEMES.items()]


def encode(scheme: str, length: int = DRAWN) -> Float[Tensor, "length features"]:
    """Return the encodings of the first positions."""
    if scheme not in SCHEMES:
        raise ValueError(f"unknown scheme {scheme}: choose one of {', '.join(SCHEMES)}")
    return SCHEMES[scheme](length)


def draw(scheme: str, path: Path) -> None:
    """Save a heat map of one scheme."""
    plots.save(plots.positions(encode(scheme), title=f"{scheme}: one line per position"), path)


def _check_properties(code: Callable[[int], Tensor]) -> tuple[bool, bool, bool]:
    short, long = code(20), code(LONG)
    unique = len(torch.unique(long, dim=0)) == len(long)
    is_bounded = bool(code(2000).abs().max() <= 1.0)
    steady = torch.allclose(short[1] - short[0], long[1] - long[0])
    return unique, is_bounded, steady


def measure_distinct(scheme: str = "sinusoidal") -> Measurement:
    """Count the distinct encodings of many positions, compared with no encoding at all."""
    counts = [len(torch.unique(table, dim=0)) for table in (encode(scheme, LONG), torch.zeros(LONG, 1))]
    return Measurement(f"different encodings of {LONG} positions", scheme, counts[0], "no positions", counts[1])
