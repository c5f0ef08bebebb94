"""The recurrent language modelling task: truncated back-propagation through time with a carried state.

Each row is one window of every lane. Its initial state is the final one of the previous row, detached from its
gradients, so the memory of a step is that of a window, however long the text (Williams and Peng 1990).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard import config
from regard.checkpoint import Checkpoint
from regard.config.resuming import Fingerprinted, Fixed, Free
from regard.config.words import quantity
from regard.data.normalise import read_text_settings
from regard.data.sniff import sniff_text_file
from regard.data.tokenizers import Tokenizer
from regard.data.tokenizers.units import UnitsConfig
from regard.models.rnn_lm import RecurrentLMConfig
from regard.tasks.model_card import model_card
from regard.tasks.rnn_lm.streams import Lanes, StreamConfig, Texts, prepare
from regard.tasks.rnn_lm.writer import LANE_STATE, Writer, measure_surprisal, register_lane_state, sum_cross_entropy
from regard.tasks.writing import WritingConfig
from regard.training.loop import TrainingConfig
from regard.training.optim import OptimConfig
from regard.training.pace import default_run_length, power_of_two_below, round_between
from regard.training.task import (
    POSSIBLE,
    SURE,
    Claim,
    Evaluation,
    Given,
    Goal,
    Spread,
    Step,
    Task,
    alone,
    data_section,
)

SIZES: tuple[tuple[float, dict[str, Any], float, int], ...] = (  # tokens: sizes of the model, rate, epochs
    (20_000, {"width": 128, "depth": 1, "dropout": 0.2}, 0.005, 50),
    (200_000, {"width": 192, "depth": 1, "dropout": 0.2}, 0.004, 40),
    (2_000_000, {"width": 256, "depth": 2, "dropout": 0.3}, 0.002, 20),
    (20_000_000, {"width": 512, "depth": 2, "dropout": 0.2}, 0.002, 8),
    (float("inf"), {"width": 1024, "depth": 2, "dropout": 0.1}, 0.001, 3),
)


@dataclass(frozen=True, kw_only=True)
class LanguageRecipe:
    """A training run of a recurrent language model."""

    task: Fixed[Literal["language"]] = "language"
    """What is learnt."""
    data: Fingerprinted[StreamConfig]
    """Text and how it is batched."""
    tokenizer: Fixed[UnitsConfig] = field(default_factory=UnitsConfig)
    """What a token is."""
    model: Fixed[RecurrentLMConfig] = field(default_factory=RecurrentLMConfig)
    """Its size."""
    optim: OptimConfig = field(default_factory=OptimConfig)
    """The optimizer and its learning rate."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """How long, how often, where."""
    writing: Free[WritingConfig] = field(default_factory=WritingConfig)
    """Text generated at every evaluation, and the defaults of `regard generate`."""


@dataclass(frozen=True)
class Batch:
    """A training row: its number, the inputs of its lanes and the next tokens."""

    row: int
    first: int
    """Its first lane; not 0 only in the second half of a row that did not fit the memory."""
    inputs: Int[Tensor, "lanes time"]
    labels: Int[Tensor, "lanes time"]

    def to(self, device: torch.device) -> Batch:
        """Return the batch on a device."""
        return replace(self, inputs=self.inputs.to(device), labels=self.labels.to(device))


class Language(Task):
    """The task of training a recurrent language model."""

    Recipe = LanguageRecipe
    usage: ClassVar[str] = "regard generate {folder}"
    shared: ClassVar[bool] = False  # a row starts with the final state of the previous one
    goal: Goal = ("loss", "min")

    def __init__(self, recipe: LanguageRecipe, texts: Texts, model: Any, *, fixed: bool = False) -> None:
        self.recipe, self.texts, self.model = recipe, texts, model
        lanes = min(recipe.data.batch_size, len(texts.train.tokens))
        self.lanes = Lanes(texts.train, lanes, recipe.data.window)
        self.rows = self.lanes.rows
        self._begun: dict[int, Tensor] = {}  # the initial states of the rows of this step
        register_lane_state(model, model.blank(lanes))
        self.writer().begin(recipe.writing.prompt)  # an invalid prompt is reported before training
        self.features = recipe.data.batch_size * recipe.data.window * recipe.model.width
        self.notes = [f"an epoch has {quantity(self.rows, 'row')} of {self.lanes.lanes} lanes"]

    @staticmethod
    def recognise(inputs: Given) -> Claim | None:
        """Claim running text; of two files other tasks may claim more."""
        text_settings = [sniff_text_file(name, declared=inputs.is_declared) for name in inputs.files]
        if inputs.to is not None or None in text_settings:
            return None
        confidence = SURE if "task" in inputs.settings else POSSIBLE
        data = data_section(text_settings, [{"path": name} for name in inputs.valid])
        return Claim(data, "plain text: training a recurrent language model that continues it", confidence)

    @staticmethod
    def prepare(recipe: LanguageRecipe, parent: Checkpoint | None = None) -> Texts:
        """Read and tokenise the text, with the tokenizer of the parent model, if any."""
        return prepare(recipe.data, recipe.tokenizer, _load_tokenizer(parent))

    @staticmethod
    def default_settings(recipe: LanguageRecipe, texts: Texts) -> dict[str, Any]:
        """Choose model size, batch size and training length for this amount of text."""
        amount = len(texts.train.tokens)
        sizes, rate, epochs = next((size, rate, epochs) for most, size, rate, epochs in SIZES if amount <= most)
        row = round_between(256, power_of_two_below(amount / 40), 4096)
        window = 128 if row >= 2048 else 64
        rows = ceil(amount / row)
        steps = round_between(300, epochs * rows, 200_000)
        return {
            "model": sizes,
            "data": {"batch_size": row // window, "window": window},
            "optim": {"learning_rate": rate},
            "training": default_run_length(recipe.training, rows=rows, steps=steps),
        }

    @staticmethod
    def fill_sizes(recipe: LanguageRecipe, texts: Texts) -> LanguageRecipe:
        """Return the recipe with the vocabulary size of the text."""
        how = texts.tokenizer.how
        assert isinstance(how, UnitsConfig)
        return replace(recipe, model=replace(recipe.model, vocab=texts.tokenizer.vocab), tokenizer=how)

    def batch(self, row: int) -> Batch:
        """Return a window of every lane."""
        return Batch(row, 0, *map(torch.from_numpy, self.lanes.row(row)))

    def split(self, batch: Batch) -> list[Batch]:
        """Split a row that does not fit into memory into two of half the lanes."""
        half = len(batch.inputs) // 2
        if not half:
            return [batch]
        upper = replace(batch, inputs=batch.inputs[:half], labels=batch.labels[:half])
        lower = replace(batch, first=batch.first + half, inputs=batch.inputs[half:], labels=batch.labels[half:])
        return [upper, lower]

    def step(self, batch: Batch, part: str) -> Step:
        """Return the cross-entropy of a window, summed, with the final state of the previous row as the initial one."""
        batch = batch.to(self.model.bias.device)
        lanes = slice(batch.first, batch.first + len(batch.inputs))
        features, after = self.model(batch.inputs, self._initial_state(batch.row)[lanes])
        loss = sum_cross_entropy(self.model, features, batch.labels)
        sound = after.detach().isfinite().flatten(1).all(1)[:, None, None]
        self._lane_state[lanes] = torch.where(sound, after.detach(), 0.0)  # a broken lane starts anew
        count = batch.labels.numel()
        return Step(loss=loss, weight=count, counts={"tokens": count})

    def _initial_state(self, row: int) -> Float[Tensor, "lanes parts width"]:
        """Return the initial states of a row, the same if it is repeated: zeros at the start of an epoch.

        A step that does not fit into memory is repeated from its first row: the initial states of later rows are void.
        """
        oldest = row - self.recipe.training.accumulate
        self._begun = {begun_row: state for begun_row, state in self._begun.items() if oldest < begun_row <= row}
        if row not in self._begun:
            fresh = row % self.rows == 0
            self._begun[row] = torch.zeros_like(self._lane_state) if fresh else self._lane_state.clone()
        return self._begun[row]

    @property
    def _lane_state(self) -> Tensor:
        """Return the state of every lane after the last row."""
        return self.model.get_buffer(LANE_STATE)

    def evaluate(self, spread: Spread = alone) -> Evaluation:
        """Evaluate on the whole held-out text in one pass with a carried state, and generate sample texts."""
        text_surprisal = measure_surprisal(self.model, self.texts.valid)
        metrics = {"loss": text_surprisal.loss, "nats_per_character": text_surprisal.per_character}
        if self.recipe.tokenizer.kind == "words":
            metrics["perplexity"] = text_surprisal.perplexity
        prompt_field = {"prompt": prompt} if (prompt := self.recipe.writing.prompt) else {}
        return Evaluation(metrics, [{**prompt_field, "text": sample.text} for sample in self.writer().write()])

    def writer(self) -> Writer:
        """Return a writer with the current model."""
        return Writer(self.model, self.texts.tokenizer, self.recipe.writing)

    def contents(self) -> dict[str, Any]:
        """Return the files of a checkpoint besides weights and metrics."""
        recipe = config.plain(self.recipe)
        settings = {name: recipe[name] for name in ("task", "model", "tokenizer", "writing")}
        return {
            "config.yaml": {"format": 1, **settings},
            "tokenizer.json": self.texts.tokenizer.json(),
            "README.md": _card(self.recipe, self.texts),
        }


def _load_tokenizer(checkpoint: Checkpoint | None) -> Tokenizer | None:
    """Return the tokenizer of a checkpoint, which a run keeps; None without a checkpoint."""
    if checkpoint is None:
        return None
    settings = read_text_settings(checkpoint.config.get("tokenizer")).items()
    shared = {name: value for name, value in settings if name in UnitsConfig.__dataclass_fields__}
    how = config.build(UnitsConfig, shared, where="tokenizer")
    return Tokenizer.parse(checkpoint.text("tokenizer.json"), how)


def _card(recipe: LanguageRecipe, texts: Texts) -> str:
    learnt = f"trained with Regard on {texts.train.characters:,} characters"
    return model_card(
        "A language model",
        f"{recipe.model.phrase}, {recipe.model.vocab} {recipe.tokenizer.kind}, {learnt}.",
        command="regard generate DIRECTORY",
        code='write("A beginning")',
        files=[file.path for file in recipe.data.train],
    )
