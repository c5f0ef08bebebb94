"""Findings of data checks: counts with the first places, and length distributions."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from regard.data.line_report import REMEMBERED


@dataclass
class Finding:
    """A count of occurrences with the first places."""

    count: int = 0
    places: list[str] = field(default_factory=list)

    def add(self, place: str) -> None:
        """Count one more occurrence."""
        self.count += 1
        if len(self.places) < REMEMBERED:
            self.places.append(place)


@dataclass
class Lengths:
    """A histogram of text lengths."""

    counts: Counter[int] = field(default_factory=Counter)

    def at(self, share: float) -> int:
        """Return the length that at least this share of the texts does not exceed."""
        remaining = math.ceil(share * self.counts.total())
        for length in sorted(self.counts):
            remaining -= self.counts[length]
            if remaining <= 0:
                return length
        return 0

    def plain(self) -> dict[str, int | float]:
        """Return minimum, maximum, mean, median and 99th percentile."""
        total = sum(length * count for length, count in self.counts.items())
        ends = {"least": min(self.counts, default=0), "most": max(self.counts, default=0)}
        mean = round(total / max(1, self.counts.total()), 2)
        return {**ends, "mean": mean, "median": self.at(0.5), "percentile_99": self.at(0.99)}

    @property
    def description(self) -> str:
        """Return the distribution as text."""
        summary = self.plain()
        text = f"{summary['least']} to {summary['most']:,}, mean {summary['mean']}, median {summary['median']}"
        return f"{text}, 99 % within {summary['percentile_99']}"


def describe_finding(finding: Finding, reason: str = "", of: int = 0) -> str:
    """Describe a finding, as in `2 of 90 (2.22%) invalid UTF-8: a.fr:7, 9`."""
    if not finding.count:
        return "none"
    share = f" of {of:,} ({finding.count / of:.2%})" if of else ""
    more = ", ..." * (finding.count > len(finding.places))
    return f"{finding.count:,}{share}{' ' * bool(reason)}{reason}: {_join_places(finding.places)}{more}"


def _join_places(places: list[str]) -> str:
    """Join places without repeating the name of the file."""
    words: list[str] = []
    last = ""
    for place in places:
        file, _, line = place.rpartition(":")
        words.append(line if file == last else place)
        last = file
    return ", ".join(words)
