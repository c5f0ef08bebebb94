"""Learning what pictures show: labelled pictures in, a classifier out."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor
from torch.nn import functional as F

from regard import config
from regard.attention.hardware import device_of
from regard.checkpoint import Checkpoint
from regard.config.ranges import Share, Whole
from regard.config.resuming import Fingerprinted, Fixed, Free, Warned
from regard.config.words import quantity
from regard.data.examples import TensorBatch
from regard.data.pictures.album import PREPARATION, note_enlarged, sample_digests
from regard.data.pictures.augment import Augment, AugmentConfig
from regard.metrics.calibration import explain_missing_temperature, fit_temperature
from regard.models.efficientnet import EfficientNetConfig
from regard.models.resnet import ResNetConfig
from regard.models.spatial_transformer import SpatialTransformerConfig
from regard.models.vgg import VGGConfig
from regard.models.vit import ViTConfig
from regard.tasks.card import card
from regard.tasks.supervised.calibration import record_temperature
from regard.tasks.vision import preparing
from regard.tasks.vision.importing import imported
from regard.tasks.vision.opening import patch_size
from regard.tasks.vision.preparing import PicturesConfig, Prepared, Side
from regard.tasks.vision.recognition import recognise
from regard.tasks.vision.scoring import Measured, measured
from regard.training import transfer
from regard.training.loop import TrainingConfig
from regard.training.optim import OptimConfig
from regard.training.pace import default_run_length, power_of_two_below, round_between
from regard.training.task import Evaluation, Goal, Spread, Step, Task, alone, spread_over_classes
from regard.training.tuning import TuningConfig

AnyModelConfig = (  # the first where no name is given
    ViTConfig | ResNetConfig | VGGConfig | EfficientNetConfig | SpatialTransformerConfig
)
CHUNK = 256  # pictures looked at at a time
ROOM = 0.25  # share of free memory on the device that pictures may take

# What follows from the pictures where nobody named it.
SIZES = ((2_000, (128, 4, 4)), (20_000, (192, 6, 3)), (200_000, (256, 7, 4)))  # up to so many: width, depth, heads
LARGE = (384, 12, 6)
PASSES = ((2_000, 200), (20_000, 100), (200_000, 60))  # up to so many pictures, so many passes over them
ADAM = {"name": "adamw", "rate": 1e-3, "betas": [0.9, 0.98], "weight_decay": 0.05, "schedule": "cosine"}
MUON = {**ADAM, "name": "muon", "rate": 2e-3, "betas": [0.9, 0.95]}  # see docs/results.md: better by 1 to 6 points
VARIED = {"shift": 0.125, "operations": 1, "magnitude": 0.3, "cutmix": 1.0, "mixed": 0.5}
SMALL = 64  # pixels on a side up to which a picture is not halved at once
FEW = 5_000  # pictures below which nothing is learnt well from nothing


@dataclass(frozen=True, kw_only=True)
class PictureObjective:
    """What is minimised, and what is shown."""

    smoothing: Share = 0.0
    """Label smoothing: share of probability spread over all labels instead of the right one."""
    samples: Free[Whole] = 5
    """Held-out pictures whose answers are shown at every evaluation."""


@dataclass(frozen=True, kw_only=True)
class PicturesRecipe:
    """One run that learns what pictures show."""

    task: Fixed[Literal["pictures"]] = "pictures"
    """What is learnt."""
    data: Fingerprinted[PicturesConfig]
    """Which pictures, and their size."""
    augment: Warned[AugmentConfig] = field(default_factory=AugmentConfig)
    """How they are varied in training."""
    model: Fixed[AnyModelConfig] = field(default_factory=ViTConfig)
    """The network, chosen by its name; sizes that nobody names follow from the pictures."""
    objective: PictureObjective = field(default_factory=PictureObjective)
    """The loss."""
    optim: OptimConfig = field(default_factory=OptimConfig)
    """The optimizer and its learning rate."""
    tuning: Fixed[TuningConfig] = field(default_factory=TuningConfig)
    """What of a model to start from learns."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """How long, how often, where."""

    def __post_init__(self) -> None:
        if self.augment.mixes and self.data.batch % 2:
            raise ValueError(f"data.batch is {self.data.batch}, and pictures are mixed in pairs: give an even number")


@dataclass(frozen=True)
class PictureBatch(TensorBatch):
    """Some pictures: which, their places in the order of training, labels, and bytes unless the device has them.

    Of a scene there are several in a line: the one it is named after and what else it is made of.
    """

    numbers: Int[Tensor, "picture *part"]
    places: Int[Tensor, "picture"]
    labels: Int[Tensor, "picture"]
    pixels: UInt8[Tensor, "picture *part channels size size"] | None = None
    group: ClassVar[int] = 2
    """Pictures are mixed in pairs."""


def _from_nothing(recipe: PicturesRecipe, prepared: Prepared) -> bool:
    """Whether a ViT learns without any weights to begin with, and nobody says by which optimizer."""
    return prepared.fresh and isinstance(recipe.model, ViTConfig) and recipe.optim == OptimConfig()


class PictureClassification(Task):
    """The task of learning what pictures show."""

    Recipe = PicturesRecipe
    usage: ClassVar[str] = "regard classify {folder} PICTURE"
    shared: ClassVar[bool] = True
    goal: Goal = ("accuracy", "max")
    recognise = staticmethod(recognise)

    def __init__(self, recipe: PicturesRecipe, prepared: Prepared, model: Any, *, fixed: bool = False) -> None:
        self.recipe, self.prepared, self.model = recipe, prepared, model
        self.temperature = 1.0
        device, data = device_of(model), recipe.data
        self.augment = Augment(
            recipe.augment, mean=prepared.mean, std=prepared.std, seed=recipe.training.seed, device=device
        )
        self.rows = math.ceil(len(prepared.train) / data.batch)
        self.features = data.batch * prepared.channels * prepared.size**2
        self.kept = on_device(prepared.train, device)
        self.notes = [f"an epoch has {quantity(self.rows, 'row')} of {data.batch:,} pictures"]
        if prepared.fresh and len(prepared.train) < FEW:
            self.notes.append(f"fewer than {FEW:,} pictures: a model to start from (--from) would learn more from them")
        self.notes += explain_missing_temperature(len(prepared.valid), "pictures")
        self.notes += note_enlarged(patch_size(model.config), prepared.train.album, prepared.valid.album)
        if self.kept is not None:
            self.notes.append(f"{self.kept.nbytes / 1e6:,.0f} MB of pictures are kept on the device")

    @staticmethod
    def prepare(recipe: PicturesRecipe, known: Checkpoint | None = None) -> Prepared:
        """Read and decode the pictures, as a model to start from knows them."""
        known_config = None if known is None else known.config
        if recipe.data.scatter is None:
            return preparing.prepare(recipe.data, known_config)
        from regard.tasks.vision import scattering

        return scattering.prepare(recipe.data, recipe.data.scatter, known_config)

    @staticmethod
    def default_settings(recipe: PicturesRecipe, prepared: Prepared) -> dict[str, Any]:
        """Sizes, batches, variations and an end that so many pictures ask for."""
        amount, size = len(prepared.train), prepared.size
        batch = round_between(16, power_of_two_below(amount / 10), 512)
        rows = math.ceil(amount / batch)
        passes = next((passes for most, passes in PASSES if amount <= most), 30)
        steps = round_between(300, passes * rows, 100_000)
        natural, scattered = prepared.shape.channels == 3, recipe.data.scatter is not None  # scenes never come twice
        return {
            "data": {"size": prepared.shape.size, "channels": prepared.shape.channels, "batch": batch},
            "augment": {} if recipe.augment != AugmentConfig() or scattered else VARIED | {"flip": natural},
            "model": sizes_for(recipe.model, amount, size),
            "objective": {"smoothing": 0.1},
            "optim": MUON if _from_nothing(recipe, prepared) else ADAM,
            "training": {**default_run_length(recipe.training, rows=rows, steps=steps, patience=20), "ema": 0.998},
        }

    @staticmethod
    def fill_sizes(recipe: PicturesRecipe, prepared: Prepared) -> PicturesRecipe:
        """The recipe with the classes, the size and the scales of the pictures."""
        shape = prepared.shape
        data = replace(recipe.data, **shape._asdict(), mean=prepared.mean, std=prepared.std)
        model: Any = recipe.model
        shown = {"size": prepared.size, "channels": prepared.channels, "classes": len(prepared.classes)}
        return replace(recipe, data=data, model=replace(model, **shown))

    @staticmethod
    def adopt(model: Any, parent: Checkpoint, prepared: Prepared) -> list[str]:
        """Weights of a model that knows the same labels, or only the body of another under a new head."""
        same = parent.config.get("task") == "pictures" and parent.config.get("labels") == prepared.classes
        return transfer.load_weights(model, parent, same_task=same)

    @staticmethod
    def checkpoint_files(shape: Any, data: Any, notes: Any = (), *, labels: Any = None) -> dict[str, Any]:
        """What the checkpoint of a model of somebody else's holds beside its weights."""
        return imported(shape, data, notes, labels=labels)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return device_of(self.model)

    def batch(self, row: int) -> PictureBatch:
        """The pictures of a row."""
        train, seed = self.prepared.train, self.recipe.training.seed
        chosen, places = preparing.row(train, row, batch=self.recipe.data.batch, seed=seed)
        chosen, shown = train.choose(chosen, places, seed=seed)
        pixels = None
        if self.kept is None:
            pixels = torch.from_numpy(train.pixels(chosen.ravel())).unflatten(0, chosen.shape)
        numbers, turns, labels = map(torch.from_numpy, (chosen, places, shown))
        return PictureBatch(numbers, turns, labels, pixels)

    def origins(self, batch: PictureBatch) -> list[str]:
        """Where these pictures stand."""
        return [self.prepared.train.place(number) for number in batch.numbers.reshape(len(batch), -1)[:, 0].tolist()]

    def step(self, batch: PictureBatch, part: str) -> Step:
        """The surprise at every label, summed; of a mixture, at both by their shares."""
        self.temperature = 1.0  # one that was fitted was that of other weights
        batch = batch.to(self.device)
        pixels = batch.pixels
        if pixels is None:
            assert self.kept is not None
            pixels = self.kept.index_select(0, batch.numbers.flatten()).unflatten(0, batch.numbers.shape)
        with torch.no_grad(), torch.autocast(self.device.type, enabled=False):  # places of pixels need all their bits
            pixels = self.prepared.train.render(pixels, batch.places, seed=self.recipe.training.seed)
            shown = self.augment(pixels, batch.labels, batch.places)
        logits = self.model(shown.pixels).float()
        smoothing = self.recipe.objective.smoothing
        first, second = (
            F.cross_entropy(logits, labels, reduction="none", label_smoothing=smoothing)
            for labels in (shown.labels, shown.others)
        )
        loss = (shown.share * first + (1 - shown.share) * second).sum()
        return Step(loss=loss, weight=len(batch), counts={"pictures": len(batch)})

    def evaluate(self, spread: Spread = alone) -> Evaluation:
        """How held-out pictures are told, a few to look at; by their logits the temperature of answers is fitted."""
        side, classes = self.prepared.valid, self.prepared.classes
        found = measured(side, classes, spread(self._logits, _chunks(len(side))))
        self.temperature = fit_temperature(found.logits, side.labels)
        return Evaluation(found.metrics, self._samples(side, found))

    def _logits(self, chunk: range) -> list[list[float]]:
        """What the model says of some held-out pictures, as numbers that processes can exchange."""
        pixels = torch.from_numpy(self.prepared.valid.pixels(np.array(chunk))).to(self.device)
        return self.model(self.augment.plain(pixels)).float().tolist()

    def _samples(self, side: Side, found: Measured) -> list[dict[str, Any]]:
        classes, answers = self.prepared.classes, found.logits.argmax(-1)
        return [
            {"picture": side.place(n), "truth": classes[side.labels[n]], "answer": classes[answers[n]]}
            for n in spread_over_classes(side.labels.tolist(), self.recipe.objective.samples)
        ]

    def contents(self) -> dict[str, Any]:
        """What a checkpoint directory holds beside weights and metrics."""
        recipe = config.plain(self.recipe)
        data = {name: told for name in PREPARATION if (told := recipe["data"][name]) is not None}
        data |= {name: told for name in ("shortcut", "scatter") if (told := recipe["data"][name])}
        file = config.plain(preparing.like(self.recipe.data.train[0]))
        return {
            "config.yaml": {
                "format": 1,
                "task": recipe["task"],
                "model": recipe["model"],
                "labels": self.prepared.classes,
                **record_temperature(self.temperature),
                "data": {**data, "file": file, "learnt": sample_digests(self.prepared.train.marks)},
            },
            "README.md": self.card(),
        }

    def card(self) -> str:
        """What a stranger should know about the model, in a few lines."""
        classes, data = self.prepared.classes, self.recipe.data
        known = ", ".join(classes[:20]) + ", ..." * (len(classes) > 20)
        side = self.prepared.size
        scattered = "" if data.scatter is None else f", scattered in scenes of {side} x {side}"
        return card(
            "Says what a picture shows",
            f"{self.recipe.model.phrase}, trained with Regard on {len(self.prepared.train):,} pictures of "
            f"{data.size} x {data.size} pixels{scattered}.\n\nIt knows the labels {known}.",
            command="regard classify DIRECTORY picture.png",
            code='classify(["picture.png"])',
            files=[file.path for file in data.train],
        )


