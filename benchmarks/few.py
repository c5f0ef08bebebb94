"""Accuracy of `regard train --few` over several draws of a few texts a class.

python benchmarks/few.py MODEL TRAIN.tsv TEST.tsv --each 8 --draws 10 --contrast off on
"""

from __future__ import annotations

import argparse
import random
import time

import numpy as np

from regard import config, recipe
from regard.tasks.embedding import contrast
from regard.tasks.embedding.embedder import Embedder
from regard.tasks.embedding.few_shot import FewShotConfig
from regard.tasks.embedding.linear import fit
from regard.tasks.text_encoders.examples import read_examples
from regard.tasks.text_encoders.labelled_file import LabelledFile


def main() -> None:
    """One line for every draw, then their mean and spread."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("model", "train", "test"):
        parser.add_argument(name)
    parser.add_argument("--each", type=int, default=8, help="texts of each class")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--contrast", nargs="+", choices=("off", "on"), default=["off", "on"])
    parser.add_argument("--tested", type=int, help="texts to test on, drawn once; all when not given")
    parser.add_argument("--penalty", type=float, default=FewShotConfig.penalty)
    parser.add_argument("--rate", type=float, default=FewShotConfig.learning_rate)
    parser.add_argument("--device", default="cpu")
    asked = parser.parse_args()
    parent = recipe.open_model(asked.model)
    train, test = (read(name) for name in (asked.train, asked.test))
    test = random.Random(0).sample(test, asked.tested) if asked.tested else test
    classes = sorted({label for _, label in train})
    for how in asked.contrast:
        found: list[float] = []
        for draw in range(asked.draws):
            chosen = drawn(train, classes, asked.each, draw)
            if how == "on" or not found:
                embedder = Embedder.load(parent, device=asked.device)
            begun = time.perf_counter()
            texts, labels = [text for text, _ in chosen], np.array([classes.index(label) for _, label in chosen])
            if how == "on":
                contrast.tune(embedder, texts, labels, steps=contrast.plan_steps(len(texts)), rate=asked.rate)
            head = fit(embedder.embed(texts), labels, len(classes), penalty=asked.penalty)
            seconds = time.perf_counter() - begun
            if how == "on" or not found:
                vectors = embedder.embed([text for text, _ in test])
            truth = [classes.index(label) for _, label in test]
            found.append(float((head.probabilities(vectors).argmax(axis=1) == truth).mean()))
            print(f"contrast {how}, draw {draw}: {found[-1]:.2%}, {seconds:.1f} s", flush=True)
        spread = np.std(found, ddof=1)
        print(f"contrast {how}: mean {np.mean(found):.2%}, standard deviation {spread:.2%} of {asked.draws} draws")


def read(name: str) -> list[tuple[str, str]]:
    """Texts with their labels."""
    file = config.build(LabelledFile, {"path": name}, where="file")
    examples = read_examples([file], {}, reject=0.01).examples
    return [(example.texts[0], str(example.labels[0])) for example in examples]


def drawn(train: list[tuple[str, str]], classes: list[str], each: int, seed: int) -> list[tuple[str, str]]:
    """So many texts of every class, the same for a seed."""
    chance = random.Random(seed)
    return [one for name in classes for one in chance.sample([two for two in train if two[1] == name], each)]


if __name__ == "__main__":
    main()
