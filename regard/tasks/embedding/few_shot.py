"""A classifier from few labelled texts: vectors of a pre-trained model, tuned or frozen, and a linear head."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Int

from regard import checkpoint, config
from regard.checkpoint import Checkpoint
from regard.config.ranges import Count, Positive, Whole
from regard.config.words import quantity
from regard.data.line_report import LineReport
from regard.interpret.trace import Trace
from regard.metrics.labels import judge
from regard.metrics.scores import Judged, Scores, Table
from regard.metrics.significance import mean_statistics
from regard.shipped import display_name
from regard.tasks.embedding import contrast
from regard.tasks.embedding.embedder import BODIES, Embedder
from regard.tasks.embedding.linear import Head, cross_validate, fit
from regard.tasks.inputs import TEXT, Inputs, check_files, list_inputs
from regard.tasks.model_card import model_card
from regard.tasks.runner import Runner
from regard.tasks.supervised.prediction import TextPrediction
from regard.tasks.text_encoders.checkpoint_columns import read_text_column, record_columns
from regard.tasks.text_encoders.evaluation_files import TrainedLayout
from regard.tasks.text_encoders.examples import LabelledExamples, label_names, label_numbers, read_examples
from regard.tasks.text_encoders.labelled_file import LabelledFile
from regard.tasks.trained import DirectAnswers, NoOptions, describe_model, resolve_options

HEAD = "head.safetensors"
MAX_SHOWN_CHARACTERS = 300  # characters of a text shown in a report
MIN_PROBABILITY = float(np.finfo(np.float64).tiny)
MAX_FEW_TEXTS = 50  # per label; with more, this method is not chosen by default
ONE_SIDED_Z = 1.645  # standard deviations exceeded by chance in 5 % of cases


@dataclass(frozen=True, kw_only=True)
class FewShotConfig:
    """Settings of the tuning of the backbone and the fit of the linear head."""

    contrast: Literal["auto", "on", "off"] = "auto"
    """Whether the body is tuned first, so that texts of one label lie near one another; auto: up to 50 texts of a
    label, if at least two labels have two texts."""
    steps: Count | None = None
    """Steps of that tuning; null: as many as read every text ten times, from 10 to 40."""
    learning_rate: Positive = 1e-4
    """Its highest learning rate."""
    seed: Whole = 0
    """Random seed of its pairs."""
    penalty: Positive = 1.0
    """L2 penalty of the head's weights, against the summed loss of all texts."""

    def should_tune(self, counts: Sequence[int]) -> bool:
        """Return True if the backbone is tuned for labels with these numbers of texts."""
        if self.contrast == "auto":
            return max(counts) <= MAX_FEW_TEXTS and sum(count > 1 for count in counts) > 1
        return self.contrast == "on"

    def plan_steps(self, counts: Sequence[int]) -> int:
        """Return the number of tuning steps; 0 if the backbone is frozen."""
        return (self.steps or contrast.plan_steps(sum(counts))) if self.should_tune(counts) else 0


@dataclass(frozen=True)
class FewShotResult:
    """A classifier trained on few texts, with its checkpoint files, metrics and summary."""

    classifier: FewShot
    contents: dict[str, Any]
    """The checkpoint files."""
    metrics: dict[str, float]
    summary: list[str]
    tuned: bool
    """True if the backbone was tuned as well."""


