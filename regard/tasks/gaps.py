"""A text with a gap, and what a model can say of it: how probable each of several answers is, or an answer of its own.

Any trained model that does what `FillsGaps` says can be prompted; what it reads of the text is its own affair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable


@dataclass(frozen=True)
class Gap:
    """A text with one gap: what stands before and after it, and what may stand in it."""

    before: str
    after: str = ""
    candidates: tuple[str, ...] = ()


@runtime_checkable
class FillsGaps(Protocol):
    """A trained model that can be prompted."""

    name: str
    kind: ClassVar[str]
    left_to_right: ClassVar[bool]
    """Whether it reads from left to right alone: what follows a gap is not seen, and an answer has no end."""
    writes: ClassVar[bool]
    """Whether it can write an answer of its own."""
    reach: int
    """Tokens that it reads at most."""

    def sizes(self, gaps: Sequence[Gap], *, length: int = 0) -> list[int]:
        """Tokens that each text has with the longest of its candidates, or with an answer of this length."""

    def pieces(self, gap: Gap) -> list[list[int]]:
        """The tokens of each candidate, as they stand in this text."""

    def weigh(self, gaps: Sequence[Gap]) -> list[list[list[float]]]:
        """Log-probabilities of the tokens of every candidate of each text, given the text around the gap."""

    def complete(self, gaps: Sequence[Gap], *, length: int, stop: str = "") -> list[str]:
        """What the model itself writes into each gap: at most so many tokens, up to the stop sequence."""
