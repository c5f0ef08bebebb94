"""A check of labelled texts or tagged sentences before training, which reads them exactly as training will."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from regard.config.words import quantity
from regard.data.findings import Finding, Lengths, describe_finding
from regard.data.line_report import places
from regard.tasks.labels.examples import Example, LabelledExamples, label_names, label_numbers, split_examples
from regard.tasks.labels.files import ChoicesConfig, LabelsConfig, RatingsConfig, TagsConfig, read_examples
from regard.tasks.labels.input_format import add_format_tokens
from regard.tasks.labels.preparation import build_dataset, learn_tokenizer
from regard.tasks.labels.text_tokenizer import TextTokenizerConfig

AnyConfig = LabelsConfig | TagsConfig | ChoicesConfig | RatingsConfig
NUM_LONGEST = 3  # texts that are named as the longest
MAX_LABEL_ROWS = 20  # labels that a table has room for
UNLIMITED_TOKENS = 1 << 30  # tokens of a text that is read whole
RARE_LABEL_COUNT = 5  # texts of a label from which it can hardly be learnt


@dataclass
class Report:
    """What a check found; `problems` are what stops a training."""

    unit: str = "text"
    corpora: list[dict[str, Any]] = field(default_factory=list)
    """Each file with its set, how it is laid out, and lines read, good and refused by reason."""
    labels: dict[str, dict[str, int]] = field(default_factory=dict)
    """How often each label occurs in training and validation, the most frequent first."""
    lengths: dict[str, Lengths] = field(default_factory=dict)
    """Of the training texts: in characters, in words and, if asked for, in tokens."""
    longest: list[tuple[int, str]] = field(default_factory=list)
    """The longest training texts, in characters, and where they are."""
    repeated: Finding = field(default_factory=Finding)
    """Training texts that were there before with the same labels."""
    several: Finding = field(default_factory=Finding)
    """Training texts that were there before with other labels."""
    overlap: Finding = field(default_factory=Finding)
    """Validation texts that are also learnt from."""
    cut: Finding = field(default_factory=Finding)
    """Training texts of which only a part is read."""
    kept: dict[str, int] = field(default_factory=dict)
    """Texts that would be learnt from and measured on; empty if there is a problem."""
    problems: list[str] = field(default_factory=list)

    @property
    def rare(self) -> list[str]:
        """Labels with very few texts to learn from."""
        return [label for label, counts in self.labels.items() if counts["train"] < RARE_LABEL_COUNT]

    @property
    def verdict(self) -> str:
        """One sentence: whether this can be trained on."""
        if self.problems:
            return f"cannot be trained on: {'; '.join(self.problems)}"
        sizes = f"{quantity(self.kept['train'], self.unit)} to learn from, {self.kept['valid']:,} to measure on"
        labels = f", {quantity(len(self.labels), 'label')}" if self.labels else ""
        return f"can be trained on: {sizes}{labels}"

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        findings = {name: getattr(self, name) for name in ("repeated", "several", "overlap", "cut")}
        return {
            "verdict": self.verdict,
            "problems": self.problems,
            "corpora": self.corpora,
            "labels": self.labels,
            "rare": self.rare,
            "kept": self.kept,
            "lengths": {unit: found.plain() for unit, found in self.lengths.items()},
            "longest": [{"characters": length, "place": place} for length, place in self.longest],
            **{name: {"count": found.count, "places": found.places} for name, found in findings.items()},
        }

    def lines(self) -> list[tuple[str, str]]:
        """In words: a name and what there is to say of it, row by row, the verdict last."""
        found = [*self._counts(), *self._oddities()] if self.corpora else []
        return [*found, ("verdict", self.verdict)]

    def _counts(self) -> Iterator[tuple[str, str]]:
        for corpus in self.corpora:
            good = quantity(corpus["good"], f"good {self.unit}")
            yield corpus["set"], f"{corpus['file']}: {good} in {quantity(corpus['read'], 'line')}"
            if corpus["layout"]:
                yield "  layout", corpus["layout"]
            for reason, found in corpus["refused"].items():
                yield "  refused", describe_finding(Finding(**found), reason)
        for label, counts in list(self.labels.items())[:MAX_LABEL_ROWS]:
            yield f"label {label}", ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
        if len(self.labels) > MAX_LABEL_ROWS:
            yield "", f"and {quantity(len(self.labels) - MAX_LABEL_ROWS, 'more label')}"

    def _oddities(self) -> Iterator[tuple[str, str]]:
        for unit, found in self.lengths.items():
            yield unit, found.description
        for length, place in self.longest:
            yield "longest", f"{length:,} characters: {place}"
        yield f"repeated {self.unit}s", describe_finding(self.repeated)
        yield f"same {self.unit}, other labels", describe_finding(self.several)
        if any(corpus["set"] == "valid" for corpus in self.corpora):
            yield "in both sets", describe_finding(self.overlap)
        if self.cut.count:
            yield "read in part", describe_finding(self.cut)
        if self.rare:
            some = ", ".join(self.rare[:MAX_LABEL_ROWS]) + ", ..." * (len(self.rare) > MAX_LABEL_ROWS)
            yield f"fewer than {RARE_LABEL_COUNT} to learn from", f"{quantity(len(self.rare), 'label')}: {some}"


def check_examples(config: AnyConfig, tokenizer: TextTokenizerConfig | None = None) -> Report:
    """Look at every line of the files and at what training on them would make of it.

    With the settings of a tokenizer, one is trained and lengths are told in tokens too.
    """
    units = {TagsConfig: "sentence", ChoicesConfig: "question"}
    report = Report(units.get(type(config), "text"))
    sets: dict[str, LabelledExamples] = {}
    for name, of_set in (("train", config.train), ("valid", config.valid)):
        try:
            found = sets[name] = (
                read_examples(of_set, config.names, reject=1.0) if of_set else LabelledExamples((), [], [], False)
            )
        except ValueError as error:  # no file, nothing usable, columns the wrong way round
            report.problems.append(str(error))
            continue
        for path, tally, note in zip(found.files, found.reports, found.notes, strict=True):
            report.corpora.append(_describe_file(name, path, tally, note))
            try:
                tally.check(config.reject, [path], unit=report.unit)
            except ValueError as error:
                report.problems.append(str(error))
    if len(sets) == 2:
        _compare_texts(report, sets)
        _check_split(report, config, sets, tokenizer)
    return report


def _describe_file(name: str, path: str, tally: Any, note: str) -> dict[str, Any]:
    refused = {why: {"count": one.count, "places": places(one, [path])} for why, one in tally.refused.items()}
    return {"set": name, "file": path, "layout": note, "read": tally.read, "good": tally.kept, "refused": refused}


def _compare_texts(report: Report, sets: dict[str, LabelledExamples]) -> None:
    """Labels, lengths and repeats of all good texts."""
    counts = {name: Counter(label for e in found.examples for label in e.labels) for name, found in sets.items()}
    named = {} if sets["train"].has_ratings else {**counts["train"], **counts["valid"]}
    met = [label for label in named if label is not None]
    ranked = sorted(met, key=lambda label: (-counts["train"][label], label))
    report.labels = {label: {name: of_set[label] for name, of_set in counts.items()} for label in ranked}
    train, known = sets["train"], dict[tuple[str, ...], set[Any]]()
    report.lengths = {"characters": Lengths(), "words": Lengths()}
    for example in train.examples:
        report.lengths["characters"].counts[_text_length(example)] += 1
        report.lengths["words"].counts[len(" ".join(example.texts).split())] += 1
        before = known.setdefault(example.texts, set())
        if before:
            (report.repeated if example.labels in before else report.several).add(train.place(example))
        before.add(example.labels)
    for example in sets["valid"].examples:
        if example.texts in known:
            report.overlap.add(sets["valid"].place(example))
    first = heapq.nlargest(NUM_LONGEST, train.examples, key=_text_length)
    report.longest = [(_text_length(example), train.place(example)) for example in first]


def _check_split(
    report: Report, config: AnyConfig, sets: dict[str, LabelledExamples], tokenizer: TextTokenizerConfig | None
) -> None:
    """What would be learnt from and measured on, and what would stop that."""
    try:
        known = label_names(sets["train"])
        train, valid = (sets["train"], sets["valid"]) if config.valid else split_examples(sets["train"], config.held)
        label_numbers(valid, known)
        report.kept = {"train": len(train.examples), "valid": len(valid.examples)}
        if tokenizer is not None:
            _measure_tokens(report, train, known, tokenizer)
    except ValueError as error:
        report.problems.append(str(error))


def _measure_tokens(report: Report, train: LabelledExamples, known: Sequence[str], how: TextTokenizerConfig) -> None:
    """Lengths in tokens, and which texts are longer than what is read of them."""
    learnt = learn_tokenizer(train, replace(how, longest=UNLIMITED_TOKENS))
    whole = build_dataset(train, add_format_tokens(learnt, "plain", pairs=train.pairs), known)
    lengths = whole.sequence_lengths.max(1)  # of a question with its longest choice
    report.lengths["tokens"] = Lengths(Counter(lengths.tolist()))
    for number in np.flatnonzero(lengths > how.longest).tolist():
        report.cut.add(whole.place(number))


def _text_length(example: Example) -> int:
    return len(" ".join(example.texts))
