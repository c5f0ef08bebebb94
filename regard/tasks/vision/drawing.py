"""Learning from pictures that are drawn on demand: what localisation and counting share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from regard import config
from regard.attention.hardware import device_of
from regard.data.examples import Examples
from regard.tasks.vision import drawn
from regard.training.task import Task


@dataclass(frozen=True)
class Albums:
    """Pictures that are drawn on demand, to learn from and to measure on."""

    train: Any
    valid: Any

    @property
    def summary(self) -> list[str]:
        """What there is to draw from."""
        train, valid = (len(album.glyphs.labels) for album in (self.train, self.valid))
        return [f"drawn on demand from handwritten digits: {train:,} to train on, {valid:,} to measure on"]

    @property
    def report(self) -> dict[str, Any]:
        """What is learnt from and measured on, as JSON."""
        return {"train": self.train.report, "valid": self.valid.report}


@dataclass(frozen=True, kw_only=True)
class PictureOptions:
    """Whatever may be set when a picture is looked at."""

    invert: bool = False
    """The picture is dark on bright: turn its shades round."""


def fresh_pictures(trained: Any, kind: type, count: int, files: Sequence[Any]) -> Examples:
    """Pictures drawn as those it was trained on, which neither training nor the choice of weights has seen."""
    if files:
        raise ValueError(f"{trained.name} is measured on pictures that are drawn for it: give no files")
    if count < 1:
        raise ValueError(f"count {count}: there is nothing to measure on, give 1 or more")
    if not trained.data:
        raise ValueError(f"{trained.name} does not say what its pictures were like (an older model): train it again")
    drawn_as: Any = config.build(kind, trained.data, where="data")
    return drawn.album(drawn_as, "valid").examples(range(drawn_as.valid, drawn_as.valid + count))


class Drawing(Task):
    """The task of learning from drawn pictures; what is asked of them is for the tasks below to say."""

    unit: ClassVar[str]
    """What an example is called."""
    shared: ClassVar[bool] = True

    def __init__(self, recipe: Any, albums: Albums, model: Any, *, fixed: bool = False) -> None:
        if recipe.training.epochs is not None:
            raise ValueError("training.epochs: nothing that is drawn comes twice, give training.steps")
        self.recipe, self.model, self.albums = recipe, model, albums
        self.rows = recipe.training.steps * recipe.training.accumulate  # nothing comes twice: the run is one epoch
        self.valid = albums.valid.examples(range(recipe.data.valid))
        self.features = recipe.data.batch * recipe.data.size**2 * recipe.model.channels[0]
        self.notes: list[str] = []

    @staticmethod
    def prepare(recipe: Any, known: Any = None) -> Albums:
        """What to draw from."""
        return Albums(drawn.album(recipe.data, "train"), drawn.album(recipe.data, "valid"))

    @staticmethod
    def default_settings(recipe: Any, albums: Albums) -> dict[str, Any]:
        """Nothing: there are as many pictures as one wishes."""
        return {}

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return device_of(self.model)

    def batch(self, row: int) -> Examples:
        """Examples that no other row has."""
        size = self.recipe.data.batch
        return self.albums.train.examples(range(row * size, (row + 1) * size))

    def origins(self, batch: Examples) -> list[str]:
        """What to call these examples."""
        return [f"{self.unit} {number}" for number in batch.numbers]

    def contents(self) -> dict[str, Any]:
        """What a checkpoint directory holds beside weights and metrics."""
        recipe = config.plain(self.recipe)
        kept = {name: recipe[name] for name in ("task", "model", "data")}
        return {"config.yaml": {"format": 1, **kept}, "README.md": self.card()}

    def card(self) -> str:
        """What a stranger should know about the model, in a few lines."""
        raise NotImplementedError
