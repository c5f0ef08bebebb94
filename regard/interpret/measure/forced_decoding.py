"""Forced decoding: the probability that a model assigns to a fixed answer, and its attention while reading it.

Manual alignments and deletions need this: there the answer is fixed, and the model does not generate one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from regard.data.tokenizers import Tokenizer
from regard.decoding.teacher_forcing import Teacher
from regard.interpret.items import Item, Weights, attention_axes, tokens
from regard.interpret.trace import Trace
from regard.interpret.watch import watch


@runtime_checkable
class SourceTargetModel(Protocol):
    """A trained encoder-decoder model with a tokenizer for each side."""

    model: Any
    source: Tokenizer
    target: Tokenizer
    name: str
    task: ClassVar[str]

    def encode(self, text: str, to: str | None = None) -> list[int]:
        """Return the token ids of a source sentence."""


@dataclass(frozen=True)
class ForcedReader:
    """A model that reads fixed answers; `to` is the target language if there are several."""

    trained: SourceTargetModel
    to: str | None = None

    @property
    def model(self) -> Any:
        """Return the model."""
        return self.trained.model

    @property
    def teacher(self) -> Teacher:
        """Return the teacher-forced model."""
        begin, end = self._ends
        return Teacher(self.model, begin=begin, end=end)

    @property
    def _ends(self) -> tuple[int, int]:
        """Return the begin and end tokens of an answer."""
        return self.trained.target.opening, self.trained.target.role("end")

    def encode(self, source: str, target: str) -> tuple[list[int], list[int]]:
        """Return the token ids of the source, with tag and end, and of the target, without its end."""
        return self.trained.encode(source, self.to), self.trained.target.encode(target, written=True)

    def look(self, source: str, target: str) -> Trace:
        """Return the trace of the model reading this answer."""
        read, written = self.encode(source, target)
        with watch(self.model) as record:
            [score] = self.scores([read], [written])
        items = self.list_items(source, target)
        weights = [Weights(name, *attention_axes(name), record[name][0], record.visible(name)[0]) for name in record]
        facts = {"text": source, "answer": target, "score": score, "forced": True}
        return Trace(self.trained.name, self.trained.task, items, weights, facts)

    def list_items(self, source: str, target: str) -> dict[str, list[Item]]:
        """Return the tokens that are read, written and fed as the items of a trace."""
        read, written = self.encode(source, target)
        begin, end = self._ends
        return {
            "source": tokens(self.trained.source, read, source),
            "target": tokens(self.trained.target, [*written, end]),
            "fed": tokens(self.trained.target, [begin, *written]),
        }

    def token_scores(self, read: Sequence[list[int]], written: Sequence[list[int]]) -> list[Float[Tensor, "written"]]:
        """Return the log-probability of each token of every answer, and of its end."""
        by_number = dict(self.teacher.scores(read, written))
        return [by_number[number] for number in range(len(read))]

    def scores(self, read: Sequence[list[int]], written: Sequence[list[int]]) -> list[float]:
        """Return the log-probability of each answer, including its end."""
        return [float(scores.sum()) for scores in self.token_scores(read, written)]
