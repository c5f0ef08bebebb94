"""Learning how many digits are there in each of N frames, N counts from N pictures, and the network in use.

The loss of a sequence is the sum of the losses of its frames. A digit stays once it has come but hides now and then,
so what the frames before have shown is of use: without a memory only what is seen can be counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from regard.checkpoint import Checkpoint
from regard.config.resuming import Fingerprinted, Fixed
from regard.config.words import quantity
from regard.data import images
from regard.data.examples import Examples
from regard.interpret.trace import Trace
from regard.metrics.scores import Judged, Scores
from regard.metrics.significance import mean_statistics
from regard.models.detector import CounterConfig, CountPerFrame
from regard.tasks.card import card
from regard.tasks.inputs import PICTURE, InputKind, Inputs, list_inputs
from regard.tasks.trained import DirectAnswers, describe_model, load_model, no_attention_error, resolve_options
from regard.tasks.vision.drawing import Albums, Drawing, PictureOptions, fresh_pictures
from regard.tasks.vision.drawn import FramesConfig
from regard.training.loop import TrainingConfig
from regard.training.optim import OptimConfig
from regard.training.task import Evaluation, Goal, Spread, Step, alone

CHUNK = 64  # sequences looked at at a time
SHOWN = 4


@dataclass(frozen=True, kw_only=True)
class CountingRecipe:
    """One run that learns to count in frames."""

    task: Fixed[Literal["counting"]] = "counting"
    """What is learnt."""
    data: Fingerprinted[FramesConfig] = field(default_factory=FramesConfig)
    """What is drawn."""
    model: Fixed[CounterConfig] = field(default_factory=CounterConfig)
    """Its size, and whether it remembers."""
    optim: OptimConfig = field(default_factory=OptimConfig)
    """The optimizer and its learning rate."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """How long, how often, where."""


class Counting(Drawing):
    """The task of learning a count for every frame."""

    Recipe = CountingRecipe
    usage: ClassVar[str] = "regard count {folder} FRAME ..."
    unit = "sequence"
    goal: Goal = ("accuracy", "max")

    def __init__(self, recipe: CountingRecipe, albums: Albums, model: Any, *, fixed: bool = False) -> None:
        super().__init__(recipe, albums, model)
        self.features *= recipe.data.frames
        self.notes = [
            f"{quantity(len(self.valid), 'sequence')} of {quantity(recipe.data.frames, 'frame')} held out",
            *self.yardsticks(),
        ]

    @staticmethod
    def fill_sizes(recipe: CountingRecipe, albums: Albums) -> CountingRecipe:
        """The recipe with the size of the frames and the most there is to count."""
        return replace(recipe, model=replace(recipe.model, size=recipe.data.size, most=recipe.data.most))

    def yardsticks(self) -> list[str]:
        """How far perfect eyes would come that remember nothing, or only the most they ever saw at once."""
        _, counts, seen = self.valid.parts
        most = seen.cummax(1).values
        return [
            f"counting what is seen, without a mistake, is right in {(seen == counts).float().mean():.3f} of frames",
            f"taking the most seen so far is right in {(most == counts).float().mean():.3f}",
        ]

    def step(self, batch: Examples, part: str) -> Step:
        """The loss of every frame, summed over frames and sequences."""
        frames, counts, _ = batch.to(self.device).parts
        logits, _ = self.model(frames)
        return Step(loss=summed(logits, counts), weight=counts.numel(), counts={"frames": counts.numel()})

    def evaluate(self, spread: Spread = alone) -> Evaluation:
        """How often a frame, and a whole sequence, is counted right; and the same of digits that hide."""
        frames, counts, seen = self.valid.parts
        found = spread(lambda chunk: self.model(chunk.to(self.device))[0].float().tolist(), frames.split(CHUNK))
        logits = torch.tensor([line for part in found for line in part])
        guesses = logits.argmax(-1)
        right, hiding = guesses == counts, seen < counts
        metrics = {
            "loss": summed(logits, counts).item() / counts.numel(),
            "accuracy": right.float().mean().item(),
            "sequences": right.all(1).float().mean().item(),
        }
        if hiding.any():
            metrics["hidden"] = right[hiding].float().mean().item()
        samples = [
            {"there": _row(counts[number]), "seen": _row(seen[number]), "answer": _row(guesses[number])}
            for number in range(min(SHOWN, len(counts)))
        ]
        return Evaluation(metrics, samples)

    def card(self) -> str:
        """What a stranger should know about the model, in a few lines."""
        data, cell = self.recipe.data, self.recipe.model.cell
        memory = "no memory of earlier frames" if cell == "none" else f"a {cell.upper()} over the frames"
        return card(
            "Counts digits in frames",
            f"Says how many digits, up to {data.most}, are there in each frame of {data.size} x {data.size} pixels, "
            f"hidden ones included; convolutions and {memory}. Trained with Regard on drawn sequences of {data.frames} "
            f"frames in which a digit that has come hides in {data.hidden:.0%} of them.",
            command="regard count DIRECTORY frame1.png frame2.png",
            code='count(["frame1.png", "frame2.png"])',
        )


@dataclass(frozen=True)
class Count:
    """How many there are in a frame, and how probable that is."""

    count: int
    probability: float

    def __str__(self) -> str:
        return f"{self.count}\t{self.probability:.3f}"

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {"count": self.count, "probability": round(self.probability, 6)}


class Counter(DirectAnswers):
    """Counts digits in frames with a trained model."""

    task: ClassVar[str] = "counting"
    verb: ClassVar[str] = "count"
    kind: ClassVar[str] = "a model that counts digits"
    input_kind: ClassVar[InputKind] = PICTURE
    Options: ClassVar[type] = PictureOptions
    __repr__ = describe_model

    def __init__(self, model: CountPerFrame, name: str = "counter", data: Mapping[str, Any] | None = None) -> None:
        self.model, self.name, self.data = model, name, data

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> Counter:
        """The counter a checkpoint directory holds."""
        return cls(load_model(checkpoint, device), checkpoint.directory.name, checkpoint.config.get("data"))

    @property
    def inputs(self) -> Inputs:
        """Frames of the model's size, which belong together."""
        size = self.model.config.size
        return Inputs(kind=self.input_kind, parse=self.parse, together=True, limits={"height": size, "width": size})

    def parse(self, text: str) -> Path:
        """An input is the path of a frame; frames follow one another."""
        return Path(text)

    def answer(self, inputs: Sequence[str | Path | np.ndarray], **options: Any) -> list[Count]:
        """How many there are in each of the frames; options are those of `PictureOptions`."""
        return self.count(inputs, invert=resolve_options(self, options).invert)

    @torch.no_grad()
    def evaluate(self, *files: str | Path, count: int = 500, name: str | None = None) -> Scores:
        """Scores on so many freshly drawn sequences."""
        frames, counts, _ = fresh_pictures(self, FramesConfig, count, files).parts
        device = self.runner.device
        guesses = torch.cat([self.runner(part.to(device))[0].argmax(-1).cpu() for part in frames.split(CHUNK)])
        right = (guesses == counts).float()
        metrics = {
            "frames right, %": mean_statistics((100 * right.mean(1)).tolist()),
            "sequences right, %": mean_statistics((100 * right.all(1).float()).tolist()),
        }
        examples = [
            Judged(i + 1, f"sequence {i}", _row(counts[i]), _row(guesses[i]), float(right[i].mean()))
            for i in range(len(counts))
        ]
        return Scores(name or self.name, self.task, metrics, examples, unit="sequence", counted="frames right")

    def look(self, given: Any, **options: Any) -> Trace:
        """There is nothing to look at in convolutions and a recurrent layer."""
        raise no_attention_error(self)

    @torch.no_grad()
    def count(self, frames: Sequence[str | Path | np.ndarray], *, invert: bool = False) -> list[Count]:
        """How many digits are there in each of these frames, which follow one another."""
        frames = list_inputs(frames, PICTURE, verb=self.verb)
        shades = images.stack_pictures(frames, size=self.model.config.size, invert=invert)
        device = self.runner.device
        logits, _ = self.runner(torch.from_numpy(shades).to(device)[None])
        sure, counts = logits[0].float().softmax(-1).max(-1)
        return [Count(int(count), float(each)) for count, each in zip(counts, sure, strict=True)]


def summed(logits: Float[Tensor, "batch time counts"], counts: Int[Tensor, "batch time"]) -> Float[Tensor, ""]:
    """The cross-entropy of every frame, added up over time and over sequences."""
    return F.cross_entropy(logits.float().flatten(0, 1), counts.flatten(), reduction="sum")


def _row(numbers: Tensor) -> str:
    return " ".join(str(int(number)) for number in numbers)
