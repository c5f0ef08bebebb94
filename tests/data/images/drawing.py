"""Small pictures on disk for tests: classes that differ by colour."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

COLOURS = {"blue": (30, 30, 200), "green": (30, 200, 30), "red": (200, 30, 30)}


def draw(label: str, seed: int, height: int = 20, width: int = 24) -> np.ndarray:
    """A noisy picture of a class."""
    noise = np.random.default_rng([seed, *COLOURS[label]]).normal(0, 30, (height, width, 3))
    return np.clip(np.array(COLOURS[label]) + noise, 0, 255).astype(np.uint8)


def fill(root: Path, count: int = 6, labels: tuple[str, ...] = tuple(COLOURS), *, first: int = 0) -> Path:
    """A folder for each class with so many pictures."""
    for label in labels:
        (root / label).mkdir(parents=True, exist_ok=True)
        for number in range(first, first + count):
            Image.fromarray(draw(label, number)).save(root / label / f"{number:02}.png")
    return root
