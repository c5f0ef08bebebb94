"""What a check of data finds: how often, where first, and how lengths are spread."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from regard.data.line_report import REMEMBERED


@dataclass
class Finding:
    """How often something was met, and where first."""

    count: int = 0
    places: list[str] = field(default_factory=list)

    def add(self, place: str) -> None:
        """One more."""
        self.count += 1
        if len(self.places) < REMEMBERED:
            self.places.append(place)


@dataclass
class Lengths:
    """How many texts have which length; few lengths occur, so this stays small."""

    counts: Counter[int] = field(default_factory=Counter)

    def at(self, share: float) -> int:
        """The length that at least this share of the texts does not exceed."""
        remaining = math.ceil(share * self.counts.total())
        for length in sorted(self.counts):
            remaining -= self.counts[length]
            if remaining <= 0:
                return length
        return 0

    def plain(self) -> dict[str, int | float]:
        """The distribution in five numbers."""
        total = sum(length * count for length, count in self.counts.items())
        ends = {"least": min(self.counts, default=0), "most": max(self.counts, default=0)}
        mean = round(total / max(1, self.counts.total()), 2)
        return {**ends, "mean": mean, "median": self.at(0.5), "percentile_99": self.at(0.99)}

    @property
    def description(self) -> str:
        """The same in words."""
        summary = self.plain()
        text = f"{summary['least']} to {summary['most']:,}, mean {summary['mean']}, median {summary['median']}"
        return f"{text}, 99 % within {summary['percentile_99']}"


def describe_finding(finding: Finding, reason: str = "", of: int = 0) -> str:
    """`2 of 90 (2.22%) invalid UTF-8: a.fr:7, 9`."""
    if not finding.count:
        return "none"
    share = f" of {of:,} ({finding.count / of:.2%})" if of else ""
    more = ", ..." * (finding.count > len(finding.places))
    return f"{finding.count:,}{share}{' ' * bool(reason)}{reason}: {_join_places(finding.places)}{more}"


def _join_places(places: list[str]) -> str:
    """Places in a row, without saying the name of a file twice running."""
    words: list[str] = []
    last = ""
    for place in places:
        file, _, line = place.rpartition(":")
        words.append(line if file == last else place)
        last = file
    return ", ".join(words)
