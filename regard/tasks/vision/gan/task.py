"""Learning to make pictures: labelled pictures in, a generator out, which a discriminator has taught."""

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
from regard.data.pictures.album import Shape, shape_of
from regard.data.pictures.shelves import shelve
from regard.metrics.made import frechet_distance, variety
from regard.models.sagan import SAGANConfig, flattery, freeze_weights, hinge
from regard.tasks.card import card
from regard.tasks.vision import preparing
from regard.tasks.vision.classification import PictureBatch, on_device
from regard.tasks.vision.preparing import PicturesConfig, Prepared
from regard.tasks.vision.recognition import recognise
from regard.training import transfer
from regard.training.loop import TrainingConfig
from regard.training.optim import OptimConfig
from regard.training.pace import default_run_length, power_of_two_below, round_between
from regard.training.task import Claim, Evaluation, Given, Goal, Spread, Step, Task, alone, sample_evenly

CHUNK = 100  # pictures made at a time
PASSES = 100  # over the pictures, where nobody says how long to train
COARSE = 8  # regions on a side, about, in which pictures are compared while training
DISCRIMINATOR, GENERATOR = "discriminator", "generator"
SENTENCE = "labelled pictures: training a generator of such pictures (GAN)"


@dataclass(frozen=True, kw_only=True)
class DiscriminatorOptim(OptimConfig):
    """Adam as GANs use it, without momentum; the discriminator learns faster (Heusel et al. 2017)."""

    rate: Positive = 4e-4
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

    rate: Positive = 1e-4
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
    """What is shown to the discriminator, and when the generator has collapsed."""

    flip: bool = False
    """Show half of the real pictures mirrored: not for digits or letters."""
    judged: Free[Count] = 1000
    """Pictures made at every evaluation."""
    variety: Free[Part] = 0.1
    """Training stops when made pictures of one class vary less than this share of what real ones do; 0: never."""


@dataclass(frozen=True, kw_only=True)
class GANRecipe:
    """One run that learns to make pictures."""

    task: Fixed[Literal["gan"]] = "gan"
    """What is learnt."""
    data: Fingerprinted[PicturesConfig]
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


