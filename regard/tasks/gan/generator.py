"""A trained generator in use: images of a label, comparison with real images, and its attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from regard.checkpoint import Checkpoint
from regard.config.ranges import Count, Seed
from regard.config.words import suggest
from regard.data.images.album import Shape
from regard.interpret.items import Item, Weights
from regard.interpret.trace import Trace
from regard.interpret.watch import watch
from regard.metrics.scores import Scores
from regard.tasks.gan.task import to_bytes
from regard.tasks.image_inputs import patch_items
from regard.tasks.inputs import LABEL, InputKind, Inputs, list_inputs
from regard.tasks.trained import DirectAnswers, Extra, describe_model, load_model, no_attention_error, resolve_options

IMAGES_PER_BATCH = 250  # images per batch
LABELS_SHOWN = 20  # labels named in an error message
# Positions whose attention is shown, as shares of the height and the width.
EXPLAINED_PLACES = ((0.25, 0.25), (0.25, 0.75), (0.5, 0.5), (0.75, 0.25), (0.75, 0.75))
ATTENTION_NAME = "generator.attention"


@dataclass(frozen=True, kw_only=True)
class GeneratorOptions:
    """Options of generating an image."""

    seed: Seed = 0
    """Random seed of the noise."""


@dataclass(frozen=True, kw_only=True)
class GenerateManyOptions(GeneratorOptions):
    """Options of generating several images."""

    count: Count = 1
    """Pictures of each label."""


@dataclass(frozen=True, eq=False)
class GeneratedImage:
    """A generated image, with its label and the seed of its noise."""

    label: str
    seed: int
    number: int
    """Number among the images of this seed and label, from 0."""
    pixels: UInt8[np.ndarray, "channels size size"]

    def __str__(self) -> str:
        channels, height, width = self.pixels.shape
        kind = "grey" if channels == 1 else "colour"
        return f"{self.label}\t{height} x {width} {kind}, seed {self.seed}, mean shade {self.pixels.mean() / 255:.3f}"

    def plain(self) -> dict[str, Any]:
        """Return everything as JSON: rows of shades, or of colours."""
        shown = self.pixels[0] if len(self.pixels) == 1 else self.pixels.transpose(1, 2, 0)
        return {"label": self.label, "seed": self.seed, "number": self.number, "picture": shown.tolist()}


class ImageGenerator(DirectAnswers):
    """Generates images of the labels it was trained on."""

    task: ClassVar[str] = "gan"
    verb: ClassVar[str] = "make"
    kind: ClassVar[str] = "a generator of pictures"
    input_kind: ClassVar[InputKind] = LABEL
    Options: ClassVar[type] = GeneratorOptions
    LookOptions: ClassVar[type] = GeneratorOptions
    __repr__ = describe_model

    def __init__(self, model: Any, classes: list[str], data: Mapping[str, Any], name: str = "generator") -> None:
        self.model, self.classes, self.data, self.name = model, classes, data, name
        self.shape = Shape.of(model.config, data)

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> ImageGenerator:
        """Load the generator of a checkpoint directory."""
        settings = checkpoint.config
        name = "/".join(checkpoint.directory.absolute().parts[-2:])  # most are called best, so add the run's name
        return cls(load_model(checkpoint, device), [str(label) for label in settings["labels"]], settings["data"], name)

    @property
    def inputs(self) -> Inputs:
        """Labels that the model was trained on."""
        return Inputs(kind=self.input_kind, parse=self.parse, example=self.classes[0], choices=self.classes)

    @property
    def extras(self) -> Mapping[str, Extra]:
        """Make images of several labels at once."""
        return {"make": Extra(self.make, GenerateManyOptions, "Pictures of some labels, or of every one it knows.")}

    def parse(self, text: str) -> str:
        """Return the label; raise an error for one that the model was not trained on."""
        if text not in self.classes:
            known_labels = ", ".join(self.classes[:LABELS_SHOWN]) + ", ..." * (len(self.classes) > LABELS_SHOWN)
            near = suggest(text, self.classes)
            raise ValueError(f"{text!r} is no label that {self.name} has learnt{near}: choose one of {known_labels}")
        return text

    def answer(self, inputs: Sequence[str], **options: Any) -> list[GeneratedImage]:
        """Make an image of each label."""
        return [self.make([label], **options)[0] for label in inputs]

    def make(self, labels: Sequence[str] | None = None, *, count: int = 1, **options: Any) -> list[GeneratedImage]:
        """Generate `count` images of each label, by default of all labels, one label after the other.

        Images with the same number have the same noise, whatever their label.
        """
        seed = resolve_options(self, options).seed
        requested = self.classes if labels is None else list_inputs(labels, LABEL, verb=self.verb)
        checked_labels = [self.parse(label) for label in requested]
        if count < 1:
            raise ValueError(f"count {count}: there is nothing to make, give 1 or more")
        noise = self.noise(count, seed)
        numbers = [self.classes.index(label) for label in checked_labels for _ in range(count)]
        pixels = self.pixels(noise.repeat(len(checked_labels), 1), torch.tensor(numbers, dtype=torch.int64)).numpy()
        return [
            GeneratedImage(checked_labels[index // count], seed, index % count, image)
            for index, image in enumerate(pixels)
        ]

    def noise(self, count: int, seed: int) -> Tensor:
        """Return noise that is the same on every device; its first rows do not depend on `count`."""
        generator = torch.Generator().manual_seed(seed)
        return torch.stack([torch.randn(self.model.config.noise, generator=generator) for _ in range(count)])

    @torch.no_grad()
    def pixels(self, noise: Tensor, labels: Tensor) -> UInt8[Tensor, "images channels size size"]:
        """Return the bytes of the images of this noise and these classes."""
        device = self.runner.device
        chunks = zip(noise.to(device).split(IMAGES_PER_BATCH), labels.to(device).split(IMAGES_PER_BATCH), strict=True)
        return torch.cat([to_bytes(self.runner(noise_chunk, label_chunk)) for noise_chunk, label_chunk in chunks])

    def evaluate(
        self,
        *files: str | Path,
        classifier: str | Path | None = None,
        train: str | Path | None = None,
        count: int = 10_000,
        seed: Seed = 0,
        name: str | None = None,
    ) -> Scores:
        """Compare `count` generated images with real ones, in features of a `classifier` of such images.

        Without a classifier, images are compared by mean shades, and nothing tells whether they match their labels.
        `train` names the training images, if the files have no training part: nearest neighbours are searched among
        them, and their distance from the other real images is the lowest that a generator can be expected to reach.
        """
        from regard.tasks.gan.scoring import score_generator

        if count < 2:
            raise ValueError(f"count {count}: a distribution needs two pictures at least, better thousands")
        return score_generator(
            self, files, classifier=classifier, train=train, count=count, seed=seed, name=name or self.name
        )

    def attention_names(self) -> list[str]:
        """Return the names of the attention weights that `look` returns, if the generator has attention."""
        return [] if self.model.generator.attention is None else [ATTENTION_NAME]

    def look(self, label: str | None = None, *, seed: int = 0) -> Trace:
        """Generate an image and return the attention of five positions; without a label the seed chooses one."""
        if self.model.generator.attention is None:
            raise no_attention_error(self, "train one with model.attention=true")
        label = self.classes[seed % len(self.classes)] if label is None else self.parse(label)
        noise, number = self.noise(1, seed), torch.tensor([self.classes.index(label)])
        with watch(self.model.generator) as attention:
            [pixels] = self.pixels(noise, number)
        [name] = list(attention)
        weights = attention[name][0].cpu().float()
        rows, columns = self.model.config.grid
        source = patch_items((rows, columns))
        places = [int(down * rows) * columns + int(across * columns) for down, across in EXPLAINED_PLACES]
        chosen_patches = [source[place] for place in places]
        asked_items = [Item(patch.text, word=index, box=patch.box) for index, patch in enumerate(chosen_patches)]
        shown_weights = [Weights(ATTENTION_NAME, "asked", "source", weights[:, places])]
        gain = round(self.model.generator.attention.gain.item(), 4) + 0.0  # avoids -0.0
        text = f"{self.name}, seed {seed}, gain {gain}"
        facts = {"text": text, "answer": label, "seed": seed, "gain": gain}
        return Trace(
            self.name, self.task, {"source": source, "asked": asked_items}, shown_weights, facts,
            pictures={"source": pixels.permute(1, 2, 0)},
        )  # fmt: skip
