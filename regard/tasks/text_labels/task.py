"""Training of models that label texts: code shared by all such tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard import config
from regard.checkpoint import Checkpoint
from regard.config.ranges import Share, Whole
from regard.config.resuming import Fixed, Free
from regard.data.examples import sample_readable
from regard.decoding.batching import by_length
from regard.metrics.calibration import explain_missing_temperature, fit_temperature
from regard.metrics.likelihood import IGNORE, count, cross_entropy
from regard.models.text_classifier import RecurrentEncoderConfig
from regard.tasks.runner import evaluation_runner
from regard.tasks.supervised.calibration import record_temperature
from regard.tasks.text_encoders.checkpoint_columns import record_columns
from regard.tasks.text_encoders.dataset import LabelBatch, LabelledDataset, TextModel
from regard.tasks.text_encoders.encoder_task import EncoderTask, TextModelConfig
from regard.tasks.text_encoders.text_tokenizer import TextTokenizerConfig
from regard.tasks.text_encoders.warm_start import parent_tokenizer
from regard.tasks.text_labels.check import Report, check_examples
from regard.tasks.text_labels.evaluation import LabelResults, measure_labels
from regard.tasks.text_labels.preparation import PreparedTexts, prepare
from regard.training import transfer
from regard.training.loop import TrainingConfig
from regard.training.optim import OptimConfig
from regard.training.task import Evaluation, Goal, Spread, Step, TraceInput, alone
from regard.training.tuning import TuningConfig

WEIGHING_TOKENS = 1 << 17  # tokens per batch


@dataclass(frozen=True, kw_only=True)
class LabelObjective:
    """Settings of the loss and of the logged samples."""

    label_smoothing: Share = 0.0
    """Label smoothing: share of probability spread over all labels instead of the right one."""
    balanced: bool = False
    """Weight rare labels more, so that all labels count the same."""
    samples: Free[Whole] = 5
    """Held-out texts whose answers are shown at every evaluation."""


@dataclass(frozen=True, kw_only=True)
class LabellingRecipe:
    """A training run of a model that labels texts, without its data."""

    tokenizer: Fixed[TextTokenizerConfig] = field(default_factory=TextTokenizerConfig)
    """What a token is, and how much of a text is read."""
    model: Fixed[TextModelConfig] = field(default_factory=RecurrentEncoderConfig)
    """The network, chosen by its name; sizes that nobody names follow from the number of texts."""
    objective: LabelObjective = field(default_factory=LabelObjective)
    """The loss, and how checkpoints are scored."""
    optim: OptimConfig = field(default_factory=OptimConfig)
    """The optimizer and its learning rate."""
    tuning: Fixed[TuningConfig] = field(default_factory=TuningConfig)
    """What of a model to start from learns."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """How long, how often, where."""

    def __post_init__(self) -> None:
        context = self.model.context
        if context is not None and self.tokenizer.max_length > context:
            raise ValueError(
                f"tokenizer.max_length is {self.tokenizer.max_length} tokens, more than model.context, {context}: "
                "lower the one or raise the other"
            )


class Labelling(EncoderTask):
    """Base class of tasks that label texts or words."""

    single_output: ClassVar[bool] = False
    """True if the head has one output, whatever the number of labels."""
    has_temperature: ClassVar[bool] = True
    """True if a temperature is fitted to the probabilities of answers."""
    goal: Goal = ("accuracy", "max")

    def __init__(self, recipe: Any, prepared: Any, model: Any, *, fixed: bool = False) -> None:
        super().__init__(recipe, prepared, model, fixed=fixed)
        self.temperature = 1.0
        if self.has_temperature:
            self.notes += explain_missing_temperature(len(prepared.valid), "texts")
        if prepared.fresh and recipe.model.counts_labels:
            model.weigh(self._weighing_batches())

    @staticmethod
    def prepare(recipe: Any, parent: Checkpoint | None = None) -> PreparedTexts:
        """Read and tokenise the texts, with the tokenizer and labels of a parent model if there is one."""
        return prepare(
            recipe.data,
            _tokenizer_settings(recipe),
            parent_tokenizer(parent, recipe.tokenizer),
            _parent_labels(parent, recipe),
            style=recipe.model.input_style,
        )

    @staticmethod
    def check(recipe: Any, *, tokens: bool = False) -> Report:
        """Check the data before training."""
        return check_examples(recipe.data, _tokenizer_settings(recipe) if tokens else None)

    @staticmethod
    def limit_lengths(model: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings that a parent model determines before texts are read: input format and length."""
        settings = {"model": {"name": model["name"]}}
        context = model.get("context", TextTokenizerConfig.max_length)
        return (
            {**settings, "tokenizer": {"max_length": context}} if context < TextTokenizerConfig.max_length else settings
        )

    @classmethod
    def fill_sizes(cls, recipe: Any, prepared: PreparedTexts) -> Any:
        """Return the recipe with the sizes of vocabulary and labels."""
        classes = 1 if cls.single_output else len(prepared.classes)
        sizes = {"vocab": prepared.tokenizer.vocab, "classes": classes, "per_token": cls.per_token}
        return replace(recipe, model=replace(recipe.model, **sizes), tokenizer=prepared.tokenizer.how)

    @staticmethod
    def adopt(model: TextModel, parent: Checkpoint, prepared: PreparedTexts) -> list[str]:
        """Load all weights of a model with the same labels; otherwise only the backbone, under a new head."""
        per_token = parent.config.get("model", {}).get("per_token")
        is_same_task = parent.config.get("labels") == prepared.classes and per_token == model.config.per_token
        return transfer.load_weights(model, parent, same_task=is_same_task)

    @classmethod
    def holds(cls, shape: Any) -> bool:
        """True if a model trained with another library belongs to this task."""
        return shape.per_token == cls.per_token and shape.classes > 1

    def step(self, batch: LabelBatch, part: str) -> Step:
        """Return the summed cross-entropy over labels."""
        self.temperature = 1.0  # a fitted temperature belongs to the weights before this step
        batch = batch.to(self.model.output.bias.device)
        logits, labels = batch.forward(self.model), batch.labels
        weights = self._class_weights.to(logits.device) if self.recipe.objective.balanced else None
        loss = cross_entropy(logits, labels, smoothing=self.recipe.objective.label_smoothing, weights=weights)
        weight = count(labels) if weights is None else weights[labels.clamp(min=0)].where(labels != IGNORE, 0.0).sum()
        return Step(loss=loss, weight=weight, counts={"tokens": batch.row.filled})

    @cached_property
    def _class_weights(self) -> Float[Tensor, "classes"]:
        """Weights of labels, inverse to their frequency, with mean 1 over all examples."""
        counts = self.prepared.train.count_labels(len(self.prepared.classes))
        clamped_counts = np.maximum(counts, 1)
        return torch.tensor(counts.sum() / ((counts > 0).sum() * clamped_counts), dtype=torch.float32)

    def _weighing_batches(self) -> Iterator[tuple[Tensor, Any, Tensor]]:
        """Yield all training texts in batches, with their labels."""
        dataset = self.prepared.train
        for numbers in by_length(dataset.lengths.tolist(), budget=WEIGHING_TOKENS):
            batch = dataset.batch(np.array(numbers)).to(self.model.output.bias.device)
            yield batch.tokens, batch.row, batch.labels

    def evaluate(self, spread: Spread = alone) -> Evaluation:
        """Label and score the validation texts, and fit the temperature to the logits."""
        dataset, classes = self.prepared.valid, self.prepared.classes
        with evaluation_runner(self.model) as runner:
            results = measure_labels(runner, dataset, classes, tokens=self.recipe.data.batch_tokens, spread=spread)
        if results.logits is not None:
            self.temperature = fit_temperature(results.logits, np.asarray(dataset.labels))
        return Evaluation(results.metrics, self.sample_answers(dataset, results))

    def sample_answers(self, dataset: LabelledDataset, results: LabelResults) -> list[dict[str, Any]]:
        """Return a few texts with their labels and predicted labels."""
        raise NotImplementedError

    def trace_inputs(self, count: int) -> list[TraceInput]:
        """Return validation texts."""
        texts = self.prepared.valid.texts
        shown = [" | ".join(parts) for parts in texts]
        return [TraceInput(self.look_input(texts[n]), shown[n]) for n in sample_readable(shown, count)]

    def look_input(self, texts: tuple[str, ...]) -> Any:
        """Return the texts of an example as `look` of the trained model reads them: one text, or several."""
        return texts if len(texts) > 1 else texts[0]

    def contents(self) -> dict[str, Any]:
        """Return the settings, the tokenizer and the card of a checkpoint."""
        names, first_file = self.recipe.data.names, self.recipe.data.train[0]
        data = {
            "file": config.plain(first_file.shared_settings()),
            "names": dict(names),
            **record_columns(first_file),
        }
        return {
            "config.yaml": {
                "format": 1,
                **self.recipe_sections(),
                "labels": self.prepared.classes,
                **({"pairs": True} if self.prepared.pairs else {}),
                **record_temperature(self.temperature),
                "data": data,
            },
            "tokenizer.json": self.prepared.tokenizer.json(),
            "README.md": self.card(),
        }

    @property
    def ability(self) -> str:
        """Description of what the model does, a sentence for its card."""
        classes = self.prepared.classes
        return f"It knows the labels {', '.join(classes[:20]) + ', ...' * (len(classes) > 20)}."


def _tokenizer_settings(recipe: Any) -> TextTokenizerConfig:
    """Return the tokenizer settings, with the model's default length unless the recipe sets one."""
    tokenizer_config, longest = recipe.tokenizer, recipe.model.labeller_defaults.longest_text
    if longest and tokenizer_config.max_length == TextTokenizerConfig.max_length:
        return replace(tokenizer_config, max_length=longest)
    return tokenizer_config


def _parent_labels(parent: Checkpoint | None, recipe: Any) -> list[str] | None:
    """Return the labels of a parent model of the same task."""
    return list(parent.config["labels"]) if parent is not None and parent.config.get("task") == recipe.task else None
