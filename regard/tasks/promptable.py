"""The protocol of trained models that can be prompted: they score candidates for the gap of a text, or complete it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable


@dataclass(frozen=True)
class Gap:
    """A text with one gap: what stands before and after it, and the candidates for it."""

    before: str
    after: str = ""
    candidates: tuple[str, ...] = ()


@runtime_checkable
class Promptable(Protocol):
    """A trained model that can be prompted: a GPT, a BERT or a T5."""

    name: str
    kind: ClassVar[str]
    left_to_right: ClassVar[bool]
    """True if it reads from left to right alone: what follows a gap is not seen, and an answer has no end."""
    writes: ClassVar[bool]
    """True if it can write an answer of its own."""
    reach: int
    """The most tokens that it reads."""

    def sizes(self, gaps: Sequence[Gap], *, length: int = 0) -> list[int]:
        """Return the tokens of each text with the longest of its candidates, or with an answer of this length."""

    def pieces(self, gap: Gap) -> list[list[int]]:
        """Return the tokens of each candidate, as they stand in this text."""

    def weigh(self, gaps: Sequence[Gap]) -> list[list[list[float]]]:
        """Return the log-probabilities of the tokens of every candidate of each text, given the text around the gap."""

    def complete(self, gaps: Sequence[Gap], *, length: int, stop: str = "") -> list[str]:
        """Write an answer into each gap: at most so many tokens, up to the stop sequence."""
