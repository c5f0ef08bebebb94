"""Scores by source length, which show how a model does on long sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from regard.metrics.significance import Interval, Statistics, interval

BOUNDS = (5, 10, 15, 20, 30, 40, 60)  # largest number of words of each bucket; one more has all longer sentences
# Words are separated by spaces; in Chinese and Japanese, which have none, each character is a word.
WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\s\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")


@dataclass(frozen=True)
class Bucket:
    """The sentences of `low` to `high` words (None: no bound), with their scores."""

    low: int
    high: int | None
    members: tuple[int, ...]
    score: float
    interval: Interval
    ratio: float
    """Tokens written per token of the references."""

    @property
    def name(self) -> str:
        """The bounds in words."""
        if self.low == self.high:
            return f"{self.low}"
        return f"{self.low}+" if self.high is None else f"{self.low}-{self.high}"


def count_words(text: str) -> int:
    """Return the number of words of a text."""
    return len(WORD.findall(text))


def length_ratio(bleu: Statistics) -> float:
    """Return the tokens written per token of the references, as BLEU counts them; 0 if the references are empty."""
    assert bleu.metric == "bleu", f"{bleu.metric} does not count tokens"
    answer_tokens, reference_tokens = bleu.counts[:, :2].sum(0).tolist()
    return answer_tokens / reference_tokens if reference_tokens else 0.0


def by_length(
    sources: Sequence[str], bleu: Statistics, *, bounds: Sequence[int] = BOUNDS, samples: int = 1000
) -> list[Bucket]:
    """Return BLEU, with a bootstrap interval, of the sentences of each length; empty buckets are left out."""
    if len(sources) != len(bleu):
        raise ValueError(f"{len(sources)} sources but {len(bleu)} answers: there must be as many")
    if list(bounds) != sorted(set(bounds)) or (bounds and bounds[0] < 1):
        raise ValueError(f"bounds of lengths must rise from at least 1, not {list(bounds)}")
    lengths = [count_words(source) for source in sources]
    edges: list[tuple[int, int | None]] = list(zip([0, *(bound + 1 for bound in bounds)], [*bounds, None], strict=True))
    buckets = []
    for low, high in edges:
        members = [i for i, length in enumerate(lengths) if low <= length and (high is None or length <= high)]
        if members:
            subset = bleu.some(members)
            least = min(lengths[i] for i in members) if low == 0 else low  # the first begins with its shortest sentence
            buckets.append(
                Bucket(
                    least, high, tuple(members), subset.score, interval(subset, samples=samples), length_ratio(subset)
                )
            )
    return buckets
