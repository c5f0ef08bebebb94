"""A trained generator in use: pictures of a label, scores beside real pictures, where its attention looks."""

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
from regard.data.pictures.album import Shape
from regard.interpret.items import Item, Weights
from regard.interpret.trace import Trace
from regard.interpret.watch import watch
from regard.metrics.scores import Scores
from regard.tasks.inputs import LABEL, InputKind, Inputs, list_inputs
from regard.tasks.trained import DirectAnswers, Extra, describe_model, load_model, no_attention_error, resolve_options
from regard.tasks.vision.gan.task import as_bytes
from regard.tasks.vision.opening import patches

CHUNK = 250  # pictures made at a time
SHOWN = 20  # labels that are named
PLACES = ((0.25, 0.25), (0.25, 0.75), (0.5, 0.5), (0.75, 0.25), (0.75, 0.75))  # whose looks are shown: down, across
ATTENTION = "generator.attention"


@dataclass(frozen=True, kw_only=True)
class MakerOptions:
    """How pictures are drawn."""

    seed: Seed = 0
    """Random seed of the noise."""


@dataclass(frozen=True, kw_only=True)
class MakingOptions(MakerOptions):
    """How many pictures are drawn, and how."""

    count: Count = 1
    """Pictures of each label."""


@dataclass(frozen=True, eq=False)
class Made:
    """A picture, the label that was asked for, and where its noise came from."""

    label: str
    seed: int
    number: int
    """Of the pictures of this seed and label, from 0."""
    pixels: UInt8[np.ndarray, "channels size size"]

    def __str__(self) -> str:
        channels, height, width = self.pixels.shape
        kind = "grey" if channels == 1 else "colour"
        return f"{self.label}\t{height} x {width} {kind}, seed {self.seed}, mean shade {self.pixels.mean() / 255:.3f}"

    def plain(self) -> dict[str, Any]:
        """As JSON: rows of shades, or of colours."""
        shown = self.pixels[0] if len(self.pixels) == 1 else self.pixels.transpose(1, 2, 0)
        return {"label": self.label, "seed": self.seed, "number": self.number, "picture": shown.tolist()}


