"""Training of a generator of labelled images against a discriminator (GAN)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn
from torch.nn import functional as F

from regard import config
from regard.attention.hardware import device_of
from regard.checkpoint import Checkpoint
from regard.config.ranges import Count, Part, Positive, Share, Whole
from regard.config.resuming import Fingerprinted, Fixed, Free
from regard.config.words import quantity
from regard.data.examples import sample_evenly
from regard.data.images import image_dataset, labelled_images
from regard.data.images.album import Shape, shape_of
from regard.data.images.image_dataset import ImageDataConfig
from regard.data.images.labelled_images import ImageBatch, ImageSplits, copy_to_device
from regard.data.images.sources import shelve
from regard.metrics.made import frechet_distance, variety
from regard.models.sagan import SAGANConfig, flattery, freeze_weights, hinge
from regard.tasks.image_files import claim_labelled_images
from regard.tasks.model_card import model_card
from regard.training import transfer
from regard.training.loop import TrainingConfig
from regard.training.optim import OptimConfig
from regard.training.pace import default_run_length, power_of_two_below, round_between
from regard.training.task import Claim, Evaluation, Given, Goal, Spread, Step, Task, TraceInput, alone

IMAGES_PER_BATCH = 100  # images per batch
EPOCHS = 100  # default length of training
SHADE_REGIONS = 8  # approximate number of regions per side whose mean shades are compared in evaluation
DISCRIMINATOR, GENERATOR = "discriminator", "generator"
SENTENCE = "labelled pictures: training a generator of such pictures (GAN)"


@dataclass(frozen=True, kw_only=True)
class DiscriminatorOptim(OptimConfig):
    """Adam as GANs use it, without momentum; the discriminator learns faster (Heusel et al. 2017)."""

    learning_rate: Positive = 4e-4
    """The highest learning rate."""
    betas: tuple[Share, Share] = (0.0, 0.9)
    """Decay rates of adam's two moving averages."""
    eps: Positive = 1e-8
    """What adam adds to its denominator."""
    warmup: Whole = 0
    """Steps over which the rate rises."""
    schedule: Literal["inverse_root", "constant", "linear", "cosine"] = "constant"
    """Learning-rate schedule after the warm-up; linear and cosine end at zero with the last step."""


@dataclass(frozen=True, kw_only=True)
class GeneratorOptim(DiscriminatorOptim):
    """The same at a lower rate."""

    learning_rate: Positive = 1e-4
    """The highest learning rate."""


@dataclass(frozen=True, kw_only=True)
class GANOptim:
    """An optimizer for each of the two networks."""

    discriminator: DiscriminatorOptim = field(default_factory=DiscriminatorOptim)
    """That of the discriminator, which is updated first."""
    generator: GeneratorOptim = field(default_factory=GeneratorOptim)
    """That of the generator."""


@dataclass(frozen=True, kw_only=True)
class GANObjective:
    """Settings of the real images, the evaluation, and the detection of mode collapse."""

    flip: bool = False
    """Show half of the real pictures mirrored: not for digits or letters."""
    eval_examples: Free[Count] = 1000
    """Pictures made at every evaluation."""
    variety: Free[Part] = 0.1
    """Training stops when made pictures of one class vary less than this share of what real ones do; 0: never."""


