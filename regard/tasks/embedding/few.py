"""A classifier from few labelled texts: frozen vectors of a pre-trained model and a linear head, in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Int

from regard import checkpoint, config
from regard.checkpoint import Checkpoint
from regard.config.ranges import Positive
from regard.interpret.trace import Trace
from regard.metrics.labels import judge
from regard.metrics.scores import Judged, Scores, Table
from regard.metrics.significance import averaged
from regard.tasks.card import card
from regard.tasks.embedding.embedder import Embedder
from regard.tasks.embedding.linear import Head, crossed, fit
from regard.tasks.labels import files
from regard.tasks.labels.files import Found, LabelledFile
from regard.tasks.labels.labeller import Verdict
from regard.tasks.trained import NoOptions, chosen, described

HEAD = "head.safetensors"
LONG = 300  # characters of a text that are shown
LEAST = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, kw_only=True)
class FewConfig:
    """How a linear head is fitted."""

    penalty: Positive = 1.0
    """L2 penalty of the head's weights, against the summed loss of all texts."""


@dataclass(frozen=True)
class Learnt:
    """What was made of a few texts."""

    classifier: FewShot
    contents: dict[str, Any]
    """The files of a checkpoint."""
    metrics: dict[str, float]
    summary: list[str]


class FewShot:
    """Says what a text is: the vector that a frozen model gives it, and a linear head."""

    task: ClassVar[str] = "few-shot"
    verb: ClassVar[str] = "classify"
    kind: ClassVar[str] = "a classifier"
    usage: ClassVar[str] = 'regard classify {folder} "..."'
    Options: ClassVar[type] = NoOptions
    __repr__ = described

    def __init__(self, embedder: Embedder, head: Head, classes: list[str], data: dict[str, Any]) -> None:
        self.embedder, self.head, self.classes, self.data = embedder, head, classes, data
        self.model, self.name = embedder.model, embedder.name

    @classmethod
    def load(cls, found: Checkpoint, *, device: torch.device | str = "cpu") -> FewShot:
        """The one a checkpoint directory holds."""
        tensors = {name: tensor.numpy() for name, tensor in found.tensors(HEAD).items()}
        classes = [str(label) for label in found.config["labels"]]
        head = Head(tensors["weight"], tensors["bias"])
        embedder = Embedder.load(found, device=device)
        if head.weight.shape != (len(classes), embedder.width) or head.bias.shape != (len(classes),):
            raise ValueError(f"{HEAD} is for {head.weight.shape} and {head.bias.shape}, not {len(classes)} labels")
        return cls(embedder, head, classes, found.config["data"])

    def parse(self, text: str) -> str:
        """An input is a text, which must not be empty."""
        if not text.strip():
            raise ValueError("one of the texts is empty: there is nothing to label in it")
        return text

    def answer(self, inputs: Sequence[str], **options: Any) -> list[Verdict]:
        """What each text is."""
        chosen(self, options)
        return self.classify(inputs)

    def classify(self, texts: str | Sequence[str]) -> list[Verdict]:
        """What each text is, and how probable each label."""
        listed = [texts] if isinstance(texts, str) else list(texts)
        found = self.head.probabilities(self.embedder.embed(listed))
        return [self._verdict(text, row) for text, row in zip(listed, found, strict=True)]

    def evaluate(self, *paths: str | Path, name: str | None = None, **changes: Any) -> Scores:
        """Scores on labelled files, read as those it was fitted to; `changes` are settings of the files."""
        own = dict(self.data["file"])
        if "columns" in changes:
            own = {name: value for name, value in own.items() if name not in ("text", "label")}
        listed = [config.build(LabelledFile, {**own, "path": str(path), **changes}, where="file") for path in paths]
        found = files.read(listed, {}, reject=0.0)
        truth = _numbers(found, self.classes)
        chances = self.head.probabilities(self.embedder.embed(_texts(found)))
        return _scores(name or self.name, found, self.classes, truth, chances)

    def look(self, given: str, **options: Any) -> Trace:
        """Classify a text and keep where the model looked."""
        chosen(self, options)
        [verdict] = self.classify([self.parse(given)])
        trace = self.embedder.look(given)
        facts = {**trace.facts, "answer": verdict.label, "probability": round(verdict.probability, 6)}
        return replace(trace, task=self.task, facts=facts)

    def _verdict(self, text: str, chances: np.ndarray) -> Verdict:
        ranked = np.argsort(-chances, kind="stable").tolist()
        every = {self.classes[number]: float(chances[number]) for number in ranked}
        label = self.classes[ranked[0]]
        return Verdict(text, label, every[label], every)


