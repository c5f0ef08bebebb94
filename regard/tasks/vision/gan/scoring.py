"""How good made pictures are beside real ones: their distance, the class asked for, variety, nearest neighbours.

The distance is Fréchet's, in the features of a classifier that was trained on such pictures. It compares generators
scored by the same classifier and no others: published ones are measured in the features of another network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from regard import checkpoint, config
from regard.attention.hardware import device_of
from regard.data.pictures.album import FINE, shape_of
from regard.data.pictures.shelves import PictureFile, has_test_part, shelve
from regard.metrics.made import frechet_distance, nearest_neighbours, variety
from regard.metrics.scores import Judged, Scores, Table
from regard.metrics.significance import mean_statistics
from regard.tasks.vision import preparing
from regard.tasks.vision.classifier import PictureClassifier
from regard.tasks.vision.gan.task import coarse
from regard.tasks.vision.preparing import Side
from regard.training.run import Run
from regard.training.task import sample_evenly

if TYPE_CHECKING:
    from regard.tasks.vision.gan.maker import PictureMaker

CHUNK = 256  # pictures looked at at a time
NEIGHBOURS = 500  # made pictures whose nearest training picture is looked for
SHOWN = 5
Bytes = UInt8[Tensor, "pictures channels size size"]


@dataclass(frozen=True)
class Seen:
    """What a network sees in pictures."""

    features: Float[np.ndarray, "pictures features"]
    labels: list[str]
    """What it takes each for; none where there is no classifier."""


def scored(
    maker: PictureMaker,
    files: Sequence[str | Path],
    *,
    classifier: str | Path | None,
    train: str | Path | None,
    count: int,
    seed: int,
    name: str,
) -> Scores:
    """Made pictures, as many of each class as there are of real ones, beside those of the files."""
    real, learnt = _real(maker, files, train)
    sight = _sight(maker, classifier)
    numbers = np.resize(real.labels[np.argsort(real.marks, kind="stable")], count)  # all classes, however few
    asked = [maker.classes[number] for number in numbers]
    pixels = maker.pixels(maker.noise(count, seed), torch.from_numpy(numbers))
    made, there = sight(pixels), sight(_bytes(real, count))
    floor = (
        _halves(there) if learnt is None else frechet_distance(sight(_bytes(learnt, count)).features, there.features)
    )
    there_labels = real.labels[np.array(sample_evenly(range(len(real)), count))]
    own, usual = variety(_shades(pixels), numbers), variety(_shades(_bytes(real, count)), there_labels)
    metrics = {
        "Frechet distance": mean_statistics([frechet_distance(made.features, there.features)], lower=True),
        "real against real": mean_statistics([floor], lower=True),
    }
    if made.labels:
        metrics["asked class, %"] = mean_statistics([100.0 * (a == b) for a, b in zip(asked, made.labels, strict=True)])
    metrics["variety"] = mean_statistics([own / max(usual, 1e-6)])
    measures, tables = {"made pictures": f"{count:,}"}, list[Table]()
    if learnt is not None:
        near, tables = _neighbours(pixels[:NEIGHBOURS], asked, real, learnt)
        measures |= near
    seen_by = "mean shades of regions" if classifier is None else f"features of {classifier}"
    against = "two halves of the real pictures" if learnt is None else "training pictures"
    notes = [f"Frechet distance in {seen_by}, not comparable with others.", f"Real against real: {against}."]
    examples = [
        Judged(k + 1, f"{label}, seed {seed}", label, found, float(label == found))
        for k, (label, found) in enumerate(zip(asked, made.labels, strict=False))
    ]
    return Scores(
        name, maker.task, metrics, examples, measures=measures, tables=tables, notes=notes,
        unit="picture" if examples else "comparison", counted="right",
    )  # fmt: skip


def _real(maker: PictureMaker, files: Sequence[str | Path], train: str | Path | None) -> tuple[Side, Side | None]:
    """The pictures to compare with, and those that were learnt from, where they are known."""
    if not files:
        raise ValueError(f"{maker.name} is measured beside real pictures: name a folder or file of them")
    own = {name: value for name, value in (maker.data.get("file") or {}).items() if name != "path"}
    sources = [config.build(PictureFile, {**own, "path": str(path)}, where="file") for path in files]
    if train is None and not all(has_test_part(str(path)) for path in files):
        return _read(maker, sources, "test"), None
    before = sources if train is None else [config.build(PictureFile, {**own, "path": str(train)}, where="train")]
    return _read(maker, sources, "test"), _read(maker, before, "train")


def _read(maker: PictureMaker, files: Sequence[PictureFile], part: Any) -> Side:
    """Labelled pictures; of another size or depth than those learnt from they are refused: resized ones differ."""
    shelves = [shelve(file, part=part) for file in files]
    found, learnt = (
        shape_of(shelves, None, None, maker.shape.fit)[:2],
        tuple(maker.data.get("natural", maker.shape[:2])),
    )
    photographs = min(found[0], learnt[0]) > FINE  # which are resized anyway
    if found[1] != learnt[1] or (found != learnt and not photographs):
        raise ValueError(
            f"{shelves[0].name} has pictures of {_spelled(found)}, and {maker.name} was trained on {_spelled(learnt)}: "
            "compare with pictures like those"
        )
    return preparing.sided(shelves, maker.shape, maker.classes)


def _spelled(shape: Sequence[Any]) -> str:
    size, channels, *_ = shape
    return f"{size} x {size} {'grey' if channels == 1 else 'colour'} pixels"


def _sight(maker: PictureMaker, path: str | Path | None) -> Callable[[Bytes], Seen]:
    """What sees pictures: a classifier, by what its head reads, or nobody."""
    if path is None:
        return lambda pixels: Seen(_shades(pixels), [])
    found = Path(path)
    usable = found if (found / "manifest.json").exists() else Run(found).usable
    if usable is None:
        raise ValueError(f"classifier={path} is no trained model: train one on such pictures with `regard train`")
    known = checkpoint.read(usable)
    if known.config.get("task") != PictureClassifier.task:
        raise ValueError(
            f"classifier={path} is no classifier of pictures: it was trained for {known.config.get('task')}"
        )
    eye = PictureClassifier.load(known, device=device_of(maker.model))
    if eye.shape[:2] != maker.shape[:2]:
        raise ValueError(
            f"classifier={path} reads pictures of {_spelled(eye.shape)}, and {maker.name} makes some of "
            f"{_spelled(maker.shape)}: train one on such pictures"
        )
    if strange := [label for label in maker.classes if label not in eye.classes]:
        raise ValueError(f"classifier={path} does not know {strange[0]!r}: train one on the labels of {maker.name}")
    return lambda pixels: _looked(eye, pixels)


def _looked(eye: PictureClassifier, pixels: Bytes) -> Seen:
    """What the head of a classifier reads in each picture, and what it says."""
    read: list[Tensor] = []
    handle = eye.model.head.register_forward_pre_hook(lambda _, given: read.append(given[0].float().cpu()))
    try:
        logits = torch.cat([eye.logits(some) for some in pixels.split(CHUNK)])
    finally:
        handle.remove()
    return Seen(torch.cat(read).flatten(1).numpy(), [eye.classes[number] for number in logits.argmax(-1).tolist()])


def _bytes(side: Side, count: int) -> Bytes:
    """So many pictures, from all parts of the list."""
    return torch.from_numpy(side.pixels(np.array(sample_evenly(range(len(side)), count))))


def _shades(pixels: Bytes) -> Float[np.ndarray, "pictures features"]:
    """Pictures seen coarsely, as while training."""
    return coarse(pixels.float() / 127.5 - 1).numpy()


def _halves(seen: Seen) -> float:
    """The distance of every second picture from the others: fewer pictures than are compared, so rather too large."""
    if len(seen.features) < 4:
        return 0.0
    return frechet_distance(seen.features[::2], seen.features[1::2])


def _neighbours(pixels: Bytes, asked: Sequence[str], real: Side, learnt: Side) -> tuple[dict[str, str], list[Table]]:
    """How near training pictures are to made ones, beside how near they are to real ones that were not learnt from."""
    among = torch.from_numpy(learnt.pixels(np.arange(len(learnt)))).flatten(1).float().numpy() / 255
    found, far = nearest_neighbours(pixels.flatten(1).float().numpy() / 255, among)
    _, usual = nearest_neighbours(_bytes(real, len(pixels)).flatten(1).float().numpy() / 255, among)
    rows = [
        (str(k + 1), asked[k], learnt.place(int(found[k])).rsplit("/", 1)[-1], f"{far[k]:.3f}")
        for k in np.argsort(far, kind="stable")[:SHOWN].tolist()
    ]
    told = f"{np.median(far):.3f} from made, {np.median(usual):.3f} from real pictures (median, RMS of shades)"
    title = f"Nearest training pictures, the nearest {len(rows)} of {len(far)}"
    return {"nearest training picture": told}, [Table(title, ("made", "asked", "training picture", "RMS"), rows)]
