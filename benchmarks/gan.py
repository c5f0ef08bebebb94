"""Generators of pictures with and without attention, several seeds: trained, scored, and learnt from, in one run.

    python -m benchmarks.gan fashion-mnist --seeds 0 1 2 --seconds 180 --out gan-fashion.json
    python -m benchmarks.gan cifar10 --seeds 0 --seconds 600 --out gan-cifar10.json

REGARD_DATA names the folder with fashion-mnist/ or cifar10.npz. A classifier of real pictures is trained first
(--classifier RUN takes one that is there). Each generator is then scored on made pictures in its features, beside the
distance of real pictures from real ones; last, a classifier is trained on pictures that the generator made, and scored
on real test pictures. Everything goes through regard.train, regard.load and evaluate. Runs stay in --runs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import regard
from regard.data import images

ROOT = Path(__file__).parent.parent
NAMES = ["t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"]


class Contest(NamedTuple):
    """The recipes of a data set."""

    generator: str
    classifier: str
    data: str
    classes: tuple[str, ...] = ()
    """Names of labels that are numbers in the files."""


CONTESTS = {
    "fashion-mnist": Contest("fashion-gan", "fashion", "fashion-mnist", tuple(NAMES)),
    "cifar10": Contest("cifar10-gan", "cifar10-resnet", "cifar10.npz"),
}


def main() -> None:
    """Measure, print a line each, and write all of it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("contest", choices=list(CONTESTS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--seconds", type=float, default=180, help="training of each generator")
    parser.add_argument("--count", type=int, default=10_000, help="made pictures that are scored")
    parser.add_argument("--learnt", type=int, default=1000, help="made pictures of each class to train on; 0: none")
    parser.add_argument("--learning", type=float, default=60, help="seconds of a classifier of made pictures")
    parser.add_argument("--classifier", type=Path, help="a trained classifier of real pictures; else one is trained")
    parser.add_argument("--attention", choices=["with", "without"], nargs="+", default=["with", "without"])
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="settings of every generator")
    parser.add_argument("--set-classifier", nargs="*", default=[], metavar="NAME=VALUE", help="of every classifier")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--runs", type=Path, default=Path("runs/gan"))
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    contest, found = CONTESTS[asked.contest], dict[str, Any]()
    eye = asked.classifier or trained(contest.classifier, asked.runs / "classifier", asked.set_classifier)
    own = {"classes": contest.classes} if contest.classes else {}
    found["classifier"] = score(eye, contest.data, device=asked.device, **own)
    print(json.dumps({"classifier": found["classifier"]}), flush=True)
    for way in asked.attention:
        for seed in asked.seeds:
            one = measured(contest, way, seed, eye, asked)
            found[f"{way}, seed {seed}"] = one
            print(json.dumps({f"{way}, seed {seed}": one}), flush=True)
            written(found, asked.out)
    for way in asked.attention:
        found[way] = summary([found[f"{way}, seed {seed}"] for seed in asked.seeds])
        print(f"{way} attention: {found[way]}")
    written(found, asked.out)


def written(found: dict[str, Any], path: Path | None) -> None:
    """What was found so far, if anybody wants it in a file."""
    if path is not None:
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def measured(contest: Contest, way: str, seed: int, eye: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """One generator: how it trained, its scores, and what a classifier learns from its pictures."""
    folder, begun = asked.runs / f"{way}-{seed}", time.perf_counter()
    limits = [f"training.seconds={asked.seconds}", f"training.seed={seed}", f"training.device={asked.device}"]
    changes = [f"model.attention={str(way == 'with').lower()}", *limits, *asked.set]
    done = regard.train(ROOT / "recipes" / f"{contest.generator}.yaml", *changes, out=folder, overwrite=True)
    how = {"steps": done.result.step, "ended": done.result.reason, "best": done.result.best and done.result.best.step}
    if done.result.has_failed:
        return how
    model = regard.load(folder, device=asked.device)
    scores = model.evaluate(contest.data, classifier=eye, count=asked.count)
    how |= {name: round(value, 4) for name, value in scores.metrics.items()} | dict(scores.measures)
    if model.model.generator.attention is not None:
        how["gain"] = round(model.model.generator.attention.gain.item(), 4)
    if asked.learnt:
        how["learnt from made, accuracy on real, %"] = learnt_from(model, contest, folder, asked)
    return how | {"seconds": round(time.perf_counter() - begun, 1)}


def learnt_from(model: Any, contest: Contest, folder: Path, asked: argparse.Namespace) -> float:
    """The accuracy on real test pictures of a classifier that has seen made ones only."""
    made = model.make(count=asked.learnt, seed=1)
    path = folder / "made.npz"
    images.save_arrays(path, [one.pixels for one in made], [one.label for one in made])
    files = [f"data.train.path={path}", "data.train.classes=[]", f"training.seconds={asked.learning}"]
    run = trained(contest.classifier, folder / "learnt", [*files, *asked.set_classifier])
    own = {"classes": contest.classes} if contest.classes else {}
    return score(run, contest.data, device=asked.device, **own)


def trained(name: str, folder: Path, changes: Sequence[str]) -> Path:
    """A run of a recipe."""
    return regard.train(ROOT / "recipes" / f"{name}.yaml", *changes, out=folder, overwrite=True).folder


def score(run: Path, data: str, *, device: str, **how: Any) -> float:
    """The accuracy of a classifier on the test pictures, in percent."""
    metrics = regard.load(run, device=device).evaluate(data, **how).metrics
    name = next(each for each in metrics if "accuracy" in each)
    return round(metrics[name] * (1 if "%" in name else 100), 2)


def summary(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Median, least and most over the seeds, of those that did not fail."""
    sound = [one for one in runs if "Frechet distance" in one]
    names = [name for name, value in (sound[0] if sound else {}).items() if isinstance(value, float)]
    values = {name: [one[name] for one in sound] for name in names if name != "seconds"}
    told = {name: [round(statistics.median(own), 4), min(own), max(own)] for name, own in values.items()}
    return {**told, "failed": len(runs) - len(sound)}


if __name__ == "__main__":
    main()
