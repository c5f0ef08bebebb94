"""Teacher forcing: the probability that a trained translator assigns to given translations, token by token."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from regard.metrics.likelihood import perplexity
from regard.tasks.translation.model_calls import ScoreCall, TargetScore
from regard.tasks.translation.search import Searcher


@dataclass(frozen=True)
class Likelihood:
    """The likelihood of texts under a model: negative log-probabilities in nats, summed; an end counts as a token."""

    total: float
    """Minus the logarithm of the probability of all of them."""
    tokens: int
    characters: int
    texts: int
    passed_over: int = 0
    """Pairs longer than the model reads at once, which are not in the sums."""

    @property
    def perplexity(self) -> float:
        """Return the perplexity per token, comparable only between models with the same tokenizer."""
        return perplexity(self.total, self.tokens)

    @property
    def per_character(self) -> float:
        """Return the perplexity per character, comparable between any models."""
        return perplexity(self.total, self.characters)

    @property
    def bits(self) -> float:
        """Return the bits per character."""
        return self.total / self.characters / math.log(2)


def likelihood(
    translator: Searcher, sources: Sequence[str], targets: Sequence[str], *, to: str | None = None
) -> Likelihood | None:
    """Return the likelihood of these translations, each read as a whole; None if none fits the model's context."""
    read = [
        [*translator.tag(to), *ids, translator.source.role("end")] for ids in translator.source.encode_many(sources)
    ]
    written = translator.target.encode_many(targets, written=True)
    fitting = translator.teacher.fitting(read, written)
    if not fitting:
        return None
    total = 0.0
    for _, scores in score_tokens(translator, [read[i] for i in fitting], [written[i] for i in fitting]):
        total -= float(scores.double().sum())
    return Likelihood(
        total,
        tokens=sum(len(written[i]) + 1 for i in fitting),
        characters=sum(len(targets[i]) + 1 for i in fitting),
        texts=len(fitting),
        passed_over=len(read) - len(fitting),
    )


def score_tokens(
    translator: Searcher, read: Sequence[list[int]], written: Sequence[list[int]]
) -> Iterator[tuple[int, Float[Tensor, "written"]]]:
    """Yield (number, log-probability of each target token and the end) for every pair, in any order."""
    return translator.teacher.scores(read, written)


def score_targets(translator: Searcher, call: ScoreCall) -> list[TargetScore | None]:
    """Return the scores of targets and their ends; None for a pair longer than the model's context."""
    teacher, scores = translator.teacher, list[TargetScore | None]([None] * len(call.sources))
    fitting = teacher.fitting(call.sources, call.targets)
    sources, targets = ([side[number] for number in fitting] for side in (call.sources, call.targets))
    for place, features in teacher.features(sources, targets):
        tokens, choices = teacher.score_labels(features, [*targets[place], teacher.end], call.top)
        scores[fitting[place]] = TargetScore(tokens.tolist(), choices)
    return scores
