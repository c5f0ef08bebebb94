"""Learning how alike two texts are: a number for each pair, such as 0 to 5."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.checkpoint import Checkpoint
from regard.config.resuming import Fingerprinted, Fixed
from regard.data.tokenizers import Tokenizer
from regard.metrics.correlation import pearson, spearman
from regard.models.text_classifier import TransformerEncoderConfig
from regard.tasks.labels.dataset import LabelBatch, LabelledDataset, TextModel
from regard.tasks.labels.files import RatingsConfig
from regard.tasks.labels.preparation import PreparedTexts
from regard.tasks.labels.recognition import recognise_rated_pairs
from regard.tasks.labels.task import EncoderConfig, Labelling, LabellingRecipe
from regard.tasks.supervised.batching import answer_by_length
from regard.training import transfer
from regard.training.task import Evaluation, Goal, Spread, Step, alone, sample_evenly

MAX_SHOWN_CHARACTERS = 300  # characters of a pair that a sample shows


@dataclass(frozen=True, kw_only=True)
class SimilarityRecipe(LabellingRecipe):
    """One run that learns how alike texts are."""

    task: Fixed[Literal["similarity"]] = "similarity"
    """What is learnt."""
    data: Fingerprinted[RatingsConfig]
    """Rated pairs of texts."""
    model: EncoderConfig = field(default_factory=TransformerEncoderConfig, metadata={"resume": "refused"})
    """The network, chosen by its name; sizes that nobody names follow from the number of texts."""


@dataclass(frozen=True)
class PreparedRatings(PreparedTexts):
    """Rated pairs, and how their scores become numbers around 0."""

    scale: tuple[float, float] = (0.0, 1.0)
    """The mean of all scores and their deviation."""


class Similarity(Labelling):
    """The task of learning how alike two texts are."""

    Recipe = SimilarityRecipe
    usage: ClassVar[str] = 'regard predict {folder} "..."'
    title: ClassVar[str] = "A model of similarity"
    code: ClassVar[str] = 'rate([("a text", "another")])'
    per_token = False
    single_output = True
    prepared: PreparedRatings
    goal: Goal = ("pearson", "max")
    has_temperature = False
    recognise = staticmethod(recognise_rated_pairs)

    @staticmethod
    def prepare(recipe: Any, known: Checkpoint | None = None) -> PreparedRatings:
        """Read and tokenise the pairs; scores are scaled as in training, or as in a model to start from."""
        found = Labelling.prepare(recipe, known)
        kept = known.config.get("scale") if known is not None else None
        scores = found.train.labels.astype(np.float64)
        if kept is None and not scores.std() > 0:
            raise ValueError(f"{found.train.files[0]}: all pairs have the score {scores[0]:g}: give others too")
        mean, deviation = kept or (float(scores.mean()), float(scores.std()))
        return PreparedRatings(**vars(found), scale=(mean, deviation))

    @staticmethod
    def adopt(model: TextModel, parent: Checkpoint, prepared: PreparedTexts) -> list[str]:
        """Weights of a model that rates pairs, or only the body of another under a new head."""
        return transfer.load_weights(model, parent, same_task=parent.config.get("task") == SimilarityRecipe.task)

    @classmethod
    def holds(cls, shape: Any) -> bool:
        """Whether a model that somebody else trained gives one number for a text."""
        return not shape.per_token and shape.classes == 1

    @classmethod
    def checkpoint_files(
        cls, shape: Any, tokenizer: Tokenizer, notes: Sequence[str] = (), **said: Any
    ) -> dict[str, Any]:
        """What the checkpoint of such a model holds beside its weights; its scores are what it says."""
        found = super().checkpoint_files(shape, tokenizer, notes, **{**said, "pairs": True})
        found["config.yaml"] |= {"labels": [], "scale": [0.0, 1.0]}
        return found

    def step(self, batch: LabelBatch, part: str) -> Step:
        """The squared distance from every score, summed."""
        batch = batch.to(self.model.output.bias.device)
        there = ~batch.labels.isnan()
        mean, deviation = self.prepared.scale
        wanted = (batch.labels.nan_to_num() - mean) / deviation
        loss = (
            (sum_readings(batch.forward(self.model), self.prepared.train.sequences_per_example) - wanted)
            .square()
            .where(there, 0.0)
            .sum()
        )
        return Step(loss=loss, weight=there.sum(), counts={"tokens": batch.row.filled})

    def evaluate(self, spread: Spread = alone) -> Evaluation:
        """How well answers go together with the scores of held-out pairs, and a few to look at."""
        side = self.prepared.valid
        answers = rate_pairs(self.model, side, self.prepared.scale, tokens=self.recipe.data.tokens, spread=spread)
        samples = [
            {
                "read": " | ".join(side.texts[number])[:MAX_SHOWN_CHARACTERS],
                "score": f"{side.labels[number]:.3g}",
                "answer": f"{answers[number]:.3g}",
            }
            for number in sample_evenly(range(len(side)), self.recipe.objective.samples)
        ]
        return Evaluation(rating_metrics(answers, side.labels, self.prepared.scale), samples)

    def contents(self) -> dict[str, Any]:
        """What a checkpoint directory holds beside weights and metrics."""
        found = super().contents()
        found["config.yaml"] = {**found["config.yaml"], "scale": list(self.prepared.scale)}
        return found

    @property
    def ability(self) -> str:
        """What the model can say, in a sentence."""
        mean, deviation = self.prepared.scale
        return f"It gives a pair of texts a score; in training scores were {mean:.3g} ± {deviation:.2g}."


def sum_readings(logits: Float[Tensor, "sequence 1"], ways: int) -> Float[Tensor, "pair"]:
    """One number for a pair; of both its orders, the sum.

    The output is linear, so adding up its answers is adding up what both orders were read as (Radford et al. 2018).
    """
    return logits[:, 0].float().unflatten(0, (-1, ways)).sum(1)


@torch.no_grad()
def rate_pairs(
    model: TextModel, side: LabelledDataset, scale: Sequence[float], *, tokens: int, spread: Callable[..., Any] = alone
) -> Float[np.ndarray, "pair"]:
    """The score of every pair of a set, in its order."""
    training = model.training
    model.eval()

    def told(chosen: list[int]) -> list[float]:
        batch = side.batch(np.array(chosen)).to(model.output.bias.device)
        return sum_readings(batch.forward(model), side.sequences_per_example).tolist()

    found = answer_by_length(side.lengths.tolist(), told, budget=tokens, spread=spread)
    model.train(training)
    return np.array(found) * scale[1] + scale[0]


def rating_metrics(
    answers: Float[np.ndarray, "pair"], truth: Float[np.ndarray, "pair"], scale: Sequence[float]
) -> dict[str, float]:
    """By name, as they are logged; the loss is that of training."""
    loss = float(np.mean(((answers - truth) / scale[1]) ** 2))
    return {"loss": loss, "pearson": pearson(answers, truth).score, "spearman": spearman(answers, truth).score}
