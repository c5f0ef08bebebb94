"""Answers that are fixed while the model that gave them is disturbed: every check of trust reads them again."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.multihead import MultiHead
from regard.attention.singlehead import SingleHead
from regard.interpret.measure.interventions import Correlation, Way, change_heads, correlate
from regard.metrics.significance import Statistics, lead_interval, mean_statistics

CROSS = "cross"
DRAWS = 3  # random orders of the weights, and random heads beside them
FEWEST = 5  # inputs from which an interval says anything
Head = tuple[str, int]
Verdict = Literal["good", "weak", "unsure", "none"]

GOOD = {
    "alignment": 0.15, "deletion": 0.15, "silenced": 0.05, "permuted": 0.1, "even": 0.1,
    "map_deletion": 0.05, "map_insertion": 0.05, "map_change": 0.5,
}  # fmt: skip
"""By how much a number must beat its best control to count as good, by check."""
LOWER_IS_BETTER = ("alignment", "map_deletion")


@dataclass(frozen=True)
class Finding:
    """A number of one method in one check, beside its controls, and the 95 % interval of its lead over the best."""

    method: str
    check: str
    value: float
    controls: Mapping[str, float]
    examples: int
    low: float
    high: float

    @property
    def margin(self) -> float:
        """Return by how much the number beats its best control; negative if it does not."""
        if self.check in LOWER_IS_BETTER:
            return min(self.controls.values()) - self.value
        return self.value - max(self.controls.values())

    @property
    def verdict(self) -> Verdict:
        """Return what the interval says: good, better by little, not to be told from the best control, or no better."""
        if self.high <= 0:
            return "none"
        if self.low <= 0 or self.examples < FEWEST:
            return "unsure"
        return "good" if self.margin >= GOOD[self.check] else "weak"

    def plain(self) -> dict[str, Any]:
        """Return everything as JSON."""
        return {
            "method": self.method,
            "check": self.check,
            "value": self.value,
            "controls": dict(self.controls),
            "examples": self.examples,
            "lead": self.margin,
            "low": self.low,
            "high": self.high,
            "better": "less" if self.check in LOWER_IS_BETTER else "more",
            "good": GOOD[self.check],
            "verdict": self.verdict,
        }


@dataclass(frozen=True)
class Gap:
    """A method that cannot be held against a check, and the name of the reason."""

    method: str
    check: str
    reason: str


@dataclass
class Report:
    """What the checks of a model found, and what could not be checked."""

    findings: list[Finding] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)

    def plain(self) -> dict[str, Any]:
        """Return everything as JSON."""
        return {"findings": [finding.plain() for finding in self.findings], "gaps": [vars(gap) for gap in self.gaps]}


@dataclass(frozen=True)
class Ranking:
    """What several methods give the parts of one input, what leaving each out costs, and what rivals would give it."""

    scores: Mapping[str, Sequence[float]]
    effects: Sequence[float]
    rivals: Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class FixedAnswers:
    """A model and its answers to some inputs, which are read again while the model is disturbed."""

    model: Any
    read: Callable[[], Sequence[Float[Tensor, "part"]]]
    """Returns the log-probability of each part of every answer, as the model is now."""
    rank: Callable[[], Iterator[Ranking]]
    """Yields, input by input, what is compared with leaving each part of the input out."""
    sizes: Sequence[int]
    """The number of parts of each input that are left out one at a time."""
    heads: Sequence[Head]
    """The heads that carry what is read to what is answered."""
    gaps: Sequence[Gap] = ()

    @property
    def count(self) -> int:
        """Return how many answers are read to check the model."""
        return len(self.sizes) * count_rounds(self.heads) + bool(self.heads) * len(self.sizes) + sum(self.sizes)


def count_rounds(heads: Sequence[Head]) -> int:
    """Return how often all answers are read, after the first time, to check these heads."""
    alone = len(heads) + 2 * DRAWS if len(heads) > 1 else 0
    return alone + DRAWS + 3 if heads else 0


def make_finding(method: str, check: str, value: Statistics, controls: Mapping[str, Statistics]) -> Finding:
    """Return a finding with the interval of its lead, from the numbers of every input."""
    interval = lead_interval(value, list(controls.values()))
    scores = {name: control.score for name, control in controls.items()}
    return Finding(method, check, value.score, scores, len(value), interval.low, interval.high)


def list_heads(model: Any, ending: str = "") -> list[Head]:
    """Return every head of the attentions whose names end so, by attention and number."""
    return [
        (name, head)
        for name, module in model.named_modules()
        if isinstance(module, MultiHead | SingleHead) and name.endswith(ending)
        for head in range(module.heads)
    ]


def check_answers(answers: FixedAnswers) -> Report:
    """Hold methods against leaving parts of the input out, and answers against silenced, permuted and even heads."""
    report = check_rankings(list(answers.rank()))
    heads = check_heads(answers)
    return Report([*report.findings, *heads.findings], [*answers.gaps, *report.gaps, *heads.gaps])


def check_rankings(rankings: Sequence[Ranking], *, seed: int = 0) -> Report:
    """Compare how methods rank the parts of inputs with how much leaving each out costs."""
    shuffle, rows = random.Random(seed), dict[str, list[Correlation]]()
    methods = list(dict.fromkeys(method for ranking in rankings for method in ranking.scores))
    for ranking in rankings:
        for method, scores in ranking.scores.items():
            correlation = correlate(scores, ranking.effects, ranking.rivals, shuffle=shuffle)
            if correlation is not None:
                rows.setdefault(method, []).append(correlation)
    report = Report(gaps=[Gap(method, "deletion", "constant") for method in methods if method not in rows])
    for method, correlations in rows.items():
        names = correlations[0].controls
        controls = {
            name: mean_statistics([correlation.controls[name] for correlation in correlations]) for name in names
        }
        value = mean_statistics([correlation.value for correlation in correlations])
        report.findings.append(make_finding(method, "deletion", value, controls))
    return report


def check_heads(answers: FixedAnswers, *, seed: int = 0) -> Report:
    """Measure what the answers lose when heads are silenced, and how they change when heads are permuted or even."""
    if not answers.heads:
        return Report(gaps=[Gap("attention", check, "no_attention") for check in ("silenced", "permuted", "even")])
    before = answers.read()
    silenced = _check_silenced(answers, before)
    changes = [_check_change(answers, before, way, seed=seed) for way in ("permuted", "even")]
    return Report([*silenced.findings, *changes], silenced.gaps)


def _check_silenced(answers: FixedAnswers, before: Sequence[Tensor]) -> Report:
    """Compare the head that is missed most with the middle one, both chosen on the other half of the inputs."""
    if len(answers.heads) == 1:
        return Report(gaps=[Gap("attention", "silenced", "one_head")])
    if len(before) < 2:
        return Report(gaps=[Gap("attention", "silenced", "one_input")])
    effects = np.array([_sum_losses(before, _read_changed(answers, [head], "silent")) for head in answers.heads])
    most, middle = np.zeros(len(before)), np.zeros(len(before))
    for first in (0, 1):
        order = effects[:, 1 - first :: 2].sum(1).argsort(kind="stable")
        most[first::2], middle[first::2] = effects[order[-1], first::2], effects[order[len(order) // 2], first::2]
    parts = [len(scores) for scores in before]
    controls = {"median": mean_statistics(middle, parts)}
    return Report([make_finding("attention", "silenced", mean_statistics(most, parts), controls)])


def _check_change(answers: FixedAnswers, before: Sequence[Tensor], way: Way, *, seed: int) -> Finding:
    """Compare changing all heads with changing one head, drawn at random, and with changing nothing."""
    generator = torch.Generator().manual_seed(seed)
    orders = DRAWS if way == "permuted" else 1  # looking evenly is the same every time
    whole = [_read_changed(answers, answers.heads, way, generator) for _ in range(orders)]
    controls = {"same": _mean_changes(before, [answers.read()])}
    if len(answers.heads) > 1:
        draws = torch.randint(len(answers.heads), (DRAWS,), generator=generator).tolist()
        single = [_read_changed(answers, [answers.heads[head]], way, generator) for head in draws]
        controls["one_head"] = _mean_changes(before, single)
    return make_finding("attention", way, _mean_changes(before, whole), controls)


def _read_changed(
    answers: FixedAnswers, heads: Sequence[Head], way: Way, generator: torch.Generator | None = None
) -> Sequence[Tensor]:
    with change_heads(answers.model, heads, way=way, generator=generator):
        return answers.read()


def _sum_losses(before: Sequence[Tensor], after: Sequence[Tensor]) -> list[float]:
    """Return by how much the log-probability of each answer falls."""
    return [float((first - second).sum()) for first, second in zip(before, after, strict=True)]


def _mean_changes(before: Sequence[Tensor], readings: Sequence[Sequence[Tensor]]) -> Statistics:
    """Return how much the probability of the middle part of every answer changes, as a mean over readings."""
    changes = [
        [median((first.exp() - second.exp()).abs().tolist()) for first, second in zip(before, after, strict=True)]
        for after in readings
    ]
    return mean_statistics(np.mean(changes, axis=0))
