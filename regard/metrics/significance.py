"""Significance of differences between systems: paired tests on metrics computed from counts per sentence.

A corpus score is a function of counts summed over sentences, so a thousand resampled corpora cost one matrix product.
With the same seed the resamples, and so the p-values, are those of sacreBLEU's paired tests, except for ties: here a
difference that chance reaches exactly counts as reached by chance, so that a system compared with itself has p = 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from regard.metrics.overlap import References, Score

Sums = Float[np.ndarray, "corpus count"]
Scores = Float[np.ndarray, "corpus"]

SEED = 12345  # sacreBLEU's
SAMPLES: dict[str, int] = {"bootstrap": 1000, "randomisation": 10_000}
ROWS = 256  # resamples per block; a multiple of 32, at which numpy's stream of random bits can be split
TIE = 1e-9  # scores that differ by less are equal: they were summed in another order


@dataclass(frozen=True)
class Statistics:
    """The counts of one metric for every sentence of one system's answers."""

    metric: str
    counts: Float[np.ndarray, "sentence count"]
    signature: str = ""
    lower: bool = False
    """Whether less is better."""

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def score(self) -> float:
        """The score of the whole corpus."""
        return float(self.of(self.counts.sum(0, keepdims=True))[0])

    @property
    def sentences(self) -> Float[np.ndarray, "sentence"]:
        """The score of each sentence; only chrF and TER are designed for single sentences."""
        return self.of(self.counts)

    def of(self, sums: Float[np.ndarray, "corpus count"]) -> Float[np.ndarray, "corpus"]:
        """Return the score of each corpus from its summed counts."""
        return SCORES[self.metric](sums)

    def some(self, sentences: Sequence[int]) -> Statistics:
        """Return the statistics of these sentences only."""
        return replace(self, counts=self.counts[np.asarray(sentences, dtype=np.int64)])


@dataclass(frozen=True)
class Interval:
    """The interval that contains 95 % of the resampled scores, and their mean."""

    mean: float
    low: float
    high: float

    @property
    def half(self) -> float:
        """Half the width: the number after the ± sign."""
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class Verdict:
    """The score of one system by one metric, and the p-value of its difference from the baseline."""

    system: str
    metric: str
    score: float
    interval: Interval
    difference: float = 0.0
    """Its score less the baseline's."""
    p: float | None = None
    """None for the baseline itself."""
    wins: float | None = None
    """Share of resampled corpora on which it is better than the baseline (Koehn 2004)."""


def statistics(metric: str, answers: Sequence[str], references: References, *, tokenize: str = "13a") -> Statistics:
    """Return the counts of `bleu`, `chrf` or `ter` for every answer; `tokenize` is BLEU's."""
    scorer = _scorer(metric, tokenize)
    streams = _streams(answers, references)
    counts = np.array(scorer._extract_corpus_statistics(list(answers), streams), dtype=np.float64)
    return Statistics(metric, counts, str(scorer.get_signature()), lower=metric in LOWER_IS_BETTER)


def mean_statistics(values: ArrayLike, weights: ArrayLike | None = None, *, lower: bool = False) -> Statistics:
    """Return a metric that is a mean over examples, such as accuracy; `weights` are those of the examples."""
    column = np.asarray(values, dtype=np.float64)
    weight_column = np.ones(len(column)) if weights is None else np.asarray(weights, dtype=np.float64)
    return Statistics("mean", np.column_stack([column, weight_column]), lower=lower)


def corpus(statistics: Statistics) -> Score:
    """Return sacreBLEU's corpus score from the counts."""
    scorer = _scorer(statistics.metric, "13a")  # the texts are already counted, so the tokenizer does not matter
    result = scorer._compute_score_from_stats(statistics.counts.sum(0).tolist())
    return Score(result.score, statistics.signature, str(result))


def interval(statistics: Statistics, *, samples: int = SAMPLES["bootstrap"], seed: int = SEED) -> Interval:
    """Return the 95 % confidence interval of a score, by bootstrap resampling of sentences."""
    return _interval(_bootstrap([statistics], samples, seed)[0])


def lead_interval(
    system: Statistics, controls: Sequence[Statistics], *, samples: int = SAMPLES["bootstrap"], seed: int = SEED
) -> Interval:
    """Return the 95 % interval of a score's lead over the best of its controls, on the same resampled examples."""
    scores, *others = _bootstrap([system, *controls], samples, seed)
    leads = np.min(others, axis=0) - scores if system.lower else scores - np.max(others, axis=0)
    return _interval(leads)


