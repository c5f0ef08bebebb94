"""Learning which digit a picture shows and where: a class and a box from one network, and the network in use."""

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
from regard.tasks.card import card
from regard.tasks.inputs import PICTURE, InputKind, Inputs, list_inputs
from regard.tasks.trained import (
    DirectAnswers,
    Extra,
    NoOptions,
    describe_model,
    load_model,
    no_attention_error,
    resolve_options,
)
from regard.tasks.vision import drawn
from regard.tasks.vision.drawing import Albums, Drawing, PictureOptions, fresh_pictures
from regard.tasks.vision.drawn import PictureConfig
from regard.training.loop import TrainingConfig
from regard.training.optim import OptimConfig
from regard.training.task import Evaluation, Goal, Spread, Step, alone

CHUNK = 256  # pictures looked at at a time
HALF = 0.5  # overlap from which on a box counts as right
SMOOTH = 0.1  # share of the picture's side below which an error counts squared
SHOWN = 4


@dataclass(frozen=True, kw_only=True)
class BoxConfig:
    """What a wrong box costs beside a wrong class, whose cost is its cross-entropy."""

    loss: Literal["smooth_l1", "giou"] = "smooth_l1"
    """How far the four sides are off, or how little the boxes overlap (generalised, so that it helps boxes apart)."""
    weight: Positive = 10.0
    """Weight of the box in the loss."""


