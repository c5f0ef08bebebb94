"""Pictures that a small generator learns in seconds: upright and flat bars, at any place and of any shade."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

SIZE = 8


def write(path: Path, count: int = 200, *, size: int = SIZE, channels: int = 1, seed: int = 0) -> Path:
    """So many of them as an .npz file."""
    draw, labels = np.random.default_rng(seed), np.arange(count) % 2
    pictures = np.zeros((count, size, size), np.uint8)
    for number, label in enumerate(labels):
        at, shade = draw.integers(0, size - 1), draw.integers(150, 256)
        place = (slice(at, at + 2), slice(None)) if label else (slice(None), slice(at, at + 2))
        pictures[number][place] = shade
    shown = pictures if channels == 1 else np.repeat(pictures[..., None], channels, -1)
    np.savez(path, pictures=shown, labels=np.array(["upright", "flat"])[labels])
    return path


def settings(path: Path, **training: Any) -> dict[str, Any]:
    """A small GAN."""
    brief = {"steps": 2, "eval_every": 2, "save_every": 50, "log_every": 10, "ema": 0.98, "threads": 1}
    return {
        "task": "gan",
        "data": {"train": {"path": str(path)}, "batch_size": 16},
        "model": {"widths": [16, 8], "noise": 8},
        "objective": {"eval_examples": 60},
        "optim": {"discriminator": {"learning_rate": 2e-3}, "generator": {"learning_rate": 1e-3}},
        "training": {**brief, "device": "cpu", "tensorboard": False, **training},
    }


def flat(picture: np.ndarray) -> bool:
    """Whether rows of a picture differ more than its columns."""
    shades = picture.reshape(-1, *picture.shape[-2:]).mean(0) / 255
    return bool(shades.mean(1).var() > shades.mean(0).var())