def paired_test(
    systems: Mapping[str, Statistics], *, test: str = "bootstrap", samples: int | None = None, seed: int = SEED
) -> list[Verdict]:
    """Compare each system with the first one, on the same resampled sentences.

    `bootstrap` draws corpora with replacement and counts how often the difference, shifted to mean zero, is as large as
    the one observed (Koehn 2004). `randomisation` swaps answers between the two systems at random, as is allowed if
    there is no difference between them, and counts how often that gives as large a difference (Riezler and Maxwell
    2005).
    """
    _check_systems(systems, test)
    names, all_counts = list(systems), list(systems.values())
    drawn = _bootstrap(all_counts, SAMPLES["bootstrap"] if test == "randomisation" else samples, seed)
    scores = [system.score for system in all_counts]
    verdicts = [Verdict(names[0], all_counts[0].metric, scores[0], _interval(drawn[0]))]
    for number in range(1, len(names)):
        difference = scores[number] - scores[0]
        shifts = drawn[number] - drawn[0]
        if test == "bootstrap":
            by_chance = np.abs(shifts) - np.abs(shifts).mean()
        else:
            by_chance = _swap_differences(all_counts[0], all_counts[number], samples or SAMPLES[test], seed)
        as_large = int((by_chance >= abs(difference) - TIE).sum())
        better = shifts < -TIE if all_counts[0].lower else shifts > TIE
        verdicts.append(
            Verdict(
                system=names[number],
                metric=all_counts[number].metric,
                score=scores[number],
                interval=_interval(drawn[number]),
                difference=difference,
                p=(as_large + 1) / (len(by_chance) + 1),
                wins=float(better.mean()),
            )
        )
    return verdicts


def _bootstrap(systems: Sequence[Statistics], samples: int | None, seed: int) -> list[Float[np.ndarray, "sample"]]:
    """Return the scores of corpora drawn with replacement, with the same sentences for every system."""
    size = len(systems[0])
    all_counts = np.concatenate([system.counts for system in systems], axis=1)
    widths = np.cumsum([system.counts.shape[1] for system in systems])[:-1]
    generator = np.random.default_rng(seed)
    sums = []
    for rows in _blocks(samples or SAMPLES["bootstrap"]):
        drawn = generator.choice(size, size=(rows, size), replace=True) + np.arange(rows)[:, None] * size
        repeats = np.bincount(drawn.ravel(), minlength=rows * size).reshape(rows, size)
        sums.append(repeats.astype(np.float64) @ all_counts)
    parts = np.split(np.concatenate(sums), widths, axis=1)
    return [system.of(part) for system, part in zip(systems, parts, strict=True)]


def _swap_differences(first: Statistics, second: Statistics, trials: int, seed: int) -> Float[np.ndarray, "trial"]:
    """Return the differences between two systems after each pair of answers is swapped with probability 1/2."""
    generator = np.random.default_rng(seed)
    both = first.counts.sum(0) + second.counts.sum(0)
    differences = []
    for rows in _blocks(trials):
        unswapped = generator.integers(2, size=(rows, len(first)), dtype=bool).astype(np.float64)
        sums = unswapped @ (first.counts - second.counts) + second.counts.sum(0)
        differences.append(np.abs(first.of(sums) - first.of(both - sums)))
    return np.concatenate(differences)


def _blocks(samples: int) -> Iterator[int]:
    """Yield the number of resamples in each block."""
    yield from (min(ROWS, samples - start) for start in range(0, samples, ROWS))


def _interval(scores: Float[np.ndarray, "sample"]) -> Interval:
    ordered = np.sort(scores)
    edge = len(ordered) // 40
    return Interval(float(ordered.mean()), float(ordered[edge]), float(ordered[-1 - edge]))


def _bleu(sums: Sums, orders: int = 4, *, brief: bool = True) -> Scores:
    """Return exp of the mean log precision of 1- to 4-grams, exponentially smoothed, times the brevity penalty."""
    answer_length, reference_length = sums[..., 0], sums[..., 1]
    right, total = sums[..., 2 : 2 + orders], sums[..., 6 : 6 + orders]
    empty = (right == 0) & (total > 0)
    halvings = 2.0 ** np.cumsum(empty, axis=-1)
    reachable = (total > 0).all(-1) & (right > 0).any(-1)
    share = np.where(empty, 1 / halvings, right) / np.maximum(total, 1)
    logs = np.log(np.where(share > 0, 100 * share, 1.0)).sum(-1) / orders
    penalty = np.where(
        brief & (answer_length < reference_length), np.exp(1 - reference_length / np.maximum(answer_length, 1)), 1.0
    )
    return np.where(reachable, penalty * np.exp(logs), 0.0)


def _chrf(sums: Sums) -> Scores:
    """Return F2 of the mean precision and the mean recall over the n-gram orders that both sides have."""
    answer_grams, reference_grams, shared = (sums[..., part::3] for part in range(3))
    used = (answer_grams > 0) & (reference_grams > 0)
    orders = np.maximum(used.sum(-1), 1)
    precision = np.where(used, shared / np.maximum(answer_grams, 1), 0).sum(-1) / orders
    recall = np.where(used, shared / np.maximum(reference_grams, 1), 0).sum(-1) / orders
    below = 4 * precision + recall
    return 100 * 5 * precision * recall / np.where(below > 0, below, 1)


