"""Evaluation of translators: reproducible scores, the worst sentences, and significance tests between systems."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.config.words import quantity
from regard.interpret.draw import side_by_side
from regard.metrics.lengths import Bucket, by_length, length_ratio
from regard.metrics.overlap import Score
from regard.metrics.significance import SEED, Statistics, Verdict, corpus, paired_test, statistics
from regard.tasks.translation.teacher_forcing import Likelihood, likelihood

METRICS = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER"}

if TYPE_CHECKING:
    from regard.tasks.translation.sentence_translator import SentenceTranslator


class Sentence(NamedTuple):
    """A sentence of a test set with its answer and the chrF of the answer."""

    number: int
    """Its line, counted from 1."""
    source: str
    reference: str
    answer: str
    chrf: float


@dataclass(frozen=True)
class Evaluation:
    """The answers of one system to a test set, and their scores."""

    name: str
    sources: Sequence[str]
    references: Sequence[str]
    answers: Sequence[str]
    counts: Mapping[str, Statistics]
    """What each metric counts in every sentence."""
    likelihood: Likelihood | None = None
    """How probable the model finds the references; None for answers from a file."""
    seconds: float | None = None
    """How long translating took."""

    @cached_property
    def scores(self) -> dict[str, Score]:
        """Return BLEU, chrF and TER with their signatures."""
        return {metric: corpus(counts) for metric, counts in self.counts.items()}

    @property
    def ratio(self) -> float:
        """Return the ratio of the lengths of answers and references in tokens."""
        return length_ratio(self.counts["bleu"])

    @cached_property
    def lengths(self) -> list[Bucket]:
        """Return BLEU by the length of the sources."""
        return by_length(self.sources, self.counts["bleu"])

    @cached_property
    def sentences(self) -> list[Sentence]:
        """Return every sentence with its score, in the order of the test set."""
        chrf = self.counts["chrf"].sentences.tolist()
        columns = (range(1, len(chrf) + 1), self.sources, self.references, self.answers, chrf)
        return [Sentence(*row) for row in zip(*columns, strict=True)]

    def worst(self, count: int = 5) -> list[Sentence]:
        """Return the sentences with the lowest scores, the worst first."""
        return sorted(self.sentences, key=lambda sentence: (sentence.chrf, sentence.number))[:count]

    def plain(self, *, worst: int = 5) -> dict[str, Any]:
        """Return the results as JSON."""
        record: dict[str, Any] = {"name": self.name, "sentences": len(self.answers)}
        record |= {name: {"score": scored.value, "signature": scored.signature} for name, scored in self.scores.items()}
        record["length_ratio"] = self.ratio
        if self.likelihood is not None:
            reference_likelihood = self.likelihood
            record["perplexity"] = {
                "token": reference_likelihood.perplexity,
                "character": reference_likelihood.per_character,
                "bits_per_character": reference_likelihood.bits,
                **{name: value for name, value in asdict(reference_likelihood).items() if name != "total"},
            }
        if self.seconds is not None:
            record |= {"seconds": self.seconds, "sentences_per_second": len(self.answers) / max(self.seconds, 1e-9)}
        record["by_length"] = [
            {"words": scored.name, "sentences": len(scored.members), "bleu": scored.score}
            | {"low": scored.interval.low, "high": scored.interval.high, "length_ratio": scored.ratio}
            for scored in self.lengths
        ]
        record["worst"] = [sentence._asdict() for sentence in self.worst(worst)]
        return record

    def lines(self) -> list[tuple[str, str]]:
        """Return the results as a two-column table."""
        rows = [("system", self.name), ("sentences", f"{len(self.answers):,}")]
        for metric, score in self.scores.items():
            rows.append((METRICS[metric], f"{score.value:.2f}"))
        rows.append(("length ratio", f"{self.ratio:.3f}"))
        if self.likelihood is not None:
            reference_likelihood = self.likelihood
            rest = (
                f" ({quantity(reference_likelihood.passed_over, 'pair')} too long for it)"
                if reference_likelihood.passed_over
                else ""
            )
            rows.append(
                (
                    "perplexity",
                    f"{reference_likelihood.perplexity:.3f} a token, "
                    f"{reference_likelihood.per_character:.3f} a character{rest}",
                )
            )
        if self.seconds is not None:
            rows.append(
                ("time", f"{self.seconds:.1f} s, {len(self.answers) / max(self.seconds, 1e-9):,.1f} sentences/s")
            )
        for bucket in self.lengths:
            several = len(bucket.members) > 1  # resampling a single sentence gives no variance
            spread = f" ± {bucket.interval.half:.1f}" if several else ""
            count = f"{len(bucket.members):,} sentence{'s' * several}"
            rows.append((f"BLEU, {bucket.name} words", f"{bucket.score:.1f}{spread}  {count}"))
        return rows

    def signatures(self) -> list[str]:
        """Return the sacreBLEU signature of each metric."""
        return [f"{METRICS[metric]} {score.signature}" for metric, score in self.scores.items()]


@dataclass(frozen=True)
class Comparison:
    """Two or more systems on one test set; the others are compared with the first."""

    systems: Sequence[Evaluation]
    bootstrap: Mapping[str, Sequence[Verdict]]
    """By metric, one verdict for each system."""
    randomisation: Mapping[str, Sequence[Verdict]]

    def plain(self, *, worst: int = 5) -> dict[str, Any]:
        """Return the results as JSON."""
        tests = (("bootstrap", self.bootstrap), ("randomisation", self.randomisation))
        return {
            "systems": [system.plain(worst=worst) for system in self.systems],
            "tests": [
                {"test": name, **asdict(verdict)}
                for name, test in tests
                for verdicts in test.values()
                for verdict in verdicts
            ],
        }

    def lines(self) -> list[tuple[str, ...]]:
        """Return a table with a header: each system by each metric, and the p-values of the differences."""
        rows: list[tuple[str, ...]] = [("metric", "system", "score, 95 %", "change", "p, bootstrap", "p, randomised")]
        for metric in self.bootstrap:
            for verdict, randomised in zip(self.bootstrap[metric], self.randomisation[metric], strict=True):
                spread = f"{verdict.score:.2f} ± {verdict.interval.half:.1f}"
                beside = ("", "", "")
                if verdict.p is not None and randomised.p is not None:
                    beside = (f"{verdict.difference:+.2f}", f"{verdict.p:.4f}", f"{randomised.p:.4f}")
                rows.append((METRICS[metric], verdict.system, spread, *beside))
        return rows


def evaluate(
    translator: SentenceTranslator,
    pairs: Sequence[tuple[str, str]],
    *,
    to: str | None = None,
    name: str | None = None,
    tokenize: str = "13a",
    **settings: Any,
) -> Evaluation:
    """Translate the sources of (source, reference) pairs and score the answers; settings are those of `translate`."""
    sources, references = _split_sides(pairs)
    began = time.perf_counter()
    answers = [answer.text for answer in translator.answers(sources, to=to, **settings)]
    seconds = time.perf_counter() - began
    counts = {metric: statistics(metric, answers, references, tokenize=tokenize) for metric in METRICS}
    chance = likelihood(translator, sources, references, to=to)
    return Evaluation(name or translator.name, sources, references, answers, counts, chance, seconds)


def judge(name: str, answers: Sequence[str], pairs: Sequence[tuple[str, str]], *, tokenize: str = "13a") -> Evaluation:
    """Score given answers."""
    sources, references = _split_sides(pairs)
    counts = {metric: statistics(metric, answers, references, tokenize=tokenize) for metric in METRICS}
    return Evaluation(name, sources, references, list(answers), counts)


def compare(
    systems: Sequence[Evaluation], *, samples: int = 1000, trials: int = 10_000, seed: int = SEED
) -> Comparison:
    """Compare each system with the first, by every metric, with two paired tests."""
    if len(systems) < 2:
        raise ValueError(f"{len(systems)} systems to compare: give at least two")
    first = systems[0]
    if any(list(system.references) != list(first.references) for system in systems):
        raise ValueError("systems with other references cannot be compared: evaluate all of them on one test set")
    names = number_duplicates([system.name for system in systems])
    table = {metric: dict(zip(names, (system.counts[metric] for system in systems), strict=True)) for metric in METRICS}
    drawn = {
        metric: paired_test(by_system, test="bootstrap", samples=samples, seed=seed)
        for metric, by_system in table.items()
    }
    swapped = {
        metric: paired_test(by_system, test="randomisation", samples=trials, seed=seed)
        for metric, by_system in table.items()
    }
    return Comparison(list(systems), drawn, swapped)


def page(comparison: Comparison) -> str:
    """Return an HTML page with the first two systems side by side, sentence by sentence."""
    first, second = comparison.systems[:2]
    rows = [
        side_by_side.Row(a.number, a.source, a.reference, (a.answer, b.answer), (a.chrf, b.chrf))
        for a, b in zip(first.sentences, second.sentences, strict=True)
    ]
    a, b = number_duplicates([first.name, second.name])
    return side_by_side.page((a, b), rows, summary=comparison.lines())


def _split_sides(pairs: Sequence[tuple[str, str]]) -> tuple[list[str], list[str]]:
    if not pairs:
        raise ValueError("no pairs to evaluate on: give at least one")
    sources, references = zip(*pairs, strict=True)
    return list(sources), list(references)


def number_duplicates(names: Sequence[str]) -> list[str]:
    """Number repeated names, so that all are distinct."""
    counts: dict[str, int] = {}
    numbered = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        numbered.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return numbered
