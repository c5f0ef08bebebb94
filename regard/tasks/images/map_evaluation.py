"""Evaluation of the maps of an image classifier on labelled images: each method is compared with controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.hardware import device_of
from regard.config.ranges import Count, Seed, Whole
from regard.data.images.labelled_images import LabelledImages
from regard.data.images.sources import BOX
from regard.interpret.measure import map_checks
from regard.metrics.boxes import iou
from regard.metrics.significance import Statistics, interval, mean_statistics, paired_test
from regard.tasks.image_model import BoxModel, ImageModel

LOWER_IS_BETTER = ("deletion",)
LOCALISATION_CHECKS = ("pointing", "inside", "overlap")
SINGLE_IMAGE_CHECKS = ("deletion", "insertion", "change")
Checks = Mapping[str, Mapping[str, Statistics]]


@dataclass(frozen=True, kw_only=True)
class MapEvaluationOptions:
    """Options of the evaluation of maps."""

    against: Any = None
    """A model trained on boxes, to compare with; null: none."""
    grids: Whole = 200
    """Most grids of four pictures."""
    singles: Count = 60
    """Most single pictures from which regions are taken away."""
    seed: Seed = 0
    """Random seed."""


@dataclass(frozen=True)
class MapEvaluation:
    """Scores of each method and each control in each check."""

    checks: Checks
    grid_count: int
    image_count: int
    correct_count: int
    """Images that are classified correctly; only their maps are evaluated."""
    single_count: int
    """Images of these whose regions are deleted and inserted."""
    boxed_checks: Checks = field(default_factory=dict)
    """Scores in images with boxes, including those of a model that was trained on boxes."""
    boxed_count: int = 0
    box_area: float = 0.0
    """Mean share of an image that its box covers."""

    def rows(self, columns: Sequence[str] = (*LOCALISATION_CHECKS, *SINGLE_IMAGE_CHECKS)) -> list[list[str]]:
        """Return a table row for each method: means, with half of a 95 % interval."""
        return _table_rows(self.checks, columns)

    def boxed_rows(self) -> list[list[str]]:
        """Return the rows of images with boxes."""
        return _table_rows(self.boxed_checks, LOCALISATION_CHECKS)

    def p_value(self, name: str, other: str, check: str = "pointing", *, boxed: bool = False) -> float | None:
        """Return the p-value of a paired randomisation test between two methods, or None if one lacks the check."""
        checks = self.boxed_checks if boxed else self.checks
        both = {method: checks[method][check] for method in (other, name) if check in checks.get(method, ())}
        return paired_test(both, test="randomisation")[1].p if len(both) == 2 else None

    def plain(self) -> dict[str, Any]:
        """Return everything as JSON."""
        counts = {
            "grids": self.grid_count,
            "pictures": self.image_count,
            "right": self.correct_count,
            "singles": self.single_count,
        }
        boxed = {
            "boxes": self.boxed_count,
            "covered": self.box_area,
            "boxed": _plain_checks(self.boxed_checks),
        }
        return {**counts, "methods": _plain_checks(self.checks)} | (boxed if self.boxed_count else {})


def evaluate_maps(classifier: ImageModel, images: LabelledImages, options: MapEvaluationOptions) -> MapEvaluation:
    """Measure localisation in grids of four images and in known boxes, and the effect of changed regions on answers."""
    against, seed = options.against, options.seed
    device = device_of(classifier.model)
    labels = torch.from_numpy(np.asarray(images.labels)).long()
    chunks = [torch.from_numpy(images.pixels(numbers)) for numbers in _split_numbers(len(images))]
    pixels = torch.cat([classifier.normalise(chunk.to(device)) for chunk in chunks])
    correct = _correct_images(classifier.model, pixels, labels)
    if not len(correct):
        raise ValueError(f"{classifier.name} labels none of {len(images):,} pictures right: there is nothing to judge")
    boxes = _known_boxes(images, against)
    order = torch.randperm(len(correct), generator=torch.Generator().manual_seed(seed))
    correct_pixels, correct_labels = pixels[correct.to(device)], labels[correct].to(device)
    grid_scores: dict[str, map_checks.Checked] = {}
    if boxes is None or len(correct_labels.unique()) > 1:  # grids may be left out if there are boxes
        grids = map_checks.make_grids(correct_pixels, correct_labels, options.grids, seed=seed)
        grid_scores = map_checks.measure_localisation(map_checks.double_input_size(classifier.model), grids, seed=seed)
    singles = order[: options.singles].to(device)
    single_examples = map_checks.MapExamples(correct_pixels[singles], correct_labels[singles])
    single_scores = map_checks.judge_maps(classifier.model, single_examples, seed=seed)
    checks = {
        method: {check: mean_statistics(values) for check, values in grid_scores.get(method, {}).items()}
        | {
            check: mean_statistics(values, lower=check in LOWER_IS_BETTER)
            for check, values in scores.items()
            if check in SINGLE_IMAGE_CHECKS
        }
        for method, scores in single_scores.items()
    }
    grid_count = min(options.grids, len(correct)) if grid_scores else 0
    counts = grid_count, len(images), len(correct), len(singles)
    if boxes is None:
        return MapEvaluation(checks, *counts)
    chosen = correct[order[: options.grids]]
    true_boxes = boxes[chosen]
    examples = map_checks.MapExamples(pixels[chosen.to(device)], labels[chosen].to(device), true_boxes.to(device))
    box_scores = map_checks.measure_localisation(classifier.model, examples, seed=seed)
    if against is not None:
        shades = torch.from_numpy(images.pixels(chosen.numpy())).float().mean(1) / 255
        box_scores[against.name] = _score_boxes(against.boxes(shades), true_boxes)
    boxed_checks = {
        method: {check: mean_statistics(values) for check, values in scores.items()}
        for method, scores in box_scores.items()
    }
    box_area = float((true_boxes[:, 2:] - true_boxes[:, :2]).prod(1).mean())
    return MapEvaluation(checks, *counts, boxed_checks, len(chosen), box_area)


@torch.no_grad()
def _correct_images(
    model: Any, pixels: Float[Tensor, "image channels size size"], labels: Int[Tensor, "image"]
) -> Int[Tensor, "correct"]:
    """Return the numbers of the images that the model classifies correctly."""
    predicted = torch.cat([model(chunk).argmax(-1).cpu() for chunk in pixels.split(map_checks.CHUNK)])
    return (predicted == labels).nonzero()[:, 0]


def _known_boxes(images: LabelledImages, against: BoxModel | None) -> Tensor | None:
    """Return the boxes of all images, or None; raise an error if a box model cannot be compared on these images."""
    cells = [images.album.columns.get(BOX, [None] * len(images.album))[number] for number in images.numbers]
    boxes = None if None in cells else torch.tensor(cells)
    if against is None:
        return boxes
    size = images.album.pixels.shape[-1]
    if boxes is None:
        raise ValueError("--against needs pictures whose boxes are known: `regard data make digits FOLDER` makes some")
    if against.model.config.size != size:
        reads = f"{against.name} reads pictures of {against.model.config.size} pixels"
        raise ValueError(
            f"{reads} and these have {size}: make them, or train one of the two, with the size of the other"
        )
    return boxes


def _score_boxes(guesses: Tensor, true_boxes: Tensor) -> map_checks.Checked:
    """Score the boxes of a model trained on boxes: the centre of a box is the place it points at."""
    left, top, right, bottom = true_boxes.unbind(1)
    across, down = ((guesses[:, low] + guesses[:, low + 2]) / 2 for low in (0, 1))
    points = (across >= left) & (across < right) & (down >= top) & (down < bottom)
    return {"pointing": points.double().numpy(), "overlap": iou(guesses, true_boxes).numpy()}


def _split_numbers(count: int) -> list[np.ndarray]:
    return np.array_split(np.arange(count), max(1, -(-count // map_checks.CHUNK)))


def _table_rows(checks: Checks, columns: Sequence[str]) -> list[list[str]]:
    return [[method, *(_format_mean(scores.get(check)) for check in columns)] for method, scores in checks.items()]


def _plain_checks(checks: Checks) -> dict[str, Any]:
    return {
        method: {check: _plain_interval(statistics) for check, statistics in scores.items()}
        for method, scores in checks.items()
    }


def _plain_interval(statistics: Statistics) -> dict[str, float]:
    bounds = interval(statistics)
    return {"mean": statistics.score, "low": bounds.low, "high": bounds.high}


def _format_mean(statistics: Statistics | None) -> str:
    if statistics is None:
        return "-"
    half_width = f" ± {interval(statistics).half:.3f}" if len(statistics) > 1 else ""  # no interval for one image
    return f"{statistics.score:.3f}{half_width}"
