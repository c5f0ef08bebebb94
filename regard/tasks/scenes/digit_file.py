"""A file of drawn digits with labels and boxes, to train a classifier and evaluate its maps."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from regard.tasks.scenes import digit_scenes
from regard.tasks.scenes.digit_scenes import DigitImageConfig

FILE_NAME = "digits.npz"
TRAINING_PER_TEST = 10  # training images for each test image


def write_digits(
    folder: Path, *, count: int, size: int | None = None, digits: str | None = None, seed: int = 0
) -> Path:
    """Write `count` training images and a tenth as many test images, with labels and boxes.

    They are drawn as in localisation; no test image is one that localisation trains or validates on.
    """
    defaults = DigitImageConfig()
    size = size or defaults.size
    smallest, largest = (
        max(5, round(size * height / defaults.size)) for height in (defaults.smallest, defaults.largest)
    )
    config = DigitImageConfig(digits=digits, size=size, smallest=smallest, largest=largest, seed=seed)
    numbers = {"train": range(count), "valid": range(config.valid, config.valid + max(1, count // TRAINING_PER_TEST))}
    arrays: dict[str, np.ndarray] = {}
    for part, name in (("train", "train"), ("valid", "test")):
        examples = digit_scenes.scene_dataset(config, part).examples(numbers[part])
        images, labels, boxes = (values.numpy() for values in examples.parts)
        arrays[f"{name}_pictures"] = np.rint(255 * images).astype(np.uint8)
        arrays |= {f"{name}_labels": labels, f"{name}_boxes": boxes}
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / FILE_NAME, allow_pickle=False, **arrays)
    return folder / FILE_NAME
