"""Training of models that rate the similarity of two texts, for instance from 0 to 5."""

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
from regard.data.examples import sample_evenly
from regard.data.tokenizers import Tokenizer
from regard.metrics.correlation import pearson, spearman
from regard.models.text_classifier import TransformerEncoderConfig
from regard.tasks.runner import Runner, evaluation_runner
from regard.tasks.supervised.batching import answer_by_length
from regard.tasks.text_encoders.dataset import LabelBatch, LabelledDataset, TextModel
from regard.tasks.text_encoders.encoder_task import EncoderConfig
from regard.tasks.text_labels.files import RatingsConfig
from regard.tasks.text_labels.preparation import PreparedTexts
from regard.tasks.text_labels.recognition import recognise_rated_pairs
from regard.tasks.text_labels.task import Labelling, LabellingRecipe
from regard.training import transfer
from regard.training.task import Evaluation, Goal, Spread, Step, alone

MAX_SHOWN_CHARACTERS = 300  # characters of a pair shown in a sample


@dataclass(frozen=True, kw_only=True)
class SimilarityRecipe(LabellingRecipe):
    """A training run of a model of text similarity."""

    task: Fixed[Literal["similarity"]] = "similarity"
    """What is learnt."""
    data: Fingerprinted[RatingsConfig]
    """Rated pairs of texts."""
    model: EncoderConfig = field(default_factory=TransformerEncoderConfig, metadata={"resume": "refused"})
    """The network, chosen by its name; sizes that nobody names follow from the number of texts."""


@dataclass(frozen=True)
class PreparedRatings(PreparedTexts):
    """Tokenised pairs with their ratings, and the scale of the ratings."""

    scale: tuple[float, float] = (0.0, 1.0)
    """Mean and standard deviation of the ratings."""


class Similarity(Labelling):
    """The task of rating the similarity of two texts."""

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
    def prepare(recipe: Any, parent: Checkpoint | None = None) -> PreparedRatings:
        """Read and tokenise the pairs; ratings are standardised with the parent's scale, or else their own."""
        prepared = Labelling.prepare(recipe, parent)
        parent_scale = parent.config.get("scale") if parent is not None else None
        scores = prepared.train.labels.astype(np.float64)
        if parent_scale is None and not scores.std() > 0:
            raise ValueError(f"{prepared.train.files[0]}: all pairs have the score {scores[0]:g}: give others too")
        mean, deviation = parent_scale or (float(scores.mean()), float(scores.std()))
        return PreparedRatings(**vars(prepared), scale=(mean, deviation))

    @staticmethod
    def adopt(model: TextModel, parent: Checkpoint, prepared: PreparedTexts) -> list[str]:
        """Load all weights of a similarity model; otherwise only the backbone, under a new head."""
        return transfer.load_weights(model, parent, same_task=parent.config.get("task") == SimilarityRecipe.task)

    @classmethod
    def holds(cls, shape: Any) -> bool:
        """True if a model trained with another library has one output per text."""
        return not shape.per_token and shape.classes == 1

    @classmethod
    def checkpoint_files(
        cls, shape: Any, tokenizer: Tokenizer, notes: Sequence[str] = (), **settings: Any
    ) -> dict[str, Any]:
        """Return the checkpoint files other than the weights for such a model; its ratings are not scaled."""
        files = super().checkpoint_files(shape, tokenizer, notes, **{**settings, "pairs": True})
        files["config.yaml"] |= {"labels": [], "scale": [0.0, 1.0]}
        return files

    def step(self, batch: LabelBatch, part: str) -> Step:
        """Return the summed squared error."""
        batch = batch.to(self.model.output.bias.device)
        is_rated = ~batch.labels.isnan()
        mean, deviation = self.prepared.scale
        targets = (batch.labels.nan_to_num() - mean) / deviation
        loss = (
            (sum_readings(batch.forward(self.model), self.prepared.train.sequences_per_example) - targets)
            .square()
            .where(is_rated, 0.0)
            .sum()
        )
        return Step(loss=loss, weight=is_rated.sum(), counts={"tokens": batch.row.filled})

    def evaluate(self, spread: Spread = alone) -> Evaluation:
        """Rate and score the validation pairs."""
        dataset = self.prepared.valid
        tokens, scale = self.recipe.data.batch_tokens, self.prepared.scale
        with evaluation_runner(self.model) as runner:
            answers = rate_pairs(runner, dataset, scale, tokens=tokens, spread=spread)
        samples = [
            {
                "read": " | ".join(dataset.texts[number])[:MAX_SHOWN_CHARACTERS],
                "score": f"{dataset.labels[number]:.3g}",
                "answer": f"{answers[number]:.3g}",
            }
            for number in sample_evenly(range(len(dataset)), self.recipe.objective.samples)
        ]
        return Evaluation(rating_metrics(answers, dataset.labels, scale), samples)

    def contents(self) -> dict[str, Any]:
        """Return the settings, the tokenizer and the card of a checkpoint."""
        contents = super().contents()
        contents["config.yaml"] = {**contents["config.yaml"], "scale": list(self.prepared.scale)}
        return contents

    @property
    def ability(self) -> str:
        """Description of what the model does, a sentence for its card."""
        mean, deviation = self.prepared.scale
        return f"It gives a pair of texts a score; in training scores were {mean:.3g} ± {deviation:.2g}."


def sum_readings(logits: Float[Tensor, "sequence 1"], readings: int) -> Float[Tensor, "pair"]:
    """Return one number per pair, summed over both orders if the pair is read in both.

    The head is linear, so that summing outputs equals summing the vectors of both orders (Radford et al. 2018).
    """
    return logits[:, 0].float().unflatten(0, (-1, readings)).sum(1)


@torch.no_grad()
def rate_pairs(
    runner: Runner,
    dataset: LabelledDataset,
    scale: Sequence[float],
    *,
    tokens: int,
    spread: Callable[..., Any] = alone,
) -> Float[np.ndarray, "pair"]:
    """Return the ratings of all pairs of a dataset, in its order."""

    def rate_batch(numbers: list[int]) -> list[float]:
        batch = dataset.batch(np.array(numbers)).to(runner.device)
        return sum_readings(batch.forward(runner), dataset.sequences_per_example).tolist()

    ratings = answer_by_length(dataset.lengths.tolist(), rate_batch, budget=tokens, spread=spread)
    return np.array(ratings) * scale[1] + scale[0]


def rating_metrics(
    answers: Float[np.ndarray, "pair"], truth: Float[np.ndarray, "pair"], scale: Sequence[float]
) -> dict[str, float]:
    """Return loss and correlations, by the names in the log."""
    loss = float(np.mean(((answers - truth) / scale[1]) ** 2))
    return {"loss": loss, "pearson": pearson(answers, truth).score, "spearman": spearman(answers, truth).score}
