"""Learning pictures pixel by pixel: every token is predicted from those before it."""

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
from regard.data.examples import TensorBatch
from regard.data.pictures.shelves import PictureFile
from regard.metrics.likelihood import linear_cross_entropy
from regard.models.axial import AxialConfig
from regard.models.gpt import ImageGPTConfig
from regard.tasks.card import card
from regard.tasks.vision.classification import on_device
from regard.tasks.vision.pixels import preparing
from regard.tasks.vision.pixels.preparing import PixelsConfig, Prepared
from regard.tasks.vision.pixels.tokens import Alphabet
from regard.tasks.vision.preparing import Side, row
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
    alone,
    data_section,
)

HELD = 1 << 26  # logits held at once, in numbers
BUDGET = {"cuda": 1 << 17}  # tokens read at a time where nothing is learnt
LEAST = 1 << 14  # and elsewhere
SENTENCE = "pictures: training a model that writes them pixel by pixel"
PASSES = 30  # over the pictures, where nobody says how long
SIZES = ((2_000, (96, 4, 4)), (20_000, (128, 4, 6)))  # up to so many pictures: width, heads, depth
LARGE = (256, 8, 8)


@dataclass(frozen=True, kw_only=True)
class PixelObjective:
    """What is measured on the way."""

    judged: Count = 1000
    """Held-out pictures that an evaluation reads."""
    samples: Free[Whole] = 4
    """Held-out pictures whose bits are shown at every evaluation."""


@dataclass(frozen=True, kw_only=True)
class PixelsRecipe:
    """One run that learns to write pictures pixel by pixel."""

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
    """Some pictures: which, their bytes unless the device has them, and how their tokens lie."""

    numbers: Int[Tensor, "picture"]
    row: Row
    pixels: UInt8[Tensor, "picture channels size size"] | None = None

    def to(self, device: torch.device | str) -> PixelBatch:
        """Return the same batch on a device."""
        return replace(super().to(device), row=self.row.to(device))

    def halves(self) -> list[PixelBatch]:
        """Split into two batches of half the size, or return the batch alone if it has one picture only."""
        return [replace(half, row=laid_out(len(half), self.row.longest)) for half in super().halves()]


