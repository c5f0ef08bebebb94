"""Labelled texts divided once for models that are compared: what all learn from, and what all are scored on."""

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
from regard.tasks.labels.examples import Example, LabelledExamples, label_names, label_numbers, split_examples
from regard.tasks.labels.files import LabelsConfig, read_examples

TEXT_FIELD, SECOND_TEXT_FIELD, LABEL_FIELD = "text", "second", "label"
MAX_SHOWN_CHARACTERS = 300  # characters of a text that are shown


@dataclass(frozen=True)
class ComparisonSplit:
    """Texts to learn from and texts to be scored on, none of which is among the others."""

    train: list[Example]
    test: list[Example]
    summary: list[str]

    @property
    def majority_label(self) -> str:
        """The label that most of the training texts have."""
        return Counter(str(example.labels[0]) for example in self.train).most_common(1)[0][0]

    @property
    def inputs(self) -> list[Any]:
        """What is to be labelled: texts, or pairs of texts."""
        return [example.texts if len(example.texts) > 1 else example.texts[0] for example in self.test]

    @property
    def fingerprint(self) -> str:
        """What tells this division from any other."""
        sides = [[(example.texts, example.labels) for example in side] for side in (self.train, self.test)]
        return hashlib.sha256(json.dumps(sides).encode()).hexdigest()

    def write_files(self, folder: Path) -> dict[str, Any]:
        """Labelled texts for learning, and the bare texts of either side, as files; how the labelled ones are read."""
        folder.mkdir(parents=True, exist_ok=True)
        pairs = any(len(example.texts) > 1 for example in self.train)
        names = (TEXT_FIELD, SECOND_TEXT_FIELD) if pairs else (TEXT_FIELD,)
        labelled = (
            {**dict(zip(names, example.texts, strict=True)), LABEL_FIELD: example.labels[0]} for example in self.train
        )
        _write_json_lines(folder / "train.jsonl", labelled)
        for name, side in (("text", self.train), ("held-out", self.test)):
            _write_json_lines(
                folder / f"{name}.jsonl", ({TEXT_FIELD: words} for example in side for words in example.texts)
            )
        text: Any = list(names) if pairs else TEXT_FIELD
        return {"train": [{"path": str(folder / "train.jsonl"), "text": text, "label": LABEL_FIELD}]}

    def score(self, name: str, task: str, answers: Sequence[str]) -> Scores:
        """The scores of these answers to all held-out texts, in their order."""
        right = [str(example.labels[0]) for example in self.test]
        worth = [float(one == other) for one, other in zip(right, answers, strict=True)]
        given = (" | ".join(example.texts)[:MAX_SHOWN_CHARACTERS] for example in self.test)
        told = zip(given, right, answers, worth, strict=True)
        examples = [Judged(number, *each) for number, each in enumerate(told, start=1)]
        return Scores(
            name,
            task,
            {"accuracy, %": mean_statistics([100 * one for one in worth])},
            examples,
            unit="text",
            counted="accuracy",
        )


def split_for_comparison(data: LabelsConfig, tested: float) -> ComparisonSplit:
    """Hold out a share by content, or what is in the validation files; what would be on both sides is left out."""
    found = read_examples(data.train, data.names, data.reject)
    if data.valid:
        train, held = found, read_examples(data.valid, data.names, data.reject)
    else:
        train, held = split_examples(found, tested)
    known = {sentence(words) for example in held.examples for words in example.texts}
    kept = [example for example in train.examples if not any(sentence(words) in known for words in example.texts)]
    both = len(train.examples) - len(kept)
    summary = [
        *found.summary,
        f"{quantity(len(kept), 'text')} to learn from, {len(held.examples):,} held out for the scores",
    ]
    if both:
        summary.append(f"{'1 text is' if both == 1 else f'{both:,} texts are'} on both sides and not learnt from")
    if not kept:
        raise ValueError(f"{' and '.join(found.files)}: all texts are also held out: give other ones to learn from")
    label_numbers(held, label_names(_with_examples(train, kept)))
    return ComparisonSplit(kept, held.examples, summary)


def _with_examples(found: LabelledExamples, examples: list[Example]) -> LabelledExamples:
    return replace(found, examples=examples)


def _write_json_lines(path: Path, records: Iterable[dict[str, Any]]) -> None:
    """A file of JSON lines, whole or not at all."""
    fresh = path.with_suffix(".new")
    with fresh.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    fresh.replace(path)
