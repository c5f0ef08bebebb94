"""Span corruption: a T5 reads a text with spans left out and generates them (Raffel et al. 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from jaxtyping import Float
from torch import Tensor

from regard.attention.hardware import device_of
from regard.config.resuming import Fixed
from regard.metrics.likelihood import count, perplexity
from regard.models.t5 import T5Config
from regard.tasks.pretraining.corpus import Corpus
from regard.tasks.pretraining.learning import (
    Pretraining,
    Size,
    TextRecipe,
    evaluate_batches,
    leave_gap,
    sum_cross_entropy,
)
from regard.tasks.pretraining.restorer import Restorer
from regard.tasks.pretraining.spans import SpanBatch, SpanRows, SpansConfig, sentinel_names
from regard.training.task import Evaluation, Spread, Step, alone

SIZES = (
    Size(300_000, {"width": 128, "heads": 4, "depth": 32, "hidden": 512, "encoder": 3, "decoder": 3}, 16, 2e-3, 40),
    Size(1_500_000, {"width": 256, "heads": 4, "depth": 64, "hidden": 1024, "encoder": 4, "decoder": 4}, 32, 1e-3, 30),
    Size(10_000_000, {"width": 384, "heads": 6, "depth": 64, "hidden": 1024, "encoder": 5, "decoder": 5}, 64, 1e-3, 15),
    Size(float("inf"), {"width": 512, "heads": 8, "depth": 64, "hidden": 2048}, 64, 1e-3, 4),
)


@dataclass(frozen=True, kw_only=True)
class SpanRecipe(TextRecipe):
    """A training run of a T5 on span corruption."""

    task: Fixed[Literal["span-corruption"]] = "span-corruption"
    """What is learnt."""
    model: Fixed[T5Config] = field(default_factory=T5Config)
    """Its size; what nobody names follows from the amount of text."""
    objective: SpansConfig = field(default_factory=SpansConfig)
    """How much of a text is cut out, and in how long spans."""


class SpanCorruption(Pretraining):
    """The task of span corruption."""

    Recipe = SpanRecipe
    usage: ClassVar[str] = 'regard predict {folder} "TEXT WITH <extra_id_0> GAPS"'
    title: ClassVar[str] = "A text-to-text model"
    code: ClassVar[str] = 'restore("A text with <extra_id_0> gaps")'
    sentence: ClassVar[str] = "plain text: training a T5 that restores spans of it"
    sizes = SIZES
    needs: ClassVar[Sequence[str]] = ("end", "pad")

    def make_training_rows(self) -> SpanRows:
        """Return the rows of windows over the text with spans left out."""
        return self._rows(self.prepared.train, self.recipe.training.seed, fixed=self.fixed)

    @classmethod
    def special(cls, recipe: SpanRecipe) -> Sequence[str]:
        """Return the names of the sentinels."""
        return sentinel_names(recipe.objective, recipe.data.context)

    def step(self, batch: SpanBatch, part: str) -> Step:
        """Return the cross-entropy of the target tokens, summed."""
        batch = batch.to(device_of(self.model))
        loss = self._batch_loss(batch)
        return Step(loss=loss, weight=count(batch.labels), counts={"tokens": batch.rows[0].filled})

    def evaluate(self, spread: Spread = alone) -> Evaluation:
        """Evaluate on spans left out of the held-out text, the same every time."""
        rows = self._rows(self.prepared.valid, 0)
        batch_losses = evaluate_batches(
            self.model,
            rows.rows,
            rows.batch,
            lambda batch: (float(self._batch_loss(batch)), int(count(batch.labels))),
            spread,
        )
        nats, scored = (sum(column) for column in zip(*batch_losses, strict=True))
        return Evaluation({"loss": nats / scored, "perplexity": perplexity(nats, scored)})

    def look_text(self, text: str) -> str:
        """Return a text with a span left out in the middle."""
        return leave_gap(text, sentinel_names(self.recipe.objective, self.recipe.data.context)[0])

    def restorer(self) -> Restorer:
        """Return a restorer with the current model."""
        return Restorer(self.model, self.prepared.tokenizer)

    def _rows(self, corpus: Corpus, seed: int, *, fixed: bool = False) -> SpanRows:
        data, how = self.recipe.data, self.recipe.objective
        return SpanRows(corpus, self.prepared.tokenizer, data.context, data.batch_size, seed, how=how, fixed=fixed)

    def _batch_loss(self, batch: SpanBatch) -> Float[Tensor, ""]:
        features = self.model(batch.source, batch.target, layouts=batch.rows)
        return sum_cross_entropy(self.model, features, batch.labels)
