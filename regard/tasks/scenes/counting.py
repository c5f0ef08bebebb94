"""Counting the digits in each frame of a sequence: the task, and the trained network in use.

The loss of a sequence is the sum of the losses of its frames. A digit stays after its first frame but is sometimes
hidden, so earlier frames matter: without a memory only visible digits can be counted.
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
from regard.tasks.inputs import PICTURE, InputKind, Inputs, list_inputs
from regard.tasks.model_card import model_card
from regard.tasks.scenes.digit_scenes import DigitFramesConfig
from regard.tasks.scenes.scene_task import SceneSplits, SceneTask, ShadesOptions, draw_test_examples
from regard.tasks.trained import DirectAnswers, describe_model, load_model, no_attention_error, resolve_options
from regard.training.loop import TrainingConfig
from regard.training.optim import OptimConfig
from regard.training.task import Evaluation, Goal, Spread, Step, alone

SEQUENCES_PER_BATCH = 64  # sequences per batch
SAMPLES = 4


@dataclass(frozen=True, kw_only=True)
class CountingRecipe:
    """A training run of a model that counts digits in frames."""

    task: Fixed[Literal["counting"]] = "counting"
    """What is learnt."""
    data: Fingerprinted[DigitFramesConfig] = field(default_factory=DigitFramesConfig)
    """What is drawn."""
    model: Fixed[CounterConfig] = field(default_factory=CounterConfig)
    """Its size, and whether it remembers."""
    optim: OptimConfig = field(default_factory=OptimConfig)
    """The optimizer and its learning rate."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """How long, how often, where."""


class Counting(SceneTask):
    """The task of learning a count for every frame."""

    Recipe = CountingRecipe
    usage: ClassVar[str] = "regard count {folder} FRAME ..."
    unit = "sequence"
    goal: Goal = ("accuracy", "max")

    def __init__(self, recipe: CountingRecipe, splits: SceneSplits, model: Any, *, fixed: bool = False) -> None:
        super().__init__(recipe, splits, model)
        self.features *= recipe.data.frames
        self.notes = [
            f"{quantity(len(self.valid), 'sequence')} of {quantity(recipe.data.frames, 'frame')} held out",
            *self.describe_baselines(),
        ]

    @staticmethod
    def fill_sizes(recipe: CountingRecipe, splits: SceneSplits) -> CountingRecipe:
        """Return the recipe with the size of the frames and the highest count."""
        return replace(recipe, model=replace(recipe.model, size=recipe.data.size, most=recipe.data.max_digits))

    def describe_baselines(self) -> list[str]:
        """Describe two baselines: counting visible digits without error, and the highest such count so far."""
        _, counts, visible = self.valid.parts
        most_so_far = visible.cummax(1).values
        return [
            f"counting what is seen, without a mistake, is right in {(visible == counts).float().mean():.3f} of frames",
            f"taking the most seen so far is right in {(most_so_far == counts).float().mean():.3f}",
        ]

    def step(self, batch: Examples, part: str) -> Step:
        """Return the cross-entropy summed over frames and sequences."""
        frames, counts, _ = batch.to(self.device).parts
        logits, _ = self.model(frames)
        return Step(loss=sum_losses(logits, counts), weight=counts.numel(), counts={"frames": counts.numel()})

    def evaluate(self, spread: Spread = alone) -> Evaluation:
        """Measure the accuracy of frames, of whole sequences, and of frames with hidden digits."""
        frames, counts, visible = self.valid.parts
        chunks = frames.split(SEQUENCES_PER_BATCH)
        chunk_logits = spread(lambda chunk: self.model(chunk.to(self.device))[0].float().tolist(), chunks)
        logits = torch.tensor([sequence_logits for part in chunk_logits for sequence_logits in part])
        guesses = logits.argmax(-1)
        is_right, has_hidden = guesses == counts, visible < counts
        metrics = {
            "loss": sum_losses(logits, counts).item() / counts.numel(),
            "accuracy": is_right.float().mean().item(),
            "sequences": is_right.all(1).float().mean().item(),
        }
        if has_hidden.any():
            metrics["hidden"] = is_right[has_hidden].float().mean().item()
        samples = [
            {
                "there": _join_numbers(counts[number]),
                "seen": _join_numbers(visible[number]),
                "answer": _join_numbers(guesses[number]),
            }
            for number in range(min(SAMPLES, len(counts)))
        ]
        return Evaluation(metrics, samples)

    def card(self) -> str:
        """Return the model card."""
        data, cell = self.recipe.data, self.recipe.model.cell
        memory = "no memory of earlier frames" if cell == "none" else f"a {cell.upper()} over the frames"
        return model_card(
            "Counts digits in frames",
            f"Says how many digits, up to {data.max_digits}, are there in each frame of {data.size} x {data.size} "
            f"pixels, hidden ones included; convolutions and {memory}. Trained with Regard on drawn sequences of "
            f"{data.frames} frames in which a digit that has come hides in {data.hidden:.0%} of them.",
            command="regard count DIRECTORY frame1.png frame2.png",
            code='count(["frame1.png", "frame2.png"])',
        )


@dataclass(frozen=True)
class DigitCount:
    """The number of digits in a frame, and its probability."""

    count: int
    probability: float

    def __str__(self) -> str:
        return f"{self.count}\t{self.probability:.3f}"

    def plain(self) -> dict[str, Any]:
        """Return everything as JSON."""
        return {"count": self.count, "probability": round(self.probability, 6)}


class Counter(DirectAnswers):
    """Counts digits in frames with a trained model."""

    task: ClassVar[str] = "counting"
    verb: ClassVar[str] = "count"
    kind: ClassVar[str] = "a model that counts digits"
    input_kind: ClassVar[InputKind] = PICTURE
    Options: ClassVar[type] = ShadesOptions
    __repr__ = describe_model

    def __init__(self, model: CountPerFrame, name: str = "counter", data: Mapping[str, Any] | None = None) -> None:
        self.model, self.name, self.data = model, name, data

    @classmethod
    def load(cls, checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> Counter:
        """Load the counter of a checkpoint directory."""
        return cls(load_model(checkpoint, device), checkpoint.directory.name, checkpoint.config.get("data"))

    @property
    def inputs(self) -> Inputs:
        """Frames of one sequence, of the size that the model was trained on."""
        size = self.model.config.size
        return Inputs(kind=self.input_kind, parse=self.parse, together=True, limits={"height": size, "width": size})

    def parse(self, text: str) -> Path:
        """Return the path of a frame."""
        return Path(text)

    def answer(self, inputs: Sequence[str | Path | np.ndarray], **options: Any) -> list[DigitCount]:
        """Count the digits in each frame of a sequence; options are those of `ShadesOptions`."""
        return self.count(inputs, invert=resolve_options(self, options).invert)

    @torch.no_grad()
    def evaluate(self, *files: str | Path, count: int = 500, name: str | None = None) -> Scores:
        """Return scores on `count` newly drawn sequences."""
        frames, counts, _ = draw_test_examples(self, DigitFramesConfig, count, files).parts
        device = self.runner.device
        chunks = frames.split(SEQUENCES_PER_BATCH)
        guesses = torch.cat([self.runner(chunk.to(device))[0].argmax(-1).cpu() for chunk in chunks])
        is_right = (guesses == counts).float()
        metrics = {
            "frames right, %": mean_statistics((100 * is_right.mean(1)).tolist()),
            "sequences right, %": mean_statistics((100 * is_right.all(1).float()).tolist()),
        }
        examples = [
            Judged(
                i + 1, f"sequence {i}", _join_numbers(counts[i]), _join_numbers(guesses[i]), float(is_right[i].mean())
            )
            for i in range(len(counts))
        ]
        return Scores(name or self.name, self.task, metrics, examples, unit="sequence", counted="frames right")

    def look(self, frame: Any, **options: Any) -> Trace:
        """Raise an error: convolutions and a recurrent layer have no attention to look at."""
        raise no_attention_error(self)

    @torch.no_grad()
    def count(self, frames: Sequence[str | Path | np.ndarray], *, invert: bool = False) -> list[DigitCount]:
        """Count the digits in each of these consecutive frames."""
        frames = list_inputs(frames, PICTURE, verb=self.verb)
        shades = images.stack_pictures(frames, size=self.model.config.size, invert=invert)
        device = self.runner.device
        logits, _ = self.runner(torch.from_numpy(shades).to(device)[None])
        probabilities, counts = logits[0].float().softmax(-1).max(-1)
        return [
            DigitCount(int(count), float(probability)) for count, probability in zip(counts, probabilities, strict=True)
        ]


def sum_losses(logits: Float[Tensor, "batch time counts"], counts: Int[Tensor, "batch time"]) -> Float[Tensor, ""]:
    """Return the cross-entropy of every frame, summed over time and sequences."""
    return F.cross_entropy(logits.float().flatten(0, 1), counts.flatten(), reduction="sum")


def _join_numbers(numbers: Tensor) -> str:
    return " ".join(str(int(number)) for number in numbers)
