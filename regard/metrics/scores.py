"""Scores of a model on a test set, for every task: metrics with intervals, tables, worst answers, and comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from regard.metrics.lengths import Bucket
from regard.metrics.significance import SEED, Interval, Statistics, Verdict, interval, paired_test

HEAD = ("metric", "system", "score, 95 %", "change", "p, bootstrap", "p, randomised")


class Judged(NamedTuple):
    """One example of a test set: the input, the reference, the answer, and the score of the answer."""

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
    """The answers of one system to a test set, and their scores."""

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
        """All scores by name."""
        return {name: counts.score for name, counts in self.statistics.items()}

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """The intervals that contain 95 % of resampled scores, by metric."""
        return {name: interval(counts) for name, counts in self.statistics.items() if len(counts) > 1}

    def __repr__(self) -> str:
        return "\n".join([*(f"{heading:<20} {measure}" for heading, measure in self.lines()), *self.warnings])

    def __len__(self) -> int:
        return max((len(counts) for counts in self.statistics.values()), default=len(self.examples))

    def worst(self, count: int = 5) -> list[Judged]:
        """Return the wrong answers with the worst scores, the worst first."""
        sign = -1 if self.lower_is_better else 1
        wrong = [
            judged
            for judged in self.examples
            if judged.answer != judged.right and (judged.score or not self.lower_is_better)
        ]
        return sorted(wrong, key=lambda example: (sign * example.score, example.number))[:count]

    def lines(self) -> list[tuple[str, str]]:
        """Return the rows of a two-column table: what is measured, and its value."""
        rows = [("system", self.name), (f"{self.unit}s", f"{len(self):,}")]
        for name, score in self.metrics.items():
            spread = f" ± {self.intervals[name].half:.2g}" if name in self.intervals else ""
            rows.append((name, f"{score:.4g}{spread}"))
        return [*rows, *self.measures.items()]

    def plain(self, *, worst: int = 5) -> dict[str, Any]:
        """Return the scores as plain data for JSON."""
        spans = {name: {"low": entry.low, "high": entry.high} for name, entry in self.intervals.items()}
        scores = {name: {"score": score, **spans.get(name, {})} for name, score in self.metrics.items()}
        summary = {"name": self.name, "task": self.task, f"{self.unit}s": len(self), "metrics": scores, **self.details}
        return {**summary, "notes": [*self.notes], "worst": [entry._asdict() for entry in self.worst(worst)]}


@dataclass(frozen=True)
class Comparison:
    """Two or more systems on one test set; the first is the baseline of the others."""

    systems: Sequence[Scores]
    bootstrap: Mapping[str, Sequence[Verdict]]
    """By metric, one verdict for each system."""
    randomisation: Mapping[str, Sequence[Verdict]]

    def lines(self) -> list[tuple[str, ...]]:
        """Return the rows of a table: each system by each metric, with the p-values of its difference."""
        rows: list[tuple[str, ...]] = [HEAD]
        for metric in self.bootstrap:
            for verdict, randomised in zip(self.bootstrap[metric], self.randomisation[metric], strict=True):
                test_columns = ("", "", "")
                if verdict.p is not None and randomised.p is not None:
                    test_columns = (f"{verdict.difference:+.3g}", f"{verdict.p:.4f}", f"{randomised.p:.4f}")
                rows.append(
                    (metric, verdict.system, f"{verdict.score:.4g} ± {verdict.interval.half:.2g}", *test_columns)
                )
        return rows

    def plain(self, *, worst: int = 5) -> dict[str, Any]:
        """Return the comparison as plain data for JSON."""
        tests = (("bootstrap", self.bootstrap), ("randomisation", self.randomisation))
        verdicts = [
            {"test": name, **asdict(verdict), "metric": metric}
            for name, test in tests
            for metric, system_verdicts in test.items()
            for verdict in system_verdicts
        ]
        return {"systems": [system.plain(worst=worst) for system in self.systems], "tests": verdicts}


def compare(systems: Sequence[Scores], *, samples: int = 1000, trials: int = 10_000, seed: int = SEED) -> Comparison:
    """Compare each system with the first, by every metric that all have, with two paired tests."""
    if len(systems) < 2:
        raise ValueError(f"{len(systems)} systems to compare: give at least two")
    first = systems[0]
    if any(
        [example.right for example in system.examples] != [example.right for example in first.examples]
        for system in systems
    ):
        raise ValueError("systems with other references cannot be compared: evaluate all of them on one test set")
    names = number_duplicates([system.name for system in systems])
    shared = [metric for metric in first.statistics if all(metric in system.statistics for system in systems)]
    if not shared:
        raise ValueError("these systems have no metric in common: compare models of one task")
    table = {
        metric: dict(zip(names, (system.statistics[metric] for system in systems), strict=True)) for metric in shared
    }
    bootstrap = {
        metric: paired_test(by_system, test="bootstrap", samples=samples, seed=seed)
        for metric, by_system in table.items()
    }
    randomisation = {
        metric: paired_test(by_system, test="randomisation", samples=trials, seed=seed)
        for metric, by_system in table.items()
    }
    return Comparison(list(systems), bootstrap, randomisation)


def number_duplicates(names: Sequence[str]) -> list[str]:
    """Append a number to names that occur before, so that all are different."""
    counts: dict[str, int] = {}
    unique_names = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        unique_names.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return unique_names
