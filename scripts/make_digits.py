"""Draw docs/pictures/located.png and docs/pictures/frames.png: what trained models answer about drawn digits.

    python scripts/make_digits.py runs/locate-digits runs/count-digits runs/count-alone

The runs are those of recipes/locate-digits.yaml and of recipes/count-digits.yaml with and without a memory. None of the
pictures was learnt from.
"""

import argparse
from pathlib import Path
from typing import Any

import matplotlib

import regard
from regard.tasks.scenes import digit_scenes
from regard.tasks.scenes.digit_scenes import DigitFramesConfig, DigitImageConfig

FOLDER = Path(__file__).parent.parent / "docs" / "pictures"
TRUTH, ANSWER = "#4caf50", "#f44336"


def main() -> None:
    """Ask the models, draw what they say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    for name in ("locator", "counter", "alone"):
        parser.add_argument(name, type=Path, help="a run folder")
    runs = parser.parse_args()
    matplotlib.use("Agg")
    located(regard.load(runs.locator, task="localisation"), FOLDER / "located.png")
    counter, alone = (regard.load(folder, task="counting") for folder in (runs.counter, runs.alone))
    frames(counter, alone, FOLDER / "frames.png")


def located(locator: Any, path: Path) -> None:
    """Held-out pictures with the true box and the one found."""
    import matplotlib.pyplot as plt
    from matplotlib.patches import Rectangle

    album = digit_scenes.scene_dataset(DigitImageConfig(), "valid")
    shown = [album[number] for number in range(16)]
    places = locator.locate([each.image for each in shown])
    figure, axes = plt.subplots(2, 8, figsize=(10, 2.9))
    for axis, each, place in zip(axes.flat, shown, places, strict=True):
        axis.imshow(each.image, cmap="gray", vmin=0, vmax=1, extent=(0, 48, 48, 0))
        for (left, top, right, bottom), colour in ((each.box * 48, TRUTH), (place.box, ANSWER)):
            axis.add_patch(Rectangle((left, top), right - left, bottom - top, fill=False, color=colour))
        axis.set_title(
            f"{each.label}: {place.label}", fontsize=9, color="black" if each.label == place.label else ANSWER
        )
        axis.set_axis_off()
    _save(figure, path)


def frames(counter: Any, alone: Any, path: Path) -> None:
    """Held-out sequences with three rows of counts under them."""
    import matplotlib.pyplot as plt

    album = digit_scenes.scene_dataset(DigitFramesConfig(), "valid")
    chosen = [number for number in range(60) if (album[number].visible_counts < album[number].counts).sum() >= 4][:3]
    figure, axes = plt.subplots(len(chosen), 8, figsize=(10, 1.6 * len(chosen)))
    for line, number in zip(axes, chosen, strict=True):
        pictures, counts, _ = album[number]
        answers = [[each.count for each in model.count(list(pictures))] for model in (counter, alone)]
        for axis, picture, *numbers in zip(line, pictures, counts, *answers, strict=True):
            axis.imshow(picture, cmap="gray", vmin=0, vmax=1)
            axis.set_axis_off()
            for place, value in enumerate(numbers):
                colour, at = "black" if value == numbers[0] else ANSWER, 0.3 + 0.2 * place
                axis.text(at, -0.16, str(value), color=colour, fontsize=10, ha="center", transform=axis.transAxes)
    figure.supxlabel("under each frame: digits there, answer with a GRU, answer without a memory", fontsize=9)
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    figure.tight_layout(pad=0.4)
    figure.savefig(path, dpi=80)
    from PIL import Image

    with Image.open(path) as picture:  # grey shades and two colours: a palette halves the file
        picture.convert("RGB").quantize(64, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
