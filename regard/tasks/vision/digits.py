"""Drawn digits as a file of labelled pictures with boxes: to train a classifier on, and to judge its maps by."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from regard.tasks.vision import drawn
from regard.tasks.vision.drawn import PictureConfig

NAME = "digits.npz"
TESTED = 10  # a picture to test on for so many to learn from


def write(folder: Path, *, count: int, size: int | None = None, digits: str | None = None, seed: int = 0) -> Path:
    """So many pictures to learn from and a tenth as many to test on, with the labels and boxes of both.

    They are drawn as localisation draws them; none to test on is among those that one is trained on or chosen by.
    """
    usual = PictureConfig()
    size = size or usual.size
    smallest, largest = (max(5, round(size * each / usual.size)) for each in (usual.smallest, usual.largest))
    config = PictureConfig(digits=digits, size=size, smallest=smallest, largest=largest, seed=seed)
    numbers = {"train": range(count), "valid": range(config.valid, config.valid + max(1, count // TESTED))}
    arrays: dict[str, np.ndarray] = {}
    for part, name in (("train", "train"), ("valid", "test")):
        pictures, labels, boxes = (each.numpy() for each in drawn.album(config, part).examples(numbers[part]).parts)
        arrays[f"{name}_pictures"] = np.rint(255 * pictures).astype(np.uint8)
        arrays |= {f"{name}_labels": labels, f"{name}_boxes": boxes}
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / NAME, allow_pickle=False, **arrays)
    return folder / NAME
