"""Training of text encoders with a head: code shared by the tasks that label texts or extract answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from regard import config
from regard.config.words import quantity
from regard.data.packing import Packing
from regard.data.tokenizers import Tokenizer
from regard.models.encoder_with_head import BERTEncoderConfig, GPTEncoderConfig
from regard.models.linear import LinearConfig
from regard.models.text_classifier import (
    ConvolutionEncoderConfig,
    RecurrentEncoderConfig,
    TransformerEncoderConfig,
)
from regard.tasks.model_card import model_card
from regard.tasks.text_encoders.dataset import LabelBatch, LabelledDataset
from regard.tasks.text_encoders.examples import ExamplesConfig
from regard.tasks.text_encoders.imported_model import imported_checkpoint_files
from regard.tasks.text_encoders.input_format import format_token_ids
from regard.tasks.text_encoders.warm_start import load_word_vectors
from regard.training.loop import TrainingConfig
from regard.training.task import Task

EncoderConfig = (
    TransformerEncoderConfig | RecurrentEncoderConfig | ConvolutionEncoderConfig | BERTEncoderConfig | GPTEncoderConfig
)
TextModelConfig = RecurrentEncoderConfig | EncoderConfig | LinearConfig  # the first is the default

# Default settings by the number of texts.
ROWS_PER_EPOCH = 100  # unless rows would be very short or very long
MIN_ROW_TOKENS = 1024  # smallest default of tokens per row
MIN_STEPS = 400  # for training, however small the dataset
MIN_TUNING_STEPS = 100  # for fine-tuning a pre-trained backbone
MAX_STEPS_BETWEEN_EVALUATIONS = 1000
PATIENCE = 10
LARGE_DATASET = 20_000  # texts; from here on the model has its full size


class EncoderTask(Task):
    """Trains an encoder of texts with a head on packed rows of examples; subclasses say what the head predicts."""

    usage: ClassVar[str]
    title: ClassVar[str]
    code: ClassVar[str]
    per_token: ClassVar[bool]
    """True if the head predicts per token, rather than per text."""
    prepared: Any
    """The training (`train`) and validation data, the tokenizer, and a flag for a new tokenizer (`fresh`)."""
    notes: list[str]

    def __init__(self, recipe: Any, prepared: Any, model: Any, *, fixed: bool = False) -> None:
        self.recipe, self.prepared, self.model = recipe, prepared, model
        self.fixed = fixed
        self.packing = pack_examples(recipe, prepared.train, recipe.data.batch_tokens)
        self.rows = self.packing.rows
        self.features = recipe.data.batch_tokens * recipe.model.token_features
        self.notes = [f"an epoch has {quantity(self.rows, 'row')} of at most {self.packing.tokens:,} tokens"]
        if prepared.fresh and recipe.model.vectors is not None:
            self.notes.append(load_word_vectors(model, prepared.tokenizer, recipe.model.vectors))

    @staticmethod
    def default_settings(recipe: Any, prepared: Any) -> dict[str, Any]:
        """Choose batch size, model size, learning rate, warm-up, training length and patience for a dataset."""
        train, defaults = prepared.train, recipe.model.labeller_defaults
        tokens = recipe.data.batch_tokens
        if tokens == ExamplesConfig.batch_tokens:
            tokens = min(max(len(train.tokens) // ROWS_PER_EPOCH, MIN_ROW_TOKENS), tokens)
        steps_per_epoch = math.ceil(pack_examples(recipe, train, tokens).rows / recipe.training.accumulate)
        is_fine_tuning = not prepared.fresh and defaults.tuning_learning_rate is not None
        rate = defaults.tuning_learning_rate * recipe.tuning.stronger if is_fine_tuning else defaults.learning_rate
        min_steps = MIN_TUNING_STEPS if is_fine_tuning else MIN_STEPS
        default_steps = max(defaults.epochs * steps_per_epoch, min_steps)
        steps = _requested_steps(recipe.training, steps_per_epoch) or default_steps
        return {
            "data": {"batch_tokens": tokens},
            "model": {
                **defaults.settings,
                **(defaults.small_dataset_settings if len(train) < LARGE_DATASET else {}),
            },
            "optim": {"learning_rate": rate, "warmup": steps // 20, "schedule": "linear"},
            "training": {
                "steps": steps,
                "eval_every": min(max(steps_per_epoch, steps // 20, 1), MAX_STEPS_BETWEEN_EVALUATIONS),
                "patience": PATIENCE,
            },
        }

    @classmethod
    def holds(cls, shape: Any) -> bool:
        """True if a model trained with another library belongs to this task; False unless a subclass overrides it."""
        return False

    @classmethod
    def checkpoint_files(
        cls, shape: Any, tokenizer: Tokenizer, notes: Sequence[str] = (), **settings: Any
    ) -> dict[str, Any]:
        """Return the checkpoint files other than the weights, for a model trained with another library."""
        return imported_checkpoint_files(cls, shape, tokenizer, notes, **settings)

    added_token_ids = staticmethod(format_token_ids)

    def batch(self, row: int) -> LabelBatch:
        """Collate the texts of a row."""
        return self.prepared.train.batch(*self.packing.row(row), fixed=self.packing if self.fixed else None)

    def split(self, batch: LabelBatch) -> list[LabelBatch]:
        """Split a batch that does not fit into memory."""
        return self.prepared.train.split_batch(batch)

    def origins(self, batch: LabelBatch) -> list[str]:
        """Return the sources of the texts of a batch, the longest first."""
        return [self.prepared.train.place(number) for number in batch.examples.tolist()[::-1]]

    @property
    def ability(self) -> str:
        """Description of what the model does, a sentence for its card."""
        raise NotImplementedError

    def recipe_sections(self) -> dict[str, Any]:
        """Return the recipe sections of a checkpoint, without the file of word vectors, which are in the weights."""
        recipe = config.plain(self.recipe)
        recipe["model"] = {name: None if name == "vectors" else value for name, value in recipe["model"].items()}
        return {name: recipe[name] for name in ("task", "model", "tokenizer")}

    def card(self) -> str:
        """Return the model card."""
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
    """Pack texts into rows; for recurrent networks, which read padded batches, the padding counts as tokens."""
    padded = isinstance(recipe.model, RecurrentEncoderConfig)
    return train.packing(tokens, recipe.training.seed, padded=padded)


def _requested_steps(training: TrainingConfig, steps_per_epoch: int) -> int | None:
    """Return the number of steps set in a recipe, by steps or by epochs, if any."""
    if training.epochs is not None:
        return max(1, math.ceil(training.epochs * steps_per_epoch))
    return training.steps if training.steps != TrainingConfig.steps else None
