"""A little language whose words fall into classes: a word may be replaced by any of its class, and by no other."""

import random
from pathlib import Path
from typing import Any

CLASSES = [[f"{name}{number}" for number in "abcd"] for name in ("noun", "verb", "colour", "place", "time", "food")]
ORDERS = ([2, 0, 1, 3], [0, 1, 5, 4], [4, 2, 0, 1], [1, 3, 0], [5, 2, 3, 4])


def write(path: Path, lines: int = 3000) -> Path:
    """A text of that language."""
    chance = random.Random(0)
    with path.open("w", encoding="utf-8") as file:
        for _ in range(lines):
            order = chance.choice(ORDERS)
            file.write(" ".join(chance.choice(CLASSES[kind]) for kind in order) + "\n")
    return path


def recipe(path: Path, **model: Any) -> dict[str, Any]:
    """Settings that learn it in a second or two."""
    return {
        "task": "word2vec",
        "data": {"train": {"path": str(path)}},
        "model": {"width": 16, "window": 3, "sample": None, **model},
        "optim": {"learning_rate": 0.1},
        "training": {"epochs": 4, "threads": 1, "tensorboard": False, "log_every": 1},
    }


def purity(vectors: Any) -> float:
    """How many of the three nearest words are of a word's own class."""
    hits = [near in kind for kind in CLASSES for word in kind for near, _ in vectors.similar(word, count=3)]
    return sum(hits) / len(hits)
