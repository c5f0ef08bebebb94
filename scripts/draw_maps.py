"""Draw every map of a picture classifier beside its controls, or what it finds in pictures that wear a mark.

    python scripts/draw_maps.py runs/cifar10 data/cifar10.npz docs/pictures/maps.png
    python scripts/draw_maps.py runs/marked data/cifar10.npz docs/pictures/mark.png --mark --beside runs/cifar10-resnet

The first asks about one picture of a grid of four, in a box, as `regard judge` does. The second shows
pictures of other classes with the mark of `data.shortcut`, and where each model finds the class that wears it.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import regard
from regard import config
from regard.data.images.shortcut import ShortcutConfig, draw_mark
from regard.interpret.draw import plots
from regard.interpret.measure import map_checks, maps

COLOURS, WIDEST = 96, 1250  # photographs take a megabyte otherwise


def main() -> None:
    """Look, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("model", type=Path)
    parser.add_argument("pictures", type=Path, help="labelled pictures")
    parser.add_argument("out", type=Path, help="the picture to write, such as maps.png")
    parser.add_argument("--count", type=int, default=5, help="rows")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mark", action="store_true", help="pictures with the mark that the model was trained with")
    parser.add_argument("--beside", type=Path, help="a model that was trained without the mark")
    given = parser.parse_args()
    trained = regard.load(given.model, device="cpu")
    side = trained.read_images(given.pictures)
    chosen = np.random.default_rng(given.seed).permutation(len(side))[:1000]
    labels, pixels = torch.from_numpy(np.asarray(side.labels)[chosen]), side.pixels(chosen)
    if given.mark:
        beside = None if given.beside is None else regard.load(given.beside, device="cpu")
        figure = wearing(trained, beside, pixels, labels, given.count)
    else:
        figure = asked(trained, torch.from_numpy(pixels), labels, given.count, given.seed)
    plots.save(figure, given.out)
    if given.out.suffix == ".png":
        with Image.open(given.out) as drawn:
            picture = drawn.convert("RGB")
            if picture.width > WIDEST:
                side = (WIDEST, picture.height * WIDEST // picture.width)
                picture = picture.resize(side, Image.Resampling.LANCZOS)
            few = picture.quantize(COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
            few.save(given.out, optimize=True)  # boxes keep their colour, which a cut by frequency would lose
    print(f"{given.out}: {given.count} rows")


def asked(trained: Any, pixels: torch.Tensor, labels: torch.Tensor, count: int, seed: int) -> Any:
    """Grids of four pictures that are labelled right, each with a question about one of them."""
    with torch.no_grad():
        right = trained.model(trained.normalise(pixels)).argmax(-1) == labels
    shown = map_checks.make_grids(pixels[right], labels[right], count, seed=seed)
    model = map_checks.double_input_size(trained.model)
    scaled = trained.normalise(shown.pixels)
    found = {name: maps.evidence_maps(model, scaled, shown.labels, name) for name in maps.methods(model)}
    first = next(iter(found))
    new = maps.evidence_maps(map_checks.reinitialise_model(model), scaled, shown.labels, first)
    found |= map_checks.control_maps(found[first], new, torch.Generator().manual_seed(seed))
    names = [trained.classes[label] for label in shown.labels.tolist()]
    assert shown.boxes is not None
    return plots.maps(shown.pixels, found, names=names, boxes=shown.boxes.tolist())


def wearing(trained: Any, beside: Any, pixels: np.ndarray, labels: torch.Tensor, count: int) -> Any:
    """Pictures of other classes that wear the mark, and where each model finds the class it was planted in."""
    if not trained.data.get("shortcut"):
        raise SystemExit(f"{trained.name} was trained without a mark: train it with data.shortcut.label=CLASS")
    how = config.build(ShortcutConfig, trained.data["shortcut"], where="data.shortcut")
    kind = trained.classes.index(how.label)
    others = pixels[(labels != kind).numpy()][:count]
    shown = torch.from_numpy(draw_mark(others, how))
    models = {"trained with it": trained} | ({} if beside is None else {"trained without": beside})
    found, question = {}, torch.full((len(shown),), kind)
    for name, one in models.items():
        found[name] = maps.evidence_maps(one.model, one.normalise(shown), question, maps.methods(one.model)[-1])
    answers = trained.logits(shown).argmax(-1).tolist()
    return plots.maps(shown, found, names=[trained.classes[answer] for answer in answers])


if __name__ == "__main__":
    main()
