"""Tasks on plain text as small as tests need them, with weights that every path feels."""

from __future__ import annotations

from typing import Any

import torch

from regard import models, recipe
from tests.models.families import shaken

LINES = ["the old wolf sleeps", "a dog", "why", "the horse runs, the dog sleeps", "an old dog runs after the wolf"]
SIZES = {"width": 16, "heads": 2, "hidden": 24, "context": 12, "dropout": 0.3}
BODIES = {
    "causal-lm": {"depth": 1},
    "masked-lm": {"depth": 1},
    "span-corruption": {"depth": 6, "encoder": 1, "decoder": 1},
}


def settings(task: str, *changes: str, **data: Any) -> dict[str, Any]:
    """A recipe of this task on a few lines, each a document; characters, and windows of 12 of them."""
    text = {} if "train" in data else {"text": "\n".join(LINES * 2)}
    laid = {"document": "line", "duplicates": "keep", "validation_share": 0.0, "context": 12, "batch_size": 4}
    return recipe.settings(
        {
            "task": task,
            "data": {**text, **laid, **data},
            "tokenizer": {"kind": "characters"},
            "model": {**SIZES, **BODIES[task]},
            **({"writing": {"length": 4}} if task == "causal-lm" else {}),
            "training": {"device": "cpu", "threads": 1, "tensorboard": False},
        },
        *changes,
    )


def made(task: str, *changes: str, double: bool = False, **data: Any) -> Any:
    """The task itself, its model neither trained nor at rest: weights are large, dropout is off."""
    asked = settings(task, *changes, **data)
    kind, found = recipe.resolve(asked)
    prepared = kind.prepare(found, None)
    found = kind.resolve(asked, prepared)
    torch.manual_seed(0)
    model = shaken(models.build(found.model))
    return kind(found, prepared, model.double() if double else model)
