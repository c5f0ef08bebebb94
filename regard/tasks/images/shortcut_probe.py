"""Test of a classifier for a shortcut: its answers with and without a mark in the image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int, UInt8

from regard import config
from regard.attention.hardware import device_of
from regard.data.images.labelled_images import LabelledImages
from regard.data.images.shortcut import ShortcutConfig, draw_mark, mark_box
from regard.interpret.measure import map_checks, maps
from regard.metrics.significance import Statistics, interval, mean_statistics, paired_test
from regard.tasks.image_model import ImageModel

MAX_IMAGES = 2000  # images that are classified
MAX_MAPS = 200
MIN_EFFECT = 0.1  # smallest change of a share by the mark that counts as a shortcut
SIGNIFICANCE = 0.01
MIN_IMAGES = 20  # below this the test is inconclusive
MAP_BATCH = 64
Share = tuple[float, float]  # a share and half of its 95 % interval


@dataclass(frozen=True)
class ShortcutProbe:
    """Effect of a mark on the answers of a classifier; each share comes with half of its 95 % interval."""

    label: str
    """The class the mark was trained with, or else the class to which the mark changes most answers."""
    planted: bool
    """True if the model was trained with such marks."""
    class_with_mark: Share | None
    """Share of the images of this class that are assigned to it with the mark."""
    class_without_mark: Share | None
    """Share of the images of this class that are assigned to it without the mark."""
    others_with_mark: Share | None
    """Share of the images of other classes that are assigned to this class with the mark."""
    others_without_mark: Share | None
    """Share of the images of other classes that are assigned to this class without the mark."""
    others_p_value: float
    """p-value of the difference between the two shares of other classes."""
    class_p_value: float
    """p-value of the difference between the two shares of this class."""
    map_share: float | None
    """Share of the map that lies on the mark; None if no image with the mark is assigned to this class."""
    mark_area: float
    """Share of the image that the mark covers."""
    class_count: int
    """Number of images of this class."""
    other_count: int
    """Number of images of other classes."""

    @property
    def has_few_images(self) -> bool:
        """True if there are too few images for a conclusion."""
        return max(self.class_count, self.other_count) < MIN_IMAGES

    @property
    def is_exposed(self) -> bool:
        """True if the predictions depend significantly on the mark."""
        gained = _difference(self.others_without_mark, self.others_with_mark)
        lost = _difference(self.class_without_mark, self.class_with_mark)
        return (gained >= MIN_EFFECT and self.others_p_value < SIGNIFICANCE) or (
            lost >= MIN_EFFECT and self.class_p_value < SIGNIFICANCE
        )

    def plain(self) -> dict[str, Any]:
        """Return everything as JSON."""
        return {
            "label": self.label,
            "planted": self.planted,
            "found": self.class_with_mark,
            "bare": self.class_without_mark,
            "drawn": self.others_with_mark,
            "before": self.others_without_mark,
            "p": self.others_p_value,
            "lost": self.class_p_value,
            "lit": self.map_share,
            "area": self.mark_area,
            "own": self.class_count,
            "others": self.other_count,
            "exposed": self.is_exposed,
            "few": self.has_few_images,
        }


def probe_shortcut(
    classifier: ImageModel, images: LabelledImages, learnt_shortcut: Mapping[str, Any] | None = None
) -> ShortcutProbe:
    """Compare answers with and without a mark: the one the model was trained with, or the default one."""
    shortcut = config.build(ShortcutConfig, learnt_shortcut or {}, where="data.shortcut")
    numbers = np.unique(np.linspace(0, len(images) - 1, min(len(images), MAX_IMAGES)).astype(int))
    labels, clean_pixels = np.asarray(images.labels)[numbers], images.pixels(numbers)
    marked_pixels = draw_mark(clean_pixels, shortcut)
    clean, marked = (_predict_labels(classifier, pixels) for pixels in (clean_pixels, marked_pixels))
    flip_counts = [
        ((marked == label) & (clean != label) & (labels != label)).sum() for label in range(len(classifier.classes))
    ]
    label = classifier.classes.index(shortcut.label) if learnt_shortcut else int(np.argmax(flip_counts))
    in_class, in_others = labels == label, labels != label
    class_with, class_without, class_p_value = _compare_answers(marked[in_class] == label, clean[in_class] == label)
    others_with, others_without, others_p_value = _compare_answers(
        marked[in_others] == label, clean[in_others] == label
    )
    map_share, mark_area = _measure_map(classifier, marked_pixels[marked == label][:MAX_MAPS], shortcut, label)
    return ShortcutProbe(
        label=classifier.classes[label],
        planted=bool(learnt_shortcut),
        class_with_mark=class_with,
        class_without_mark=class_without,
        others_with_mark=others_with,
        others_without_mark=others_without,
        others_p_value=others_p_value,
        class_p_value=class_p_value,
        map_share=map_share,
        mark_area=mark_area,
        class_count=int(in_class.sum()),
        other_count=int(in_others.sum()),
    )


def _compare_answers(
    marked: Bool[np.ndarray, "images"], clean: Bool[np.ndarray, "images"]
) -> tuple[Share | None, Share | None, float]:
    """Return the shares of True with and without the mark, and the p-value of their difference."""
    if not len(clean):
        return None, None, 1.0
    with_mark, without_mark = mean_statistics(marked), mean_statistics(clean)
    return _share_of(with_mark), _share_of(without_mark), _p_value(without_mark, with_mark)


def _difference(before: Share | None, after: Share | None) -> float:
    return 0.0 if before is None or after is None else after[0] - before[0]


def _predict_labels(
    classifier: ImageModel, pixels: UInt8[np.ndarray, "images channels size size"]
) -> Int[np.ndarray, "images"]:
    chunks = np.array_split(pixels, -(-len(pixels) // map_checks.CHUNK))
    return torch.cat([classifier.logits(torch.from_numpy(chunk)).argmax(-1) for chunk in chunks]).numpy()


def _measure_map(
    classifier: ImageModel,
    pixels: UInt8[np.ndarray, "images channels size size"],
    shortcut: ShortcutConfig,
    label: int,
) -> tuple[float | None, float]:
    """Return the share of the map for the label that lies on the mark, and the share of the image under the mark."""
    from regard.metrics.maps import mass_inside

    size = classifier.model.config.size
    left, top, right, bottom = mark_box(shortcut, size)
    area = (right - left) * (bottom - top) / size**2
    if not len(pixels):
        return None, area
    device = device_of(classifier.model)
    normalised = classifier.normalise(torch.from_numpy(pixels).to(device))
    labels = torch.full((len(pixels),), label, device=device)
    method = maps.methods(classifier.model)[-1]
    evidence = [
        maps.evidence_maps(classifier.model, chunk, chunk_labels, method)
        for chunk, chunk_labels in zip(normalised.split(MAP_BATCH), labels.split(MAP_BATCH), strict=True)
    ]
    box = torch.tensor([[left, top, right, bottom]]) / size
    return float(mass_inside(torch.cat(evidence).cpu(), box.expand(len(pixels), 4)).mean()), area


def _share_of(statistics: Statistics) -> Share:
    return statistics.score, interval(statistics).half


def _p_value(before: Statistics, after: Statistics) -> float:
    return paired_test({"before": before, "after": after}, test="randomisation")[1].p or 1.0
