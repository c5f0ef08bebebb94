"""A given answer, read with a model: how likely the model finds it, and where it looks while it reads it.

Gold alignments and deletions need this: there the answer is fixed, and the model is not asked for one of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from regard.attention.masks import Grid
from regard.data.tokenizers import Tokenizer
from regard.interpret.trace import Trace, Weights, axes, tokens
from regard.interpret.watch import watch

CELLS = 4096  # tokens read side by side, padding included


@runtime_checkable
class Translates(Protocol):
    """What is needed of a translator: its model, a tokenizer for each side, and its name."""

    model: Any
    source: Tokenizer
    target: Tokenizer
    name: str


@dataclass(frozen=True)
class Reader:
    """A translator that is told the answers; `to` is the language asked for where there are several."""

    translator: Translates
    to: str | None = None

    @property
    def model(self) -> Any:
        """The model that reads."""
        return self.translator.model

    def encode(self, source: str, target: str) -> tuple[list[int], list[int]]:
        """Token ids of what is read, tag and end included, and of what is written, without its end."""
        coder = self.translator.source
        if self.to is None and len(coder.tags) > 1:
            raise ValueError(f"say which language the answers are in: {', '.join(coder.tags)}")
        tags = [coder.tag(self.to)] if self.to else list(coder.tags.values())
        return [*tags, *coder.encode(source), coder.role("end")], self.translator.target.encode(target, written=True)

    @property
    def _ends(self) -> tuple[int, int]:
        """What an answer begins and ends with."""
        return self.translator.target.role("begin"), self.translator.target.role("end")

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

    @torch.no_grad()
    def scores(self, read: Sequence[list[int]], written: Sequence[list[int]]) -> list[float]:
        """The log-probability of each answer, its end included, given what was read."""
        found: dict[int, float] = {}
        device, filler = next(self.model.parameters()).device, self.translator.target.filler
        begin, end = self._ends
        for numbers in _batches([max(len(one), len(other) + 1) for one, other in zip(read, written, strict=True)]):
            source, sources = _padded([read[number] for number in numbers], self.translator.source.filler, device)
            fed, targets = _padded([[begin, *written[number]] for number in numbers], filler, device)
            labels, _ = _padded([[*written[number], end] for number in numbers], filler, device)
            features = self.model(source, fed, layouts=(sources, targets))
            chances = self.model.logits(features).float().log_softmax(-1).gather(-1, labels[..., None])[..., 0]
            totals = chances.masked_fill(~targets.filled, 0.0).sum(-1).tolist()
            found.update(zip(numbers, totals, strict=True))
        return [found[number] for number in range(len(read))]


def _padded(sequences: Sequence[list[int]], filler: int, device: torch.device) -> tuple[Tensor, Grid]:
    """Token ids side by side, with how long each is."""
    lengths = [len(ids) for ids in sequences]
    longest = max(lengths)
    tokens = torch.tensor([ids + [filler] * (longest - len(ids)) for ids in sequences], device=device)
    return tokens, Grid(torch.tensor(lengths, device=device), longest)


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Numbers of the sentences, similar lengths together."""
    batch: list[int] = []
    for number in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and lengths[number] * (len(batch) + 1) > CELLS:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch
