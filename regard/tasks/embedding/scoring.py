"""Retrieval scores of pairs: each text of one side is searched for among all texts of the other side."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from regard.data.examples import sample_evenly
from regard.metrics.retrieval import ranks, retrieval
from regard.metrics.scores import Judged, Scores
from regard.metrics.significance import mean_statistics
from regard.tasks.embedding.pairs import Pairs
from regard.training.task import Spread, alone

Embed = Callable[[Sequence[str]], Any]
"""A function that embeds texts as vectors of length 1, one row per text."""
TOGETHER = 1024  # texts per block
LONG = 200  # characters of a text shown in a report
FIRST = "recall@1, %"
DIRECTIONS = ("(second text from the first)", "(first from the second)")


@dataclass(frozen=True)
class PartnerRanks:
    """The rank of every text's partner, in both directions."""

    pairs: Pairs
    places: tuple[Int[np.ndarray, "pair"], Int[np.ndarray, "pair"]]
    nearest: list[int]
    """For each first text, the number of the pair whose second text is nearest to it."""

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics averaged over both directions."""
        forward, backward = (retrieval(places) for places in self.places)
        return {name: (forward[name] + backward[name]) / 2 for name in forward}

    def samples(self, count: int) -> list[dict[str, Any]]:
        """Return a few texts with their partner and the nearest text."""
        texts = self.pairs.texts
        return [
            {"text": texts[n][0][:LONG], "partner": texts[n][1][:LONG], "found": texts[self.nearest[n]][1][:LONG]}
            for n in sample_evenly(range(len(texts)), count)
        ]


def rank_partners(embed: Embed, pairs: Pairs, spread: Spread = alone) -> PartnerRanks:
    """Embed both sides, distributed over the processes, and rank every partner."""
    texts = [text for side in (0, 1) for text in (pair[side] for pair in pairs.texts)]
    starts = range(0, len(texts), TOGETHER)

    def embed_block(start: int) -> str:  # as text: processes exchange JSON
        return b64encode(np.asarray(embed(texts[start : start + TOGETHER]), np.float32).tobytes()).decode()

    parts = (np.frombuffer(b64decode(part), np.float32) for part in spread(embed_block, list(starts)))
    vectors: Float[np.ndarray, "text width"] = np.concatenate(list(parts)).reshape(len(texts), -1)
    first, second = vectors[: len(pairs)], vectors[len(pairs) :]
    alike = pairs.alike
    nearest = [int((row @ second.T).argmax()) for row in first]
    return PartnerRanks(pairs, (ranks(first, second, alike), ranks(second, first, alike)), nearest)


def score_retrieval(name: str, task: str, ranking: PartnerRanks) -> Scores:
    """Return recall and mean reciprocal rank, with statistics pair by pair."""

    def mean(of: Any) -> np.ndarray:
        return np.mean([of(places) for places in ranking.places], axis=0)

    ways = {
        FIRST: lambda places: 100.0 * (places <= 1),
        "recall@10, %": lambda places: 100.0 * (places <= 10),
        "mean reciprocal rank": lambda places: 1.0 / places,
    }
    recalls = {f"{FIRST} {way}": ways[FIRST](places) for way, places in zip(DIRECTIONS, ranking.places, strict=True)}
    worth = mean(ways["mean reciprocal rank"])
    examples = [
        Judged(n + 1, first[:LONG], second[:LONG], ranking.pairs.texts[ranking.nearest[n]][1][:LONG], float(worth[n]))
        for n, (first, second) in enumerate(ranking.pairs.texts)
    ]
    return Scores(
        name,
        task,
        {
            title: mean_statistics(values)
            for title, values in ({name: mean(way) for name, way in ways.items()} | recalls).items()
        },
        examples,
        measures={"chance of recall@1": f"{1 / max(len(ranking.pairs), 1):.2%}"},
        details=ranking.metrics,
        unit="pair",
        counted="reciprocal rank",
    )
