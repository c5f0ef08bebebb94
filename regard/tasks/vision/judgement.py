"""Which maps of a classifier may be believed: every method beside controls, on labelled pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from regard.attention.hardware import device_of
from regard.interpret import judging
from regard.metrics.significance import Statistics, averaged, interval, paired

if TYPE_CHECKING:
    from regard.tasks.vision.classifier import PictureClassifier

LOWER = ("deletion",)  # checks in which less is better
GRIDDED = ("pointing", "inside", "overlap")
SINGLE = ("deletion", "insertion", "change")


@dataclass(frozen=True)
class Judgement:
    """What each method and each control reaches in each check."""

    checks: Mapping[str, Mapping[str, Statistics]]
    grids: int
    pictures: int
    right: int
    """Of the pictures, those that are labelled right, which alone are asked about."""

    def rows(self) -> list[list[str]]:
        """A line for each method: means, with half of a 95 % interval."""
        return [
            [name, *(_told(found.get(check)) for check in (*GRIDDED, *SINGLE))] for name, found in self.checks.items()
        ]

    def beyond_chance(self, name: str, other: str, check: str = "pointing") -> float | None:
        """How probable so large a difference between two methods is by chance, on the same pictures."""
        both = {each: self.checks[each][check] for each in (other, name) if each in self.checks}
        return paired(both, test="randomisation")[1].p if len(both) == 2 else None

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "grids": self.grids,
            "pictures": self.pictures,
            "right": self.right,
            "methods": {
                name: {
                    check: {"mean": one.score, "low": interval(one).low, "high": interval(one).high}
                    for check, one in found.items()
                }
                for name, found in self.checks.items()
            },
        }


def judged(
    classifier: PictureClassifier, paths: Sequence[str | Path], *, grids: int = 200, singles: int = 60, seed: int = 0
) -> Judgement:
    """Pointing in grids of four pictures, and deletion, insertion and change on single ones."""
    side = classifier.side(*paths)
    labels = torch.from_numpy(np.asarray(side.labels)).long()
    place = device_of(classifier.model)
    pixels = torch.cat([classifier.scaled(torch.from_numpy(side.pixels(some)).to(place)) for some in _some(len(side))])
    with torch.no_grad():
        said = torch.cat([classifier.model(some).argmax(-1).cpu() for some in pixels.split(judging.CHUNK)])
    right = (said == labels).nonzero()[:, 0]
    if not len(right):
        raise ValueError(f"{classifier.name} labels none of {len(side):,} pictures right: there is nothing to judge")
    own, known = pixels[right.to(place)], labels[right]
    asked = judging.grids(own, known.to(place), grids, seed=seed)
    found = judging.judged(judging.doubled(classifier.model), asked, seed=seed, removes=False)
    chosen = torch.randperm(len(right), generator=torch.Generator().manual_seed(seed))[:singles].to(place)
    alone = judging.judged(classifier.model, judging.Asked(own[chosen], known.to(place)[chosen]), seed=seed)
    checks = {
        name: {check: averaged(found[name][check]) for check in GRIDDED}
        | {check: averaged(alone[name][check], lower=check in LOWER) for check in SINGLE if check in alone[name]}
        for name in found
    }
    return Judgement(checks, grids, len(side), len(right))


def _some(count: int) -> list[np.ndarray]:
    return np.array_split(np.arange(count), max(1, -(-count // judging.CHUNK)))


def _told(one: Statistics | None) -> str:
    if one is None:
        return ""
    return f"{one.score:.3f} ± {interval(one).half:.3f}"
