"""How good a translator is: scores others can reproduce, where it fails, and whether it beats another one."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.config.words import quantity
from regard.interpret import sidebyside
from regard.metrics.lengths import Bucket, by_length, ratio
from regard.metrics.overlap import Score
from regard.metrics.significance import SEED, Statistics, Verdict, corpus, paired, statistics
from regard.tasks.translation.teacher_forcing import Likelihood, likelihood

METRICS = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER"}

if TYPE_CHECKING:
    from regard.tasks.translation.translator import Translator


class Sentence(NamedTuple):
    """One sentence of a test set with its answer and the chrF of that."""

    number: int
    """Its line, counted from 1."""
    source: str
    reference: str
    answer: str
    chrf: float


@dataclass(frozen=True)
class Evaluation:
    """The answers of one system to a test set, and what they are worth."""

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
        """BLEU, chrF and TER with their signatures."""
        return {metric: corpus(counts) for metric, counts in self.counts.items()}

    @property
    def ratio(self) -> float:
        """Tokens written per token of the references."""
        return ratio(self.counts["bleu"])

    @cached_property
    def lengths(self) -> list[Bucket]:
        """BLEU by the length of the sources."""
        return by_length(self.sources, self.counts["bleu"])

    @cached_property
    def sentences(self) -> list[Sentence]:
        """Every sentence with its own score, in the order of the test set."""
        chrf = self.counts["chrf"].sentences.tolist()
        columns = (range(1, len(chrf) + 1), self.sources, self.references, self.answers, chrf)
        return [Sentence(*each) for each in zip(*columns, strict=True)]

    def worst(self, count: int = 5) -> list[Sentence]:
        """The sentences that score lowest, the worst first."""
        return sorted(self.sentences, key=lambda sentence: (sentence.chrf, sentence.number))[:count]

    def plain(self, *, worst: int = 5) -> dict[str, Any]:
        """As JSON."""
        told: dict[str, Any] = {"name": self.name, "sentences": len(self.answers)}
        told |= {name: {"score": one.value, "signature": one.signature} for name, one in self.scores.items()}
        told["length_ratio"] = self.ratio
        if self.likelihood is not None:
            own = self.likelihood
            told["perplexity"] = {
                "token": own.perplexity,
                "character": own.per_character,
                "bits_per_character": own.bits,
                **{name: value for name, value in asdict(own).items() if name != "total"},
            }
        if self.seconds is not None:
            told |= {"seconds": self.seconds, "sentences_per_second": len(self.answers) / max(self.seconds, 1e-9)}
        told["by_length"] = [
            {"words": one.name, "sentences": len(one.members), "bleu": one.score}
            | {"low": one.interval.low, "high": one.interval.high, "length_ratio": one.ratio}
            for one in self.lengths
        ]
        told["worst"] = [sentence._asdict() for sentence in self.worst(worst)]
        return told

    def lines(self) -> list[tuple[str, str]]:
        """A two-column table: what is measured, and the measure."""
        told = [("system", self.name), ("sentences", f"{len(self.answers):,}")]
        for metric, score in self.scores.items():
            told.append((METRICS[metric], f"{score.value:.2f}"))
        told.append(("length ratio", f"{self.ratio:.3f}"))
        if self.likelihood is not None:
            own = self.likelihood
            rest = f" ({quantity(own.passed_over, 'pair')} too long for it)" if own.passed_over else ""
            told.append(("perplexity", f"{own.perplexity:.3f} a token, {own.per_character:.3f} a character{rest}"))
        if self.seconds is not None:
            told.append(
                ("time", f"{self.seconds:.1f} s, {len(self.answers) / max(self.seconds, 1e-9):,.1f} sentences/s")
            )
        for one in self.lengths:
            several = len(one.members) > 1  # one sentence drawn again and again never differs
            spread = f" ± {one.interval.half:.1f}" if several else ""
            count = f"{len(one.members):,} sentence{'s' * several}"
            told.append((f"BLEU, {one.name} words", f"{one.score:.1f}{spread}  {count}"))
        return told

    def signatures(self) -> list[str]:
        """How each metric was computed, in sacreBLEU's words, for whoever wants the same."""
        return [f"{METRICS[metric]} {score.signature}" for metric, score in self.scores.items()]


