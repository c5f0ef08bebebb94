"""The report of a check of parallel corpora, as plain data and as a two-column table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from regard.config.words import quantity
from regard.data.findings import Finding, Lengths, describe_finding

OVER = (2, 3, 5, 9)  # ratios of the lengths of the two sides, beyond which pairs are counted


@dataclass
class Report:
    """The findings of a check; `problems` are those that prevent training."""

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
        """Return the number of good training pairs."""
        return sum(corpus["good"] for corpus in self.corpora if corpus["set"] == "train")

    @property
    def verdict(self) -> str:
        """Return one sentence: whether the data can be trained on."""
        if self.problems:
            return f"cannot be trained on: {'; '.join(self.problems)}"
        pairs = quantity(self.kept["train"], "pair")
        return f"can be trained on: {pairs} for training, {self.kept['valid']:,} for validation"

    def plain(self) -> dict[str, Any]:
        """Return the report as JSON."""

        def plain(finding: Finding) -> dict[str, Any]:
            return {
                "count": finding.count,
                "share": round(finding.count / max(1, self.pairs), 6),
                "places": finding.places,
            }

        sides = {
            side: {unit: measured.plain() for unit, measured in units.items()} for side, units in self.lengths.items()
        }
        return {
            "verdict": self.verdict,
            "problems": self.problems,
            "corpora": self.corpora,
            "pairs": self.pairs,
            "kept": self.kept,
            "lengths": sides,
            "tags": self.tags,
            "repeated": plain(self.repeated),
            "several": plain(self.several),
            "copies": plain(self.copies),
            "over": {str(times): count for times, count in self.over.items()},
            "extreme": [{"ratio": round(times, 2), "place": place} for times, place in self.extreme],
            "overlap": {
                name: {"count": measured.count, "places": measured.places} for name, measured in self.overlap.items()
            },
            "dropped": {reason: plain(finding) for reason, finding in self.dropped.items()},
            "cut": plain(self.cut),
        }

    def lines(self) -> list[tuple[str, str]]:
        """Return the report as rows of a name and a description, the verdict last."""
        rows = [*self._count_rows(), *self._length_rows(), *self._oddity_rows()] if self.corpora else []
        return [*rows, ("verdict", self.verdict)]

    def _count_rows(self) -> Iterator[tuple[str, str]]:
        for corpus in self.corpora:
            tag = f", tag {corpus['tag']}" if corpus["tag"] else ""
            names = " and ".join(corpus["files"])
            yield (
                f"{corpus['set']}{tag}",
                f"{names}: {quantity(corpus['good'], 'good pair')} in {quantity(corpus['read'], 'line')}",
            )
            for reason, refusal in corpus["refused"].items():
                yield "  refused", describe_finding(Finding(**refusal), reason)
        for tag, counts in self.tags.items():
            yield f"tag {tag}", ", ".join(f"{count:,} {name}" for name, count in counts.items())

    def _length_rows(self) -> Iterator[tuple[str, str]]:
        for side, units in self.lengths.items():
            for unit, measured in units.items():
                yield f"{side} {unit}", measured.description

    def _oddity_rows(self) -> Iterator[tuple[str, str]]:
        yield "repeated pairs", describe_finding(self.repeated)
        yield "sources with several targets", describe_finding(self.several)
        yield "source equals target", describe_finding(self.copies)
        yield "one side longer", ", ".join(f"over {times} times: {count:,}" for times, count in self.over.items())
        for times, place in self.extreme[:3]:
            yield "", f"{times:.1f} times: {place}"
        for name, finding in self.overlap.items():
            yield f"{name} pairs in both sets", describe_finding(finding)
        for reason, finding in self.dropped.items():
            yield "left out", describe_finding(finding, reason, self.pairs)
        if self.cut.count:
            yield "shortened", describe_finding(self.cut, of=self.pairs)
