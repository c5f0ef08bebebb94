"""How far the pictures of a model can be trusted: every method held against a check, every number beside its control.

For a translator: whether its weights link the words that people linked, rank the source words as leaving them out does,
and whether the translation suffers when heads are silenced or look evenly. For a classifier of pictures: whether its
maps find the regions without which the answer is lost, and change when the weights are random.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import Any, Literal

from regard.attention.multihead import MultiHead
from regard.attention.singlehead import SingleHead
from regard.interpret.measure import alignment_scores, interventions
from regard.interpret.measure.alignment_scores import View
from regard.interpret.measure.forced_decoding import ForcedReader
from regard.interpret.measure.map_checks import MapExamples, judge_maps
from regard.interpret.measure.maps import methods
from regard.metrics.alignment import Gold

VERSION = 1
"""Of what is measured and how: results of another version are measured again."""
CROSS = "cross"
Tell = Callable[[int], None]
Verdict = Literal["good", "weak", "none"]

GOOD = {
    "alignment": 0.15, "deletion": 0.15, "silenced": 0.05, "even": 0.1,
    "map_deletion": 0.05, "map_insertion": 0.05, "map_change": 0.5,
}  # fmt: skip
"""By how much a number must beat its best control to count as good, by check."""
LOWER_IS_BETTER = ("alignment", "map_deletion")


@dataclass(frozen=True)
class Finding:
    """A number of one method in one check, beside its controls."""

    method: str
    check: str
    value: float
    controls: Mapping[str, float]
    examples: int

    @property
    def margin(self) -> float:
        """Return by how much the number beats its best control; negative if it does not."""
        if self.check in LOWER_IS_BETTER:
            return min(self.controls.values()) - self.value
        return self.value - max(self.controls.values())

    @property
    def verdict(self) -> Verdict:
        """Return what the number says: it counts as good, it is a little better than its controls, or no better."""
        return "good" if self.margin >= GOOD[self.check] else "weak" if self.margin > 0 else "none"

    def plain(self) -> dict[str, Any]:
        """Return everything as JSON."""
        better = "less" if self.check in LOWER_IS_BETTER else "more"
        return {**asdict(self), "better": better, "good": GOOD[self.check], "verdict": self.verdict}


@dataclass(frozen=True)
class CountingReader(ForcedReader):
    """A reader of fixed answers that tells how many it reads, before it does."""

    tell: Tell = lambda count: None

    def scores(self, read: Sequence[list[int]], written: Sequence[list[int]]) -> list[float]:
        """Return the log-probability of each answer, including its end."""
        self.tell(len(read))
        return super().scores(read, written)


def count_readings(model: Any, golds: Sequence[Gold]) -> int:
    """Return how many answers are read to check a translator on these pairs."""
    return len(golds) * (2 * len(cross_heads(model)) + 3) + sum(len(gold.source) + 1 for gold in golds)


def check_translator(reader: ForcedReader, golds: Sequence[Gold]) -> list[Finding]:
    """Check what the cross-attention of a translator shows."""
    examples = alignment_scores.examples(reader, golds)
    findings = _check_alignment(examples)
    for agreement in interventions.agreement(reader, [example.trace for example in examples]):
        method = {"mean of all": "attention", "mean of all, rolled out": "rollout"}.get(agreement.method)
        if method is not None:
            controls = {"permuted": agreement.permuted, "length": agreement.letters}
            findings.append(Finding(method, "deletion", agreement.value, controls, agreement.sentences))
    return findings + _check_heads(reader, golds)


def _check_alignment(examples: Sequence[alignment_scores.Example]) -> list[Finding]:
    """Compare the links of all heads together with those of people, as the word about to be written."""
    aligned = [entry for entry in alignment_scores.measure_alignments(examples) if isinstance(entry.view, View)]
    whole = next((entry for entry in aligned if entry.view == View()), None)
    entry = whole or next(entry for entry in aligned if isinstance(entry.view, View) and entry.view.head is None)
    controls = {"permuted": entry.permuted.aer, "diagonal": entry.diagonal.aer, "even": entry.uniform.aer}
    return [Finding("attention", "alignment", entry.counts.aer, controls, len(examples))]


def cross_heads(model: Any) -> list[tuple[str, int]]:
    """Return every head that looks from what is written to what was read, by attention and number."""
    return [
        (name, head)
        for name, module in model.named_modules()
        if isinstance(module, MultiHead | SingleHead) and name.endswith(CROSS)
        for head in range(module.heads)
    ]


def _check_heads(reader: ForcedReader, golds: Sequence[Gold]) -> list[Finding]:
    """Measure the loss of the answers with each head silenced, and with all of them looking evenly or nowhere."""
    loss = interventions.answer_loss(reader, [(gold.source_text, gold.target_text) for gold in golds])
    before, heads = loss(), cross_heads(reader.model)
    effects = []
    for where, head in heads:
        with interventions.ablate_head(reader.model, where, head):
            effects.append(loss() - before)
    even_alone = []
    for where, head in heads:
        with interventions.ablate_head(reader.model, where, head, way="even"):
            even_alone.append(loss() - before)
    with ExitStack() as stack:
        for where, head in heads:
            stack.enter_context(interventions.ablate_head(reader.model, where, head, way="even"))
        even = loss() - before
    count = len(golds)
    return [
        Finding("attention", "silenced", max(effects), {"median": median(effects)}, count),
        Finding("attention", "even", even, {"median": median(even_alone)}, count),
    ]


def check_maps(model: Any, examples: MapExamples, tell: Tell) -> list[Finding]:
    """Check the maps of a classifier of pictures, for the labels of the examples."""
    names, scores = methods(model), dict[tuple[str, str], list[float]]()
    for number in range(len(examples.labels)):
        tell(1)
        place = slice(number, number + 1)
        for method, checks in judge_maps(
            model, MapExamples(examples.pixels[place], examples.labels[place]), seed=number
        ).items():
            for check, values in checks.items():
                scores.setdefault((method, check), []).append(float(values[0]))
    means = {key: fmean(values) for key, values in scores.items()}
    findings = []
    for name in names:
        for check in ("deletion", "insertion"):
            controls = {control: means[control, check] for control in ("random", "centre", "untrained")}
            findings.append(Finding(name, f"map_{check}", means[name, check], controls, len(examples.labels)))
        findings.append(Finding(name, "map_change", means[name, "change"], {"same": 0.0}, len(examples.labels)))
    return findings
