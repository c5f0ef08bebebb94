"""Training of MOMA or DeePROG to classify samples described by several tables.

Features are scaled to mean 0 and standard deviation 1 over the training samples.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from math import ceil
from typing import Any, ClassVar, Literal

import torch

from regard import config
from regard.attention.hardware import device_of
from regard.checkpoint import Checkpoint
from regard.config.resuming import Fingerprinted, Fixed
from regard.data.examples import Examples, spread_over_classes
from regard.models.omics import DeePROGConfig, MOMAConfig
from regard.tasks.model_card import model_card
from regard.tasks.omics import samples as sample_data
from regard.tasks.omics.classifier import OMICS, OmicsClassifier, read_omics
from regard.tasks.omics.files import OmicsConfig
from regard.tasks.omics.recognition import recognise
from regard.tasks.omics.samples import OmicsData
from regard.training.loop import TrainingConfig
from regard.training.optim import OptimConfig
from regard.training.pace import default_run_length, power_of_two_below, round_between
from regard.training.task import Evaluation, Goal, Spread, Step, Task, TraceInput, alone

SHOWN = 4


@dataclass(frozen=True, kw_only=True)
class OmicsRecipe:
    """A training run of a classifier of samples from tables of omics."""

    task: Fixed[Literal["omics"]] = "omics"
    """What is learnt."""
    data: Fingerprinted[OmicsConfig]
    """Which tables, and the labels of their samples."""
    model: Fixed[MOMAConfig | DeePROGConfig] = field(default_factory=MOMAConfig)
    """Which model, and its size."""
    optim: OptimConfig = field(default_factory=OptimConfig)
    """The optimizer and its learning rate."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """How long, how often, where."""


class OmicsClassification(Task):
    """The task of classifying samples of several omics."""

    Recipe = OmicsRecipe
    usage: ClassVar[str] = "regard predict {folder} TABLE..."
    shared: ClassVar[bool] = True
    recognise = staticmethod(recognise)

    def __init__(self, recipe: OmicsRecipe, prepared: OmicsData, model: Any, *, fixed: bool = False) -> None:
        self.recipe, self.prepared, self.model = recipe, prepared, model
        self.goal: Goal | None = ("loss", "min") if prepared.has_validation else None
        self.rows = prepared.rows(recipe.data.batch_size)
        train = prepared.train
        assert train.targets is not None
        self.values, self.present = torch.from_numpy(prepared.omics.scale(train)), torch.from_numpy(train.present)
        self.targets = torch.from_numpy(train.targets)
        self.features = recipe.data.batch_size * sum(recipe.model.inputs)
        self.notes: list[str] = []

    @staticmethod
    def prepare(recipe: OmicsRecipe, parent: Checkpoint | None = None) -> OmicsData:
        """Read the tables; a parent model determines features, scales and classes."""
        omics = None if parent is None or OMICS not in parent.files else read_omics(parent)
        return sample_data.prepare(recipe.data, omics)

    @staticmethod
    def default_settings(recipe: OmicsRecipe, prepared: OmicsData) -> dict[str, Any]:
        """Choose batch size and training length for a dataset of this size."""
        sample_count = len(prepared.train)
        batch = round_between(8, power_of_two_below(sample_count / 3), 256)
        rows = ceil(sample_count / batch)
        steps = round_between(200, 50 * rows, 10_000)
        return {
            "data": {"batch_size": batch},
            "optim": {"name": "adamw", "learning_rate": 0.001, "weight_decay": 0.1, "schedule": "cosine"},
            "training": default_run_length(recipe.training, rows=rows, steps=steps, patience=20),
        }

    @staticmethod
    def fill_sizes(recipe: OmicsRecipe, prepared: OmicsData) -> OmicsRecipe:
        """Return the recipe with the number of features of each omic and the number of classes."""
        omics = prepared.omics
        return replace(recipe, model=replace(recipe.model, inputs=omics.sizes, classes=len(omics.classes)))

    def batch(self, row: int) -> Examples:
        """Return the samples of a row; an epoch has each sample once."""
        data = self.recipe.data
        numbers = self.prepared.row(row, batch=data.batch_size, seed=data.seed)
        return Examples(numbers.tolist(), (self.values[numbers], self.present[numbers], self.targets[numbers]))

    def origins(self, batch: Examples) -> list[str]:
        """Return the names of these samples, for error messages."""
        return [f"sample {self.prepared.train.names[number]}" for number in batch.numbers]

    def step(self, batch: Examples, part: str) -> Step:
        """Return the loss of all outputs, summed over the samples."""
        values, present, targets = batch.to(device_of(self.model)).parts
        loss = self.model(values, present).loss(targets).sum()
        return Step(loss=loss, weight=len(batch), counts={"samples": len(batch)})

    def evaluate(self, spread: Spread = alone) -> Evaluation:
        """Score the predictions for validation samples."""
        valid, classifier = self.prepared.valid, self.classifier()
        metrics = classifier.scores(valid)
        assert valid.targets is not None
        rows = spread_over_classes(valid.targets.tolist(), SHOWN)
        answers = classifier.answer([valid.select([row]) for row in rows])
        classes = self.prepared.omics.classes
        samples = [
            {"sample": answer.sample, "truth": classes[int(truth)], "answer": answer.label}
            for answer, truth in zip(answers, valid.targets[rows], strict=True)
        ]
        return Evaluation(metrics, samples)

    def trace_inputs(self, count: int) -> list[TraceInput]:
        """Return validation samples of different classes."""
        valid = self.prepared.valid
        assert valid.targets is not None
        rows = spread_over_classes(valid.targets.tolist(), count)
        return [TraceInput(valid.select([row]), f"sample {valid.names[row]}") for row in rows]

    def classifier(self) -> OmicsClassifier:
        """Return the model with its current weights as a classifier."""
        return OmicsClassifier(self.model, self.prepared.omics)

    def contents(self) -> dict[str, Any]:
        """Return the checkpoint files other than weights and metrics."""
        recipe = config.plain(self.recipe)
        settings = {name: recipe[name] for name in ("task", "model")}
        omics = config.plain(asdict(self.prepared.omics))
        return {"config.yaml": {"format": 1, **settings}, OMICS: omics, "README.md": _card(self.recipe, self.prepared)}


def _card(recipe: OmicsRecipe, prepared: OmicsData) -> str:
    omics = prepared.omics
    sizes = ", ".join(f"{name} ({size} features)" for name, size in zip(omics.names, omics.sizes, strict=True))
    names = ", ".join(omics.classes[:8])
    return model_card(
        f"Tells {names}",
        f"From tables of {sizes}, of which one may be missing. A model called {recipe.model.name}, trained with Regard "
        f"on {len(prepared.train):,} samples. It was made to study such models, not to decide about patients.",
        command=f"regard predict DIRECTORY {' '.join(f'{name}.csv' for name in omics.names)}",
        code=f"predict({', '.join(f'{name}.csv'.__repr__() for name in omics.names)})",
    )
