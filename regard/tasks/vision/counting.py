"""Learning how many digits are there in each of N frames, N counts from N pictures, and the network in use.

The loss of a sequence is the sum of the losses of its frames. A digit stays once it has come but hides now and then,
so what the frames before have shown is of use: without a memory only what is seen can be counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Unpack

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from regard import config
from regard.checkpoint import Checkpoint, fill
from regard.config.resuming import Fingerprinted, Fixed
from regard.data import images
from regard.data.examples import Examples
from regard.models.detector import CounterConfig, CountPerFrame
from regard.tasks.vision.drawing import Drawing
from regard.tasks.vision.drawn import FramesConfig
from regard.training import device as devices
from regard.training.alone import Folder, learn
from regard.training.loop import Result, TrainingConfig
from regard.training.optim import OptimConfig
from regard.training.run import Run
from regard.training.task import Evaluation, Step

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
    """How weights follow gradients."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """How long, how often, where."""


class Counting(Drawing):
    """The task of learning a count for every frame."""

    Recipe = CountingRecipe
    usage = "regard count {folder} FRAME ..."
    unit = "sequence"
    goal: tuple[str, Literal["max", "min"]] = ("accuracy", "max")

    @staticmethod
    def train(recipe: CountingRecipe, **folder: Unpack[Folder]) -> tuple[Run, Result]:
        """Learn in a run folder: begun there, or gone on with."""
        place = devices.choose(recipe.training.device)
        recipe = replace(recipe, model=replace(recipe.model, size=recipe.data.size, most=recipe.data.most))
        torch.manual_seed(recipe.training.seed)
        task = Counting(recipe, CountPerFrame(recipe.model).to(place))
        features = recipe.data.batch * recipe.data.frames * recipe.data.size**2 * recipe.model.channels[0]
        notes = [f"{len(task.valid):,} sequences of {recipe.data.frames} frames to measure on", *task.yardsticks()]
        return learn(task, data=task.report, notes=notes, features=features, **folder)

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

    def evaluate(self) -> Evaluation:
        """How often a frame, and a whole sequence, is counted right; and the same of digits that hide."""
        frames, counts, seen = self.valid.parts
        logits = torch.cat([self.model(chunk.to(self.device))[0].float().cpu() for chunk in frames.split(CHUNK)])
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
        return _card(self.recipe)


@dataclass(frozen=True)
class Count:
    """How many there are in a frame, and how probable that is."""

    count: int
    probability: float


class Counter:
    """Counts digits in frames with a trained model."""

    def __init__(self, model: CountPerFrame, name: str = "counter") -> None:
        self.model, self.name = model, name

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> Counter:
        """The counter a checkpoint directory holds."""
        model = CountPerFrame(config.build(CounterConfig, checkpoint.config["model"], where="model"))
        fill(model, checkpoint.tensors())
        return cls(model.to(device).eval(), name=checkpoint.directory.name)

    @torch.no_grad()
    def count(self, frames: Sequence[str | Path | np.ndarray], *, invert: bool = False) -> list[Count]:
        """How many digits are there in each of these frames, which follow one another."""
        shades = images.stacked(frames, size=self.model.config.size, invert=invert)
        device = next(self.model.parameters()).device
        logits, _ = self.model(torch.from_numpy(shades).to(device)[None])
        sure, counts = logits[0].float().softmax(-1).max(-1)
        return [Count(int(count), float(each)) for count, each in zip(counts, sure, strict=True)]


def summed(logits: Float[Tensor, "batch time counts"], counts: Int[Tensor, "batch time"]) -> Float[Tensor, ""]:
    """The cross-entropy of every frame, added up over time and over sequences."""
    return F.cross_entropy(logits.float().flatten(0, 1), counts.flatten(), reduction="sum")


def _row(numbers: Tensor) -> str:
    return " ".join(str(int(number)) for number in numbers)


def _card(recipe: CountingRecipe) -> str:
    """What a stranger should know about the model, in a few lines."""
    data, model = recipe.data, recipe.model
    memory = "no memory of earlier frames" if model.cell == "none" else f"a {model.cell.upper()} over the frames"
    return (
        "# Counts digits in frames\n\n"
        f"Says how many digits, up to {data.most}, are there in each frame of {data.size} x {data.size} pixels, hidden "
        f"ones included; convolutions and {memory}. Trained with Regard on drawn sequences of {data.frames} frames in "
        f"which a digit that has come hides in {data.hidden:.0%} of them.\n\n"
        "Scores are in `metrics.json`. Use it with `regard count DIRECTORY frame1.png frame2.png`, or in Python:\n\n"
        '```python\nimport regard\n\nregard.load("DIRECTORY").count(["frame1.png", "frame2.png"])\n```\n'
    )
