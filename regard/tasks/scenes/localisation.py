"""Locating a digit in an image: training of a network that predicts class and box, and the network in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from regard.checkpoint import Checkpoint
from regard.config.ranges import Positive
from regard.config.resuming import Fingerprinted, Fixed
from regard.config.words import quantity
from regard.data import images
from regard.data.examples import Examples
from regard.interpret.trace import Trace
from regard.metrics.boxes import giou_loss, iou
from regard.metrics.scores import Judged, Scores
from regard.metrics.significance import mean_statistics
from regard.models.detector import ClassAndBox, LocatorConfig
from regard.tasks.inputs import PICTURE, InputKind, Inputs, list_inputs
from regard.tasks.model_card import model_card
from regard.tasks.scenes import digit_scenes
from regard.tasks.scenes.digit_scenes import DigitImageConfig
from regard.tasks.scenes.scene_task import SceneSplits, SceneTask, ShadesOptions, draw_test_examples
from regard.tasks.trained import (
    DirectAnswers,
    Extra,
    NoOptions,
    describe_model,
    load_model,
    no_attention_error,
    resolve_options,
)
from regard.training.loop import TrainingConfig
from regard.training.optim import OptimConfig
from regard.training.task import Evaluation, Goal, Spread, Step, alone

IMAGES_PER_BATCH = 256  # images per batch
MIN_IOU = 0.5  # lowest overlap at which a box counts as right
SMOOTH_L1_BETA = 0.1  # errors below this share of the image's side are squared
SAMPLES = 4


@dataclass(frozen=True, kw_only=True)
class BoxConfig:
    """Settings of the loss of boxes, which is added to the cross-entropy of classes."""

    loss: Literal["smooth_l1", "giou"] = "smooth_l1"
    """How far the four sides are off, or how little the boxes overlap (generalised, so that it helps boxes apart)."""
    weight: Positive = 10.0
    """Weight of the box in the loss."""


@dataclass(frozen=True, kw_only=True)
class LocalisationRecipe:
    """A training run of a model that locates a digit in an image."""

    task: Fixed[Literal["localisation"]] = "localisation"
    """What is learnt."""
    data: Fingerprinted[DigitImageConfig] = field(default_factory=DigitImageConfig)
    """What is drawn."""
    model: Fixed[LocatorConfig] = field(default_factory=LocatorConfig)
    """Its size."""
    objective: BoxConfig = field(default_factory=BoxConfig)
    """The loss."""
    optim: OptimConfig = field(default_factory=OptimConfig)
    """The optimizer and its learning rate."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """How long, how often, where."""


class Localisation(SceneTask):
    """The task of learning a class and a box."""

    Recipe = LocalisationRecipe
    usage: ClassVar[str] = "regard locate {folder} PICTURE"
    unit = "picture"
    goal: Goal = ("loss", "min")  # accuracies on a few hundred images are often equal

    def __init__(self, recipe: LocalisationRecipe, splits: SceneSplits, model: Any, *, fixed: bool = False) -> None:
        super().__init__(recipe, splits, model)
        self.notes = [
            f"{quantity(len(self.valid), 'picture')} held out",
            f"without looking: {self.mean_box_iou():.3f} mean IoU",
        ]

    @staticmethod
    def fill_sizes(recipe: LocalisationRecipe, splits: SceneSplits) -> LocalisationRecipe:
        """Return the recipe with the size of the images."""
        return replace(recipe, model=replace(recipe.model, size=recipe.data.size, classes=digit_scenes.DIGITS))

    def mean_box_iou(self) -> float:
        """Return the mean IoU of a baseline that always predicts the mean box of other images."""
        _, _, boxes = self.splits.train.examples(range(len(self.valid))).parts
        mean_box = boxes.mean(0).expand(len(self.valid), 4)
        return iou(mean_box, self.valid.parts[2]).mean().item()

    def step(self, batch: Examples, part: str) -> Step:
        """Return the loss of class and box, summed over the images."""
        shades, labels, boxes = batch.to(self.device).parts
        logits, guesses = self.model(shades)
        box_loss = _box_loss(self.recipe.objective, guesses, boxes)
        loss = F.cross_entropy(logits.float(), labels, reduction="sum") + self.recipe.objective.weight * box_loss.sum()
        return Step(loss=loss, weight=len(batch), counts={"pictures": len(batch)})

    def evaluate(self, spread: Spread = alone) -> Evaluation:
        """Measure loss, accuracy and overlap of boxes on validation images."""
        shades, labels, boxes = self.valid.parts
        answers = spread(self._predict, shades.split(IMAGES_PER_BATCH))
        logits, guesses = (
            torch.tensor([row for chunk in output for row in chunk]) for output in zip(*answers, strict=True)
        )
        is_right, overlap = logits.argmax(-1) == labels, iou(guesses, boxes)
        box_loss = _box_loss(self.recipe.objective, guesses, boxes)
        loss = F.cross_entropy(logits, labels) + self.recipe.objective.weight * box_loss.mean()
        metrics = {
            "loss": loss.item(),
            "accuracy": is_right.float().mean().item(),
            "iou": overlap.mean().item(),
            "found": (is_right & (overlap >= MIN_IOU)).float().mean().item(),
        }
        return Evaluation(metrics, self._samples(logits, guesses))

    def _predict(self, shades: Tensor) -> list[list[list[float]]]:
        """Return logits and boxes of some images as plain lists, which processes can exchange."""
        return [output.float().tolist() for output in self.model(shades.to(self.device))]

    def _samples(self, logits: Tensor, guesses: Tensor) -> list[dict[str, Any]]:
        size, (_, labels, boxes) = self.recipe.data.size, self.valid.parts
        return [
            {
                "picture": f"held-out picture {number}: {int(labels[number])} in {_format_box(boxes[number], size)}",
                "answer": f"{int(logits[number].argmax())} in {_format_box(guesses[number], size)}",
            }
            for number in range(min(SAMPLES, len(labels)))
        ]

    def card(self) -> str:
        """Return the model card."""
        data = self.recipe.data
        source = "four drawn hands" if data.digits is None else "digits in MNIST's format"
        return model_card(
            "Finds a digit in a picture",
            f"Says which digit a picture of {data.size} x {data.size} pixels shows and the box around it. Trained with "
            f"Regard on pictures drawn from {source}, {data.smallest} to {data.largest} pixels high, bright on dark, "
            f"with noise and {data.clutter} scraps.",
            command="regard locate DIRECTORY picture.png",
            code='locate(["picture.png"])',
        )


@dataclass(frozen=True)
class LocatedDigit:
    """The digit in an image, with its probability and its box in pixels."""

    label: int
    probability: float
    box: tuple[float, float, float, float]

    def __str__(self) -> str:
        return f"{self.label}\t{self.probability:.3f}\t{' '.join(f'{side:g}' for side in self.box)}"

    def plain(self) -> dict[str, Any]:
        """Return everything as JSON."""
        return {"label": self.label, "probability": round(self.probability, 6), "box": list(self.box)}


class Locator(DirectAnswers):
    """Finds digits with a trained model."""

    task: ClassVar[str] = "localisation"
    verb: ClassVar[str] = "locate"
    kind: ClassVar[str] = "a model that finds digits"
    input_kind: ClassVar[InputKind] = PICTURE
    Options: ClassVar[type] = ShadesOptions
    __repr__ = describe_model

    def __init__(self, model: ClassAndBox, name: str = "locator", data: Mapping[str, Any] | None = None) -> None:
        self.model, self.name, self.data = model, name, data

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> Locator:
        """Load the locator of a checkpoint directory."""
        name = "/".join(checkpoint.directory.absolute().parts[-2:])  # most are called best, so add the run's name
        return cls(load_model(checkpoint, device), name, checkpoint.config.get("data"))

    @property
    def inputs(self) -> Inputs:
        """Images of the model's size."""
        size = self.model.config.size
        return Inputs(kind=self.input_kind, parse=self.parse, limits={"height": size, "width": size})

    @property
    def extras(self) -> Mapping[str, Extra]:
        """Boxes of images that are already in memory."""
        return {"boxes": Extra(self.boxes, NoOptions, "The box in each picture of shades, as shares of its sides.")}

    def parse(self, text: str) -> Path:
        """Return the path of an image."""
        return Path(text)

    def answer(self, inputs: Sequence[str | Path | np.ndarray], **options: Any) -> list[LocatedDigit]:
        """Locate the digit in each image; options are those of `ShadesOptions`."""
        return self.locate(inputs, invert=resolve_options(self, options).invert)

    @torch.no_grad()
    def evaluate(self, *files: str | Path, count: int = 1000, name: str | None = None) -> Scores:
        """Return scores on `count` newly drawn images."""
        shades, labels, boxes = draw_test_examples(self, DigitImageConfig, count, files).parts
        logits, guesses = self._predict(shades)
        is_right, overlap = (logits.argmax(-1) == labels).float(), iou(guesses, boxes)
        metrics = {
            "accuracy, %": mean_statistics((100 * is_right).tolist()),
            "mean IoU": mean_statistics(overlap.tolist()),
            "right and IoU >= 0.5, %": mean_statistics((100 * is_right * (overlap >= MIN_IOU)).tolist()),
        }
        size = self.model.config.size
        examples = [
            Judged(i + 1, f"picture {i}", f"{int(labels[i])} in {_format_box(boxes[i], size)}",
                   f"{int(logits[i].argmax())} in {_format_box(guesses[i], size)}", float(is_right[i] + overlap[i]))
            for i in range(len(labels))
        ]  # fmt: skip
        return Scores(name or self.name, self.task, metrics, examples, unit="picture", counted="class and IoU")

    def boxes(self, shades: Float[Tensor, "image height width"]) -> Float[Tensor, "image 4"]:
        """Return the box in each image of shades from 0, black, to 1, as shares of the sides."""
        return self._predict(shades)[1]

    @torch.no_grad()
    def _predict(self, shades: Float[Tensor, "image height width"]) -> tuple[Tensor, Tensor]:
        outputs = [self.runner(chunk.to(self.runner.device)) for chunk in shades.split(IMAGES_PER_BATCH)]
        logits, guesses = (torch.cat(part).float().cpu() for part in zip(*outputs, strict=True))
        return logits, guesses

    def look(self, image: Any, **options: Any) -> Trace:
        """Raise an error: a convolution has no attention to look at."""
        raise no_attention_error(self)

    @torch.no_grad()
    def locate(self, inputs: Sequence[str | Path | np.ndarray], *, invert: bool = False) -> list[LocatedDigit]:
        """Locate the digit in image files or in arrays of shades from 0, black, to 1."""
        inputs = list_inputs(inputs, PICTURE, verb=self.verb)
        shades = images.stack_pictures(inputs, size=self.model.config.size, invert=invert)
        logits, boxes = self.runner(torch.from_numpy(shades).to(self.runner.device))
        size = self.model.config.size
        answers = zip(logits.float().softmax(-1).max(-1).values, logits.argmax(-1), boxes * size, strict=True)
        return [LocatedDigit(int(label), float(probability), _round_box(box)) for probability, label, box in answers]


def _box_loss(objective: BoxConfig, guesses: Float[Tensor, "batch 4"], boxes: Float[Tensor, "batch 4"]) -> Tensor:
    """Return the loss of each box."""
    if objective.loss == "giou":
        return giou_loss(guesses, boxes)
    return F.smooth_l1_loss(guesses, boxes, reduction="none", beta=SMOOTH_L1_BETA).sum(-1)


def _round_box(box: Tensor) -> tuple[float, float, float, float]:
    x_min, y_min, x_max, y_max = (round(coordinate, 1) for coordinate in box.tolist())
    return x_min, y_min, x_max, y_max


def _format_box(box: Tensor, size: int) -> str:
    return " ".join(f"{coordinate:.0f}" for coordinate in (box * size).tolist())
