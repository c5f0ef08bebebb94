"""Learning from pictures that are drawn on demand: what localisation and counting share."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import nn

from regard import config
from regard.data.examples import Examples
from regard.tasks.vision import drawn


class Drawing:
    """The task of learning from drawn pictures; what is asked of them is for the tasks below to say."""

    unit: ClassVar[str]
    """What an example is called."""

    def __init__(self, recipe: Any, model: Any) -> None:
        self.recipe, self.model = recipe, model
        self.album = drawn.album(recipe.data, "train")
        self.held = drawn.album(recipe.data, "valid")
        self.rows = recipe.training.steps * recipe.training.accumulate  # nothing comes twice: the run is one epoch
        self.valid = self.held.examples(range(recipe.data.valid))

    @property
    def report(self) -> dict[str, Any]:
        """What is learnt from and measured on, as JSON."""
        return {"train": self.album.report, "valid": self.held.report}

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def parts(self) -> dict[str, list[nn.Parameter]]:
        """One set of weights, one optimizer."""
        return {"model": list(self.model.parameters())}

    def batch(self, row: int) -> Examples:
        """Examples that no other row has."""
        size = self.recipe.data.batch
        return self.album.examples(range(row * size, (row + 1) * size))

    def split(self, batch: Examples) -> list[Examples]:
        """A row that does not fit the memory, in halves."""
        return batch.halves()

    def origins(self, batch: Examples) -> list[str]:
        """What to call these examples."""
        return [f"{self.unit} {number}" for number in batch.numbers]

    def contents(self) -> dict[str, Any]:
        """What a checkpoint directory holds beside weights and metrics."""
        recipe = config.plain(self.recipe)
        kept = {name: recipe[name] for name in ("task", "model")}
        return {"config.yaml": {"format": 1, **kept}, "README.md": self.card()}

    def card(self) -> str:
        """What a stranger should know about the model, in a few lines."""
        raise NotImplementedError