def learn(
    paths: Sequence[str | Path], parent: Checkpoint, *, device: torch.device | str = "cpu", **settings: Any
) -> Learnt:
    """Fit a linear head to labelled files on the frozen vectors of a model; settings are those of `FewConfig`."""
    how = config.build(FewConfig, settings, where="few")
    embedder = Embedder.load(parent, device=device)
    listed = [config.build(LabelledFile, {"path": str(path)}, where="file") for path in paths]
    found = files.read(listed, {}, reject=0.01)
    classes = files.classes(found)
    truth = _numbers(found, classes)
    vectors = embedder.embed(_texts(found))
    head = fit(vectors, truth, len(classes), penalty=how.penalty)
    file = config.plain(listed[0].like())
    classifier = FewShot(embedder, head, classes, {"file": file})
    answers = crossed(vectors, truth, len(classes), penalty=how.penalty)
    own = float((head.probabilities(vectors).argmax(axis=1) == truth).mean())
    metrics = {"fitted": own, **({} if answers is None else {"cross_validated": float((answers == truth).mean())})}
    counts = np.bincount(truth, minlength=len(classes))
    summary = [
        *found.summary,
        f"{len(truth):,} texts, {counts.min():,} to {counts.max():,} of each of {len(classes)} labels; "
        f"a linear head on {embedder.width} frozen features of {parent.directory}",
        *(["a label has one text only, so the accuracy cannot be estimated"] if answers is None else []),
    ]
    return Learnt(classifier, _contents(classifier, parent, metrics, how, paths), metrics, summary)


def _contents(
    found: FewShot, parent: Checkpoint, metrics: dict[str, float], how: FewConfig, paths: Sequence[str | Path]
) -> dict[str, Any]:
    """The files of a checkpoint: the body as it was, and the head beside it."""
    kept = {name: parent.config[name] for name in ("model", "tokenizer") if name in parent.config}
    settings = {"embedding": config.plain(found.embedder.how), "few": config.plain(how), "labels": found.classes}
    some = ", ".join(found.classes[:20]) + ", ..." * (len(found.classes) > 20)
    facts = f"A linear head on frozen features of `{parent.directory.name}`.\n\nIt knows the labels {some}."
    command = found.usage.format(folder="DIRECTORY")
    names = [str(path) for path in paths]
    return {
        "config.yaml": {"format": 1, "task": found.task, **kept, **settings, "data": found.data},
        "tokenizer.json": parent.text("tokenizer.json"),
        "README.md": card("A classifier", facts, command=command, code='classify(["a text"])', files=names),
        "metrics.json": metrics,
        checkpoint.WEIGHTS: parent.tensors(),
        HEAD: {"weight": torch.from_numpy(found.head.weight), "bias": torch.from_numpy(found.head.bias)},
    }


def _texts(found: Found) -> list[str]:
    return [" ".join(example.words) for example in found.examples]


def _numbers(found: Found, classes: Sequence[str]) -> Int[np.ndarray, "text"]:
    return np.array([numbers[0] for numbers in files.numbered(found, classes)], np.int64)


def _scores(name: str, found: Found, classes: Sequence[str], truth: np.ndarray, chances: np.ndarray) -> Scores:
    """Accuracy by text, every label by itself, and the mistakes."""
    answers = chances.argmax(axis=1)
    labels = judge(truth, answers, list(classes))
    loss = float(-np.log(np.maximum(chances[np.arange(len(truth)), truth], LEAST)).mean())
    right = (answers == truth).astype(float)
    examples = [
        Judged(number + 1, text[:LONG], classes[truth[number]], classes[answers[number]], float(right[number]))
        for number, text in enumerate(_texts(found))
    ]
    rows = [
        (one.name, f"{one.count:,}", f"{one.precision:.1%}", f"{one.recall:.1%}", f"{one.f1:.1%}")
        for one in labels.labels
    ]
    return Scores(
        name,
        FewShot.task,
        {"accuracy, %": averaged((100.0 * right).tolist(), [1.0] * len(right))},
        examples,
        measures={"macro F1": f"{labels.f1:.2%}", "loss": f"{loss:.4f}"},
        tables=[Table("By label", ("label", "texts", "precision", "recall", "F1"), rows)],
        details={"accuracy": labels.accuracy, "f1": labels.f1, "loss": loss},
        unit="text",
        counted="accuracy",
    )
