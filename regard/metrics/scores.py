"""How good a model is on a test set, whatever it learnt: scores with intervals, tables, the worst answers; and which
of several is better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from regard.metrics.lengths import Bucket
from regard.metrics.significance import SEED, Interval, Statistics, Verdict, interval, paired

HEAD = ("metric", "system", "score, 95 %", "change", "p, bootstrap", "p, randomised")


class Judged(NamedTuple):
    """One example of a test set: what was given, what is right, what was answered, and what that is worth."""

    number: int
    given: str
    right: str
    answer: str
    score: float
    """What the answer is worth: the higher the better, unless the scores say that it is an error."""


@dataclass(frozen=True)
class Table:
    """Rows under a head."""

    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True, repr=False)
class Scores:
    """The answers of one system to a test set, and what they are worth."""

    name: str
    task: str
    statistics: Mapping[str, Statistics]
    """What each metric counts in every example: scores, intervals and paired tests follow from it."""
    examples: Sequence[Judged] = ()
    measures: Mapping[str, str] = field(default_factory=dict)
    """Everything else there is to say, in words by name."""
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()
    """How metrics were computed, for whoever wants the same."""
    warnings: Sequence[str] = ()
    """Why new data may score lower: what was measured on was trained on."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else a program may want, as JSON."""
    lengths: Sequence[Bucket] = ()
    """Scores by the length of what was given, where that makes sense."""
    unit: str = "example"
    counted: str = ""
    """What the worth of single answers is measured by."""
    lower_is_better: bool = False
    """Whether the worth of single answers is an error."""

    @property
    def metrics(self) -> dict[str, float]:
        """Every score by name."""
        return {name: counts.score for name, counts in self.statistics.items()}

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """Where 95 % of resampled scores lie."""
        return {name: interval(counts) for name, counts in self.statistics.items() if len(counts) > 1}

    def __repr__(self) -> str:
        return "\n".join([*(f"{what:<20} {measure}" for what, measure in self.lines()), *self.warnings])

    def __len__(self) -> int:
        return max((len(counts) for counts in self.statistics.values()), default=len(self.examples))

    def worst(self, count: int = 5) -> list[Judged]:
        """The answers that are worth least, the worst first; none that is right."""
        sign = -1 if self.lower_is_better else 1
        wrong = [one for one in self.examples if one.answer != one.right and (one.score or not self.lower_is_better)]
        return sorted(wrong, key=lambda example: (sign * example.score, example.number))[:count]

    def lines(self) -> list[tuple[str, str]]:
        """A two-column table: what is measured, and the measure."""
        rows = [("system", self.name), (f"{self.unit}s", f"{len(self):,}")]
        for name, score in self.metrics.items():
            spread = f" ± {self.intervals[name].half:.2g}" if name in self.intervals else ""
            rows.append((name, f"{score:.4g}{spread}"))
        return [*rows, *self.measures.items()]

    def plain(self, *, worst: int = 5) -> dict[str, Any]:
        """As JSON."""
        spans = {name: {"low": one.low, "high": one.high} for name, one in self.intervals.items()}
        scores = {name: {"score": score, **spans.get(name, {})} for name, score in self.metrics.items()}
        told = {"name": self.name, "task": self.task, f"{self.unit}s": len(self), "metrics": scores, **self.details}
        return {**told, "notes": [*self.notes], "worst": [one._asdict() for one in self.worst(worst)]}


@dataclass(frozen=True)
class Comparison:
    """Two or more systems on one test set; the first is what the others are compared with."""

    systems: Sequence[Scores]
    bootstrap: Mapping[str, Sequence[Verdict]]
    """By metric, one verdict for each system."""
    randomisation: Mapping[str, Sequence[Verdict]]

    def lines(self) -> list[tuple[str, ...]]:
        """A table under its head: each system by each metric, and the probability of the difference by chance."""
        rows: list[tuple[str, ...]] = [HEAD]
        for metric in self.bootstrap:
            for one, other in zip(self.bootstrap[metric], self.randomisation[metric], strict=True):
                beside = ("", "", "")
                if one.p is not None and other.p is not None:
                    beside = (f"{one.difference:+.3g}", f"{one.p:.4f}", f"{other.p:.4f}")
                rows.append((metric, one.system, f"{one.score:.4g} ± {one.interval.half:.2g}", *beside))
        return rows

    def plain(self, *, worst: int = 5) -> dict[str, Any]:
        """As JSON."""
        tests = (("bootstrap", self.bootstrap), ("randomisation", self.randomisation))
        verdicts = [
            {"test": name, **asdict(verdict), "metric": metric}
            for name, test in tests
            for metric, told in test.items()
            for verdict in told
        ]
        return {"systems": [one.plain(worst=worst) for one in self.systems], "tests": verdicts}


def compare(systems: Sequence[Scores], *, samples: int = 1000, trials: int = 10_000, seed: int = SEED) -> Comparison:
    """Each system against the first, by every metric that all have, with two paired tests."""
    if len(systems) < 2:
        raise ValueError(f"{len(systems)} systems to compare: give at least two")
    first = systems[0]
    if any([each.right for each in one.examples] != [each.right for each in first.examples] for one in systems):
        raise ValueError("systems with other references cannot be compared: evaluate all of them on one test set")
    names = distinct([one.name for one in systems])
    shared = [metric for metric in first.statistics if all(metric in one.statistics for one in systems)]
    if not shared:
        raise ValueError("these systems have no metric in common: compare models of one task")
    table = {metric: dict(zip(names, (one.statistics[metric] for one in systems), strict=True)) for metric in shared}
    drawn = {metric: paired(own, test="bootstrap", samples=samples, seed=seed) for metric, own in table.items()}
    swapped = {metric: paired(own, test="randomisation", samples=trials, seed=seed) for metric, own in table.items()}
    return Comparison(list(systems), drawn, swapped)


def distinct(names: Sequence[str]) -> list[str]:
    """Names with a number where one comes again, so that none is lost."""
    seen: dict[str, int] = {}
    result = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return result
