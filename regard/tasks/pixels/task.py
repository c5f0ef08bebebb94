"""Training of a model that generates images pixel by pixel: each token is predicted from those before it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from regard import config
from regard.attention.hardware import device_of
from regard.attention.masks import Row
from regard.checkpoint import Checkpoint
from regard.config.ranges import Count, Whole
from regard.config.resuming import Fingerprinted, Fixed, Free
from regard.config.words import quantity
from regard.data.examples import TensorBatch, sample_evenly
from regard.data.images.labelled_images import LabelledImages, copy_to_device, training_row
from regard.data.images.sources import PictureFile
from regard.metrics.likelihood import linear_cross_entropy
from regard.models.axial import AxialConfig
from regard.models.gpt import ImageGPTConfig
from regard.tasks.image_inputs import channels_last, short_place
from regard.tasks.model_card import model_card
from regard.tasks.pixels import dataset
from regard.tasks.pixels.dataset import PixelsConfig, PixelSplits
from regard.tasks.pixels.tokenizer import PixelTokenizer
from regard.training import transfer
from regard.training.loop import TrainingConfig
from regard.training.optim import OptimConfig
from regard.training.pace import default_run_length, round_between
from regard.training.task import (
    SURE,
    Claim,
    Evaluation,
    Given,
    Goal,
    Spread,
    Step,
    Task,
    TraceInput,
    alone,
    data_section,
)

MAX_LOGITS = 1 << 26  # most elements of the logits held at a time
EVALUATION_TOKENS = {"cuda": 1 << 17}  # tokens per batch in evaluation
CPU_EVALUATION_TOKENS = 1 << 14  # the same on other devices
SENTENCE = "pictures: training a model that writes them pixel by pixel"
EPOCHS = 30  # default length of training
MODEL_SIZES_BY_IMAGES = ((2_000, (96, 4, 4)), (20_000, (128, 4, 6)))  # (most images, (width, heads, depth))
LARGEST_MODEL = (256, 8, 8)


@dataclass(frozen=True, kw_only=True)
class PixelObjective:
    """Settings of the evaluation during training."""

    eval_examples: Count = 1000
    """Held-out pictures that an evaluation reads."""
    samples: Free[Whole] = 4
    """Held-out pictures whose bits are shown at every evaluation."""


@dataclass(frozen=True, kw_only=True)
class PixelsRecipe:
    """A training run of a model that generates images pixel by pixel."""

    task: Fixed[Literal["pixels"]] = "pixels"
    """What is learnt."""
    data: Fingerprinted[PixelsConfig]
    """Which pictures, and what a token of them is."""
    model: Fixed[ImageGPTConfig | AxialConfig] = field(default_factory=ImageGPTConfig)
    """The network, chosen by its name; sizes that nobody names follow from the pictures."""
    objective: PixelObjective = field(default_factory=PixelObjective)
    """What is measured."""
    optim: OptimConfig = field(default_factory=OptimConfig)
    """The optimizer and its learning rate."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """How long, how often, where."""


@dataclass(frozen=True)
class PixelBatch(TensorBatch):
    """A batch of images: their numbers, their bytes unless the device has them, and the layout of their tokens."""

    numbers: Int[Tensor, "image"]
    row: Row
    pixels: UInt8[Tensor, "image channels size size"] | None = None

    def to(self, device: torch.device | str) -> PixelBatch:
        """Return the same batch on a device."""
        return replace(super().to(device), row=self.row.to(device))

    def halves(self) -> list[PixelBatch]:
        """Split into two batches of half the size, or return the batch itself if it has one image."""
        return [replace(half, row=image_layout(len(half), self.row.longest)) for half in super().halves()]


class PixelGeneration(Task):
    """The task of generating images pixel by pixel."""

    Recipe = PixelsRecipe
    usage: ClassVar[str] = "regard draw {folder} --samples 16 -o drawn.png"
    shared: ClassVar[bool] = True
    brief: ClassVar[dict[str, Any]] = {"objective": {"eval_examples": 1, "samples": 1}}
    goal: Goal = ("loss", "min")

    def __init__(self, recipe: PixelsRecipe, prepared: PixelSplits, model: Any, *, fixed: bool = False) -> None:
        self.recipe, self.prepared, self.model, data = recipe, prepared, model, recipe.data
        self.tokenizer = prepared.tokenizer.to(self.device)
        self.rows = math.ceil(len(prepared.train) / data.batch_size)
        self.features = data.batch_size * self.tokenizer.length * recipe.model.width
        self.layout = image_layout(data.batch_size, self.tokenizer.length)
        self.device_pixels = copy_to_device(prepared.train, self.device)
        self.notes = [f"an epoch has {quantity(self.rows, 'row')} of {data.batch_size:,} pictures"]

    @staticmethod
    def recognise(inputs: Given) -> Claim | None:
        """Claim images if this task is named."""
        if inputs.to is not None or inputs.settings.get("task") != PixelsRecipe.task:
            return None
        train, valid = ([{"path": name} for name in names] for names in (inputs.files, inputs.valid))
        return Claim(data_section(train, valid), SENTENCE, SURE)

    @staticmethod
    def prepare(recipe: PixelsRecipe, parent: Checkpoint | None = None) -> PixelSplits:
        """Read and decode the images, with the size and palette of a parent model if there is one."""
        return dataset.prepare(recipe.data, None if parent is None else parent.config)

    @staticmethod
    def default_settings(recipe: PixelsRecipe, prepared: PixelSplits) -> dict[str, Any]:
        """Choose model size, batch size, optimizer and training length for a dataset of this size."""
        image_count, tokenizer = len(prepared.train), prepared.tokenizer
        batch_size = round_between(4, (1 << 16) / tokenizer.length, 128)
        rows = math.ceil(image_count / batch_size)
        width, heads, depth = next(
            (sizes for limit, sizes in MODEL_SIZES_BY_IMAGES if image_count <= limit), LARGEST_MODEL
        )
        sizes_settings = {"width": width, "heads": heads, "hidden": 4 * width, "depth": depth}
        image_shape = {"size": tokenizer.size, "channels": tokenizer.channels}
        return {
            "data": {**image_shape, "batch_size": batch_size},
            "model": {**sizes_settings, "above": max(1, depth // 2)}
            if recipe.model.name == "axial"
            else sizes_settings,
            "optim": {"name": "adamw", "learning_rate": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8, "schedule": "cosine"},
            "training": default_run_length(
                recipe.training, rows=rows, steps=round_between(300, EPOCHS * rows, 100_000)
            ),
        }

    @staticmethod
    def fill_sizes(recipe: PixelsRecipe, prepared: PixelSplits) -> PixelsRecipe:
        """Return the recipe with the size of the images and the number of tokens."""
        tokenizer = prepared.tokenizer
        data = replace(recipe.data, size=tokenizer.size, channels=tokenizer.channels)
        input_sizes: dict[str, Any] = {
            "vocab": tokenizer.vocab,
            "size": tokenizer.size,
            "channels": tokenizer.tokens_per_pixel,
        }
        if isinstance(recipe.model, ImageGPTConfig):
            input_sizes["context"] = tokenizer.length + 1  # the begin token and all others
        model: Any = replace(recipe.model, **input_sizes)
        return replace(recipe, data=data, model=model)

    @staticmethod
    def adopt(model: Any, parent: Checkpoint, prepared: PixelSplits) -> list[str]:
        """Load the weights of a model of the same pixels."""
        parent_model = transfer.parent_model_config(parent)
        vocab, size, channels = parent_model.vocab, parent_model.size, parent_model.channels
        if (vocab, size, channels) != (model.config.vocab, model.config.size, model.config.channels):
            raise ValueError(
                f"{parent.directory} knows pictures of {size} x {size} in {vocab - 1} tokens, "
                "not like these: leave out --from, or set data.size and data.colours to the same"
            )
        return transfer.load_weights(model, parent, same_task=True)

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return device_of(self.model)

    def batch(self, number: int) -> PixelBatch:
        """Return the images of a row."""
        train = self.prepared.train
        numbers, _ = training_row(train, number, batch=self.recipe.data.batch_size, seed=self.recipe.training.seed)
        pixels = torch.from_numpy(train.pixels(numbers)) if self.device_pixels is None else None
        return PixelBatch(torch.from_numpy(numbers), self.layout, pixels)

    def origins(self, batch: PixelBatch) -> list[str]:
        """Return the sources of these images, for error messages."""
        return [self.prepared.train.place(number) for number in batch.numbers.tolist()]

    def step(self, batch: PixelBatch, part: str) -> Step:
        """Return the summed cross-entropy of all tokens."""
        batch = batch.to(self.device)
        pixels = batch.pixels
        if pixels is None:
            assert self.device_pixels is not None
            pixels = self.device_pixels.index_select(0, batch.numbers)
        tokens = self.tokenizer.encode(pixels)
        features = self.model(self.tokenizer.shift_right(tokens).flatten(), layout=batch.row)
        chunk = max(256, MAX_LOGITS // self.tokenizer.vocab)
        loss = linear_cross_entropy(features, self.model.prediction, tokens.flatten(), chunk=chunk)
        return Step(loss=loss, weight=tokens.numel(), counts={"tokens": tokens.numel()})

    def evaluate(self, spread: Spread = alone) -> Evaluation:
        """Measure the bits of validation images."""
        valid = self.prepared.valid
        images = valid.select(np.arange(min(len(valid), self.recipe.objective.eval_examples)))
        chunks = evaluation_chunks(images, self.tokenizer, self.device)
        chunk_nats = spread(lambda chunk: self._measure_nats(images, chunk), chunks)
        nats = [image_nats for part in chunk_nats for image_nats in part]
        loss = sum(nats) / (len(nats) * self.tokenizer.length)
        unit, bit_nats = self.tokenizer.unit, self.tokenizer.length * math.log(2)
        samples = [
            {"picture": images.place(number), "bits": round(nats[number] / bit_nats, 4)}
            for number in range(min(self.recipe.objective.samples, len(images)))
        ]
        return Evaluation({"loss": loss, unit.key: loss / math.log(2)}, samples)

    def _measure_nats(self, images: LabelledImages, chunk: range) -> list[float]:
        pixels = torch.from_numpy(images.pixels(np.array(chunk))).to(self.device)
        return nats_per_image(self.model, self.tokenizer, self.tokenizer.encode(pixels)).tolist()

    def trace_inputs(self, count: int) -> list[TraceInput]:
        """Return validation images."""
        images = self.prepared.valid
        numbers = sample_evenly(range(len(images)), count)
        return [
            TraceInput(channels_last(images.pixels(np.array([n]))[0]), short_place(images.place(n))) for n in numbers
        ]

    def contents(self) -> dict[str, Any]:
        """Return the checkpoint files other than weights and metrics."""
        recipe, palette = config.plain(self.recipe), self.prepared.tokenizer.palette
        data = {name: recipe["data"][name] for name in ("size", "channels")}
        file = config.plain(replace(self.recipe.data.train[0], path="", folder=None))
        palette_setting = {} if palette is None else {"palette": dataset.format_palette(palette)}
        settings = {"task": recipe["task"], "model": recipe["model"], "data": {**data, **palette_setting, "file": file}}
        return {"config.yaml": {"format": 1, **settings}, "README.md": self.card()}

    def card(self) -> str:
        """Return the model card."""
        tokenizer = self.prepared.tokenizer
        return model_card(
            "Writes pictures pixel by pixel",
            f"{self.recipe.model.phrase}, trained with Regard on {len(self.prepared.train):,} pictures of "
            f"{tokenizer.size} x {tokenizer.size} pixels. A token is {tokenizer.phrase}.",
            command="regard draw DIRECTORY picture.png --keep upper --samples 4 -o drawn.png",
            code='draw("picture.png", keep="upper")',
            files=[file.path for file in self.recipe.data.train],
        )


def image_layout(images: int, places: int) -> Row:
    """Return the layout of a row of images, each of `places` tokens."""
    return Row.of([places] * images, most=images)


def evaluation_chunks(images: LabelledImages, tokenizer: PixelTokenizer, device: torch.device) -> list[range]:
    """Return the ranges of images evaluated in one batch."""
    size = max(1, EVALUATION_TOKENS.get(device.type, CPU_EVALUATION_TOKENS) // tokenizer.length)
    return [range(first, min(first + size, len(images))) for first in range(0, len(images), size)]


def nats_per_image(model: Any, tokenizer: PixelTokenizer, tokens: Int[Tensor, "batch place"]) -> Float[Tensor, "batch"]:
    """Return the negative log-probability of each image."""
    layout = image_layout(*tokens.shape).to(tokens.device)
    features = model(tokenizer.shift_right(tokens).flatten(), layout=layout)
    scores = model.logits(features).float().log_softmax(-1)
    return -scores.gather(1, tokens.flatten()[:, None]).view(tokens.shape).double().sum(1)


def picture_file(path: str, file_settings: dict[str, Any]) -> PictureFile:
    """Return a source of images that is read with the settings of the training images."""
    return config.build(PictureFile, {**file_settings, "path": path}, where="file")
