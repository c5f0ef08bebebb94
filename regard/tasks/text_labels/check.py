"""`regard data check` for labelled texts and tagged sentences, which are read exactly as in training."""

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
from regard.tasks.text_encoders.examples import (
    Example,
    LabelledExamples,
    label_names,
    label_numbers,
    read_examples,
    split_examples,
)
from regard.tasks.text_encoders.input_format import add_format_tokens
from regard.tasks.text_encoders.text_tokenizer import TextTokenizerConfig
from regard.tasks.text_labels.files import ChoicesConfig, LabelsConfig, RatingsConfig, TagsConfig
from regard.tasks.text_labels.preparation import build_dataset, learn_tokenizer

AnyConfig = LabelsConfig | TagsConfig | ChoicesConfig | RatingsConfig
NUM_LONGEST = 3  # longest texts that are listed
MAX_LABEL_ROWS = 20  # most labels in a table
UNLIMITED_TOKENS = 1 << 30  # no truncation
RARE_LABEL_COUNT = 5  # training texts below which a label is reported as rare


@dataclass
class Report:
    """Results of a check; the data can be trained on if there are no `problems`."""

    unit: str = "text"
    corpora: list[dict[str, Any]] = field(default_factory=list)
    """Each file with its split, its layout, and the numbers of lines read, good, and refused by reason."""
    labels: dict[str, dict[str, int]] = field(default_factory=dict)
    """Counts of each label in training and validation, the most frequent first."""
    lengths: dict[str, Lengths] = field(default_factory=dict)
    """Lengths of training texts in characters, in words and, with a tokenizer, in tokens."""
    longest: list[tuple[int, str]] = field(default_factory=list)
    """Lengths of the longest training texts in characters, and their places."""
    repeated: Finding = field(default_factory=Finding)
    """Training texts that repeat an earlier one with the same labels."""
    several: Finding = field(default_factory=Finding)
    """Training texts that repeat an earlier one with other labels."""
    overlap: Finding = field(default_factory=Finding)
    """Validation texts that are also training texts."""
    cut: Finding = field(default_factory=Finding)
    """Training texts that would be truncated."""
    kept: dict[str, int] = field(default_factory=dict)
    """Numbers of training and validation texts; empty if there is a problem."""
    problems: list[str] = field(default_factory=list)

    @property
    def rare(self) -> list[str]:
        """Labels with very few training texts."""
        return [label for label, counts in self.labels.items() if counts["train"] < RARE_LABEL_COUNT]

    @property
    def verdict(self) -> str:
        """One sentence that says if the data can be trained on."""
        if self.problems:
            return f"cannot be trained on: {'; '.join(self.problems)}"
        sizes = f"{quantity(self.kept['train'], self.unit)} to learn from, {self.kept['valid']:,} to measure on"
        labels = f", {quantity(len(self.labels), 'label')}" if self.labels else ""
        return f"can be trained on: {sizes}{labels}"

    def plain(self) -> dict[str, Any]:
        """Return the report as JSON."""
        findings = {name: getattr(self, name) for name in ("repeated", "several", "overlap", "cut")}
        return {
            "verdict": self.verdict,
            "problems": self.problems,
            "corpora": self.corpora,
            "labels": self.labels,
            "rare": self.rare,
            "kept": self.kept,
            "lengths": {unit: lengths.plain() for unit, lengths in self.lengths.items()},
            "longest": [{"characters": length, "place": place} for length, place in self.longest],
            **{name: {"count": finding.count, "places": finding.places} for name, finding in findings.items()},
        }

    def lines(self) -> list[tuple[str, str]]:
        """Return the report as rows of a name and a sentence, the verdict last."""
        rows = [*self._count_rows(), *self._problem_rows()] if self.corpora else []
        return [*rows, ("verdict", self.verdict)]

    def _count_rows(self) -> Iterator[tuple[str, str]]:
        for corpus in self.corpora:
            good = quantity(corpus["good"], f"good {self.unit}")
            yield corpus["set"], f"{corpus['file']}: {good} in {quantity(corpus['read'], 'line')}"
            if corpus["layout"]:
                yield "  layout", corpus["layout"]
            for reason, refusal in corpus["refused"].items():
                yield "  refused", describe_finding(Finding(**refusal), reason)
        for label, counts in list(self.labels.items())[:MAX_LABEL_ROWS]:
            yield f"label {label}", ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
        if len(self.labels) > MAX_LABEL_ROWS:
            yield "", f"and {quantity(len(self.labels) - MAX_LABEL_ROWS, 'more label')}"

    def _problem_rows(self) -> Iterator[tuple[str, str]]:
        for unit, lengths in self.lengths.items():
            yield unit, lengths.description
        for length, place in self.longest:
            yield "longest", f"{length:,} characters: {place}"
        yield f"repeated {self.unit}s", describe_finding(self.repeated)
        yield f"same {self.unit}, other labels", describe_finding(self.several)
        if any(corpus["set"] == "valid" for corpus in self.corpora):
            yield "in both sets", describe_finding(self.overlap)
        if self.cut.count:
            yield "read in part", describe_finding(self.cut)
        if self.rare:
            labels = ", ".join(self.rare[:MAX_LABEL_ROWS]) + ", ..." * (len(self.rare) > MAX_LABEL_ROWS)
            yield f"fewer than {RARE_LABEL_COUNT} to learn from", f"{quantity(len(self.rare), 'label')}: {labels}"


