"""Which maps of a classifier may be believed: every method beside controls, on labelled pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from regard.attention.hardware import device_of
from regard.config.ranges import Count, Seed, Whole
from regard.data.pictures.shelves import BOX
from regard.interpret import judging
from regard.metrics.boxes import iou
from regard.metrics.significance import Statistics, interval, mean_statistics, paired_test

if TYPE_CHECKING:
    from regard.tasks.vision.classifier import PictureClassifier
    from regard.tasks.vision.localisation import Locator

LOWER = ("deletion",)  # checks in which less is better
PLACED = ("pointing", "inside", "overlap")
SINGLE = ("deletion", "insertion", "change")
Checks = Mapping[str, Mapping[str, Statistics]]


@dataclass(frozen=True, kw_only=True)
class JudgementOptions:
    """How maps are judged."""

    against: Any = None
    """A model trained on boxes, to compare with; null: none."""
    grids: Whole = 200
    """Most grids of four pictures."""
    singles: Count = 60
    """Most single pictures from which regions are taken away."""
    seed: Seed = 0
    """Random seed."""


@dataclass(frozen=True)
class Judgement:
    """What each method and each control reaches in each check."""

    checks: Checks
    grids: int
    pictures: int
    right: int
    """Of the pictures, those that are labelled right, which alone are asked about."""
    singles: int
    """Of these, those from which regions are taken away."""
    boxed: Checks = field(default_factory=dict)
    """The same in pictures with boxes; a model that was trained on boxes has a line too."""
    boxes: int = 0
    covered: float = 0.0
    """Which share of a picture its box covers, on average."""

    def rows(self, columns: Sequence[str] = (*PLACED, *SINGLE)) -> list[list[str]]:
        """A line for each method: means, with half of a 95 % interval."""
        return _rows(self.checks, columns)

    def boxed_rows(self) -> list[list[str]]:
        """The same of pictures with boxes."""
        return _rows(self.boxed, PLACED)

    def beyond_chance(self, name: str, other: str, check: str = "pointing", *, boxed: bool = False) -> float | None:
        """How probable so large a difference between two methods is by chance, on the same pictures."""
        checks = self.boxed if boxed else self.checks
        both = {each: checks[each][check] for each in (other, name) if check in checks.get(each, ())}
        return paired_test(both, test="randomisation")[1].p if len(both) == 2 else None

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        counts = {name: getattr(self, name) for name in ("grids", "pictures", "right", "singles")}
        return {**counts, "methods": _plain(self.checks)} | (
            {"boxes": self.boxes, "covered": self.covered, "boxed": _plain(self.boxed)} if self.boxes else {}
        )


def judge(classifier: PictureClassifier, paths: Sequence[str | Path], options: JudgementOptions) -> Judgement:
    """Pointing in grids of four pictures and in boxes that are known; deletion, insertion and change on single ones."""
    against, grids, singles, seed = options.against, options.grids, options.singles, options.seed
    side = classifier.side(*paths)
    labels = torch.from_numpy(np.asarray(side.labels)).long()
    place = device_of(classifier.model)
    pixels = torch.cat([classifier.scaled(torch.from_numpy(side.pixels(some)).to(place)) for some in _some(len(side))])
    with torch.no_grad():
        said = torch.cat([classifier.model(some).argmax(-1).cpu() for some in pixels.split(judging.CHUNK)])
    right = (said == labels).nonzero()[:, 0]
    if not len(right):
        raise ValueError(f"{classifier.name} labels none of {len(side):,} pictures right: there is nothing to judge")
    boxes = _boxes(side, against)
    order = torch.randperm(len(right), generator=torch.Generator().manual_seed(seed))
    pictures, known = pixels[right.to(place)], labels[right].to(place)
    found: dict[str, judging.Checked] = {}
    if boxes is None or len(known.unique()) > 1:  # with boxes there is something to judge without grids
        asked = judging.make_grids(pictures, known, grids, seed=seed)
        found = judging.measure_localisation(judging.double_input_size(classifier.model), asked, seed=seed)
    some = order[:singles].to(place)
    alone = judging.judge_maps(classifier.model, judging.MapExamples(pictures[some], known[some]), seed=seed)
    checks = {
        name: {check: mean_statistics(values) for check, values in found.get(name, {}).items()}
        | {check: mean_statistics(values, lower=check in LOWER) for check, values in own.items() if check in SINGLE}
        for name, own in alone.items()
    }
    counts = min(grids, len(right)) if found else 0, len(side), len(right), len(some)
    if boxes is None:
        return Judgement(checks, *counts)
    chosen = right[order[:grids]]
    true = boxes[chosen]
    seen = judging.MapExamples(pixels[chosen.to(place)], labels[chosen].to(place), true.to(place))
    boxed = judging.measure_localisation(classifier.model, seen, seed=seed)
    if against is not None:
        shades = torch.from_numpy(side.pixels(chosen.numpy())).float().mean(1) / 255
        boxed[against.name] = _supervised(against.boxes(shades), true)
    placed = {name: {check: mean_statistics(values) for check, values in own.items()} for name, own in boxed.items()}
    covered = float((true[:, 2:] - true[:, :2]).prod(1).mean())
    return Judgement(checks, *counts, placed, len(chosen), covered)


def _boxes(side: Any, against: Locator | None) -> Tensor | None:
    """The boxes of all pictures, where all have one; what cannot be compared with them is refused."""
    given = [side.album.columns.get(BOX, [None] * len(side.album))[number] for number in side.numbers]
    known = None if None in given else torch.tensor(given)
    if against is None:
        return known
    size = side.album.pixels.shape[-1]
    if known is None:
        raise ValueError("--against needs pictures whose boxes are known: `regard data make digits FOLDER` makes some")
    if against.model.config.size != size:
        reads = f"{against.name} reads pictures of {against.model.config.size} pixels"
        raise ValueError(
            f"{reads} and these have {size}: make them, or train one of the two, with the size of the other"
        )
    return known


def _supervised(guesses: Tensor, true: Tensor) -> judging.Checked:
    """What boxes reach that somebody was trained to draw: a box points with its centre."""
    left, top, right, bottom = true.unbind(1)
    across, down = ((guesses[:, low] + guesses[:, low + 2]) / 2 for low in (0, 1))
    points = (across >= left) & (across < right) & (down >= top) & (down < bottom)
    return {"pointing": points.double().numpy(), "overlap": iou(guesses, true).numpy()}


def _some(count: int) -> list[np.ndarray]:
    return np.array_split(np.arange(count), max(1, -(-count // judging.CHUNK)))


def _rows(checks: Checks, columns: Sequence[str]) -> list[list[str]]:
    return [[name, *(_told(found.get(check)) for check in columns)] for name, found in checks.items()]


def _plain(checks: Checks) -> dict[str, Any]:
    def spread(one: Statistics) -> dict[str, float]:
        found = interval(one)
        return {"mean": one.score, "low": found.low, "high": found.high}

    return {name: {check: spread(one) for check, one in own.items()} for name, own in checks.items()}


def _told(one: Statistics | None) -> str:
    if one is None:
        return "-"
    return f"{one.score:.3f}" + (f" ± {interval(one).half:.3f}" if len(one) > 1 else "")  # one picture has no spread
