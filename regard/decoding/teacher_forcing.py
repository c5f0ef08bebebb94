"""Teacher forcing: a model reads a given target in one pass and returns the log-probability of each of its tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.hardware import device_of
from regard.attention.masks import Row
from regard.decoding.batching import by_length

ROOM, LARGE_ROOM = 2048, 131072  # tokens of a packed row, on a CPU and elsewhere
WHOLE = 1 << 24  # logits held at once


class TargetScores(NamedTuple):
    """The log-probability of each target token, and the likeliest tokens in its place with theirs."""

    tokens: Float[Tensor, "token"]
    choices: list[list[tuple[int, float]]]


@dataclass(frozen=True)
class Teacher:
    """A model that reads a source and a target, with the tokens that its answers begin and end with."""

    model: Any
    begin: int
    end: int

    def fitting(self, read: Sequence[list[int]], written: Sequence[list[int]]) -> list[int]:
        """Return the indices of pairs that fit the model's context."""
        room = self.model.config.context
        pairs = enumerate(zip(read, written, strict=True))
        return [number for number, (source, target) in pairs if max(len(source), len(target) + 1) <= room]

    def batches(self, read: Sequence[list[int]], written: Sequence[list[int]]) -> list[list[int]]:
        """Return the indices of pairs in batches within the token budget."""
        sizes = [max(len(source), len(target) + 1) for source, target in zip(read, written, strict=True)]
        return by_length(sizes, budget=self.budget)

    @property
    def budget(self) -> int:
        """The maximum number of tokens of a packed row."""
        return ROOM if device_of(self.model).type == "cpu" else LARGE_ROOM

    def forward(self, read: Sequence[list[int]], written: Sequence[list[int]]) -> Float[Tensor, "written width"]:
        """Return the features of the targets after one pass over a packed row of pairs."""
        return self.read_pairs(read, [[self.begin, *target] for target in written])

    @torch.no_grad()
    def read_pairs(self, sources: Sequence[list[int]], fed: Sequence[list[int]]) -> Float[Tensor, "fed width"]:
        """Return the features of all tokens that the decoder is fed, after one pass over a packed row of pairs."""
        inputs, layouts = self.pack_pairs(sources, fed)
        return self.model(*inputs, layouts=layouts)

    def pack_pairs(
        self, sources: Sequence[list[int]], fed: Sequence[list[int]]
    ) -> tuple[tuple[Tensor, Tensor], tuple[Row, Row]]:
        """Return sources and what the decoder is fed as two packed rows of tokens, with their layouts."""
        device = device_of(self.model)
        (source, source_row), (target, target_row) = (
            (
                torch.from_numpy(np.fromiter(chain.from_iterable(side), np.int64)).to(device),
                Row.of([len(ids) for ids in side]).to(device),
            )
            for side in (sources, fed)
        )
        return (source, target), (source_row, target_row)

    def features(
        self, read: Sequence[list[int]], written: Sequence[list[int]]
    ) -> Iterator[tuple[int, Float[Tensor, "written width"]]]:
        """Yield (index, hidden states that predict each target token and the end) for every pair, in any order."""
        for batch in self.batches(read, written):
            features = self.forward([read[i] for i in batch], [written[i] for i in batch])
            yield from zip(batch, features.split([len(written[i]) + 1 for i in batch]), strict=True)

    @torch.no_grad()
    def distribution(self, features: Float[Tensor, "token width"]) -> Float[Tensor, "token vocab"]:
        """Return the log-probabilities of every next token."""
        return self.model.logits(features).float().log_softmax(-1)

    def scores(
        self, read: Sequence[list[int]], written: Sequence[list[int]]
    ) -> Iterator[tuple[int, Float[Tensor, "written"]]]:
        """Yield (index, log-probability of each target token and of the end) for every pair, in any order."""
        for number, features in self.features(read, written):
            yield number, self.score_labels(features, [*written[number], self.end]).tokens

    def score_labels(self, features: Float[Tensor, "token width"], labels: Sequence[int], top: int = 0) -> TargetScores:
        """Return the log-probability of each label, and the `top` likeliest tokens in its place."""
        ids = torch.tensor(labels, device=features.device)
        chunk = max(1, WHOLE // len(self.model.prediction))
        parts, choices = [], list[list[tuple[int, float]]]()
        for some, chunk_ids in zip(features.split(chunk), ids.split(chunk), strict=True):
            distribution = self.distribution(some)
            parts.append(distribution.gather(-1, chunk_ids[:, None])[:, 0])
            choices += rank_choices(distribution, top)
        return TargetScores(torch.cat(parts), choices)


def rank_choices(distribution: Float[Tensor, "token vocab"], top: int) -> list[list[tuple[int, float]]]:
    """Return the `top` likeliest tokens of each place with their log-probabilities; none if `top` is 0."""
    if not top:
        return []
    scores, tokens = distribution.topk(min(top, distribution.shape[-1]))
    return [list(zip(*pair, strict=True)) for pair in zip(tokens.tolist(), scores.tolist(), strict=True)]


class TargetScorer:
    """Scores continuations of prompts with any model, a token at a time; a prompt is read once (KV cache)."""

    def __init__(
        self, model: Any, inputs: Sequence[Tensor], written: Sequence[Sequence[Sequence[int]]], *, top: int = 0
    ) -> None:
        """Read the prompts and score the first tokens, also the `top` likeliest ones in their places."""
        beams, longest = max(map(len, written)), max(len(ids) for some in written for ids in some)
        tokens = torch.zeros(len(written), beams, longest, dtype=torch.int64)
        for row, some in enumerate(written):
            for beam, ids in enumerate(some):
                tokens[row, beam, : len(ids)] = torch.tensor(ids, dtype=torch.int64)
        self.model, self.written = model, written
        self._tokens = tokens.to(inputs[0].device)
        self._columns: list[Tensor] = []
        self._top, self._choices = top, list[list[list[tuple[int, float]]]]()
        with torch.no_grad():
            logits, self._state = model.start(*inputs, beams=beams, limit=longest)
            check_tokens(written, logits.shape[-1])
            self._take(logits)

    @property
    def done(self) -> bool:
        """True if all tokens have their scores."""
        return len(self._columns) == self._tokens.shape[2]

    @torch.no_grad()
    def advance(self) -> None:
        """Feed the next token of every continuation."""
        logits, self._state = self.model.step(self._tokens[:, :, len(self._columns) - 1], self._state)
        self._take(logits)

    def scores(self) -> list[list[list[float]]]:
        """Return the log-probability of each token of every continuation."""
        log_probabilities = torch.stack(self._columns, -1).tolist()
        return [
            [log_probabilities[n][m][: len(ids)] for m, ids in enumerate(some)] for n, some in enumerate(self.written)
        ]

    def choices(self, example: int, beam: int) -> list[list[tuple[int, float]]]:
        """Return the likeliest tokens at each place of one continuation."""
        ids, row = self.written[example][beam], example * self._tokens.shape[1] + beam
        return [column[row] for column in self._choices[: len(ids)]]

    def _take(self, logits: Float[Tensor, "batch beam vocab"]) -> None:
        precise = logits.to(torch.promote_types(logits.dtype, torch.float32))
        if self._top:
            self._choices.append(rank_choices(precise.log_softmax(-1).flatten(0, 1), self._top))
        chosen = precise.gather(-1, self._tokens[:, :, len(self._columns), None])[..., 0]
        self._columns.append(chosen - precise.logsumexp(-1))


@torch.no_grad()
def read_written(model: Any, inputs: Sequence[Tensor], written: Sequence[int]) -> Float[Tensor, "written vocab"]:
    """Return the logits in the place of every token of one answer, read a token at a time by any model."""
    logits, state = model.start(*inputs, beams=1, limit=len(written))
    lines = [logits[0, 0]]
    for token in written[:-1]:
        logits, state = model.step(torch.tensor([[token]], device=logits.device), state)
        lines.append(logits[0, 0])
    return torch.stack(lines)


def check_tokens(written: Sequence[Sequence[Sequence[int]]], vocab: int) -> None:
    """Raise ValueError if a token is not in the vocabulary, before a kernel looks it up."""
    unknown = [token for continuations in written for ids in continuations for token in ids if not 0 <= token < vocab]
    if unknown:
        raise ValueError(f"token {unknown[0]} is not in the vocabulary of {vocab}")


def score_continuations(
    model: Any, inputs: Sequence[Tensor], written: Sequence[Sequence[Sequence[int]]]
) -> list[list[list[float]]]:
    """Return the log-probabilities of the tokens of several continuations of each prompt."""
    scorer = TargetScorer(model, inputs, written)
    while not scorer.done:
        scorer.advance()
    return scorer.scores()