def on_device(side: Side, device: torch.device) -> Tensor | None:
    """All training pictures on a GPU where they fit; elsewhere they stay in the cache."""
    if device.type != "cuda":
        return None
    shape = side.album.pixels.shape[1:]
    free, _ = torch.cuda.mem_get_info(device)
    if len(side) * math.prod(shape) > ROOM * free:
        return None
    kept = torch.empty((len(side), *shape), dtype=torch.uint8, device=device)
    for chunk in _chunks(len(side), 4096):
        kept[chunk.start : chunk.stop] = torch.from_numpy(side.pixels(np.array(chunk))).to(device)
    return kept


def sizes_for(model: Any, amount: int, size: int) -> dict[str, Any]:
    """The sizes of a ViT that so many pictures of this size can fill; others have sizes of their own."""
    if model.name == "resnet":
        return {"stem": "small" if size <= SMALL else "large"}
    if model.name != "vit":
        return {}
    width, depth, heads = next((sizes for most, sizes in SIZES if amount <= most), LARGE)
    usual = type(model)()
    width = width if model.width == usual.width else model.width
    heads = next(count for count in range(heads, 0, -1) if width % count == 0)
    patch = _patch(size) if model.patch == usual.patch else model.patch
    return {"width": width, "depth": depth, "heads": heads, "hidden": 2 * width, "patch": patch}


def _patch(size: int) -> int:
    """The least patch of four pixels or more, or else of fewer, that cuts a picture into few enough and not too few."""
    least = min(4, size // 4)
    sides = [*range(4, size + 1), *range(min(4, size) - 1, 0, -1)]
    for patch in sides:
        if size % patch == 0 and least <= size // patch <= 16:
            return patch
    near = next(other for other in range(size - 1, 0, -1) if other % 8 == 0)
    raise ValueError(
        f"a picture of {size} pixels cannot be cut into {least} to 16 patches on each side: "
        f"set data.size to another, such as {near}, or name model.patch"
    )


def _chunks(count: int, size: int = CHUNK) -> list[range]:
    return [range(first, min(first + size, count)) for first in range(0, count, size)]
