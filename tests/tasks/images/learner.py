"""A task with its data and a new model, as a run has it before its first step."""

from __future__ import annotations

from typing import Any

import torch

from regard import models, recipe
from regard.tasks.images.task import ImageClassification


def learner(settings: dict[str, Any]) -> ImageClassification:
    """What these settings train, always from the same weights."""
    task, found = recipe.resolve(settings)
    data = task.prepare(found, None)
    found = task.resolve(settings, data)
    torch.manual_seed(0)
    return task(found, data, models.build(found.model))