def check_examples(config: AnyConfig, tokenizer: TextTokenizerConfig | None = None) -> Report:
    """Check every line of the files, and the resulting datasets.

    With the settings of a tokenizer, one is trained and lengths are counted in tokens too.
    """
    units = {TagsConfig: "sentence", ChoicesConfig: "question"}
    report = Report(units.get(type(config), "text"))
    sets: dict[str, LabelledExamples] = {}
    for name, set_files in (("train", config.train), ("valid", config.valid)):
        try:
            examples = sets[name] = (
                read_examples(set_files, config.names, reject=1.0) if set_files else LabelledExamples((), [], [], False)
            )
        except ValueError as error:  # no file, no usable line, swapped columns
            report.problems.append(str(error))
            continue
        for path, tally, note in zip(examples.files, examples.reports, examples.notes, strict=True):
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
    refusals = {
        reason: {"count": refusal.count, "places": places(refusal, [path])} for reason, refusal in tally.refused.items()
    }
    return {"set": name, "file": path, "layout": note, "read": tally.read, "good": tally.kept, "refused": refusals}


def _compare_texts(report: Report, sets: dict[str, LabelledExamples]) -> None:
    """Count labels, lengths and repeated texts."""
    counts = {
        name: Counter(label for labelled_example in examples.examples for label in labelled_example.labels)
        for name, examples in sets.items()
    }
    label_counts = {} if sets["train"].has_ratings else {**counts["train"], **counts["valid"]}
    labels = [label for label in label_counts if label is not None]
    ranked = sorted(labels, key=lambda label: (-counts["train"][label], label))
    report.labels = {label: {name: set_counts[label] for name, set_counts in counts.items()} for label in ranked}
    train, labels_by_text = sets["train"], dict[tuple[str, ...], set[Any]]()
    report.lengths = {"characters": Lengths(), "words": Lengths()}
    for example in train.examples:
        report.lengths["characters"].counts[_text_length(example)] += 1
        report.lengths["words"].counts[len(" ".join(example.texts).split())] += 1
        earlier_labels = labels_by_text.setdefault(example.texts, set())
        if earlier_labels:
            (report.repeated if example.labels in earlier_labels else report.several).add(train.place(example))
        earlier_labels.add(example.labels)
    for example in sets["valid"].examples:
        if example.texts in labels_by_text:
            report.overlap.add(sets["valid"].place(example))
    longest = heapq.nlargest(NUM_LONGEST, train.examples, key=_text_length)
    report.longest = [(_text_length(example), train.place(example)) for example in longest]


def _check_split(
    report: Report, config: AnyConfig, sets: dict[str, LabelledExamples], tokenizer: TextTokenizerConfig | None
) -> None:
    """Split the examples and number their labels as in training, and report problems."""
    try:
        classes = label_names(sets["train"])
        train, valid = (
            (sets["train"], sets["valid"]) if config.valid else split_examples(sets["train"], config.validation_share)
        )
        label_numbers(valid, classes)
        report.kept = {"train": len(train.examples), "valid": len(valid.examples)}
        if tokenizer is not None:
            _measure_tokens(report, train, classes, tokenizer)
    except ValueError as error:
        report.problems.append(str(error))


def _measure_tokens(
    report: Report, train: LabelledExamples, classes: Sequence[str], tokenizer_config: TextTokenizerConfig
) -> None:
    """Report lengths in tokens, and texts that would be truncated."""
    tokenizer = learn_tokenizer(train, replace(tokenizer_config, max_length=UNLIMITED_TOKENS))
    dataset = build_dataset(train, add_format_tokens(tokenizer, "plain", pairs=train.pairs), classes)
    lengths = dataset.sequence_lengths.max(1)  # for a question, with its longest choice
    report.lengths["tokens"] = Lengths(Counter(lengths.tolist()))
    for number in np.flatnonzero(lengths > tokenizer_config.max_length).tolist():
        report.cut.add(dataset.place(number))


def _text_length(example: Example) -> int:
    return len(" ".join(example.texts))
