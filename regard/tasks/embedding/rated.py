"""Pairs of texts that somebody rated: how well the cosines of their vectors go together with the ratings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.data.line_report import LineReport
from regard.data.readers import Refusal, cleaned, records
from regard.metrics.correlation import pearson, ranks, spearman
from regard.metrics.scores import Judged, Scores
from regard.tasks.embedding.scoring import LONG, TOGETHER, Embed

Rated = tuple[str, str, float]


def read(files: Sequence[str | Path], columns: tuple[int, int], rating: int) -> list[Rated]:
    """The pairs of tab-separated files with the number in this column, counted from 1; a head is passed over."""
    found = list[Rated]()
    for file in map(str, files):
        tally, head = LineReport(), True

        def take(line: str) -> Rated | None:
            nonlocal head
            first, head = head, False
            cells = line.split("\t")
            if len(cells) < max(*columns, rating):
                raise Refusal(f"fewer than {max(*columns, rating)} columns")
            try:
                told = float(cells[rating - 1])
            except ValueError:
                told = math.nan
            if not math.isfinite(told):
                if first:
                    return None
                raise Refusal(f"without a number in column {rating}")
            one, other = (cleaned(cells[column - 1]) for column in columns)
            return one, other, told

        found += [pair for _, pair in records(file, tally, take) if pair is not None]
        tally.check(0.0, [file])
    if len(found) < 3:
        raise ValueError(
            f"{' and '.join(map(str, files))}: {len(found)} rated pairs, a correlation needs three: give more"
        )
    return found


def cosines(embed: Embed, pairs: Sequence[Rated]) -> list[float]:
    """Of the two texts of every pair."""
    found = list[float]()
    for start in range(0, len(pairs), TOGETHER):
        block = pairs[start : start + TOGETHER]
        first, second = (np.asarray(embed([pair[side] for pair in block])) for side in (0, 1))  # type: ignore[misc]
        found += (first * second).sum(axis=1).tolist()
    return found


def scored(name: str, task: str, embed: Embed, pairs: Sequence[Rated]) -> Scores:
    """The correlations with their intervals; the worst pairs are those that cosines rank most unlike people."""
    told, truth = cosines(embed, pairs), [rating for *_, rating in pairs]
    off = np.abs(ranks(told) - ranks(truth)) / len(pairs)
    examples = [
        Judged(n + 1, f"{one[:LONG]} | {other[:LONG]}", f"{rating:g}", f"{cosine:.4f}", -float(missed))
        for n, ((one, other, rating), cosine, missed) in enumerate(zip(pairs, told, off, strict=True))
    ]
    return Scores(
        name,
        task,
        {"Spearman": spearman(told, truth), "Pearson": pearson(told, truth)},
        examples,
        unit="pair",
        counted="minus the distance of ranks",
    )
