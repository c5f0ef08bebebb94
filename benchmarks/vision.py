"""Accuracy of the recipes of pictures over seeds, against how many pictures are learnt from, and with tuned weights.

    REGARD_DATA=data python -m benchmarks.vision mnist fashion cifar10 cifar10-resnet --seeds 0 1 2
    REGARD_DATA=data python -m benchmarks.vision cifar10 cifar10-resnet --most 500 5000
    regard import efficientnet-lite0/model.safetensors runs/efficientnet-lite0
    REGARD_DATA=data python -m benchmarks.vision cifar10-tuned --most 500 --from runs/efficientnet-lite0
    REGARD_DATA=data python -m benchmarks.vision scattered scattered-cnn digit-sum digit-sum-one digit-sum-cnn
    python -m benchmarks.vision --table --draw docs/pictures/amounts.png

Every run is `regard train RECIPE` and `regard evaluate` on the test pictures, in Python. Seconds are those of the run,
with reading, compiling, evaluations and checkpoints; `pictures/s` is the median of training alone. The process may end
at any time: what is in the file stays, and a run whose folder is there is resumed; its seconds, marked `resumed`, are
then those of the last part alone.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import regard
from benchmarks import ledger

RECIPES = Path(__file__).parent.parent / "recipes"
TESTS = {  # what is measured on, by the recipe
    "mnist": "mnist",
    "fashion": "fashion-mnist",
    "cifar10": "cifar10.npz",
    "cifar10-resnet": "cifar10.npz",
    "cifar10-tuned": "cifar10.npz",
    "scattered": "mnist",
    "scattered-cnn": "mnist",
    "digit-sum": "mnist",
    "digit-sum-one": "mnist",
    "digit-sum-cnn": "mnist",
}
FEWER: dict[str, dict[int, tuple[str, ...]]] = {  # with few pictures a training is as long as it is of use
    "cifar10": {
        500: ("data.batch_size=128", "training.epochs=null", "training.steps=2500", "optim.warmup=250"),
        5000: ("data.batch_size=512", "training.epochs=null", "training.steps=4000", "optim.warmup=400"),
    },
    "cifar10-resnet": {
        500: (
            "data.batch_size=64",
            "training.epochs=null",
            "training.steps=2500",
            "optim.learning_rate=0.05",
            "optim.warmup=250",
        ),
        5000: (
            "data.batch_size=128",
            "training.epochs=null",
            "training.steps=4000",
            "optim.learning_rate=0.1",
            "optim.warmup=400",
        ),
    },
}
RARELY = ("training.eval_every=500", "training.save_every=100000")  # where steps are few and quick
WHOLE, EVERY = "all", 49_000  # what is left of CIFAR-10 beside the pictures that choose a checkpoint
CURVES = {
    "cifar10": "ViT from nothing",
    "cifar10-resnet": "ResNet-18 from nothing",
    "cifar10-tuned": "EfficientNet-Lite0 that knows ImageNet",
}


def main() -> None:
    """Train and score what is named, then print everything that the file holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*TESTS, []], metavar="RECIPE", help=", ".join(TESTS))
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--most", nargs="*", type=int, default=[], help="learn from so many pictures only")
    parser.add_argument("--from", dest="start", type=Path, help="a model to start from")
    parser.add_argument("--settings", nargs="*", default=[], help="such as training.steps=10")
    parser.add_argument("--label", default="", help="what to call runs with other settings in the table")
    parser.add_argument("--runs", type=Path, default=Path("runs/vision"), help="where runs go")
    parser.add_argument("--out", type=Path, default=Path("vision.json"))
    parser.add_argument("--table", action="store_true", help="only print what was found")
    parser.add_argument("--draw", type=Path, metavar="PNG", help="accuracy against how many pictures were learnt from")
    asked = parser.parse_args()
    for name in () if asked.table else asked.names:
        for most in asked.most or [None]:
            for seed in asked.seeds:
                key = f"{name}{asked.label and ' ' + asked.label}"
                place = [key, WHOLE if most is None else str(most), str(seed)]
                ledger.record(asked.out, place, trained(asked, name, most, seed, "-".join(place).replace(" ", "-")))
    show(ledger.read(asked.out))
    if asked.draw:
        draw(ledger.read(asked.out), asked.draw)


def trained(asked: argparse.Namespace, name: str, most: int | None, seed: int, folder: str) -> dict[str, Any]:
    """One run and its score on the test pictures."""
    few = () if most is None else (f"data.max_images={most}", *FEWER.get(name, {}).get(most, ()), *RARELY)
    recipe, settings = RECIPES / f"{name}.yaml", (*few, *asked.settings)
    outcome, run = ledger.trained(recipe, *settings, seed=seed, out=asked.runs / folder, start=asked.start)
    model = regard.load(outcome.folder)
    test = Path(os.environ.get("REGARD_DATA", ".")) / TESTS[name]
    scores = model.evaluate(test)
    found: dict[str, Any] = {metric: round(score, 4) for metric, score in scores.metrics.items()}
    records = list(read(outcome.folder / "metrics.jsonl"))
    speeds = [record["pictures_per_second"] for record in records if "pictures_per_second" in record]
    return {
        **found,
        **run,
        "pictures/s": round(statistics.median(speeds[len(speeds) // 3 :])) if speeds else 0,
        "parameters": sum(weight.numel() for weight in model.model.parameters()),
        "settings": asked.settings,
    }


def read(path: Path) -> Iterator[dict[str, Any]]:
    """What a run wrote down, line by line."""
    for line in path.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def show(found: dict[str, Any]) -> None:
    """A row for every recipe and amount of pictures."""
    rows = []
    for name, amounts in found.items():
        for amount, seeds in amounts.items():
            each = list(seeds.values())
            columns = [[one[key] for one in each] for key in ("accuracy, %", "seconds", "pictures/s")]
            spreads = [ledger.spread(values, digits) for values, digits in zip(columns, (2, 0, 0), strict=True)]
            rows.append((name, amount, len(each), *spreads, f"{each[0]['parameters']:,}"))
    ledger.table(("recipe", "pictures", "seeds", "accuracy, %", "seconds", "pictures/s", "parameters"), rows)


def draw(found: dict[str, Any], path: Path) -> None:
    """A curve for each recipe of CIFAR-10: mean accuracy over seeds, and its standard deviation as a bar."""
    from matplotlib.figure import Figure

    from regard.interpret.draw.curves import looks, tidy

    figure = Figure(figsize=(6.0, 3.8), layout="constrained")
    axes = figure.add_subplot()
    for name, how in looks(CURVES).items():
        amounts = {EVERY if amount == WHOLE else int(amount): seeds for amount, seeds in found.get(name, {}).items()}
        scores = {n: [one["accuracy, %"] for one in amounts[n].values()] for n in sorted(amounts)}
        means = [statistics.mean(each) for each in scores.values()]
        spread = [statistics.stdev(each) if len(each) > 1 else 0.0 for each in scores.values()]
        axes.errorbar(list(scores), means, yerr=spread, capsize=3, **{**how, "label": CURVES[name]})
    axes.set(xscale="log", xlabel="training pictures", ylabel="test accuracy, %", ylim=(0, 100))
    axes.set_xticks([500, 5000, EVERY], ["500", "5,000", f"{EVERY:,}"])
    axes.minorticks_off()
    axes.legend(frameon=False, loc="lower right")
    tidy(axes)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
