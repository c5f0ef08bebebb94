"""A given answer, read with a model: how likely the model finds it, and where it looks while it reads it.

Gold alignments and deletions need this: there the answer is fixed, and the model is not asked for one of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from regard.data.tokenizers import Tokenizer
from regard.decoding.teacher_forcing import Teacher
from regard.interpret.items import Weights, axes, tokens
from regard.interpret.trace import Trace
from regard.interpret.watch import watch


@runtime_checkable
class Translates(Protocol):
    """What is needed of a translator: its model, a tokenizer for each side, its name, and how it reads a sentence."""

    model: Any
    source: Tokenizer
    target: Tokenizer
    name: str

    def encode(self, text: str, to: str | None = None) -> list[int]:
        """Token ids of a sentence as the model reads it."""


@dataclass(frozen=True)
class Reader:
    """A translator that is told the answers; `to` is the language asked for where there are several."""

    translator: Translates
    to: str | None = None

    @property
    def model(self) -> Any:
        """The model that reads."""
        return self.translator.model

    @property
    def teacher(self) -> Teacher:
        """The model, told the answers."""
        begin, end = self._ends
        return Teacher(self.model, begin=begin, end=end)

    @property
    def _ends(self) -> tuple[int, int]:
        """What an answer begins and ends with."""
        return self.translator.target.role("begin"), self.translator.target.role("end")

    def encode(self, source: str, target: str) -> tuple[list[int], list[int]]:
        """Token ids of what is read, tag and end included, and of what is written, without its end."""
        return self.translator.encode(source, self.to), self.translator.target.encode(target, written=True)

    def look(self, source: str, target: str) -> Trace:
        """Where every head looks while the model reads this answer."""
        read, written = self.encode(source, target)
        begin, end = self._ends
        with watch(self.model) as seen:
            [score] = self.scores([read], [written])
        items = {
            "source": tokens(self.translator.source, read, source),
            "target": tokens(self.translator.target, [*written, end]),
            "fed": tokens(self.translator.target, [begin, *written]),
        }
        weights = [Weights(name, *axes(name), values=seen[name][0]) for name in seen]
        facts = {"text": source, "answer": target, "score": score, "forced": True}
        return Trace(self.translator.name, "translation", items, weights, facts)

    def scores(self, read: Sequence[list[int]], written: Sequence[list[int]]) -> list[float]:
        """The log-probability of each answer, its end included, given what was read."""
        totals = {number: float(each.sum()) for number, each in self.teacher.scores(read, written)}
        return [totals[number] for number in range(len(read))]
