"""A tiny model of every task, trained for one step: what it answers is nonsense, how it reads files is not."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock

from regard import recipe
from tests.tasks.every import lines

ONE_STEP = {
    "steps": 1,
    "log_every": 1,
    "eval_every": 1,
    "save_every": 1,
    "threads": 1,
    "device": "cpu",
    "tensorboard": False,
}

CHANGES = {"causal-lm": {"tokenizer": {"kind": "bpe", "vocab": 300}}}  # of bytes, so that it can be given any text


def train_tiny(settings: Mapping[str, Any], out: Path) -> Path:
    """Train a model for one step and return its run folder."""
    return recipe.train({**settings, "training": ONE_STEP}, out=out, quiet=True).folder


def train_every_task(place: Path) -> dict[str, Path]:
    """Train a tiny model of every task and return the run folders by task."""
    (place / "data").mkdir(parents=True)
    return {
        task: train_tiny({"task": task, **line.settings, **CHANGES.get(task, {})}, place / "runs" / task)
        for task, line in lines(place / "data").items()
    }


def share(place: Path) -> dict[str, Path]:
    """Return the tiny models that lie in a folder; the first of several processes that asks trains them."""
    with FileLock(f"{place}.lock"):
        if not (place / "complete").exists():
            train_every_task(place)
            (place / "complete").touch()
    return {folder.name: folder for folder in sorted((place / "runs").iterdir())}


def shared_folder(base: Path) -> Path:
    """Return the folder that all workers of a test run share, given the temporary folder of this one."""
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
