"""What an experiment shows: matrices, curves, and numbers beside what they are where the effect must be absent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Number = int | float
Scale = Literal["linear", "log", "symlog"]


@dataclass(frozen=True)
class LabelledMatrix:
    """A matrix with names for its rows and columns."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[Number]]
    digits: int | None = 2
    """Digits shown after the decimal point; as many as are significant when None."""


@dataclass(frozen=True)
class Chart:
    """Curves over the same points."""

    title: str
    x_label: str
    y_label: str
    x: Sequence[Number]
    curves: Mapping[str, Sequence[Number]]
    x_scale: Scale = "linear"
    y_scale: Scale = "linear"
    digits: int | None = None
    """Digits shown after the decimal point; as many as are significant when not given."""
    tabulated: bool = True
    """Whether it is printed as a table too."""


@dataclass(frozen=True)
class Measurement:
    """A number that shows an effect, and its control: the same number where the effect must be absent."""

    quantity: str
    setting: str
    value: Number
    control_setting: str
    control: Number


@dataclass(frozen=True)
class Demonstration:
    """The result of one experiment."""

    title: str
    measurements: Sequence[Measurement]
    matrices: Sequence[LabelledMatrix] = ()
    """What is drawn as heat maps, and printed where there are no tables."""
    charts: Sequence[Chart] = ()
    """What is drawn as curves."""
    tables: Sequence[LabelledMatrix] = ()
    """What is printed and not drawn."""
    notes: Sequence[str] = ()
