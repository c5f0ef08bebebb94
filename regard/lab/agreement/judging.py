"""How well a tagger tells right participles from wrong ones, by the distance of their subject and what is between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from regard.lab.agreement import sentences as agreement
from regard.lab.agreement.sentences import RIGHT, WRONG, Sentence
from regard.lab.demonstration import Measurement
from regard.tasks.text_labels.tagger import Tagger

DISTANCES = (1, 2, 4, 8, 12, 16, 24, 32, 48)
CONDITIONS = {False: "without attractors", True: "with attractors"}
LEAST = 3  # words in which a noun and a verb have room


@dataclass(frozen=True)
class Point:
    """The participles at one distance, and the number that each of several models tagged wrongly."""

    distance: int
    attractors: bool
    count: int
    mistakes: tuple[int, ...]

    @property
    def errors(self) -> list[float]:
        """Return the error rate of each model in per cent; chance is 50."""
        return [100 * mistakes / self.count for mistakes in self.mistakes]

    @property
    def error(self) -> float:
        """Return the mean error rate over the models."""
        return sum(self.errors) / len(self.errors)

    def plain(self) -> dict[str, Any]:
        """Return everything as JSON."""
        summary = {"distance": self.distance, "attractors": self.attractors, "sentences": self.count}
        return {**summary, "error": self.error, "errors": self.errors}


def compare_extremes(name: str, points: Sequence[Point]) -> Measurement:
    """Compare errors at the longest distance with nouns in between with those at the shortest without any."""
    hard = max(points, key=lambda point: (point.attractors, point.distance))
    easy = min(points, key=lambda point: (point.attractors, point.distance))
    settings = [f"{point.distance} words, {CONDITIONS[point.attractors]}" for point in (hard, easy)]
    return Measurement(f"errors in 100: {name}", settings[0], hard.error, settings[1], easy.error)


def measure(
    taggers: Sequence[Tagger],
    *,
    distances: Sequence[int] = DISTANCES,
    count: int = 500,
    seed: int = 0,
    described: bool = True,
) -> list[Point]:
    """Return the errors of taggers at each distance, without attractors and, where they fit, with them."""
    for tagger in taggers:
        if sorted(tagger.classes) != sorted((RIGHT, WRONG)):
            raise ValueError(
                f"{tagger.name}: tags words as {', '.join(tagger.classes[:4])}, not as {RIGHT} or {WRONG}: "
                "train it on what `regard data make agreement` writes"
            )
    points = []
    for attractors in CONDITIONS:
        for distance in distances:
            if attractors and distance < LEAST:
                continue
            how = partial(agreement.sentence, seed, distance=distance, described=described, testing=True)
            test_sentences = [how(number, attractors=attractors) for number in range(count)]
            mistakes = tuple(count_mistakes(tagger, test_sentences) for tagger in taggers)
            points.append(Point(distance, attractors, count, mistakes))
    return points


def count_mistakes(tagger: Tagger, test_sentences: Sequence[Sentence]) -> int:
    """Count the participles that a tagger tags wrongly."""
    tags = tagger.tag([list(sentence.words) for sentence in test_sentences])
    return sum(
        predicted.tags[sentence.place] != sentence.tags[sentence.place]
        for predicted, sentence in zip(tags, test_sentences, strict=True)
    )
