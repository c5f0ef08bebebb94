"""The protocol of trained models that can be prompted: they score candidates for a gap in a text, or fill it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable


@dataclass(frozen=True)
class Gap:
    """A text with one gap: the text before and after it, and the candidates for it."""

    before: str
    after: str = ""
    candidates: tuple[str, ...] = ()


@runtime_checkable
class Promptable(Protocol):
    """A trained model that can be prompted: a GPT, a BERT or a T5."""

    name: str
    kind: ClassVar[str]
    left_to_right: ClassVar[bool]
    """True for causal models: the text after a gap is not read, and an answer has no end."""
    writes: ClassVar[bool]
    """True if the model can generate answers."""
    reach: int
    """Most tokens that the model reads."""

    def sizes(self, gaps: Sequence[Gap], *, length: int = 0) -> list[int]:
        """Return the prompt lengths in tokens, including the longest candidate or an answer of `length` tokens."""

    def pieces(self, gap: Gap) -> list[list[int]]:
        """Return the tokens of each candidate within this text."""

    def score_candidates(self, gaps: Sequence[Gap]) -> list[list[list[float]]]:
        """Return the log-probabilities of each candidate's tokens, given the text around the gap."""

    def complete(self, gaps: Sequence[Gap], *, length: int, stop: str = "") -> list[str]:
        """Generate an answer for each gap, of at most `length` tokens and up to the stop sequence."""
