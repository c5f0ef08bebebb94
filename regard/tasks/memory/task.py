"""Training of a Neural Turing Machine or a recurrent network to remember sequences of bits."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from torch import Tensor
from torch.nn import functional as F

from regard import config
from regard.attention.hardware import device_of
from regard.config.resuming import Fingerprinted, Fixed
from regard.config.words import quantity
from regard.data.examples import sample_evenly
from regard.models.ntm import NTMConfig
from regard.models.per_step import PerStepConfig
from regard.tasks.memory.notation import SequenceInput, format_bits, format_input
from regard.tasks.memory.sequences import (
    VALID,
    Sequences,
    SequencesConfig,
    build_sequences,
    draw_for_part,
    training_batch,
)
from regard.tasks.model_card import model_card
from regard.training.loop import TrainingConfig
from regard.training.optim import OptimConfig
from regard.training.task import Evaluation, Goal, Spread, Step, Task, TraceInput, alone

LENGTHS = 8  # most different lengths of validation sequences
SHOWN = 4


@dataclass(frozen=True, kw_only=True)
class MemoryRecipe:
    """A training run of a model that remembers sequences."""

    task: Fixed[Literal["remembering"]] = "remembering"
    """What is learnt."""
    data: Fingerprinted[SequencesConfig] = field(default_factory=SequencesConfig)
    """What is drawn."""
    model: Fixed[NTMConfig | PerStepConfig] = field(default_factory=NTMConfig)
    """Its memory and its size."""
    optim: OptimConfig = field(default_factory=OptimConfig)
    """The optimizer and its learning rate."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """How long, how often, where."""


class Memory(Task):
    """The task of reproducing sequences that were read before."""

    Recipe = MemoryRecipe
    usage: ClassVar[str] = "regard predict {folder} --length 3"
    shared: ClassVar[bool] = True
    goal: Goal = ("loss", "min")

    def __init__(self, recipe: MemoryRecipe, data: SequencesConfig, model: Any, *, fixed: bool = False) -> None:
        if recipe.training.epochs is not None:
            raise ValueError("training.epochs: nothing that is drawn comes twice, give training.steps")
        self.recipe, self.data, self.model = recipe, data, model
        self.rows = recipe.training.steps * recipe.training.accumulate  # no sequence is repeated: the run is one epoch
        self.valid = draw_validation_batches(data)
        self.features = data.batch_size * recipe.model.width * 4
        self.notes = [f"{quantity(sum(map(len, self.valid)), 'sequence')} to measure on"]

    @staticmethod
    def prepare(recipe: MemoryRecipe, parent: Any = None) -> SequencesConfig:
        """Return the settings of the sequences, which are drawn on demand."""
        return recipe.data

    @staticmethod
    def default_settings(recipe: MemoryRecipe, data: SequencesConfig) -> dict[str, Any]:
        """Return no defaults: the number of sequences is unlimited."""
        return {}

    @staticmethod
    def fill_sizes(recipe: MemoryRecipe, data: SequencesConfig) -> MemoryRecipe:
        """Return the recipe with the number of inputs and outputs per step."""
        check_memory_size(recipe.model, data, data.max_length, where="data.max_length: ")
        return replace(recipe, model=replace(recipe.model, inputs=data.inputs, outputs=data.outputs))

    def batch(self, number: int) -> Sequences:
        """Return the sequences of a row, drawn from the seed and the number of the row."""
        return training_batch(self.data, number)

    def step(self, batch: Sequences, part: str) -> Step:
        """Return the cross-entropy summed over all scored bits."""
        batch = batch.to(device_of(self.model))
        weight = batch.scored.sum() * batch.targets.shape[-1]
        return Step(loss=bit_loss(self.model(batch.inputs), batch), weight=weight, counts={"sequences": len(batch)})

    def evaluate(self, spread: Spread = alone) -> Evaluation:
        """Measure loss, share of wrong bits and share of right sequences on validation sequences."""
        sums = spread(self._measure, self.valid)
        loss, wrong, right_count, bits, count = (sum(column) for column in zip(*sums, strict=True))
        metrics = {"loss": loss / bits, "bit_errors": wrong / bits, "sequences": right_count / count}
        return Evaluation(metrics, self._samples())

    def _measure(self, batch: Sequences) -> list[int | float]:
        """Return sums over a batch: loss, wrong bits, sequences without errors, bits, and sequences."""
        batch = batch.to(device_of(self.model))
        logits = self.model(batch.inputs)
        wrong = count_wrong_bits(logits, batch)
        bits = int(batch.scored.sum()) * batch.targets.shape[-1]
        return [float(bit_loss(logits, batch)), float(wrong.sum()), float((wrong == 0).sum()), bits, len(batch)]

    def _samples(self) -> list[dict[str, Any]]:
        batch = self.valid[-1].to(device_of(self.model))
        answers = (self.model(batch.inputs[:SHOWN]) > 0).float()
        return [
            {"right": format_bits(right[where], self.data.bits), "answer": format_bits(answer[where], self.data.bits)}
            for right, answer, where in zip(batch.targets, answers, batch.scored, strict=False)
        ]

    def trace_inputs(self, count: int) -> list[TraceInput]:
        """Return sequences of validation lengths, none of which is trained on."""
        lengths = sample_evenly(range(self.data.min_length, self.data.max_length + 1), count)
        repeats = min(2, self.data.repeats)
        texts = []
        for length in lengths:
            bits, items = draw_for_part(self.data, VALID, length, count=1, repeats=repeats)
            texts.append(format_input(SequenceInput(bits[0], int(items[0]), repeats), self.data))
        return [TraceInput(text, text) for text in texts]

    def contents(self) -> dict[str, Any]:
        """Return the checkpoint files other than weights and metrics."""
        recipe = config.plain(self.recipe)
        settings = {name: recipe[name] for name in ("task", "model", "data")}
        return {"config.yaml": {"format": 1, **settings}, "README.md": self.card()}

    def card(self) -> str:
        """Return the model card."""
        data, model = self.data, self.recipe.model
        what = {"copy": "Copies", "repeat-copy": "Repeats", "recall": "Recalls from"}[data.kind]
        things = f"items of {data.item} vectors" if data.kind == "recall" else "vectors"
        of = "A Neural Turing Machine" if isinstance(model, NTMConfig) else f"A recurrent network ({model.cell})"
        bits, item = draw_for_part(data, VALID, 2, count=1)
        return model_card(
            f"{what} sequences of bits",
            f"{of}, trained with Regard on random sequences of {data.min_length} to {data.max_length} {things} of "
            f"{data.bits} bits (task: {data.kind}).",
            command="regard predict DIRECTORY --length 3",
            code=f'remember(["{format_input(SequenceInput(bits[0], int(item[0])), data)}"])',
        )


def draw_validation_batches(data: SequencesConfig) -> list[Sequences]:
    """Return one batch of validation sequences per length, from the shortest to the longest, all of equal size."""
    lengths = sample_evenly(range(data.min_length, data.max_length + 1), LENGTHS)
    lengths = sorted({*lengths[:-1], data.max_length})
    count = -(-data.valid // len(lengths))
    repeats = [1 + number * (data.repeats - 1) // max(1, len(lengths) - 1) for number in range(len(lengths))]
    return [
        build_sequences(data, *draw_for_part(data, VALID, length, count=count, repeats=times), repeats=times)
        for length, times in zip(lengths, repeats if data.kind == "repeat-copy" else [1] * len(lengths), strict=True)
    ]


def check_memory_size(model: NTMConfig | PerStepConfig, data: SequencesConfig, length: int, *, where: str = "") -> None:
    """Raise an error if a sequence of this length exceeds the memory."""
    if isinstance(model, NTMConfig) and data.num_vectors(length) > model.places:
        raise ValueError(
            f"{where}a sequence of {data.num_vectors(length)} vectors is longer than the "
            f"memory of {model.places} places: "
            f"{'lower it or raise model.places' if where else 'choose a shorter one'}"
        )


def bit_loss(logits: Tensor, batch: Sequences) -> Tensor:
    """Return the cross-entropy summed over all scored bits."""
    losses = F.binary_cross_entropy_with_logits(logits.float(), batch.targets, reduction="none")
    return (losses * batch.scored[..., None]).sum()


def count_wrong_bits(logits: Tensor, batch: Sequences) -> Tensor:
    """Return the number of wrong bits of each sequence."""
    return (((logits > 0) != (batch.targets > 0.5)) & batch.scored[..., None]).sum((1, 2))
