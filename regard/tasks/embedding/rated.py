"""Correlation between the cosines of embeddings and human ratings of pairs of texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.data.column_content import is_number
from regard.data.line_report import LineReport
from regard.data.readers import Refusal, clean_text
from regard.data.tables import read_rows
from regard.metrics.correlation import pearson, ranks, spearman
from regard.metrics.scores import Judged, Scores
from regard.tasks.embedding.scoring import LONG, TOGETHER, Embed

Rated = tuple[str, str, float]


def read(files: Sequence[str | Path], columns: tuple[int, int], rating: int) -> list[Rated]:
    """Read pairs from tables with the rating in this column, counted from 1; a heading is skipped."""
    pairs = list[Rated]()
    for file in map(str, files):
        report = LineReport()
        for number, (line, cells) in enumerate(read_rows(file, report)):
            try:
                pairs.append(_rated_pair(cells, columns, rating))
            except Refusal as refusal:
                if number or refusal.reason != _without_number(rating):  # the first line may name the columns
                    report.refuse(refusal.reason, 0, line)
        report.check(0.0, [file])
    if len(pairs) < 3:
        raise ValueError(
            f"{' and '.join(map(str, files))}: {len(pairs)} rated pairs, a correlation needs three: give more"
        )
    return pairs


def _rated_pair(cells: Sequence[str], columns: tuple[int, int], rating: int) -> Rated:
    if len(cells) < max(*columns, rating):
        raise Refusal(f"fewer than {max(*columns, rating)} columns")
    if not is_number(cells[rating - 1]):
        raise Refusal(_without_number(rating))
    first, second = (clean_text(cells[column - 1]) for column in columns)
    return first, second, float(cells[rating - 1])


def _without_number(rating: int) -> str:
    return f"without a number in column {rating}"


def cosines(embed: Embed, pairs: Sequence[Rated]) -> list[float]:
    """Return the cosine of the two texts of every pair."""
    similarities = list[float]()
    for start in range(0, len(pairs), TOGETHER):
        block = pairs[start : start + TOGETHER]
        first, second = (np.asarray(embed([pair[side] for pair in block])) for side in (0, 1))  # type: ignore[misc]
        similarities += (first * second).sum(axis=1).tolist()
    return similarities


def score_ratings(name: str, task: str, embed: Embed, pairs: Sequence[Rated]) -> Scores:
    """Return the correlations; pairs are judged by the distance between their ranks by cosine and by rating."""
    similarities, truth = cosines(embed, pairs), [rating for *_, rating in pairs]
    rank_distances = np.abs(ranks(similarities) - ranks(truth)) / len(pairs)
    examples = [
        Judged(n + 1, f"{first[:LONG]} | {second[:LONG]}", f"{rating:g}", f"{cosine:.4f}", -float(missed))
        for n, ((first, second, rating), cosine, missed) in enumerate(
            zip(pairs, similarities, rank_distances, strict=True)
        )
    ]
    return Scores(
        name,
        task,
        {"Spearman": spearman(similarities, truth), "Pearson": pearson(similarities, truth)},
        examples,
        unit="pair",
        counted="minus the distance of ranks",
    )
