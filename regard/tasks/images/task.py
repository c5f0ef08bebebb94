"""Training an image classifier on labelled images."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch.nn import functional as F

from regard import config
from regard.attention.hardware import device_of
from regard.checkpoint import Checkpoint
from regard.config.ranges import Share, Whole
from regard.config.resuming import Fingerprinted, Fixed, Free, Warned
from regard.config.words import quantity
from regard.data.examples import spread_over_classes
from regard.data.images import image_dataset, labelled_images
from regard.data.images.album import PREPARATION, note_enlarged, sample_digests
from regard.data.images.augmentation import Augment, AugmentConfig
from regard.data.images.image_dataset import ImageDataConfig
from regard.data.images.labelled_images import ImageBatch, ImageSplits, LabelledImages, copy_to_device
from regard.metrics.calibration import explain_missing_temperature, fit_temperature
from regard.models.efficientnet import EfficientNetConfig
from regard.models.resnet import ResNetConfig
from regard.models.spatial_transformer import SpatialTransformerConfig
from regard.models.vgg import VGGConfig
from regard.models.vit import ViTConfig
from regard.tasks.image_files import claim_labelled_images
from regard.tasks.image_inputs import channels_last, patch_size, short_place
from regard.tasks.image_model_sizes import default_model_sizes
from regard.tasks.images.imported_checkpoint import imported_checkpoint_files
from regard.tasks.images.scoring import ImageClassifierResults, evaluate_logits
from regard.tasks.model_card import model_card
from regard.tasks.supervised.calibration import record_temperature
from regard.training import transfer
from regard.training.loop import TrainingConfig
from regard.training.optim import OptimConfig
from regard.training.pace import default_run_length, power_of_two_below, round_between
from regard.training.task import Evaluation, Goal, Spread, Step, Task, TraceInput, alone
from regard.training.tuning import TuningConfig

AnyModelConfig = (  # the first is the default
    ViTConfig | ResNetConfig | VGGConfig | EfficientNetConfig | SpatialTransformerConfig
)
EVALUATION_BATCH = 256  # images per batch

# Default settings by the number of images.
EPOCHS_BY_IMAGES = ((2_000, 200), (20_000, 100), (200_000, 60))  # (most images, epochs)
ADAM_SETTINGS = {
    "name": "adamw",
    "learning_rate": 1e-3,
    "betas": [0.9, 0.98],
    "weight_decay": 0.05,
    "schedule": "cosine",
}
# Better by 1 to 6 points: see docs/results.md.
MUON_SETTINGS = {**ADAM_SETTINGS, "name": "muon", "learning_rate": 2e-3, "betas": [0.9, 0.95]}
DEFAULT_AUGMENTATION = {"shift": 0.125, "operations": 1, "magnitude": 0.3, "cutmix": 1.0, "mixed": 0.5}
SMALL_DATASET = 5_000  # fewer images are too few to train well from scratch


@dataclass(frozen=True, kw_only=True)
class ImageClassificationObjective:
    """Settings of the loss and of the logged samples."""

    label_smoothing: Share = 0.0
    """Label smoothing: share of probability spread over all labels instead of the right one."""
    samples: Free[Whole] = 5
    """Held-out pictures whose answers are shown at every evaluation."""


@dataclass(frozen=True, kw_only=True)
class ImageClassificationRecipe:
    """A training run of an image classifier."""

    task: Fixed[Literal["pictures"]] = "pictures"
    """What is learnt."""
    data: Fingerprinted[ImageDataConfig]
    """Which pictures, and their size."""
    augment: Warned[AugmentConfig] = field(default_factory=AugmentConfig)
    """How they are varied in training."""
    model: Fixed[AnyModelConfig] = field(default_factory=ViTConfig)
    """The network, chosen by its name; sizes that nobody names follow from the pictures."""
    objective: ImageClassificationObjective = field(default_factory=ImageClassificationObjective)
    """The loss."""
    optim: OptimConfig = field(default_factory=OptimConfig)
    """The optimizer and its learning rate."""
    tuning: Fixed[TuningConfig] = field(default_factory=TuningConfig)
    """What of a model to start from learns."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """How long, how often, where."""

    def __post_init__(self) -> None:
        if self.augment.mixes and self.data.batch_size % 2:
            raise ValueError(
                f"data.batch_size is {self.data.batch_size}, and pictures are mixed in pairs: give an even number"
            )


def _trains_from_scratch(recipe: ImageClassificationRecipe, prepared: ImageSplits) -> bool:
    """True for a ViT that is trained from scratch with the default optimizer."""
    return prepared.fresh and isinstance(recipe.model, ViTConfig) and recipe.optim == OptimConfig()


class ImageClassification(Task):
    """The task of training an image classifier."""

    Recipe = ImageClassificationRecipe
    usage: ClassVar[str] = "regard classify {folder} PICTURE"
    shared: ClassVar[bool] = True
    goal: Goal = ("accuracy", "max")
    recognise = staticmethod(claim_labelled_images)

    def __init__(
        self, recipe: ImageClassificationRecipe, prepared: ImageSplits, model: Any, *, fixed: bool = False
    ) -> None:
        self.recipe, self.prepared, self.model = recipe, prepared, model
        self.temperature = 1.0
        device, data = device_of(model), recipe.data
        self.augment = Augment(
            recipe.augment, mean=prepared.mean, std=prepared.std, seed=recipe.training.seed, device=device
        )
        self.rows = math.ceil(len(prepared.train) / data.batch_size)
        self.features = data.batch_size * prepared.channels * prepared.size**2
        self.device_pixels = copy_to_device(prepared.train, device)
        self.notes = [f"an epoch has {quantity(self.rows, 'row')} of {data.batch_size:,} pictures"]
        if prepared.fresh and len(prepared.train) < SMALL_DATASET:
            self.notes.append(
                f"fewer than {SMALL_DATASET:,} pictures: a model to start from (--from) would learn more from them"
            )
        self.notes += explain_missing_temperature(len(prepared.valid), "pictures")
        self.notes += note_enlarged(patch_size(model.config), prepared.train.album, prepared.valid.album)
        if self.device_pixels is not None:
            self.notes.append(f"{self.device_pixels.nbytes / 1e6:,.0f} MB of pictures are kept on the device")

    @staticmethod
    def prepare(recipe: ImageClassificationRecipe, parent: Checkpoint | None = None) -> ImageSplits:
        """Read and decode the images, with the labels and statistics of a parent model if there is one."""
        parent_config = None if parent is None else parent.config
        if recipe.data.scatter is None:
            return image_dataset.prepare(recipe.data, parent_config)
        from regard.tasks.images import scattered_scenes

        return scattered_scenes.prepare(recipe.data, recipe.data.scatter, parent_config)

    @staticmethod
    def default_settings(recipe: ImageClassificationRecipe, prepared: ImageSplits) -> dict[str, Any]:
        """Choose model size, batch size, augmentation and training length for a dataset of this size."""
        image_count, size = len(prepared.train), prepared.size
        batch_size = round_between(16, power_of_two_below(image_count / 10), 512)
        rows = math.ceil(image_count / batch_size)
        epochs = next((epochs for limit, epochs in EPOCHS_BY_IMAGES if image_count <= limit), 30)
        steps = round_between(300, epochs * rows, 100_000)
        natural = prepared.shape.channels == 3
        scattered = recipe.data.scatter is not None  # every scene is new
        keeps_augment = scattered or recipe.augment != AugmentConfig()
        return {
            "data": {"size": prepared.shape.size, "channels": prepared.shape.channels, "batch_size": batch_size},
            "augment": {} if keeps_augment else DEFAULT_AUGMENTATION | {"flip": natural},
            "model": default_model_sizes(recipe.model, image_count, size),
            "objective": {"label_smoothing": 0.1},
            "optim": MUON_SETTINGS if _trains_from_scratch(recipe, prepared) else ADAM_SETTINGS,
            "training": {**default_run_length(recipe.training, rows=rows, steps=steps, patience=20), "ema": 0.998},
        }

    @staticmethod
    def fill_sizes(recipe: ImageClassificationRecipe, prepared: ImageSplits) -> ImageClassificationRecipe:
        """Return the recipe with the number of classes, and the size and channel statistics of the images."""
        shape = prepared.shape
        data = replace(recipe.data, **shape._asdict(), mean=prepared.mean, std=prepared.std)
        model: Any = recipe.model
        input_sizes = {"size": prepared.size, "channels": prepared.channels, "classes": len(prepared.classes)}
        return replace(recipe, data=data, model=replace(model, **input_sizes))

    @staticmethod
    def adopt(model: Any, parent: Checkpoint, prepared: ImageSplits) -> list[str]:
        """Load all weights of a classifier with the same labels; otherwise only the backbone, under a new head."""
        same = parent.config.get("task") == "pictures" and parent.config.get("labels") == prepared.classes
        return transfer.load_weights(model, parent, same_task=same)

    @staticmethod
    def checkpoint_files(shape: Any, data: Any, notes: Any = (), *, labels: Any = None) -> dict[str, Any]:
        """Return the checkpoint files other than the weights, for a model that was trained elsewhere."""
        return imported_checkpoint_files(shape, data, notes, labels=labels)

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return device_of(self.model)

    def batch(self, row: int) -> ImageBatch:
        """Return the images of a row."""
        train, seed = self.prepared.train, self.recipe.training.seed
        image_numbers, places = labelled_images.training_row(train, row, batch=self.recipe.data.batch_size, seed=seed)
        image_numbers, label_numbers = train.choose(image_numbers, places, seed=seed)
        pixels = None
        if self.device_pixels is None:
            pixels = torch.from_numpy(train.pixels(image_numbers.ravel())).unflatten(0, image_numbers.shape)
        numbers, turns, labels = map(torch.from_numpy, (image_numbers, places, label_numbers))
        return ImageBatch(numbers, turns, labels, pixels)

    def origins(self, batch: ImageBatch) -> list[str]:
        """Return the sources of these images, for error messages."""
        return [self.prepared.train.place(number) for number in batch.numbers.reshape(len(batch), -1)[:, 0].tolist()]

    def step(self, batch: ImageBatch, part: str) -> Step:
        """Return the summed cross-entropy; a mixed image counts both labels by their shares."""
        self.temperature = 1.0  # a fitted temperature belongs to the weights before this step
        batch = batch.to(self.device)
        pixels = batch.pixels
        if pixels is None:
            assert self.device_pixels is not None
            pixels = self.device_pixels.index_select(0, batch.numbers.flatten()).unflatten(0, batch.numbers.shape)
        with torch.no_grad(), torch.autocast(self.device.type, enabled=False):  # pixel coordinates need full precision
            pixels = self.prepared.train.render(pixels, batch.places, seed=self.recipe.training.seed)
            augmented = self.augment(pixels, batch.labels, batch.places)
        logits = self.model(augmented.pixels).float()
        smoothing = self.recipe.objective.label_smoothing
        loss_of_labels, loss_of_others = (
            F.cross_entropy(logits, labels, reduction="none", label_smoothing=smoothing)
            for labels in (augmented.labels, augmented.others)
        )
        loss = (augmented.share * loss_of_labels + (1 - augmented.share) * loss_of_others).sum()
        return Step(loss=loss, weight=len(batch), counts={"pictures": len(batch)})

    def evaluate(self, spread: Spread = alone) -> Evaluation:
        """Measure accuracy on validation images, show some answers, and fit the temperature to the logits."""
        images, classes = self.prepared.valid, self.prepared.classes
        results = evaluate_logits(images, classes, spread(self._logits, _split_range(len(images))))
        self.temperature = fit_temperature(results.logits, images.labels)
        return Evaluation(results.metrics, self._samples(images, results))

    def _logits(self, chunk: range) -> list[list[float]]:
        """Return the logits of some validation images as plain lists, which processes can exchange."""
        pixels = torch.from_numpy(self.prepared.valid.pixels(np.array(chunk))).to(self.device)
        return self.model(self.augment.plain(pixels)).float().tolist()

    def _samples(self, images: LabelledImages, results: ImageClassifierResults) -> list[dict[str, Any]]:
        classes, answers = self.prepared.classes, results.logits.argmax(-1)
        return [
            {
                "picture": images.place(number),
                "truth": classes[images.labels[number]],
                "answer": classes[answers[number]],
            }
            for number in spread_over_classes(images.labels.tolist(), self.recipe.objective.samples)
        ]

    def trace_inputs(self, count: int) -> list[TraceInput]:
        """Return validation images of different classes."""
        images = self.prepared.valid
        numbers = spread_over_classes(images.labels.tolist(), count)
        return [
            TraceInput(channels_last(images.pixels(np.array([n]))[0]), short_place(images.place(n))) for n in numbers
        ]

    def contents(self) -> dict[str, Any]:
        """Return the checkpoint files other than weights and metrics."""
        recipe = config.plain(self.recipe)
        data = {name: value for name in PREPARATION if (value := recipe["data"][name]) is not None}
        data |= {name: value for name in ("shortcut", "scatter") if (value := recipe["data"][name])}
        file = config.plain(image_dataset.without_path(self.recipe.data.train[0]))
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
        """Return the model card."""
        classes, data = self.prepared.classes, self.recipe.data
        class_names = ", ".join(classes[:20]) + ", ..." * (len(classes) > 20)
        size = self.prepared.size
        scattered = "" if data.scatter is None else f", scattered in scenes of {size} x {size}"
        return model_card(
            "Says what a picture shows",
            f"{self.recipe.model.phrase}, trained with Regard on {len(self.prepared.train):,} pictures of "
            f"{data.size} x {data.size} pixels{scattered}.\n\nIt knows the labels {class_names}.",
            command="regard classify DIRECTORY picture.png",
            code='classify(["picture.png"])',
            files=[file.path for file in data.train],
        )


def _split_range(count: int, size: int = EVALUATION_BATCH) -> list[range]:
    return [range(first, min(first + size, count)) for first in range(0, count, size)]
