"""Teacher forcing with a trained translator: how probable it finds a given translation, token by token."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.masks import Row
from regard.decoding.batching import by_length
from regard.metrics.likelihood import perplexity

if TYPE_CHECKING:
    from regard.tasks.translation.translator import Translator

ROOM = 2048  # tokens read and written side by side
WHOLE = 1 << 24  # logits held at once


@dataclass(frozen=True)
class Likelihood:
    """How probable a model finds texts: the natural logarithm of their probability, summed; an end counts as one."""

    total: float
    """Minus the logarithm of the probability of all of them."""
    tokens: int
    characters: int
    texts: int
    passed_over: int = 0
    """Pairs longer than the model reads at once, which are not in the sums."""

    @property
    def perplexity(self) -> float:
        """Per token: depends on the tokenizer, so compare only models that share it."""
        return perplexity(self.total, self.tokens)

    @property
    def per_character(self) -> float:
        """Perplexity per character: comparable between any two models."""
        return perplexity(self.total, self.characters)

    @property
    def bits(self) -> float:
        """Bits per character."""
        return self.total / self.characters / math.log(2)


def likelihood(
    translator: Translator, sources: Sequence[str], targets: Sequence[str], *, to: str | None = None
) -> Likelihood | None:
    """How probable the model finds these translations, each read as one piece; None when not one of them fits it."""
    read = [
        [*translator.tag(to), *ids, translator.source.role("end")] for ids in translator.source.encode_many(sources)
    ]
    written = translator.target.encode_many(targets, written=True)
    room = translator.model.config.context
    fitting = [i for i in range(len(read)) if max(len(read[i]), len(written[i]) + 1) <= room]
    if not fitting:
        return None
    total = 0.0
    for _, scores in forced(translator, [read[i] for i in fitting], [written[i] for i in fitting]):
        total -= float(scores.double().sum())
    return Likelihood(
        total,
        tokens=sum(len(written[i]) + 1 for i in fitting),
        characters=sum(len(targets[i]) + 1 for i in fitting),
        texts=len(fitting),
        passed_over=len(read) - len(fitting),
    )


def forced(
    translator: Translator, read: Sequence[list[int]], written: Sequence[list[int]]
) -> Iterator[tuple[int, Float[Tensor, "written"]]]:
    """(number, log-probability of each written token and of the end) for every pair of token ids, in any order."""
    for number, features in _features(translator, read, written):
        labels = torch.tensor([*written[number], translator.end], device=features.device)
        chunk = max(1, WHOLE // len(translator.model.prediction))
        parts = [
            distribution(translator, some).gather(-1, own[:, None])[:, 0]
            for some, own in zip(features.split(chunk), labels.split(chunk), strict=True)
        ]
        yield number, torch.cat(parts)


def choices(translator: Translator, read: list[int], written: list[int], *, top: int) -> list[list[tuple[int, float]]]:
    """At each place of a translation, and at its end, the likeliest next tokens with their probabilities."""
    [(_, features)] = _features(translator, [read], [written])
    chances, tokens = distribution(translator, features).topk(min(top, len(translator.model.prediction)))
    return [list(zip(*pair, strict=True)) for pair in zip(tokens.tolist(), chances.exp().tolist(), strict=True)]


@torch.no_grad()
def distribution(translator: Translator, features: Float[Tensor, "token width"]) -> Float[Tensor, "token vocab"]:
    """Log-probabilities of every next token."""
    return translator.model.logits(features).float().log_softmax(-1)


def _features(
    translator: Translator, read: Sequence[list[int]], written: Sequence[list[int]]
) -> Iterator[tuple[int, Float[Tensor, "written width"]]]:
    """What the model's last layer says at every place of each translation."""
    for batch in batches(read, written):
        features = forward(translator, [read[i] for i in batch], [written[i] for i in batch])
        yield from zip(batch, features.split([len(written[i]) + 1 for i in batch]), strict=True)


def batches(read: Sequence[list[int]], written: Sequence[list[int]]) -> list[list[int]]:
    """Numbers of pairs that are read together."""
    sizes = [max(len(source), len(target) + 1) for source, target in zip(read, written, strict=True)]
    return by_length(sizes, budget=ROOM)


@torch.no_grad()
def forward(
    translator: Translator, sources: Sequence[list[int]], targets: Sequence[list[int]]
) -> Float[Tensor, "written width"]:
    """One pass over a packed row of pairs."""
    device = next(translator.model.parameters()).device
    sides = sources, [[translator.begin, *target] for target in targets]
    rows = tuple(Row.of([len(ids) for ids in side]).to(device) for side in sides)
    flat = (torch.tensor([id for ids in side for id in ids], device=device) for side in sides)
    return translator.model(*flat, layouts=rows)