class FewShot(DirectAnswers):
    """A classifier of texts: a linear head on the vectors of an embedder."""

    task: ClassVar[str] = "few-shot"
    verb: ClassVar[str] = "classify"
    kind: ClassVar[str] = "a classifier"
    usage: ClassVar[str] = 'regard classify {folder} "..."'
    Options: ClassVar[type] = NoOptions
    __repr__ = describe_model

    def __init__(self, embedder: Embedder, head: Head, classes: list[str], data: dict[str, Any]) -> None:
        self.embedder, self.head, self.classes, self.data = embedder, head, classes, data
        self.model, self.name = embedder.model, embedder.name

    @classmethod
    def load(cls, saved: Checkpoint, *, device: torch.device | str = "cpu") -> FewShot:
        """Load the classifier of a checkpoint directory."""
        tensors = {name: tensor.numpy() for name, tensor in saved.finite_tensors(HEAD).items()}
        classes = [str(label) for label in saved.config["labels"]]
        head = Head(tensors["weight"], tensors["bias"])
        embedder = Embedder.load(saved, device=device)
        if head.weight.shape != (len(classes), embedder.width) or head.bias.shape != (len(classes),):
            raise ValueError(f"{HEAD} is for {head.weight.shape} and {head.bias.shape}, not {len(classes)} labels")
        return cls(embedder, head, classes, saved.config["data"])

    @property
    def runner(self) -> Runner:
        """The runner of the embedder."""
        return self.embedder.runner

    @runner.setter
    def runner(self, runner: Runner) -> None:
        self.embedder.runner = runner

    @property
    def inputs(self) -> Inputs:
        """Texts; of a table, those in the text column of the training files."""
        column = read_text_column(self.data, self.classes)
        return Inputs(kind=self.input_kind, parse=self.parse, text_column=column)

    def count_tokens(self, item: Any) -> int | None:
        """Return the number of tokens of a text."""
        return self.embedder.count_tokens(item)

    def parse(self, text: str) -> str:
        """Return the text; raise an error if it is empty."""
        if not text.strip():
            raise ValueError("one of the texts is empty: there is nothing to label in it")
        return text

    def answer(self, inputs: Sequence[str], **options: Any) -> list[TextPrediction]:
        """Classify texts."""
        resolve_options(self, options)
        return self.classify(inputs)

    def classify(self, texts: str | Sequence[str]) -> list[TextPrediction]:
        """Return the label of each text, and the probabilities of all labels."""
        text_list = list_inputs(texts, TEXT, verb=self.verb)
        probabilities = self.head.probabilities(self.embedder.embed(text_list))
        return [self._predict(text, row) for text, row in zip(text_list, probabilities, strict=True)]

    def evaluate(self, *paths: str | Path, name: str | None = None, **changes: Any) -> Scores:
        """Return scores on labelled files, read like the training files; `changes` are settings of the files."""
        check_files(self, paths, "labelled texts")
        labelled_files, notes = TrainedLayout(LabelledFile, self.data, self.classes).open_files(paths, changes)
        labelled = read_examples(labelled_files, {}, reject=0.0)
        truth = _label_numbers(labelled, self.classes)
        probabilities = self.head.probabilities(self.embedder.embed(_join_texts(labelled)))
        return replace(_score_answers(name or self.name, labelled, self.classes, truth, probabilities), notes=notes)

    def look(self, text: str, **options: Any) -> Trace:
        """Classify a text and return the weights of all attentions."""
        resolve_options(self, options)
        [prediction] = self.classify([self.parse(text)])
        trace = self.embedder.look(text)
        facts = {**trace.facts, "answer": prediction.label, "probability": round(prediction.probability, 6)}
        return replace(trace, task=self.task, facts=facts)

    def _predict(self, text: str, probabilities: np.ndarray) -> TextPrediction:
        return TextPrediction.rank(self.classes, probabilities.tolist(), text=text)


def is_few_shot_data(files: Sequence[Mapping[str, Any]], parent: Checkpoint) -> bool:
    """Return True if files suit a head on this model's vectors: single texts, up to 50 per label."""
    if parent.config.get("model", {}).get("name") not in BODIES:
        return False
    counts: Counter[str] = Counter()
    for number, file in enumerate(config.build(LabelledFile, section, where="file") for section in files):
        for example in file.examples(number, LineReport()):
            counts[str(example.labels[0])] += 1
            if len(example.texts) > 1 or counts[str(example.labels[0])] > MAX_FEW_TEXTS:
                return False
    return len(counts) > 1


def train_few_shot(
    paths: Sequence[str | Path | Mapping[str, Any]],
    parent: Checkpoint,
    *,
    device: torch.device | str = "cpu",
    **settings: Any,
) -> FewShotResult:
    """Train a linear head on the vectors of a model from labelled files; the model may be tuned first.

    A file is a path, or a section of settings as in a recipe; settings are those of `FewShotConfig`. Cross-validation
    always uses the frozen vectors, because tuned vectors have seen every label.
    """
    few_shot_config = config.build(FewShotConfig, settings, where="few")
    embedder = Embedder.load(parent, device=device)
    sections = [path if isinstance(path, Mapping) else {"path": str(path)} for path in paths]
    labelled_files = [config.build(LabelledFile, section, where="file") for section in sections]
    labelled = read_examples(labelled_files, {}, reject=0.01)
    classes = label_names(labelled)
    truth = _label_numbers(labelled, classes)
    texts = _join_texts(labelled)
    vectors = embedder.embed(texts)
    answers = cross_validate(vectors, truth, len(classes), penalty=few_shot_config.penalty)
    counts = np.bincount(truth, minlength=len(classes))
    steps = few_shot_config.plan_steps(counts.tolist())
    if steps:
        contrast.tune(
            embedder, texts, truth, steps=steps, rate=few_shot_config.learning_rate, seed=few_shot_config.seed
        )
        vectors = embedder.embed(texts)
    head = fit(vectors, truth, len(classes), penalty=few_shot_config.penalty)
    data = {"file": config.plain(labelled_files[0].shared_settings()), **record_columns(labelled_files[0])}
    classifier = FewShot(embedder, head, classes, data)
    fitted_accuracy = float((head.probabilities(vectors).argmax(axis=1) == truth).mean())
    metrics = {"fitted": fitted_accuracy, "commonest": float(counts.max() / counts.sum())}
    if answers is not None:
        metrics["cross_validated"] = float((answers == truth).mean())
    of_each = " to ".join(f"{count:,}" for count in sorted({int(counts.min()), int(counts.max())}))
    body = f"tuned by contrast in {quantity(steps, 'step')} (contrast=off leaves them frozen)" if steps else "frozen"
    summary = [
        *labelled.summary,
        f"{quantity(len(truth), 'text')}, {of_each} of each of {len(classes)} labels; "
        f"a linear head on {embedder.width} features of {display_name(parent.directory)}, {body}",
        *(["a label has one text only, so the accuracy cannot be estimated"] if answers is None else []),
        *([] if answers is None else doubt_accuracy(int((answers == truth).sum()), counts.tolist())),
    ]
    contents = _checkpoint_contents(
        classifier, parent, metrics, few_shot_config, [section.path for section in labelled_files], tuned=bool(steps)
    )
    return FewShotResult(classifier, contents, metrics, summary, tuned=bool(steps))


