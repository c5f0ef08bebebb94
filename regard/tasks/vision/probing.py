"""Is a classifier right for the right reason? A mark is taken off the pictures of a class and put on others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from regard import config
from regard.attention.hardware import device_of
from regard.data.pictures.shortcut import ShortcutConfig, draw_mark, mark_box
from regard.interpret import judging, maps
from regard.metrics.significance import interval, mean_statistics, paired_test

if TYPE_CHECKING:
    from regard.tasks.vision.classifier import PictureClassifier

MOST = 2000  # pictures that are looked at
MAPPED = 200
LEAST = 0.1  # by which an answer must depend on the mark to be called a shortcut
SURE = 0.01
FEW = 20  # pictures of which no answer can be sure


@dataclass(frozen=True)
class Probe:
    """What a mark does to the answers of a classifier; shares with half of their 95 % interval."""

    label: str
    """The class that the mark was learnt with, or to which it draws most."""
    planted: bool
    """Whether the model was trained with such marks."""
    found: tuple[float, float] | None
    """Pictures of the class that are labelled so with the mark."""
    bare: tuple[float, float] | None
    """The same without it."""
    drawn: tuple[float, float] | None
    """Pictures of other classes that are labelled so once they have the mark."""
    before: tuple[float, float] | None
    """The same without it."""
    p: float
    """How probable so large a difference between those two is by chance."""
    lost: float
    """The same of the pictures of the class."""
    lit: float | None
    """Share of the map that lies on the mark where it is; None where no picture with it is labelled so."""
    area: float
    """Share of the picture that it covers."""
    own: int
    """Pictures of the class that were asked about."""
    others: int
    """Those of other classes."""

    @property
    def few(self) -> bool:
        """Whether nothing could be told from so few pictures."""
        return max(self.own, self.others) < FEW

    @property
    def exposed(self) -> bool:
        """Whether the answers depend on the mark."""
        draws, needs = _gain(self.before, self.drawn), _gain(self.bare, self.found)
        return (draws >= LEAST and self.p < SURE) or (needs >= LEAST and self.lost < SURE)

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "exposed": self.exposed, "few": self.few}


def probed(classifier: PictureClassifier, paths: Sequence[str | Path]) -> Probe:
    """Answers with and without the mark of a shortcut: the one the model was trained with, else the usual one."""
    side, known = classifier.side(*paths), classifier.data.get("shortcut")
    how = config.build(ShortcutConfig, known or {}, where="data.shortcut")
    numbers = np.unique(np.linspace(0, len(side) - 1, min(len(side), MOST)).astype(int))
    labels, clean = np.asarray(side.labels)[numbers], side.pixels(numbers)
    with_mark = draw_mark(clean, how)
    plain, changed = (_labels(classifier, pixels) for pixels in (clean, with_mark))
    flipped = [
        ((changed == kind) & (plain != kind) & (labels != kind)).sum() for kind in range(len(classifier.classes))
    ]
    kind = classifier.classes.index(how.label) if known else int(np.argmax(flipped))
    own, others = labels == kind, labels != kind
    found, bare, lost = _answered(changed[own] == kind, plain[own] == kind)
    drawn, before, p = _answered(changed[others] == kind, plain[others] == kind)
    lit, area = _lit(classifier, with_mark[changed == kind][:MAPPED], how, kind)
    counts = int(own.sum()), int(others.sum())
    return Probe(classifier.classes[kind], bool(known), found, bare, drawn, before, p, lost, lit, area, *counts)


def _answered(changed: np.ndarray, plain: np.ndarray) -> tuple[Any, Any, float]:
    """Shares of such answers with and without the mark, and how probable their difference is by chance."""
    if not len(plain):
        return None, None, 1.0
    after, before = mean_statistics(changed), mean_statistics(plain)
    return _share(after), _share(before), _chance(before, after)


def _gain(before: tuple[float, float] | None, after: tuple[float, float] | None) -> float:
    return 0.0 if before is None or after is None else after[0] - before[0]


def _labels(classifier: PictureClassifier, pixels: np.ndarray) -> np.ndarray:
    parts = [
        classifier.logits(torch.from_numpy(some)).argmax(-1)
        for some in np.array_split(pixels, -(-len(pixels) // judging.CHUNK))
    ]
    return torch.cat(parts).numpy()


def _lit(
    classifier: PictureClassifier, pixels: np.ndarray, how: ShortcutConfig, kind: int
) -> tuple[float | None, float]:
    """Which share of the map for the label lies on the mark, and of the picture."""
    from regard.metrics.maps import mass_inside

    size = classifier.model.config.size
    left, top, right, bottom = mark_box(how, size)
    area = (right - left) * (bottom - top) / size**2
    if not len(pixels):
        return None, area
    place = device_of(classifier.model)
    scaled = classifier.scaled(torch.from_numpy(pixels).to(place))
    asked = torch.full((len(pixels),), kind, device=place)
    method = maps.methods(classifier.model)[-1]
    found = [
        maps.evidence_maps(classifier.model, a, b, method)
        for a, b in zip(scaled.split(64), asked.split(64), strict=True)
    ]
    sides = torch.tensor([[left, top, right, bottom]]) / size
    return float(mass_inside(torch.cat(found).cpu(), sides.expand(len(pixels), 4)).mean()), area


def _share(one: Any) -> tuple[float, float]:
    return one.score, interval(one).half


def _chance(one: Any, other: Any) -> float:
    return paired_test({"before": one, "after": other}, test="randomisation")[1].p or 1.0
