"""How far the pictures of a model can be trusted: every method held against a check, every number beside its control.

For a translator: whether attention, rollout and gradient link the words that people linked, rank the source words as
leaving them out does, and whether its answers suffer when heads are silenced, permuted or look evenly. For a classifier
of pictures: whether its maps find the regions without which the answer is lost, and change when the weights are random.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from regard.interpret.measure import interventions
from regard.interpret.measure.alignment_scores import link_words, links
from regard.interpret.measure.fixed_answers import (
    CROSS,
    FixedAnswers,
    Gap,
    Ranking,
    Report,
    check_answers,
    check_heads,
    list_heads,
    make_finding,
)
from regard.interpret.measure.forced_decoding import ForcedReader
from regard.interpret.measure.gradients import source_gradients
from regard.interpret.measure.map_checks import MapExamples, judge_maps
from regard.interpret.measure.maps import METHODS, MISSING, methods
from regard.interpret.trace import Trace
from regard.interpret.words import group_items
from regard.metrics.alignment import Counts, Gold, count_links, diagonal, permutation_baseline, uniform_baseline
from regard.metrics.significance import Statistics, mean_statistics

VERSION = 2
"""Of what is measured and how: results of another version are measured again."""
Tell = Callable[[int], None]


@runtime_checkable
class FixesAnswers(Protocol):
    """A trained model that answers inputs, and reads its answers again while it is disturbed."""

    def fix_answers(self, inputs: Sequence[Any], *, tell: Tell) -> FixedAnswers:
        """Return the model with its answers to these inputs; `tell` counts what is about to be read."""


@dataclass(frozen=True)
class CountingReader(ForcedReader):
    """A reader of fixed answers that tells how many it reads, before it does."""

    tell: Tell = lambda count: None

    def token_scores(self, read: Sequence[list[int]], written: Sequence[list[int]]) -> list[Float[Tensor, "written"]]:
        """Return the log-probability of each token of every answer, and of its end."""
        self.tell(len(read))
        return super().token_scores(read, written)


@dataclass(frozen=True)
class WeighedPair:
    """A pair of texts as a model reads it, and what every method says of each token written."""

    trace: Trace
    weights: dict[str, Float[Tensor, "target source"]]


def check_translator(reader: ForcedReader, golds: Sequence[Gold]) -> Report:
    """Check what a translator shows, while it reads pairs whose words people linked."""
    pairs: list[WeighedPair] = []

    def rank() -> Iterator[Ranking]:
        for gold in golds:
            pairs.append(weigh_pair(reader, gold.source_text, gold.target_text))
            yield rank_words(reader, pairs[-1])

    report = check_answers(fix_pairs(reader, [(gold.source_text, gold.target_text) for gold in golds], rank))
    return Report([*_check_alignment(golds, pairs), *report.findings], report.gaps)


def check_own_answers(
    reader: ForcedReader, pairs: Sequence[tuple[str, str]], plan: Tell = lambda total: None
) -> Report:
    """Check what a translator shows, while it reads its own answers to texts whose words nobody linked.

    `plan` is told how many answers are going to be read.
    """

    def rank() -> Iterator[Ranking]:
        for pair in pairs:
            yield rank_words(reader, weigh_pair(reader, *pair))

    answers = fix_pairs(reader, pairs, rank)
    plan(answers.count)
    report = check_answers(answers)
    return Report(report.findings, [*report.gaps, Gap("attention", "alignment", "no_links")])


def fix_pairs(
    reader: ForcedReader, pairs: Sequence[tuple[str, str]], rank: Callable[[], Iterator[Ranking]]
) -> FixedAnswers:
    """Return a translator with the answers of these pairs."""
    coded = [reader.encode(*pair) for pair in pairs]
    read, written = [source for source, _ in coded], [target for _, target in coded]
    heads, encoders = list_heads(reader.model, CROSS), [name for name, _ in list_heads(reader.model)]
    words = [reader.trained.source.words(ids, text) for ids, (text, _) in zip(read, pairs, strict=True)]
    sizes = [bool(heads) + 1 + len({*numbers} - {None}) for numbers in words]
    reasons = {} if heads else {"attention": "no_attention", "rollout": "no_attention"}
    if heads and not any(name.startswith("encoder") for name in encoders):
        reasons = {"rollout": "no_layers"}
    gaps = [Gap(method, check, reason) for method, reason in reasons.items() for check in ("alignment", "deletion")]
    return FixedAnswers(reader.model, lambda: reader.token_scores(read, written), rank, sizes, heads, gaps)


def count_readings(model: Any, golds: Sequence[Gold]) -> int:
    """Return how many answers are read to check a translator on these pairs."""
    heads = list_heads(model, CROSS)
    sizes = [len(gold.source) + 1 + bool(heads) for gold in golds]
    return FixedAnswers(model, list, lambda: iter(()), sizes, heads).count


def weigh_pair(reader: ForcedReader, source: str, target: str) -> WeighedPair:
    """Return what attention, rollout and gradient give each token read for every token written, if there are any."""
    weights = {"gradient": source_gradients(reader, *reader.encode(source, target))}
    if not list_heads(reader.model, CROSS):
        items = reader.list_items(source, target)
        facts = {"text": source, "answer": target}
        return WeighedPair(Trace(reader.trained.name, reader.trained.task, items, [], facts), weights)
    trace = reader.look(source, target)
    by_method = interventions.source_weights(trace)
    names = {"attention": interventions.MEAN, "rollout": interventions.ROLLED_OUT}
    looks = {method: by_method[name] for method, name in names.items() if name in by_method}
    return WeighedPair(trace, looks | weights)


def rank_words(reader: ForcedReader, pair: WeighedPair) -> Ranking:
    """Return how methods rank the source words, beside what leaving each out costs and their length."""
    effects = interventions.deletions(reader, pair.trace.facts["text"], pair.trace.facts["answer"])
    scores = {method: interventions.sum_by_word(pair.trace, weights) for method, weights in pair.weights.items()}
    letters = [float(len(unit.text)) for unit in group_items(pair.trace.items["source"])]
    return Ranking(scores, effects, {"length": letters})


def _check_alignment(golds: Sequence[Gold], pairs: Sequence[WeighedPair]) -> list[Any]:
    """Compare the strongest link of every word with those of people, as the word about to be written."""
    findings = []
    for method in pairs[0].weights:
        linked = [
            links(link_words(pair.trace, gold, pair.weights[method])) for gold, pair in zip(golds, pairs, strict=True)
        ]
        both = list(zip(linked, golds, strict=True))
        sizes = [(len(gold.source), len(gold.target)) for gold in golds]
        controls = {
            "permuted": _error_rate([permutation_baseline(some, gold) for some, gold in both]),
            "diagonal": _error_rate(
                [count_links(diagonal(*size), g.sure, g.possible) for size, g in zip(sizes, golds, strict=True)]
            ),
            "even": _error_rate([uniform_baseline(gold) for gold in golds]),
        }
        value = _error_rate([count_links(some, gold.sure, gold.possible) for some, gold in both])
        findings.append(make_finding(method, "alignment", value, controls))
    return findings


def _error_rate(counts: Sequence[Counts]) -> Statistics:
    """Return the alignment error rate as a mean over sentences that have as much weight as they have links."""
    totals = [float(sentence.links + sentence.sure) for sentence in counts]
    errors = [sentence.aer * total for sentence, total in zip(counts, totals, strict=True)]
    return mean_statistics(errors, totals, lower=True)


def check_maps(model: Any, examples: MapExamples, tell: Tell) -> Report:
    """Check the maps of a classifier of pictures, for the labels of the examples, and what its heads matter to them."""
    names, scores = methods(model), dict[tuple[str, str], list[float]]()
    for number in range(len(examples.labels)):
        tell(1)
        place = slice(number, number + 1)
        for method, checks in judge_maps(
            model, MapExamples(examples.pixels[place], examples.labels[place]), seed=number
        ).items():
            for check, values in checks.items():
                scores.setdefault((method, check), []).append(float(values[0]))
    report = Report(gaps=[Gap(name, "maps", MISSING_REASONS[name]) for name in METHODS if name not in names])
    for name in names:
        for check in ("deletion", "insertion"):
            lower = check == "deletion"
            controls = {
                control: mean_statistics(scores[control, check], lower=lower)
                for control in ("random", "centre", "untrained")
            }
            value = mean_statistics(scores[name, check], lower=lower)
            report.findings.append(make_finding(name, f"map_{check}", value, controls))
        change = scores[name, "change"]
        same = {"same": mean_statistics([0.0] * len(change))}
        report.findings.append(make_finding(name, "map_change", mean_statistics(change), same))
    heads = check_heads(fix_labels(model, examples, tell))
    return Report([*report.findings, *heads.findings], [*report.gaps, *heads.gaps])


def count_map_readings(model: Any, count: int) -> int:
    """Return how many pictures are read to check a classifier of pictures, the checks of all maps of one as one."""
    examples = [1] * count
    return FixedAnswers(model, list, lambda: iter(()), examples, list_heads(model)).count


MISSING_REASONS = {name: "no_mean" if name == "cam" else "no_attention" for name in MISSING}


def fix_labels(model: Any, examples: MapExamples, tell: Tell) -> FixedAnswers:
    """Return a classifier of pictures with the labels of these examples."""

    def read() -> list[Tensor]:
        tell(len(examples.labels))
        scores = [
            model(chunk.pixels).float().log_softmax(-1).gather(1, chunk.labels[:, None]).cpu()
            for chunk in examples.chunks()
        ]
        return list(torch.cat(scores).unbind())

    return FixedAnswers(model, torch.no_grad()(read), lambda: iter(()), [0] * len(examples.labels), list_heads(model))