class PictureMaking(Task):
    """The task of learning to make pictures."""

    Recipe = GANRecipe
    usage: ClassVar[str] = "regard draw {folder} -o grid.png"
    shared: ClassVar[bool] = True
    brief: ClassVar[dict[str, Any]] = {"objective": {"judged": 16}}
    goal: Goal = ("distance", "min")

    def __init__(self, recipe: GANRecipe, prepared: Prepared, model: Any, *, fixed: bool = False) -> None:
        self.recipe, self.prepared, self.model = recipe, prepared, model
        self.rows = math.ceil(len(prepared.train) / recipe.data.batch)
        self.features = recipe.data.batch * prepared.size**2 * recipe.model.widths[-1]
        self.kept = on_device(prepared.train, device_of(model))
        self.notes = [f"an epoch has {quantity(self.rows, 'row')} of {recipe.data.batch:,} pictures"]
        if self.kept is not None:
            self.notes.append(f"{self.kept.nbytes / 1e6:,.0f} MB of pictures are kept on the device")
        self.known = self._known()
        shelves = [shelve(file) for file in recipe.data.train]
        self.natural = shape_of(shelves, None, None, recipe.data.fit)[:2]  # before they were resized, if they were

    @staticmethod
    def recognise(inputs: Given) -> Claim | None:
        """Pictures, where this task is asked for by its name: by themselves they are to be classified."""
        claim = recognise(inputs) if inputs.settings.get("task") == GANRecipe.task else None
        return None if claim is None else replace(claim, sentence=SENTENCE)

    @staticmethod
    def prepare(recipe: GANRecipe, known: Checkpoint | None = None) -> Prepared:
        """Read and decode the pictures, as a model to start from knows them."""
        return preparing.prepare(recipe.data, None if known is None else known.config)

    @staticmethod
    def default_settings(recipe: GANRecipe, prepared: Prepared) -> dict[str, Any]:
        """Batches and an end that so many pictures ask for; gradients of two rivals are not clipped."""
        amount = len(prepared.train)
        batch = round_between(8, power_of_two_below(amount / 10), 64)
        rows = math.ceil(amount / batch)
        steps = round_between(500, PASSES * rows, 50_000)
        paced = default_run_length(recipe.training, rows=rows, steps=steps)
        return {
            "data": {"size": prepared.shape.size, "channels": prepared.shape.channels, "batch": batch},
            "training": {**paced, "patience": None, "clip": None, "ema": 0.999},
        }

    @staticmethod
    def fill_sizes(recipe: GANRecipe, prepared: Prepared) -> GANRecipe:
        """The recipe with the classes and the size of the pictures."""
        seen: dict[str, Any] = {"size": prepared.shape.size, "channels": prepared.shape.channels}
        data = replace(recipe.data, **prepared.shape._asdict(), mean=prepared.mean, std=prepared.std)
        return replace(recipe, data=data, model=replace(recipe.model, **seen, classes=len(prepared.classes)))

    @staticmethod
    def adopt(model: Any, parent: Checkpoint, prepared: Prepared) -> list[str]:
        """Both networks of a run that knows the same labels."""
        learnt = parent.config.get("labels")
        if parent.config.get("task") == GANRecipe.task and learnt != prepared.classes:
            raise ValueError(f"{parent.directory} makes pictures of other labels: leave out --from, or give its labels")
        return transfer.load_weights(model, parent, same_task=parent.config.get("task") == GANRecipe.task)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return device_of(self.model)

    def parts(self) -> dict[str, list[nn.Parameter]]:
        """Two networks, two optimizers: the discriminator goes first."""
        return {part: list(getattr(self.model, part).parameters()) for part in (DISCRIMINATOR, GENERATOR)}

    def batch(self, row: int) -> PictureBatch:
        """The real pictures of a row, whose labels made ones have too."""
        train, data = self.prepared.train, self.recipe.data
        chosen, places = preparing.row(train, row, batch=data.batch, seed=self.recipe.training.seed)
        pixels = torch.from_numpy(train.pixels(chosen)) if self.kept is None else None
        numbers, turns, labels = map(torch.from_numpy, (chosen, places, train.labels[chosen]))
        return PictureBatch(numbers, turns, labels, pixels)

    def origins(self, batch: PictureBatch) -> list[str]:
        """Where these pictures stand."""
        return [self.prepared.train.place(number) for number in batch.numbers.tolist()]

    def step(self, batch: PictureBatch, part: str) -> Step:
        """The hinge loss of one network, summed; the other one is neither changed nor leaves a trace."""
        batch, counts = batch.to(self.device), {"pictures": len(batch)}
        noise = torch.randn(len(batch), self.recipe.model.noise, device=self.device)
        if part == GENERATOR:
            made = self.model(noise, batch.labels)
            with freeze_weights(self.model.discriminator):
                loss = flattery(self.model.judge(made, batch.labels))
            return Step(loss=loss, weight=len(batch), counts=counts)
        with torch.no_grad():
            made, real = self.model(noise, batch.labels), self._real(batch)
        both = torch.cat([real, made]), torch.cat([batch.labels, batch.labels])
        loss = hinge(*self.model.judge(*both).split(len(batch)))
        return Step(loss=loss, weight=len(batch), counts=counts)

    def _real(self, batch: PictureBatch) -> Float[Tensor, "batch channels size size"]:
        """Pixels from -1 to 1, some pictures mirrored."""
        pixels = batch.pixels if self.kept is None else self.kept.index_select(0, batch.numbers)
        assert pixels is not None
        real = pixels.float() / 127.5 - 1
        if not self.recipe.objective.flip:
            return real
        mirrored = torch.rand(len(real), 1, 1, 1, device=real.device) < 0.5
        return torch.where(mirrored, real.flip(-1), real)

    def evaluate(self, spread: Spread = alone) -> Evaluation:
        """How far made pictures are from held-out ones, both seen coarsely, and how much those of one class vary."""
        labels, real, usual = self.known
        parts = spread(self._coarsely_made, list(range(math.ceil(len(labels) / CHUNK))))
        found = np.concatenate([np.array(part) for part in parts])
        own = variety(found, labels) / max(usual, 1e-6)
        bound, why = self.recipe.objective.variety, None
        if own < bound:
            why = (
                f"the generator collapsed: made pictures of one class vary {own:.3f} times as much as real ones, less "
                f"than objective.variety={bound}: lower optim.generator.rate, or begin with another training.seed"
            )
        return Evaluation({"distance": frechet_distance(real, found), "variety": own}, failed=why)

    def _known(self) -> tuple[np.ndarray, np.ndarray, float]:
        """The labels of the pictures that are made at an evaluation, held-out pictures seen coarsely, their variety."""
        side, count = self.prepared.valid, max(2, self.recipe.objective.judged)
        chosen = np.array(sample_evenly(range(len(side)), count))
        real = coarse(torch.from_numpy(side.pixels(chosen)).float() / 127.5 - 1).numpy()
        if len(real) < 2:
            real = np.repeat(real, 2, 0)
        return np.resize(side.labels[chosen], count), real, variety(real, np.resize(side.labels[chosen], len(real)))

    def _coarsely_made(self, chunk: int) -> list[list[float]]:
        """Some of the pictures of an evaluation, the same noise every time, as numbers that processes can exchange."""
        labels = self.known[0][chunk * CHUNK : (chunk + 1) * CHUNK]
        noise = torch.randn(len(labels), self.recipe.model.noise, generator=torch.Generator().manual_seed(1 + chunk))
        made = self.model(noise.to(self.device), torch.from_numpy(labels).to(self.device))
        return coarse(made).tolist()

    def contents(self) -> dict[str, Any]:
        """What a checkpoint directory holds beside weights and metrics."""
        recipe = config.plain(self.recipe)
        shape = {name: told for name in Shape._fields if (told := recipe["data"][name]) is not None}
        data = {**shape, "natural": list(self.natural)}
        file = config.plain(preparing.like(self.recipe.data.train[0]))
        known = {"task": recipe["task"], "model": recipe["model"], "labels": self.prepared.classes}
        return {"config.yaml": {"format": 1, **known, "data": {**data, "file": file}}, "README.md": self.card()}

    def card(self) -> str:
        """What a stranger should know about the model, in a few lines."""
        classes, data = self.prepared.classes, self.recipe.data
        known = ", ".join(classes[:20]) + ", ..." * (len(classes) > 20)
        return card(
            "Makes pictures",
            f"{self.recipe.model.phrase}, trained with Regard on {len(self.prepared.train):,} pictures of "
            f"{data.size} x {data.size} pixels.\n\nIt makes pictures of {known}.",
            command="regard draw DIRECTORY --count 8 -o grid.png",
            code=f'make(["{classes[0]}"], count=8, seed=3)',
            files=[file.path for file in data.train],
        )


def coarse(pictures: Float[Tensor, "pictures channels size size"]) -> Float[Tensor, "pictures features"]:
    """The mean shades of regions: a picture as few numbers."""
    side = max(1, round(pictures.shape[-1] / COARSE))
    return F.avg_pool2d(pictures.float().cpu(), side, ceil_mode=True).flatten(1)


def as_bytes(pictures: Float[Tensor, "pictures channels size size"]) -> UInt8[Tensor, "pictures channels size size"]:
    """Pixels from -1 to 1 as bytes."""
    return ((pictures.float().clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8).cpu()
