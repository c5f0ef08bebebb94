"""Training of models that label texts: what all such tasks share."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
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
from regard.config.words import quantity
from regard.data.packing import Packing
from regard.data.tokenizers import Tokenizer
from regard.decoding.batching import by_length
from regard.metrics.calibration import explain_missing_temperature, fit_temperature
from regard.metrics.likelihood import IGNORE, count, cross_entropy
from regard.models.encoder_with_head import BERTEncoderConfig, GPTEncoderConfig
from regard.models.linear import LinearConfig
from regard.models.text_classifier import (
    ConvolutionEncoderConfig,
    RecurrentEncoderConfig,
    TransformerEncoderConfig,
)
from regard.tasks.model_card import model_card
from regard.tasks.supervised.calibration import record_temperature
from regard.tasks.text_labels.check import Report, check_examples
from regard.tasks.text_labels.checkpoint_columns import record_columns
from regard.tasks.text_labels.dataset import LabelBatch, LabelledDataset, TextModel
from regard.tasks.text_labels.evaluation import LabelResults, measure_labels
from regard.tasks.text_labels.files import ExamplesConfig
from regard.tasks.text_labels.imported_model import imported_checkpoint_files
from regard.tasks.text_labels.input_format import format_token_ids
from regard.tasks.text_labels.preparation import PreparedTexts, prepare
from regard.tasks.text_labels.text_tokenizer import TextTokenizerConfig
from regard.tasks.text_labels.warm_start import load_word_vectors, parent_tokenizer_and_labels
from regard.training import transfer
from regard.training.loop import TrainingConfig
from regard.training.optim import OptimConfig
from regard.training.task import Evaluation, Goal, Spread, Step, Task, alone
from regard.training.tuning import TuningConfig

EncoderConfig = (
    TransformerEncoderConfig | RecurrentEncoderConfig | ConvolutionEncoderConfig | BERTEncoderConfig | GPTEncoderConfig
)
TextModelConfig = RecurrentEncoderConfig | EncoderConfig | LinearConfig  # the first where no name is given

# What follows from the number of texts where nobody named it.
ROWS_PER_EPOCH = 100  # rows of an epoch, unless they would be very short or very long
MIN_ROW_TOKENS = 1024  # tokens of a row
DEFAULT_EPOCHS = 5
MIN_STEPS = 400  # of a training, however few texts there are
MIN_TUNING_STEPS = 100  # of one that goes on with a pre-trained body
MAX_STEPS_BETWEEN_EVALUATIONS = 1000  # steps between evaluations at most
PATIENCE = 10
LARGE_DATASET = 20_000  # texts from which on a model has its full size
WEIGHING_TOKENS = 1 << 17  # tokens counted at a time


@dataclass(frozen=True, kw_only=True)
class LabelObjective:
    """The loss, and what is shown of the answers."""

    smoothing: Share = 0.0
    """Label smoothing: share of probability spread over all labels instead of the right one."""
    balanced: bool = False
    """Weight rare labels more, so that all labels count the same."""
    samples: Free[Whole] = 5
    """Held-out texts whose answers are shown at every evaluation."""


@dataclass(frozen=True, kw_only=True)
class LabellingRecipe:
    """Settings of a run that learns to label, all but its data."""

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
        context = getattr(self.model, "context", None)
        if context is not None and self.tokenizer.longest > context:
            raise ValueError(
                f"tokenizer.longest is {self.tokenizer.longest} tokens, more than model.context, {context}: "
                "lower the one or raise the other"
            )


class Labelling(Task):
    """Learns labels of texts or of words; subclasses say which."""

    usage: ClassVar[str]
    title: ClassVar[str]
    code: ClassVar[str]
    per_token: ClassVar[bool]
    single_output: ClassVar[bool] = False
    """Whether a head has one output, whatever the labels."""
    has_temperature: ClassVar[bool] = True
    """True if a temperature is fitted to the probabilities of answers."""
    shared: ClassVar[bool] = True
    prepared: Any
    """What is learnt from (`train`) and measured on, the tokenizer, and whether that is new (`fresh`)."""
    goal: Goal = ("accuracy", "max")

    def __init__(self, recipe: Any, prepared: Any, model: Any, *, fixed: bool = False) -> None:
        self.recipe, self.prepared, self.model = recipe, prepared, model
        self.fixed = fixed
        self.temperature = 1.0
        self.packing = pack_examples(recipe, prepared.train, recipe.data.tokens)
        self.rows = self.packing.rows
        self.features = recipe.data.tokens * (getattr(recipe.model, "embedding", 0) or recipe.model.width)
        self.notes = [f"an epoch has {quantity(self.rows, 'row')} of at most {self.packing.tokens:,} tokens"]
        if self.has_temperature:
            self.notes += explain_missing_temperature(len(prepared.valid), "texts")
        if prepared.fresh and getattr(recipe.model, "scaling", "none") != "none":
            model.weigh(self._weighing_batches())
        if (words := getattr(recipe.model, "vectors", None)) is not None and prepared.fresh:
            self.notes.append(load_word_vectors(model, prepared.tokenizer, words))

    @staticmethod
    def prepare(recipe: Any, parent: Checkpoint | None = None) -> PreparedTexts:
        """Read and tokenise the texts, with the tokenizer and the labels of a model to start from."""
        return prepare(
            recipe.data,
            _tokenizer_settings(recipe),
            *parent_tokenizer_and_labels(parent, recipe),
            style=recipe.model.FORMAT,
        )

    @staticmethod
    def check(recipe: Any, *, tokens: bool = False) -> Report:
        """Check the data before anything is trained on it."""
        return check_examples(recipe.data, _tokenizer_settings(recipe) if tokens else None)

    @staticmethod
    def default_settings(recipe: Any, prepared: Any) -> dict[str, Any]:
        """Choose batch size, model size, learning rate, warm-up, training length and patience for a dataset."""
        train, model = prepared.train, recipe.model
        tokens = recipe.data.tokens
        if tokens == ExamplesConfig.tokens:
            tokens = min(max(len(train.tokens) // ROWS_PER_EPOCH, MIN_ROW_TOKENS), tokens)
        steps_per_epoch = math.ceil(pack_examples(recipe, train, tokens).rows / recipe.training.accumulate)
        is_fine_tuning = not prepared.fresh and hasattr(model, "TUNED")
        rate = model.TUNED * recipe.tuning.stronger if is_fine_tuning else model.RATE
        min_steps = MIN_TUNING_STEPS if is_fine_tuning else MIN_STEPS
        epochs = getattr(model, "EPOCHS", DEFAULT_EPOCHS)
        steps = _requested_steps(recipe.training, steps_per_epoch) or max(epochs * steps_per_epoch, min_steps)
        return {
            "data": {"tokens": tokens},
            "model": {**getattr(model, "SUITED", {}), **(model.FEW if len(train) < LARGE_DATASET else {})},
            "optim": {"rate": rate, "warmup": steps // 20, "schedule": "linear"},
            "training": {
                "steps": steps,
                "evaluate": min(max(steps_per_epoch, steps // 20, 1), MAX_STEPS_BETWEEN_EVALUATIONS),
                "patience": PATIENCE,
            },
        }

    @staticmethod
    def limit_lengths(model: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings that a model to start from decides before texts are read: input format and length."""
        settings = {"model": {"name": model["name"]}}
        context = model.get("context", TextTokenizerConfig.longest)
        return {**settings, "tokenizer": {"longest": context}} if context < TextTokenizerConfig.longest else settings

    @classmethod
    def fill_sizes(cls, recipe: Any, prepared: PreparedTexts) -> Any:
        """Return the recipe with the numbers of tokens and labels in the data."""
        classes = 1 if cls.single_output else len(prepared.classes)
        sizes = {"vocab": prepared.tokenizer.vocab, "classes": classes, "per_token": cls.per_token}
        return replace(recipe, model=replace(recipe.model, **sizes), tokenizer=prepared.tokenizer.how)

    @staticmethod
    def adopt(model: TextModel, parent: Checkpoint, prepared: PreparedTexts) -> list[str]:
        """Load the weights of a model with the same labels, or only the backbone of another under a new head."""
        per_token = parent.config.get("model", {}).get("per_token")
        is_same_task = parent.config.get("labels") == prepared.classes and per_token == model.config.per_token
        return transfer.load_weights(model, parent, same_task=is_same_task)

    @classmethod
    def holds(cls, shape: Any) -> bool:
        """True if a model that another library trained is one for this task."""
        return shape.per_token == cls.per_token and shape.classes > 1

    @classmethod
    def checkpoint_files(
        cls, shape: Any, tokenizer: Tokenizer, notes: Sequence[str] = (), **settings: Any
    ) -> dict[str, Any]:
        """Return the files of a checkpoint with such a model, but for the weights."""
        return imported_checkpoint_files(cls, shape, tokenizer, notes, **settings)

    added_token_ids = staticmethod(format_token_ids)

    def batch(self, row: int) -> LabelBatch:
        """Collate the texts of a row."""
        return self.prepared.train.batch(*self.packing.row(row), fixed=self.packing if self.fixed else None)

    def split(self, batch: LabelBatch) -> list[LabelBatch]:
        """Split a batch that does not fit the memory."""
        return self.prepared.train.split_batch(batch)

    def origins(self, batch: LabelBatch) -> list[str]:
        """Return where the texts of a batch come from, the longest first."""
        return [self.prepared.train.place(number) for number in batch.examples.tolist()[::-1]]

    def step(self, batch: LabelBatch, part: str) -> Step:
        """Return the summed cross-entropy over labels."""
        self.temperature = 1.0  # one that was fitted was that of other weights
        batch = batch.to(self.model.output.bias.device)
        logits, labels = batch.forward(self.model), batch.labels
        weights = self._class_weights.to(logits.device) if self.recipe.objective.balanced else None
        loss = cross_entropy(logits, labels, smoothing=self.recipe.objective.smoothing, weights=weights)
        weight = count(labels) if weights is None else weights[labels.clamp(min=0)].where(labels != IGNORE, 0.0).sum()
        return Step(loss=loss, weight=weight, counts={"tokens": batch.row.filled})

    @cached_property
    def _class_weights(self) -> Float[Tensor, "classes"]:
        """Weights of labels: the rarer, the greater, and 1 in the mean over all examples."""
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
        """Label the held-out texts and fit the temperature of answers to their logits."""
        dataset, classes = self.prepared.valid, self.prepared.classes
        results = measure_labels(self.model, dataset, classes, tokens=self.recipe.data.tokens, spread=spread)
        if results.logits is not None:
            self.temperature = fit_temperature(results.logits, np.asarray(dataset.labels))
        return Evaluation(results.metrics, self.sample_answers(dataset, results))

    def sample_answers(self, dataset: LabelledDataset, results: LabelResults) -> list[dict[str, Any]]:
        """Return a few texts with their labels and answers."""
        raise NotImplementedError

    def contents(self) -> dict[str, Any]:
        """Return the settings, the tokenizer and the card of a checkpoint."""
        recipe = config.plain(self.recipe)
        recipe["model"] = {name: None if name == "vectors" else value for name, value in recipe["model"].items()}
        sections = {name: recipe[name] for name in ("task", "model", "tokenizer")}
        first_file = self.recipe.data.train[0]
        data = {"file": config.plain(first_file.like()), "names": recipe["data"]["names"], **record_columns(first_file)}
        return {
            "config.yaml": {
                "format": 1,
                **sections,
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
        """What the model can do, in a sentence for its card."""
        classes = self.prepared.classes
        return f"It knows the labels {', '.join(classes[:20]) + ', ...' * (len(classes) > 20)}."

    def card(self) -> str:
        """Return the README of a checkpoint."""
        recipe = self.recipe
        origin = f"trained with Regard on {len(self.prepared.train):,} texts"
        return model_card(
            self.title,
            f"{recipe.model.phrase}, {recipe.model.vocab} {recipe.tokenizer.kind}, {origin}.\n\n{self.ability}",
            command=self.usage.format(folder="DIRECTORY"),
            code=self.code,
            files=[file.path for file in recipe.data.train],
        )


def pack_examples(recipe: Any, train: LabelledDataset, tokens: int) -> Packing:
    """Pack texts into rows; recurrent networks read each on a line of its own, whose padding counts."""
    padded = isinstance(recipe.model, RecurrentEncoderConfig)
    return train.packing(tokens, recipe.training.seed, padded=padded)


def _requested_steps(training: TrainingConfig, steps_per_epoch: int) -> int | None:
    """Return the number of steps that a recipe names, if it does."""
    if training.epochs is not None:
        return max(1, math.ceil(training.epochs * steps_per_epoch))
    return training.steps if training.steps != TrainingConfig.steps else None


def _tokenizer_settings(recipe: Any) -> TextTokenizerConfig:
    """Return how texts are read: up to the length that suits the model, if no length is named."""
    tokenizer_config, longest = recipe.tokenizer, getattr(recipe.model, "LONGEST", None)
    if longest and tokenizer_config.longest == TextTokenizerConfig.longest:
        return replace(tokenizer_config, longest=longest)
    return tokenizer_config