class PictureMaker(DirectAnswers):
    """Makes pictures of what it has seen."""

    task: ClassVar[str] = "gan"
    verb: ClassVar[str] = "make"
    kind: ClassVar[str] = "a generator of pictures"
    input_kind: ClassVar[InputKind] = LABEL
    Options: ClassVar[type] = MakerOptions
    LookOptions: ClassVar[type] = MakerOptions
    __repr__ = describe_model

    def __init__(self, model: Any, classes: list[str], data: Mapping[str, Any], name: str = "generator") -> None:
        self.model, self.classes, self.data, self.name = model, classes, data, name
        self.shape = Shape.of(model.config, data)

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> PictureMaker:
        """The one a checkpoint directory holds."""
        known = checkpoint.config
        name = "/".join(checkpoint.directory.absolute().parts[-2:])  # most are called best: the run's name tells more
        return cls(load_model(checkpoint, device), [str(each) for each in known["labels"]], known["data"], name)

    @property
    def inputs(self) -> Inputs:
        """Labels that it has learnt."""
        return Inputs(kind=self.input_kind, parse=self.parse, example=self.classes[0], choices=self.classes)

    @property
    def extras(self) -> Mapping[str, Extra]:
        """Pictures of several labels at once."""
        return {"make": Extra(self.make, MakingOptions, "Pictures of some labels, or of every one it knows.")}

    def parse(self, text: str) -> str:
        """An input is a label."""
        if text not in self.classes:
            known = ", ".join(self.classes[:SHOWN]) + ", ..." * (len(self.classes) > SHOWN)
            near = suggest(text, self.classes)
            raise ValueError(f"{text!r} is no label that {self.name} has learnt{near}: choose one of {known}")
        return text

    def answer(self, inputs: Sequence[str], **options: Any) -> list[Made]:
        """A picture of each label."""
        return [self.make([label], **options)[0] for label in inputs]

    def make(self, labels: Sequence[str] | None = None, *, count: int = 1, **options: Any) -> list[Made]:
        """So many pictures of each label, or of every one it knows, one label after the other.

        Pictures of one number are made of the same noise, whatever their label.
        """
        seed = resolve_options(self, options).seed
        named = self.classes if labels is None else list_inputs(labels, LABEL, verb=self.verb)
        asked = [self.parse(label) for label in named]
        if count < 1:
            raise ValueError(f"count {count}: there is nothing to make, give 1 or more")
        noise = self.noise(count, seed)
        numbers = [self.classes.index(label) for label in asked for _ in range(count)]
        pixels = self.pixels(noise.repeat(len(asked), 1), torch.tensor(numbers, dtype=torch.int64)).numpy()
        return [Made(asked[k // count], seed, k % count, one) for k, one in enumerate(pixels)]

    def noise(self, count: int, seed: int) -> Tensor:
        """What pictures are made of; the same on every device, and the first ones however many there are."""
        own = torch.Generator().manual_seed(seed)
        return torch.stack([torch.randn(self.model.config.noise, generator=own) for _ in range(count)])

    @torch.no_grad()
    def pixels(self, noise: Tensor, labels: Tensor) -> UInt8[Tensor, "pictures channels size size"]:
        """Bytes of the pictures of this noise and these classes."""
        device = self.runner.device
        pairs = zip(noise.split(CHUNK), labels.split(CHUNK), strict=True)
        return torch.cat([as_bytes(self.runner(some.to(device), own.to(device))) for some, own in pairs])

    def evaluate(
        self,
        *files: str | Path,
        classifier: str | Path | None = None,
        train: str | Path | None = None,
        count: int = 10_000,
        seed: Seed = 0,
        name: str | None = None,
    ) -> Scores:
        """So many made pictures beside the real ones of files, seen by a `classifier` trained on such pictures.

        Without one pictures are compared as coarse shades, and nothing says whether they show what was asked for.
        `train` names the pictures it learnt from, where the files have no part for that: the nearest of them are found,
        and their own distance from the others is the least that can be reached.
        """
        from regard.tasks.vision.gan.scoring import scored

        if count < 2:
            raise ValueError(f"count {count}: a distribution needs two pictures at least, better thousands")
        return scored(self, files, classifier=classifier, train=train, count=count, seed=seed, name=name or self.name)

    def attention_names(self) -> list[str]:
        """Return the names of what `look` shows: the attention of the generator, if it has one."""
        return [] if self.model.generator.attention is None else [ATTENTION]

    def look(self, given: str | None = None, *, seed: int = 0) -> Trace:
        """Make a picture and keep where five of its places looked; the label is chosen by the seed if not given."""
        if self.model.generator.attention is None:
            raise no_attention_error(self, "train one with model.attention=true")
        label = self.classes[seed % len(self.classes)] if given is None else self.parse(given)
        noise, number = self.noise(1, seed), torch.tensor([self.classes.index(label)])
        with watch(self.model.generator) as seen:
            [pixels] = self.pixels(noise, number)
        [name] = list(seen)
        whole = seen[name][0].cpu().float()
        rows, columns = self.model.config.grid
        source = patches((rows, columns))
        places = [int(down * rows) * columns + int(across * columns) for down, across in PLACES]
        asked = [Item(source[place].text, word=k, box=source[place].box) for k, place in enumerate(places)]
        looks = [Weights(ATTENTION, "asked", "source", whole[:, places])]
        gain = round(self.model.generator.attention.gain.item(), 4) + 0.0  # no -0.0
        told = f"{self.name}, seed {seed}, gain {gain}"
        facts = {"text": told, "answer": label, "seed": seed, "gain": gain}
        return Trace(
            self.name, self.task, {"source": source, "asked": asked}, looks, facts,
            pictures={"source": pixels.permute(1, 2, 0)},
        )  # fmt: skip