@dataclass(frozen=True, kw_only=True)
class LocalisationRecipe:
    """One run that learns to find a digit in a picture."""

    task: Fixed[Literal["localisation"]] = "localisation"
    """What is learnt."""
    data: Fingerprinted[PictureConfig] = field(default_factory=PictureConfig)
    """What is drawn."""
    model: Fixed[LocatorConfig] = field(default_factory=LocatorConfig)
    """Its size."""
    objective: BoxConfig = field(default_factory=BoxConfig)
    """The loss."""
    optim: OptimConfig = field(default_factory=OptimConfig)
    """The optimizer and its learning rate."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """How long, how often, where."""


class Localisation(Drawing):
    """The task of learning a class and a box."""

    Recipe = LocalisationRecipe
    usage: ClassVar[str] = "regard locate {folder} PICTURE"
    unit = "picture"
    goal: Goal = ("loss", "min")  # shares of a few hundred pictures are often equal

    def __init__(self, recipe: LocalisationRecipe, albums: Albums, model: Any, *, fixed: bool = False) -> None:
        super().__init__(recipe, albums, model)
        self.notes = [
            f"{quantity(len(self.valid), 'picture')} held out",
            f"without looking: {self.blind():.3f} mean IoU",
        ]

    @staticmethod
    def fill_sizes(recipe: LocalisationRecipe, albums: Albums) -> LocalisationRecipe:
        """The recipe with the size of the pictures."""
        return replace(recipe, model=replace(recipe.model, size=recipe.data.size, classes=drawn.DIGITS))

    def blind(self) -> float:
        """The mean overlap of the mean box of other pictures: what is to be beaten."""
        _, _, boxes = self.albums.train.examples(range(len(self.valid))).parts
        box = boxes.mean(0).expand(len(self.valid), 4)
        return iou(box, self.valid.parts[2]).mean().item()

    def step(self, batch: Examples, part: str) -> Step:
        """The cost of class and box, summed over the pictures."""
        seen, labels, boxes = batch.to(self.device).parts
        logits, guesses = self.model(seen)
        off = _off(self.recipe.objective, guesses, boxes)
        loss = F.cross_entropy(logits.float(), labels, reduction="sum") + self.recipe.objective.weight * off.sum()
        return Step(loss=loss, weight=len(batch), counts={"pictures": len(batch)})

    def evaluate(self, spread: Spread = alone) -> Evaluation:
        """How often class and box are right in pictures that nothing was learnt from."""
        seen, labels, boxes = self.valid.parts
        answers = spread(self._seen, seen.split(CHUNK))
        logits, guesses = (torch.tensor([row for part in each for row in part]) for each in zip(*answers, strict=True))
        right, shared = logits.argmax(-1) == labels, iou(guesses, boxes)
        off = _off(self.recipe.objective, guesses, boxes)
        loss = F.cross_entropy(logits, labels) + self.recipe.objective.weight * off.mean()
        metrics = {
            "loss": loss.item(),
            "accuracy": right.float().mean().item(),
            "iou": shared.mean().item(),
            "found": (right & (shared >= HALF)).float().mean().item(),
        }
        return Evaluation(metrics, self._samples(logits, guesses))

    def _seen(self, pictures: Tensor) -> list[list[list[float]]]:
        """Logits and boxes of some pictures, as numbers that processes can exchange."""
        return [each.float().tolist() for each in self.model(pictures.to(self.device))]

    def _samples(self, logits: Tensor, guesses: Tensor) -> list[dict[str, Any]]:
        size, (_, labels, boxes) = self.recipe.data.size, self.valid.parts
        return [
            {
                "picture": f"held-out picture {number}: {int(labels[number])} in {_pixels(boxes[number], size)}",
                "answer": f"{int(logits[number].argmax())} in {_pixels(guesses[number], size)}",
            }
            for number in range(min(SHOWN, len(labels)))
        ]

    def card(self) -> str:
        """What a stranger should know about the model, in a few lines."""
        data = self.recipe.data
        source = "four drawn hands" if data.digits is None else "digits in MNIST's format"
        return card(
            "Finds a digit in a picture",
            f"Says which digit a picture of {data.size} x {data.size} pixels shows and the box around it. Trained with "
            f"Regard on pictures drawn from {source}, {data.smallest} to {data.largest} pixels high, bright on dark, "
            f"with noise and {data.clutter} scraps.",
            command="regard locate DIRECTORY picture.png",
            code='locate(["picture.png"])',
        )


@dataclass(frozen=True)
class Place:
    """A digit in a picture: which, how probably, and its box in pixels."""

    label: int
    probability: float
    box: tuple[float, float, float, float]

    def __str__(self) -> str:
        return f"{self.label}\t{self.probability:.3f}\t{' '.join(f'{side:g}' for side in self.box)}"

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {"label": self.label, "probability": round(self.probability, 6), "box": list(self.box)}


class Locator(DirectAnswers):
    """Finds digits with a trained model."""

    task: ClassVar[str] = "localisation"
    verb: ClassVar[str] = "locate"
    kind: ClassVar[str] = "a model that finds digits"
    input_kind: ClassVar[InputKind] = PICTURE
    Options: ClassVar[type] = PictureOptions
    __repr__ = describe_model

    def __init__(self, model: ClassAndBox, name: str = "locator", data: Mapping[str, Any] | None = None) -> None:
        self.model, self.name, self.data = model, name, data

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> Locator:
        """The locator a checkpoint directory holds."""
        name = "/".join(checkpoint.directory.absolute().parts[-2:])  # most are called best: the run's name tells more
        return cls(load_model(checkpoint, device), name, checkpoint.config.get("data"))

    @property
    def inputs(self) -> Inputs:
        """Pictures of the model's size."""
        size = self.model.config.size
        return Inputs(kind=self.input_kind, parse=self.parse, limits={"height": size, "width": size})

    @property
    def extras(self) -> Mapping[str, Extra]:
        """The boxes of pictures in memory."""
        return {"boxes": Extra(self.boxes, NoOptions, "The box in each picture of shades, as shares of its sides.")}

    def parse(self, text: str) -> Path:
        """An input is the path of a picture."""
        return Path(text)

    def answer(self, inputs: Sequence[str | Path | np.ndarray], **options: Any) -> list[Place]:
        """Which digit is where in each picture; options are those of `PictureOptions`."""
        return self.locate(inputs, invert=resolve_options(self, options).invert)

    @torch.no_grad()
    def evaluate(self, *files: str | Path, count: int = 1000, name: str | None = None) -> Scores:
        """Scores on so many freshly drawn pictures."""
        seen, labels, boxes = fresh_pictures(self, PictureConfig, count, files).parts
        logits, guesses = self._answers(seen)
        right, shared = (logits.argmax(-1) == labels).float(), iou(guesses, boxes)
        metrics = {
            "accuracy, %": mean_statistics((100 * right).tolist()),
            "mean IoU": mean_statistics(shared.tolist()),
            "right and IoU >= 0.5, %": mean_statistics((100 * right * (shared >= HALF)).tolist()),
        }
        size = self.model.config.size
        examples = [
            Judged(i + 1, f"picture {i}", f"{int(labels[i])} in {_pixels(boxes[i], size)}",
                   f"{int(logits[i].argmax())} in {_pixels(guesses[i], size)}", float(right[i] + shared[i]))
            for i in range(len(labels))
        ]  # fmt: skip
        return Scores(name or self.name, self.task, metrics, examples, unit="picture", counted="class and IoU")

    def boxes(self, shades: Float[Tensor, "picture height width"]) -> Float[Tensor, "picture 4"]:
        """The box in each picture of shades from 0, black, to 1, as shares of the sides."""
        return self._answers(shades)[1]

    @torch.no_grad()
    def _answers(self, shades: Float[Tensor, "picture height width"]) -> tuple[Tensor, Tensor]:
        found = [self.runner(chunk.to(self.runner.device)) for chunk in shades.split(CHUNK)]
        logits, guesses = (torch.cat(part).float().cpu() for part in zip(*found, strict=True))
        return logits, guesses

    def look(self, given: Any, **options: Any) -> Trace:
        """There is nothing to look at in a convolution."""
        raise no_attention_error(self)

    @torch.no_grad()
    def locate(self, seen: Sequence[str | Path | np.ndarray], *, invert: bool = False) -> list[Place]:
        """Which digit is where, in picture files or in arrays of shades from 0, black, to 1."""
        seen = list_inputs(seen, PICTURE, verb=self.verb)
        shades = images.stack_pictures(seen, size=self.model.config.size, invert=invert)
        logits, boxes = self.runner(torch.from_numpy(shades).to(self.runner.device))
        side = self.model.config.size
        found = zip(logits.float().softmax(-1).max(-1).values, logits.argmax(-1), boxes * side, strict=True)
        return [Place(int(label), float(sure), _rounded(box)) for sure, label, box in found]


def _off(objective: BoxConfig, guesses: Float[Tensor, "batch 4"], boxes: Float[Tensor, "batch 4"]) -> Tensor:
    """How wrong each box is."""
    if objective.loss == "giou":
        return giou_loss(guesses, boxes)
    return F.smooth_l1_loss(guesses, boxes, reduction="none", beta=SMOOTH).sum(-1)


def _rounded(box: Tensor) -> tuple[float, float, float, float]:
    left, top, right, bottom = (round(each, 1) for each in box.tolist())
    return left, top, right, bottom


def _pixels(box: Tensor, size: int) -> str:
    return " ".join(f"{each:.0f}" for each in (box * size).tolist())
