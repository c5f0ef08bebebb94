"""A fixed split of labelled texts for comparing models on the same training and test texts."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.config.words import quantity
from regard.data.holdout import sentence
from regard.metrics.scores import Judged, Scores
from regard.metrics.significance import mean_statistics
from regard.tasks.text_encoders.examples import (
    Example,
    LabelledExamples,
    label_names,
    label_numbers,
    read_examples,
    split_examples,
)
from regard.tasks.text_labels.files import LabelsConfig

TEXT_FIELD, SECOND_TEXT_FIELD, LABEL_FIELD = "text", "second", "label"
MAX_SHOWN_CHARACTERS = 300  # characters of a text shown in a report


@dataclass(frozen=True)
class ComparisonSplit:
    """Training and test texts, with none in common."""

    train: list[Example]
    test: list[Example]
    summary: list[str]

    @property
    def majority_label(self) -> str:
        """The most frequent label of the training texts."""
        return Counter(str(example.labels[0]) for example in self.train).most_common(1)[0][0]

    @property
    def inputs(self) -> list[Any]:
        """The test texts, or pairs of texts."""
        return [example.texts if len(example.texts) > 1 else example.texts[0] for example in self.test]

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all training and test examples."""
        sides = [[(example.texts, example.labels) for example in side] for side in (self.train, self.test)]
        return hashlib.sha256(json.dumps(sides).encode()).hexdigest()

    def write_files(self, folder: Path) -> dict[str, Any]:
        """Write the labelled training texts, and all texts without labels; return the data settings of the former."""
        folder.mkdir(parents=True, exist_ok=True)
        pairs = any(len(example.texts) > 1 for example in self.train)
        names = (TEXT_FIELD, SECOND_TEXT_FIELD) if pairs else (TEXT_FIELD,)
        records = (
            {**dict(zip(names, example.texts, strict=True)), LABEL_FIELD: example.labels[0]} for example in self.train
        )
        _write_json_lines(folder / "train.jsonl", records)
        for name, side in (("text", self.train), ("held-out", self.test)):
            _write_json_lines(
                folder / f"{name}.jsonl", ({TEXT_FIELD: text} for example in side for text in example.texts)
            )
        text_setting: Any = list(names) if pairs else TEXT_FIELD
        return {"train": [{"path": str(folder / "train.jsonl"), "text": text_setting, "label": LABEL_FIELD}]}

    def score(self, name: str, task: str, answers: Sequence[str]) -> Scores:
        """Return the scores of predicted labels of the test texts, in their order."""
        true_labels = [str(example.labels[0]) for example in self.test]
        correct = [float(truth == answer) for truth, answer in zip(true_labels, answers, strict=True)]
        shown_texts = (" | ".join(example.texts)[:MAX_SHOWN_CHARACTERS] for example in self.test)
        rows = zip(shown_texts, true_labels, answers, correct, strict=True)
        examples = [Judged(number, *row) for number, row in enumerate(rows, start=1)]
        return Scores(
            name,
            task,
            {"accuracy, %": mean_statistics([100 * is_right for is_right in correct])},
            examples,
            unit="text",
            counted="accuracy",
        )


def split_for_comparison(data: LabelsConfig, test_share: float) -> ComparisonSplit:
    """Hold out a share of the examples by content, or the validation files; drop training texts that are also there."""
    examples = read_examples(data.train, data.names, data.reject)
    if data.valid:
        train, test = examples, read_examples(data.valid, data.names, data.reject)
    else:
        train, test = split_examples(examples, test_share)
    test_texts = {sentence(text) for example in test.examples for text in example.texts}
    train_examples = [
        example for example in train.examples if not any(sentence(text) in test_texts for text in example.texts)
    ]
    num_shared = len(train.examples) - len(train_examples)
    summary = [
        *examples.summary,
        f"{quantity(len(train_examples), 'text')} to learn from, {len(test.examples):,} held out for the scores",
    ]
    if num_shared:
        summary.append(
            f"{'1 text is' if num_shared == 1 else f'{num_shared:,} texts are'} on both sides and not learnt from"
        )
    if not train_examples:
        raise ValueError(f"{' and '.join(examples.files)}: all texts are also held out: give other ones to learn from")
    label_numbers(test, label_names(_with_examples(train, train_examples)))
    return ComparisonSplit(train_examples, test.examples, summary)


def _with_examples(labelled_examples: LabelledExamples, selection: list[Example]) -> LabelledExamples:
    return replace(labelled_examples, examples=selection)


def _write_json_lines(path: Path, records: Iterable[dict[str, Any]]) -> None:
    """Write a file of JSON lines atomically."""
    temporary = path.with_suffix(".new")
    with temporary.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    temporary.replace(path)
