"""Draw what the spatial transformers of a model cut out of scenes: boxes on the scenes, and the crops below them.

    python scripts/draw_crops.py runs/scattered data/mnist docs/pictures/crops.png

The scenes are the first of those that `regard evaluate` scores the model on.
"""

import argparse
from pathlib import Path

import numpy as np
import torch

import regard
from regard.interpret.draw import plots
from regard.models.spatial_transformer import corners


def main() -> None:
    """Look at some scenes, draw them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("model", type=Path, help="a run or checkpoint whose model is a spatial transformer")
    parser.add_argument("pictures", type=Path, help="labelled pictures that scenes are made of")
    parser.add_argument("out", type=Path, help="the picture to write, such as crops.png")
    parser.add_argument("--count", type=int, default=8, help="scenes in a row")
    given = parser.parse_args()
    trained = regard.load(given.model, device="cpu")
    if not getattr(trained.model, "transformers", None):
        raise SystemExit(f"{given.model} has no spatial transformer: train recipes/scattered.yaml")
    side = trained.read_images(given.pictures)
    pixels = torch.from_numpy(side.pixels(np.arange(min(given.count, len(side)))))
    scaled = trained.normalise(pixels)
    with torch.no_grad():
        maps, cut, answers = trained.model.looks(scaled), trained.model.crops(scaled), trained.model(scaled).argmax(-1)
    truth = [trained.classes[label] for label in side.labels[: len(pixels)]]
    titles = [f"{own}: {trained.classes[answer]}" for own, answer in zip(truth, answers.tolist(), strict=True)]
    plots.save(plots.crops(pixels, corners(maps), cut, titles=titles), given.out)
    print(f"{given.out}: {len(pixels)} scenes, each with its label and the answer")


if __name__ == "__main__":
    main()
