"""What a check of parallel corpora finds, as plain data and as a table of two columns."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from regard.data.line_report import REMEMBERED

OVER = (2, 3, 5, 9)  # times as long on one side: how many pairs are beyond each


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
        left = math.ceil(share * self.counts.total())
        for length in sorted(self.counts):
            left -= self.counts[length]
            if left <= 0:
                return length
        return 0

    def plain(self) -> dict[str, int | float]:
        """The distribution in five numbers."""
        total = sum(length * count for length, count in self.counts.items())
        ends = {"least": min(self.counts, default=0), "most": max(self.counts, default=0)}
        mean = round(total / max(1, self.counts.total()), 2)
        return {**ends, "mean": mean, "median": self.at(0.5), "percentile_99": self.at(0.99)}


@dataclass
class Report:
    """What a check found; `problems` are what stops a training."""

    corpora: list[dict[str, Any]] = field(default_factory=list)
    """Each with its files, tag, and lines read, good and refused by reason."""
    lengths: dict[str, dict[str, Lengths]] = field(default_factory=dict)
    """Of either side of the good training pairs: in characters, in words and, if tokenizers were trained, in tokens,

    those of what reaches a training, ends and tags included; of a huge text those of its beginning.
    """
    tags: dict[str, dict[str, int]] = field(default_factory=dict)
    """Good pairs of every language tag to train and to measure on."""
    repeated: Finding = field(default_factory=Finding)
    """Training pairs that were there before, tag included."""
    several: Finding = field(default_factory=Finding)
    """Sources with more than one target, each where it first meets another."""
    copies: Finding = field(default_factory=Finding)
    """Training pairs whose sides are the same text."""
    over: dict[int, int] = field(default_factory=lambda: dict.fromkeys(OVER, 0))
    """Training pairs with one side over so many times as long as the other, in characters."""
    extreme: list[tuple[float, str]] = field(default_factory=list)
    """The greatest such ratios and where they are."""
    overlap: dict[str, Finding] = field(default_factory=dict)
    """Training and validation pairs with a sentence in common; empty without a validation corpus."""
    dropped: dict[str, Finding] = field(default_factory=dict)
    """Good training pairs that the recipe leaves out, by reason."""
    cut: Finding = field(default_factory=Finding)
    """Training pairs that the recipe shortens."""
    kept: dict[str, int] = field(default_factory=dict)
    """Pairs that would be learnt from and measured on; empty if there is a problem."""
    problems: list[str] = field(default_factory=list)

    @property
    def pairs(self) -> int:
        """Good training pairs."""
        return sum(corpus["good"] for corpus in self.corpora if corpus["set"] == "train")

    @property
    def verdict(self) -> str:
        """One sentence: whether this can be trained on."""
        if self.problems:
            return f"cannot be trained on: {'; '.join(self.problems)}"
        return f"can be trained on: {self.kept['train']:,} pairs for training, {self.kept['valid']:,} for validation"

    def plain(self) -> dict[str, Any]:
        """As JSON."""

        def told(finding: Finding) -> dict[str, Any]:
            return {
                "count": finding.count,
                "share": round(finding.count / max(1, self.pairs), 6),
                "places": finding.places,
            }

        sides = {side: {unit: found.plain() for unit, found in units.items()} for side, units in self.lengths.items()}
        return {
            "verdict": self.verdict,
            "problems": self.problems,
            "corpora": self.corpora,
            "pairs": self.pairs,
            "kept": self.kept,
            "lengths": sides,
            "tags": self.tags,
            "repeated": told(self.repeated),
            "several": told(self.several),
            "copies": told(self.copies),
            "over": {str(times): count for times, count in self.over.items()},
            "extreme": [{"ratio": round(times, 2), "place": place} for times, place in self.extreme],
            "overlap": {name: {"count": found.count, "places": found.places} for name, found in self.overlap.items()},
            "dropped": {reason: told(finding) for reason, finding in self.dropped.items()},
            "cut": told(self.cut),
        }

    def lines(self) -> list[tuple[str, str]]:
        """In words: a name and what there is to say of it, row by row, the verdict last."""
        found = [*self._counts(), *self._lengths(), *self._oddities()] if self.corpora else []
        return [*found, ("verdict", self.verdict)]

    def _counts(self) -> Iterator[tuple[str, str]]:
        for corpus in self.corpora:
            tag = f", tag {corpus['tag']}" if corpus["tag"] else ""
            names = " and ".join(corpus["files"])
            yield f"{corpus['set']}{tag}", f"{names}: {corpus['good']:,} good pairs in {corpus['read']:,} lines"
            for reason, found in corpus["refused"].items():
                yield "  refused", _told(Finding(**found), reason)
        for tag, counts in self.tags.items():
            yield f"tag {tag}", ", ".join(f"{count:,} {name}" for name, count in counts.items())

    def _lengths(self) -> Iterator[tuple[str, str]]:
        for side, units in self.lengths.items():
            for unit, found in units.items():
                told = found.plain()
                text = f"{told['least']} to {told['most']:,}, mean {told['mean']}, median {told['median']}"
                yield f"{side} {unit}", f"{text}, 99 % within {told['percentile_99']}"

    def _oddities(self) -> Iterator[tuple[str, str]]:
        yield "repeated pairs", _told(self.repeated)
        yield "sources with several targets", _told(self.several)
        yield "source equals target", _told(self.copies)
        yield "one side longer", ", ".join(f"over {times} times: {count:,}" for times, count in self.over.items())
        for times, place in self.extreme[:3]:
            yield "", f"{times:.1f} times: {place}"
        for name, finding in self.overlap.items():
            yield f"{name} pairs in both sets", _told(finding)
        for reason, finding in self.dropped.items():
            yield "left out", _told(finding, reason, self.pairs)
        if self.cut.count:
            yield "shortened", _told(self.cut, of=self.pairs)


def _told(finding: Finding, reason: str = "", of: int = 0) -> str:
    """`2 of 90 (2.22%) invalid UTF-8: a.fr:7, 9`."""
    if not finding.count:
        return "none"
    share = f" of {of:,} ({finding.count / of:.2%})" if of else ""
    more = ", ..." * (finding.count > len(finding.places))
    return f"{finding.count:,}{share}{' ' * bool(reason)}{reason}: {_placed(finding.places)}{more}"


def _placed(places: list[str]) -> str:
    """Places in a row, without saying the name of a file twice running."""
    words: list[str] = []
    last = ""
    for place in places:
        file, _, line = place.rpartition(":")
        words.append(line if file == last else place)
        last = file
    return ", ".join(words)
