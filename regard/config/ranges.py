"""Ranges of numeric settings, written on the field itself: `width: Width = 512`.

A range is checked where a mapping becomes a dataclass: for recipes, `a.b=c` and the config of a checkpoint alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

GREATEST = 1e30  # products of a few such numbers still fit into float32
TOO_MANY = 2 * 10**11  # parameters: 800 GB in float32


@dataclass(frozen=True)
class Range:
    """A range from `least` to `most`, both included, or between `above` and `below`, both excluded."""

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None

    def __contains__(self, value: float) -> bool:
        return (
            (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        """Describe the range as it follows `a number`."""
        if self.least is not None and self.most is not None:
            return f"from {_short(self.least)} to {_short(self.most)}"
        bounds = {"of at least": self.least, "above": self.above, "at most": self.most, "below": self.below}
        return " and ".join(f"{words} {_short(bound)}" for words, bound in bounds.items() if bound is not None)


def check_affordable(parameters: float, remedy: str) -> None:
    """Raise ValueError for a model too large for any machine, before it is allocated."""
    if parameters > TOO_MANY:
        raise ValueError(f"a model of about {parameters:.1e} parameters exceeds the limit of {TOO_MANY:.0e}: {remedy}")


def check_divisible(width: int, heads: int, groups: int | None = None) -> None:
    """Raise ValueError if the heads do not divide the width, or the groups the heads."""
    if heads < 1 or width % heads:
        raise ValueError(f"{heads} heads do not divide a width of {width}: choose heads that do")
    if groups is not None and (groups < 1 or heads % groups):
        raise ValueError(f"{groups} groups of keys do not divide {heads} heads: choose a divisor")


def _short(number: float) -> str:
    if isinstance(number, int) and abs(number) < 10**9:
        return f"{number:,}"
    return f"{number:.2g}".replace("e+", "e")


Count = Annotated[int, Range(1, 10**12)]
"""How many there are, or how often something happens."""
Whole = Annotated[int, Range(0, 10**12)]
"""The same where there may be none."""
Small = Annotated[int, Range(1, 1000)]
"""Things that are all held at once: layers, heads, beams."""
Width = Annotated[int, Range(1, 2**18)]
"""Features of a layer."""
Vocabulary = Annotated[int, Range(0, 10_000_000)]
"""Entries of a table that is learnt; 0 until they are counted."""
Length = Annotated[int, Range(1, 2**20)]
"""Tokens of one sequence."""
Batch = Annotated[int, Range(1, 2**24)]
"""Tokens or examples computed at once."""
Column = Annotated[int, Range(1, 10_000)]
"""Where something stands in a table."""
Share = Annotated[float, Range(0, below=1)]
"""A part that is never the whole, such as dropout."""
Part = Annotated[float, Range(0, 1)]
"""A part that may be the whole."""
Some = Annotated[float, Range(above=0, below=1)]
"""A part that is neither nothing nor the whole."""
Positive = Annotated[float, Range(above=0, most=GREATEST)]
"""A rate, a weight, a time."""
Amount = Annotated[float, Range(0, GREATEST)]
"""The same where 0 turns it off."""
Decay = Annotated[float, Range(0, 1_000_000)]
"""What shrinks weights, times the learning rate."""
Seed = Annotated[int, Range(1 - 2**63, 2**63 - 1)]
"""Random seed."""
