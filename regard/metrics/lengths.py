"""Scores by the length of what was translated: a model that loses the thread shows it on long sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from regard.metrics.significance import Interval, Statistics, interval

BOUNDS = (5, 10, 15, 20, 30, 40, 60)  # most words of a bucket; one more bucket has all that is longer
# A word is what stands between spaces; Chinese and Japanese have none, so each of their characters is one.
WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\s\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")


@dataclass(frozen=True)
class Bucket:
    """Sentences of similar length: from `low` to `high` words (None: no bound), and how they score."""

    low: int
    high: int | None
    members: tuple[int, ...]
    score: float
    interval: Interval
    ratio: float
    """Tokens written per token of the references."""

    @property
    def name(self) -> str:
        """Its bounds in words."""
        if self.low == self.high:
            return f"{self.low}"
        return f"{self.low}+" if self.high is None else f"{self.low}-{self.high}"


def count_words(text: str) -> int:
    """How many words a text has."""
    return len(WORD.findall(text))


def length_ratio(bleu: Statistics) -> float:
    """Tokens written per token of the references, as BLEU counts them; 0 when the references are empty."""
    assert bleu.metric == "bleu", f"{bleu.metric} does not count tokens"
    answer_tokens, reference_tokens = bleu.counts[:, :2].sum(0).tolist()
    return answer_tokens / reference_tokens if reference_tokens else 0.0


def by_length(
    sources: Sequence[str], bleu: Statistics, *, bounds: Sequence[int] = BOUNDS, samples: int = 1000
) -> list[Bucket]:
    """BLEU, with a bootstrap interval, of the sentences of each length; buckets without a sentence are left out."""
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
            least = min(lengths[i] for i in members) if low == 0 else low  # the first bucket begins with what is there
            buckets.append(
                Bucket(
                    least, high, tuple(members), subset.score, interval(subset, samples=samples), length_ratio(subset)
                )
            )
    return buckets