@dataclass(frozen=True)
class Comparison:
    """Two or more systems on one test set; the first is what the others are compared with."""

    systems: Sequence[Evaluation]
    bootstrap: Mapping[str, Sequence[Verdict]]
    """By metric, one verdict for each system."""
    randomisation: Mapping[str, Sequence[Verdict]]

    def plain(self, *, worst: int = 5) -> dict[str, Any]:
        """As JSON."""
        tests = (("bootstrap", self.bootstrap), ("randomisation", self.randomisation))
        return {
            "systems": [one.plain(worst=worst) for one in self.systems],
            "tests": [
                {"test": name, **asdict(verdict)} for name, test in tests for told in test.values() for verdict in told
            ],
        }

    def lines(self) -> list[tuple[str, ...]]:
        """A table under its head: each system by each metric, and the probability of the difference by chance."""
        told: list[tuple[str, ...]] = [("metric", "system", "score, 95 %", "change", "p, bootstrap", "p, randomised")]
        for metric in self.bootstrap:
            for one, other in zip(self.bootstrap[metric], self.randomisation[metric], strict=True):
                spread = f"{one.score:.2f} ± {one.interval.half:.1f}"
                beside = ("", "", "")
                if one.p is not None and other.p is not None:
                    beside = (f"{one.difference:+.2f}", f"{one.p:.4f}", f"{other.p:.4f}")
                told.append((METRICS[metric], one.system, spread, *beside))
        return told


def evaluate(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    *,
    to: str | None = None,
    name: str | None = None,
    tokenize: str = "13a",
    **settings: Any,
) -> Evaluation:
    """Translate the sources of (source, reference) pairs and score the answers; settings are those of `translate`."""
    sources, references = _sides(pairs)
    began = time.perf_counter()
    answers = [answer.text for answer in translator.answers(sources, to=to, **settings)]
    seconds = time.perf_counter() - began
    counts = {metric: statistics(metric, answers, references, tokenize=tokenize) for metric in METRICS}
    chance = likelihood(translator, sources, references, to=to)
    return Evaluation(name or translator.name, sources, references, answers, counts, chance, seconds)


def judge(name: str, answers: Sequence[str], pairs: Sequence[tuple[str, str]], *, tokenize: str = "13a") -> Evaluation:
    """Score answers that somebody else gave."""
    sources, references = _sides(pairs)
    counts = {metric: statistics(metric, answers, references, tokenize=tokenize) for metric in METRICS}
    return Evaluation(name, sources, references, list(answers), counts)


def compare(
    systems: Sequence[Evaluation], *, samples: int = 1000, trials: int = 10_000, seed: int = SEED
) -> Comparison:
    """Each system against the first, by every metric, with two paired tests."""
    if len(systems) < 2:
        raise ValueError(f"{len(systems)} systems to compare: give at least two")
    first = systems[0]
    if any(list(one.references) != list(first.references) for one in systems):
        raise ValueError("systems with other references cannot be compared: evaluate all of them on one test set")
    names = distinct([one.name for one in systems])
    table = {metric: dict(zip(names, (one.counts[metric] for one in systems), strict=True)) for metric in METRICS}
    drawn = {metric: paired(own, test="bootstrap", samples=samples, seed=seed) for metric, own in table.items()}
    swapped = {metric: paired(own, test="randomisation", samples=trials, seed=seed) for metric, own in table.items()}
    return Comparison(list(systems), drawn, swapped)


def page(comparison: Comparison) -> str:
    """The first two systems side by side, sentence by sentence, as one HTML page."""
    first, second = comparison.systems[:2]
    rows = [
        sidebyside.Row(one.number, one.source, one.reference, (one.answer, other.answer), (one.chrf, other.chrf))
        for one, other in zip(first.sentences, second.sentences, strict=True)
    ]
    one, other = distinct([first.name, second.name])
    return sidebyside.page((one, other), rows, summary=comparison.lines())


def _sides(pairs: Sequence[tuple[str, str]]) -> tuple[list[str], list[str]]:
    if not pairs:
        raise ValueError("no pairs to evaluate on: give at least one")
    sources, references = zip(*pairs, strict=True)
    return list(sources), list(references)


def distinct(names: Sequence[str]) -> list[str]:
    """Names with a number where one comes again, so that none is lost."""
    seen: dict[str, int] = {}
    result = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return result
