"""Training on scenes that are drawn on demand: the code shared by localisation and counting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from regard import config
from regard.attention.hardware import device_of
from regard.data.examples import Examples
from regard.tasks.scenes import digit_scenes
from regard.training.task import Task


@dataclass(frozen=True)
class SceneSplits:
    """Training and validation scenes, drawn on demand."""

    train: Any
    valid: Any

    @property
    def summary(self) -> list[str]:
        """The numbers of glyphs to draw from, as a line for the log."""
        train, valid = (len(split.glyphs.labels) for split in (self.train, self.valid))
        return [f"drawn on demand from handwritten digits: {train:,} to train on, {valid:,} to measure on"]

    @property
    def report(self) -> dict[str, Any]:
        """Descriptions of both datasets, as JSON."""
        return {"train": self.train.report, "valid": self.valid.report}


@dataclass(frozen=True, kw_only=True)
class ShadesOptions:
    """Options of reading images of shades."""

    invert: bool = False
    """The picture is dark on bright: turn its shades round."""


def draw_test_examples(trained: Any, config_class: type, count: int, files: Sequence[Any]) -> Examples:
    """Draw new scenes like those of training, used neither for training nor for validation."""
    if files:
        raise ValueError(f"{trained.name} is measured on pictures that are drawn for it: give no files")
    if count < 1:
        raise ValueError(f"count {count}: there is nothing to measure on, give 1 or more")
    if not trained.data:
        raise ValueError(f"{trained.name} does not say what its pictures were like (an older model): train it again")
    scene_config: Any = config.build(config_class, trained.data, where="data")
    scenes = digit_scenes.scene_dataset(scene_config, "valid")
    return scenes.examples(range(scene_config.valid, scene_config.valid + count))


class SceneTask(Task):
    """Base class of tasks that train on drawn scenes."""

    unit: ClassVar[str]
    """Name of an example in messages."""
    shared: ClassVar[bool] = True

    def __init__(self, recipe: Any, splits: SceneSplits, model: Any, *, fixed: bool = False) -> None:
        if recipe.training.epochs is not None:
            raise ValueError("training.epochs: nothing that is drawn comes twice, give training.steps")
        self.recipe, self.model, self.splits = recipe, model, splits
        self.rows = recipe.training.steps * recipe.training.accumulate  # no scene is repeated: the run is one epoch
        self.valid = splits.valid.examples(range(recipe.data.valid))
        self.features = recipe.data.batch_size * recipe.data.size**2 * recipe.model.channels[0]
        self.notes: list[str] = []

    @staticmethod
    def prepare(recipe: Any, parent: Any = None) -> SceneSplits:
        """Return the training and validation scenes."""
        train, valid = (digit_scenes.scene_dataset(recipe.data, part) for part in digit_scenes.SPLITS)
        return SceneSplits(train, valid)

    @staticmethod
    def default_settings(recipe: Any, splits: SceneSplits) -> dict[str, Any]:
        """Return no defaults: the number of scenes is unlimited."""
        return {}

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return device_of(self.model)

    def batch(self, row: int) -> Examples:
        """Return the scenes of a row; no two rows share one."""
        size = self.recipe.data.batch_size
        return self.splits.train.examples(range(row * size, (row + 1) * size))

    def origins(self, batch: Examples) -> list[str]:
        """Return the names of these examples, for error messages."""
        return [f"{self.unit} {number}" for number in batch.numbers]

    def contents(self) -> dict[str, Any]:
        """Return the checkpoint files other than weights and metrics."""
        recipe = config.plain(self.recipe)
        settings = {name: recipe[name] for name in ("task", "model", "data")}
        return {"config.yaml": {"format": 1, **settings}, "README.md": self.card()}

    def card(self) -> str:
        """Return the model card."""
        raise NotImplementedError