@dataclass(frozen=True, kw_only=True)
class GANRecipe:
    """A training run of a generator of images."""

    task: Fixed[Literal["gan"]] = "gan"
    """What is learnt."""
    data: Fingerprinted[ImageDataConfig]
    """Which pictures, and their size."""
    model: Fixed[SAGANConfig] = field(default_factory=SAGANConfig)
    """The two networks."""
    objective: GANObjective = field(default_factory=GANObjective)
    """What the discriminator sees, and when to give up."""
    optim: GANOptim = field(default_factory=GANOptim)
    """The optimizers."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """How long, how often, where."""

    def __post_init__(self) -> None:
        for name in ("scatter", "shortcut"):
            if getattr(self.data, name) is not None:
                raise ValueError(f"data.{name} changes pictures that are classified, not made: leave it out")


class ImageGeneration(Task):
    """The task of training a generator of images."""

    Recipe = GANRecipe
    usage: ClassVar[str] = "regard draw {folder} -o grid.png"
    shared: ClassVar[bool] = True
    brief: ClassVar[dict[str, Any]] = {"objective": {"eval_examples": 16}}
    goal: Goal = ("distance", "min")

    def __init__(self, recipe: GANRecipe, prepared: ImageSplits, model: Any, *, fixed: bool = False) -> None:
        self.recipe, self.prepared, self.model = recipe, prepared, model
        self.rows = math.ceil(len(prepared.train) / recipe.data.batch_size)
        self.features = recipe.data.batch_size * prepared.size**2 * recipe.model.widths[-1]
        self.device_pixels = copy_to_device(prepared.train, device_of(model))
        self.notes = [f"an epoch has {quantity(self.rows, 'row')} of {recipe.data.batch_size:,} pictures"]
        if self.device_pixels is not None:
            self.notes.append(f"{self.device_pixels.nbytes / 1e6:,.0f} MB of pictures are kept on the device")
        self.references = self._evaluation_references()
        shelves = [shelve(file) for file in recipe.data.train]
        self.original_shape = shape_of(shelves, None, None, recipe.data.fit)[:2]  # before any resizing

    @staticmethod
    def recognise(inputs: Given) -> Claim | None:
        """Claim images if this task is named; by default they are classified."""
        claim = claim_labelled_images(inputs) if inputs.settings.get("task") == GANRecipe.task else None
        return None if claim is None else replace(claim, sentence=SENTENCE)

    @staticmethod
    def prepare(recipe: GANRecipe, parent: Checkpoint | None = None) -> ImageSplits:
        """Read and decode the images, with the settings of a parent model if there is one."""
        return image_dataset.prepare(recipe.data, None if parent is None else parent.config)

    @staticmethod
    def default_settings(recipe: GANRecipe, prepared: ImageSplits) -> dict[str, Any]:
        """Choose batch size and training length for a dataset of this size; gradients are not clipped."""
        image_count = len(prepared.train)
        batch_size = round_between(8, power_of_two_below(image_count / 10), 64)
        rows = math.ceil(image_count / batch_size)
        steps = round_between(500, EPOCHS * rows, 50_000)
        run_length = default_run_length(recipe.training, rows=rows, steps=steps)
        return {
            "data": {"size": prepared.shape.size, "channels": prepared.shape.channels, "batch_size": batch_size},
            "training": {**run_length, "patience": None, "clip": None, "ema": 0.999},
        }

    @staticmethod
    def fill_sizes(recipe: GANRecipe, prepared: ImageSplits) -> GANRecipe:
        """Return the recipe with the number of classes and the size of the images."""
        input_sizes: dict[str, Any] = {"size": prepared.shape.size, "channels": prepared.shape.channels}
        data = replace(recipe.data, **prepared.shape._asdict(), mean=prepared.mean, std=prepared.std)
        return replace(recipe, data=data, model=replace(recipe.model, **input_sizes, classes=len(prepared.classes)))

    @staticmethod
    def adopt(model: Any, parent: Checkpoint, prepared: ImageSplits) -> list[str]:
        """Load both networks of a parent with the same labels."""
        parent_labels = parent.config.get("labels")
        if parent.config.get("task") == GANRecipe.task and parent_labels != prepared.classes:
            raise ValueError(f"{parent.directory} makes pictures of other labels: leave out --from, or give its labels")
        return transfer.load_weights(model, parent, same_task=parent.config.get("task") == GANRecipe.task)

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return device_of(self.model)

    def parts(self) -> dict[str, list[nn.Parameter]]:
        """Return the parameters of both networks, one optimizer each; the discriminator is updated first."""
        return {part: list(getattr(self.model, part).parameters()) for part in (DISCRIMINATOR, GENERATOR)}

    def batch(self, row: int) -> ImageBatch:
        """Return the real images of a row; the generated images have the same labels."""
        train, data = self.prepared.train, self.recipe.data
        seed = self.recipe.training.seed
        image_numbers, places = labelled_images.training_row(train, row, batch=data.batch_size, seed=seed)
        pixels = torch.from_numpy(train.pixels(image_numbers)) if self.device_pixels is None else None
        numbers, turns, labels = map(torch.from_numpy, (image_numbers, places, train.labels[image_numbers]))
        return ImageBatch(numbers, turns, labels, pixels)

    def origins(self, batch: ImageBatch) -> list[str]:
        """Return the sources of these images, for error messages."""
        return [self.prepared.train.place(number) for number in batch.numbers.tolist()]

    def step(self, batch: ImageBatch, part: str) -> Step:
        """Return the summed hinge loss of one network; the other gets no gradient."""
        batch, counts = batch.to(self.device), {"pictures": len(batch)}
        noise = torch.randn(len(batch), self.recipe.model.noise, device=self.device)
        if part == GENERATOR:
            generated = self.model(noise, batch.labels)
            with freeze_weights(self.model.discriminator):
                loss = flattery(self.model.judge(generated, batch.labels))
            return Step(loss=loss, weight=len(batch), counts=counts)
        with torch.no_grad():
            generated, real = self.model(noise, batch.labels), self._real_pixels(batch)
        both = torch.cat([real, generated]), torch.cat([batch.labels, batch.labels])
        loss = hinge(*self.model.judge(*both).split(len(batch)))
        return Step(loss=loss, weight=len(batch), counts=counts)

    def _real_pixels(self, batch: ImageBatch) -> Float[Tensor, "batch channels size size"]:
        """Return pixels from -1 to 1; with `objective.flip`, half of the images are mirrored."""
        pixels = batch.pixels if self.device_pixels is None else self.device_pixels.index_select(0, batch.numbers)
        assert pixels is not None
        real = pixels.float() / 127.5 - 1
        if not self.recipe.objective.flip:
            return real
        mirrored = torch.rand(len(real), 1, 1, 1, device=real.device) < 0.5
        return torch.where(mirrored, real.flip(-1), real)

    def evaluate(self, spread: Spread = alone) -> Evaluation:
        """Measure the distance of generated from validation images in mean shades, and the variety within classes."""
        labels, real, real_variety = self.references
        parts = spread(self._generate_shades, list(range(math.ceil(len(labels) / IMAGES_PER_BATCH))))
        shades = np.concatenate([np.array(part) for part in parts])
        relative_variety = variety(shades, labels) / max(real_variety, 1e-6)
        min_variety, failure = self.recipe.objective.variety, None
        if relative_variety < min_variety:
            failure = (
                f"the generator collapsed: made pictures of one class vary {relative_variety:.3f} times as much as "
                f"real ones, less than objective.variety={min_variety}: lower optim.generator.learning_rate, or begin "
                "with another training.seed"
            )
        return Evaluation({"distance": frechet_distance(real, shades), "variety": relative_variety}, failed=failure)

    def _evaluation_references(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Return the labels of images to generate, mean shades of validation images, and their variety."""
        valid, count = self.prepared.valid, max(2, self.recipe.objective.eval_examples)
        numbers = np.array(sample_evenly(range(len(valid)), count))
        shades = mean_shades(torch.from_numpy(valid.pixels(numbers)).float() / 127.5 - 1).numpy()
        if len(shades) < 2:
            shades = np.repeat(shades, 2, 0)
        labels = valid.labels[numbers]
        return np.resize(labels, count), shades, variety(shades, np.resize(labels, len(shades)))

    def _generate_shades(self, chunk: int) -> list[list[float]]:
        """Return mean shades of a chunk of generated images, always from the same noise, as plain lists."""
        labels = self.references[0][chunk * IMAGES_PER_BATCH : (chunk + 1) * IMAGES_PER_BATCH]
        noise = torch.randn(len(labels), self.recipe.model.noise, generator=torch.Generator().manual_seed(1 + chunk))
        generated = self.model(noise.to(self.device), torch.from_numpy(labels).to(self.device))
        return mean_shades(generated).tolist()

    def trace_inputs(self, count: int) -> list[TraceInput]:
        """Return labels to generate, each with a seed of its own."""
        classes = [self.prepared.classes[seed % len(self.prepared.classes)] for seed in range(count)]
        return [TraceInput(label, f"{label}, seed {seed}", {"seed": seed}) for seed, label in enumerate(classes)]

    def contents(self) -> dict[str, Any]:
        """Return the checkpoint files other than weights and metrics."""
        recipe = config.plain(self.recipe)
        shape = {name: value for name in Shape._fields if (value := recipe["data"][name]) is not None}
        data = {**shape, "natural": list(self.original_shape)}
        file = config.plain(image_dataset.without_path(self.recipe.data.train[0]))
        settings = {"task": recipe["task"], "model": recipe["model"], "labels": self.prepared.classes}
        return {"config.yaml": {"format": 1, **settings, "data": {**data, "file": file}}, "README.md": self.card()}

    def card(self) -> str:
        """Return the model card."""
        classes, data = self.prepared.classes, self.recipe.data
        class_names = ", ".join(classes[:20]) + ", ..." * (len(classes) > 20)
        return model_card(
            "Makes pictures",
            f"{self.recipe.model.phrase}, trained with Regard on {len(self.prepared.train):,} pictures of "
            f"{data.size} x {data.size} pixels.\n\nIt makes pictures of {class_names}.",
            command="regard draw DIRECTORY --count 8 -o grid.png",
            code=f'make(["{classes[0]}"], count=8, seed=3)',
            files=[file.path for file in data.train],
        )


def mean_shades(images: Float[Tensor, "images channels size size"]) -> Float[Tensor, "images features"]:
    """Return the mean shades of square regions, a small feature vector for each image."""
    region_size = max(1, round(images.shape[-1] / SHADE_REGIONS))
    return F.avg_pool2d(images.float().cpu(), region_size, ceil_mode=True).flatten(1)


def to_bytes(images: Float[Tensor, "images channels size size"]) -> UInt8[Tensor, "images channels size size"]:
    """Return pixels from -1 to 1 as bytes."""
    return ((images.float().clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8).cpu()