def _ter(sums: Sums) -> Scores:
    """Return the edits per word of the reference."""
    edits, reference_words = sums[..., 0], sums[..., 1]
    return 100 * np.where(reference_words > 0, edits / np.where(reference_words > 0, reference_words, 1), edits > 0)


def _mean(sums: Sums) -> Scores:
    """Return the weighted mean."""
    return sums[..., 0] / np.maximum(sums[..., 1], 1e-12)


def _difference(sums: Sums) -> Scores:
    """Return the difference of two shares."""
    return _mean(sums[..., :2]) - _mean(sums[..., 2:])


def _f1(sums: Sums) -> Scores:
    """Return F1 in percent, from the numbers of right, predicted and true items."""
    return 100 * 2 * sums[..., 0] / np.maximum(sums[..., 1] + sums[..., 2], 1e-12)


def _correlation(sums: Sums) -> Scores:
    """Return Pearson's correlation, from the number of examples and the sums of x, y, their squares and products."""
    count = np.maximum(sums[..., 0], 1.0)
    x, y, squares, others, products = (sums[..., place] / count for place in range(1, 6))
    spread = np.sqrt(np.maximum(squares - x * x, 0) * np.maximum(others - y * y, 0))
    return np.where(spread > 0, (products - x * y) / np.where(spread > 0, spread, 1), 0.0)


def _matthews(sums: Sums) -> Scores:
    """Return Matthews' correlation from the confusion matrix (Gorodkin 2004)."""
    labels = round(sums.shape[-1] ** 0.5)
    confusion = sums.reshape(*sums.shape[:-1], labels, labels)
    true, predicted, total = confusion.sum(-1), confusion.sum(-2), confusion.sum((-1, -2))
    right = np.trace(confusion, axis1=-2, axis2=-1)
    spread = np.sqrt((total**2 - (predicted**2).sum(-1)) * (total**2 - (true**2).sum(-1)))
    return np.where(spread > 0, (right * total - (true * predicted).sum(-1)) / np.where(spread > 0, spread, 1), 0.0)


SCORES: dict[str, Callable[[Sums], Scores]] = {
    "bleu": _bleu,
    **{f"bleu-{orders}": partial(_bleu, orders=orders) for orders in range(1, 5)},
    **{f"bleu-{orders} without penalty": partial(_bleu, orders=orders, brief=False) for orders in range(1, 5)},
    "chrf": _chrf,
    "ter": _ter,
    "mean": _mean,
    "difference": _difference,
    "f1": _f1,
    "correlation": _correlation,
    "matthews": _matthews,
}
TEXT_METRICS = ("bleu", "chrf", "ter")  # of written answers
LOWER_IS_BETTER = {"ter"}  # metrics where lower is better


def _scorer(metric: str, tokenize: str) -> Any:
    """Return sacreBLEU's metric with its defaults."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    if metric not in TEXT_METRICS:
        raise ValueError(f"unknown metric {metric}: choose one of {', '.join(TEXT_METRICS)}")
    if tokenize not in BLEU.TOKENIZERS:
        raise ValueError(f"unknown BLEU tokenizer {tokenize}: choose one of {', '.join(sorted(BLEU.TOKENIZERS))}")
    if metric == "bleu":
        return BLEU(tokenize=tokenize, force=True)  # force: no advice about tokenised text
    return CHRF() if metric == "chrf" else TER()


def _streams(answers: Sequence[str], references: References) -> list[list[str | None]]:
    """Return the first references of all answers, then the second ones, as sacreBLEU expects them."""
    if isinstance(answers, str) or isinstance(references, str):
        raise ValueError("one text given where a list is scored: put it in a list")
    if len(answers) != len(references):
        raise ValueError(f"{len(answers)} answers but references for {len(references)}: there must be as many")
    if not answers:
        raise ValueError("no answers to score: a corpus needs at least one")
    reference_lists = [
        [alternatives] if isinstance(alternatives, str) else list(alternatives) for alternatives in references
    ]
    if not all(reference_lists):
        raise ValueError(f"answer {reference_lists.index([])} has no reference: give it one, an empty one if need be")
    return [
        [alternatives[k] if k < len(alternatives) else None for alternatives in reference_lists]
        for k in range(max(map(len, reference_lists)))
    ]


def _check_systems(systems: Mapping[str, Statistics], test: str) -> None:
    if test not in SAMPLES:
        raise ValueError(f"unknown test {test}: choose {' or '.join(SAMPLES)}")
    if len(systems) < 2:
        raise ValueError(f"{len(systems)} systems to compare: give at least two")
    if len({system.metric for system in systems.values()}) > 1:
        raise ValueError("systems measured by different metrics cannot be compared: use one for all")
    sizes = {name: len(system) for name, system in systems.items()}
    if len(set(sizes.values())) > 1:
        listing = ", ".join(f"{name} has {size}" for name, size in sizes.items())
        raise ValueError(f"systems must answer the same sentences: {listing}")