class Pixels(Task):
    """The task of writing pictures pixel by pixel."""

    Recipe = PixelsRecipe
    usage: ClassVar[str] = "regard draw {folder} --samples 16 -o drawn.png"
    shared: ClassVar[bool] = True
    brief: ClassVar[dict[str, Any]] = {"objective": {"judged": 1, "samples": 1}}
    goal: Goal = ("loss", "min")

    def __init__(self, recipe: PixelsRecipe, prepared: Prepared, model: Any, *, fixed: bool = False) -> None:
        self.recipe, self.prepared, self.model, data = recipe, prepared, model, recipe.data
        self.alphabet = prepared.alphabet.to(self.device)
        self.rows = math.ceil(len(prepared.train) / data.batch)
        self.features = data.batch * self.alphabet.places * recipe.model.width
        self.layout = laid_out(data.batch, self.alphabet.places)
        self.kept = on_device(prepared.train, self.device)
        self.notes = [f"an epoch has {quantity(self.rows, 'row')} of {data.batch:,} pictures"]

    @staticmethod
    def recognise(inputs: Given) -> Claim | None:
        """Pictures, if somebody says that their pixels are to be learnt."""
        if inputs.to is not None or inputs.settings.get("task") != PixelsRecipe.task:
            return None
        train, valid = ([{"path": name} for name in names] for names in (inputs.files, inputs.valid))
        return Claim(data_section(train, valid), SENTENCE, SURE)

    @staticmethod
    def prepare(recipe: PixelsRecipe, known: Checkpoint | None = None) -> Prepared:
        """Read and decode the pictures, as a model to start from knows them."""
        return preparing.prepare(recipe.data, None if known is None else known.config)

    @staticmethod
    def default_settings(recipe: PixelsRecipe, prepared: Prepared) -> dict[str, Any]:
        """A size, an optimizer and an end that so many pictures ask for."""
        amount, alphabet = len(prepared.train), prepared.alphabet
        batch = round_between(4, (1 << 16) / alphabet.places, 128)
        rows = math.ceil(amount / batch)
        width, heads, depth = next((sizes for most, sizes in SIZES if amount <= most), LARGE)
        own = {"width": width, "heads": heads, "hidden": 4 * width, "depth": depth}
        shape = {"size": alphabet.size, "channels": alphabet.channels}
        return {
            "data": {**shape, "batch": batch},
            "model": {**own, "above": max(1, depth // 2)} if recipe.model.name == "axial" else own,
            "optim": {"name": "adamw", "rate": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8, "schedule": "cosine"},
            "training": default_run_length(
                recipe.training, rows=rows, steps=round_between(300, PASSES * rows, 100_000)
            ),
        }

    @staticmethod
    def fill_sizes(recipe: PixelsRecipe, prepared: Prepared) -> PixelsRecipe:
        """The recipe with the size of the pictures and the number of tokens."""
        alphabet = prepared.alphabet
        data = replace(recipe.data, size=alphabet.size, channels=alphabet.channels)
        seen: dict[str, Any] = {"vocab": alphabet.vocab, "size": alphabet.size, "channels": alphabet.depth}
        if isinstance(recipe.model, ImageGPTConfig):
            seen["context"] = alphabet.places + 1  # the token that begins a picture, and all others
        model: Any = replace(recipe.model, **seen)
        return replace(recipe, data=data, model=model)

    @staticmethod
    def adopt(model: Any, parent: Checkpoint, prepared: Prepared) -> list[str]:
        """Weights of a model of the same pixels."""
        before = transfer.parent_model_config(parent)
        if (before.vocab, before.size, before.channels) != (
            model.config.vocab,
            model.config.size,
            model.config.channels,
        ):
            raise ValueError(
                f"{parent.directory} knows pictures of {before.size} x {before.size} in {before.vocab - 1} tokens, "
                "not like these: leave out --from, or set data.size and data.colours to the same"
            )
        return transfer.load_weights(model, parent, same_task=True)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return device_of(self.model)

    def batch(self, number: int) -> PixelBatch:
        """The pictures of a row."""
        train = self.prepared.train
        chosen, _ = row(train, number, batch=self.recipe.data.batch, seed=self.recipe.training.seed)
        pixels = torch.from_numpy(train.pixels(chosen)) if self.kept is None else None
        return PixelBatch(torch.from_numpy(chosen), self.layout, pixels)

    def origins(self, batch: PixelBatch) -> list[str]:
        """Where these pictures stand."""
        return [self.prepared.train.place(number) for number in batch.numbers.tolist()]

    def step(self, batch: PixelBatch, part: str) -> Step:
        """The surprise at every token, summed."""
        batch = batch.to(self.device)
        pixels = batch.pixels
        if pixels is None:
            assert self.kept is not None
            pixels = self.kept.index_select(0, batch.numbers)
        tokens = self.alphabet.tokens(pixels)
        features = self.model(self.alphabet.shifted(tokens).flatten(), layout=batch.row)
        chunk = max(256, HELD // self.alphabet.vocab)
        loss = linear_cross_entropy(features, self.model.prediction, tokens.flatten(), chunk=chunk)
        return Step(loss=loss, weight=tokens.numel(), counts={"tokens": tokens.numel()})

    def evaluate(self, spread: Spread = alone) -> Evaluation:
        """Bits of held-out pictures."""
        side = self.prepared.valid
        some = side.kept(np.arange(min(len(side), self.recipe.objective.judged)))
        nats = [
            one
            for chunk in spread(lambda each: self._nats(some, each), chunks(some, self.alphabet, self.device))
            for one in chunk
        ]
        loss = sum(nats) / (len(nats) * self.alphabet.places)
        unit = self.alphabet.unit
        shown = [
            {"picture": some.place(number), "bits": round(nats[number] / self.alphabet.places / math.log(2), 4)}
            for number in range(min(self.recipe.objective.samples, len(some)))
        ]
        return Evaluation({"loss": loss, unit.key: loss / math.log(2)}, shown)

    def _nats(self, side: Side, chunk: range) -> list[float]:
        pixels = torch.from_numpy(side.pixels(np.array(chunk))).to(self.device)
        return nats(self.model, self.alphabet, self.alphabet.tokens(pixels)).tolist()

    def contents(self) -> dict[str, Any]:
        """What a checkpoint directory holds beside weights and metrics."""
        recipe, palette = config.plain(self.recipe), self.prepared.alphabet.palette
        data = {name: recipe["data"][name] for name in ("size", "channels")}
        file = config.plain(replace(self.recipe.data.train[0], path="", folder=None))
        told = {} if palette is None else {"palette": preparing.written_palette(palette)}
        kept = {"task": recipe["task"], "model": recipe["model"], "data": {**data, **told, "file": file}}
        return {"config.yaml": {"format": 1, **kept}, "README.md": self.card()}

    def card(self) -> str:
        """What a stranger should know about the model, in a few lines."""
        alphabet = self.prepared.alphabet
        return card(
            "Writes pictures pixel by pixel",
            f"{self.recipe.model.phrase}, trained with Regard on {len(self.prepared.train):,} pictures of "
            f"{alphabet.size} x {alphabet.size} pixels. A token is {alphabet.phrase}.",
            command="regard draw DIRECTORY picture.png --keep upper --samples 4 -o drawn.png",
            code='draw("picture.png", keep="upper")',
            files=[file.path for file in self.recipe.data.train],
        )


def laid_out(pictures: int, places: int) -> Row:
    """So many pictures end to end."""
    return Row.of([places] * pictures, most=pictures)


def chunks(side: Side, alphabet: Alphabet, device: torch.device) -> list[range]:
    """Pictures that are read together."""
    size = max(1, BUDGET.get(device.type, LEAST) // alphabet.places)
    return [range(first, min(first + size, len(side))) for first in range(0, len(side), size)]


def nats(model: Any, alphabet: Alphabet, tokens: Int[Tensor, "batch place"]) -> Float[Tensor, "batch"]:
    """How improbable a model finds each picture."""
    layout = laid_out(*tokens.shape).to(tokens.device)
    features = model(alphabet.shifted(tokens).flatten(), layout=layout)
    scores = model.logits(features).float().log_softmax(-1)
    return -scores.gather(1, tokens.flatten()[:, None]).view(tokens.shape).double().sum(1)


def as_file(path: str, own: dict[str, Any]) -> PictureFile:
    """A file of pictures, read as those that were trained on."""
    return config.build(PictureFile, {**own, "path": path}, where="file")