def doubt_accuracy(right: int, counts: Sequence[int]) -> list[str]:
    """Return a warning if the accuracy is not significantly above that of always predicting the commonest label."""
    total, share = sum(counts), max(counts) / sum(counts)
    spread = math.sqrt(total * share * (1 - share))  # standard deviation of the number of right answers by chance
    if spread and right - 0.5 > total * share + ONE_SIDED_Z * spread:
        return []
    return [
        f"{right:,} of {total:,} right by cross-validation is not beyond chance: always the commonest label has "
        f"{share:.1%}; give more texts, or a model to start from that has read more"
    ]


def _checkpoint_contents(
    classifier: FewShot,
    parent: Checkpoint,
    metrics: dict[str, float],
    few_shot_config: FewShotConfig,
    names: Sequence[str],
    *,
    tuned: bool,
) -> dict[str, Any]:
    """Return the checkpoint files: the backbone, frozen or tuned, and the head beside it."""
    parent_settings = {name: parent.config[name] for name in ("model", "tokenizer") if name in parent.config}
    settings = {
        "embedding": config.plain(classifier.embedder.how),
        "few": config.plain(few_shot_config),
        "labels": classifier.classes,
    }
    known_labels = ", ".join(classifier.classes[:20]) + ", ..." * (len(classifier.classes) > 20)
    features = "features, tuned by contrast," if tuned else "frozen features"
    facts = f"A linear head on {features} of `{parent.directory.name}`.\n\nIt knows the labels {known_labels}."
    command = classifier.usage.format(folder="DIRECTORY")
    return {
        "config.yaml": {"format": 1, "task": classifier.task, **parent_settings, **settings, "data": classifier.data},
        "tokenizer.json": parent.text("tokenizer.json"),
        "README.md": model_card("A classifier", facts, command=command, code='classify(["a text"])', files=list(names)),
        "metrics.json": metrics,
        checkpoint.WEIGHTS: _cpu_tensors(classifier.model) if tuned else parent.tensors(),
        HEAD: {"weight": torch.from_numpy(classifier.head.weight), "bias": torch.from_numpy(classifier.head.bias)},
    }


def _cpu_tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}


def _join_texts(labelled: LabelledExamples) -> list[str]:
    return [" ".join(example.texts) for example in labelled.examples]


def _label_numbers(labelled: LabelledExamples, classes: Sequence[str]) -> Int[np.ndarray, "text"]:
    return np.array([numbers[0] for numbers in label_numbers(labelled, classes)], np.int64)


def _score_answers(
    name: str, labelled: LabelledExamples, classes: Sequence[str], truth: np.ndarray, probabilities: np.ndarray
) -> Scores:
    """Return accuracy by text, scores of each label, and the mistakes."""
    answers = probabilities.argmax(axis=1)
    labels = judge(truth, answers, list(classes))
    loss = float(-np.log(np.maximum(probabilities[np.arange(len(truth)), truth], MIN_PROBABILITY)).mean())
    right = (answers == truth).astype(float)
    examples = [
        Judged(
            number + 1,
            text[:MAX_SHOWN_CHARACTERS],
            classes[truth[number]],
            classes[answers[number]],
            float(right[number]),
        )
        for number, text in enumerate(_join_texts(labelled))
    ]
    rows = [
        (
            label_score.name,
            f"{label_score.count:,}",
            f"{label_score.precision:.1%}",
            f"{label_score.recall:.1%}",
            f"{label_score.f1:.1%}",
        )
        for label_score in labels.labels
    ]
    return Scores(
        name,
        FewShot.task,
        {"accuracy, %": mean_statistics((100.0 * right).tolist(), [1.0] * len(right))},
        examples,
        measures={"macro F1": f"{labels.f1:.2%}", "loss": f"{loss:.4f}"},
        tables=[Table("By label", ("label", "texts", "precision", "recall", "F1"), rows)],
        details={"accuracy": labels.accuracy, "f1": labels.f1, "loss": loss},
        unit="text",
        counted="accuracy",
    )
