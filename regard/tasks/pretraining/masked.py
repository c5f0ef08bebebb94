"""Masked language modelling: a BERT predicts masked tokens and, optionally, whether one text follows another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from torch.nn import functional as F

from regard.attention.hardware import device_of
from regard.config.resuming import Fingerprinted, Fixed
from regard.metrics.likelihood import IGNORE, count
from regard.models.bert import BERTConfig
from regard.models.parts.span_boundary import find_boundaries
from regard.tasks.pretraining.corpus import Corpus, Prepared
from regard.tasks.pretraining.documents import PairedConfig
from regard.tasks.pretraining.filler import Filler, Guesses, guess_masked_tokens
from regard.tasks.pretraining.learning import Pretraining, Size, TextRecipe, leave_gap, sum_cross_entropy
from regard.tasks.pretraining.masking import SPECIAL, MaskedBatch, MaskedRows, MaskingConfig
from regard.training.task import Evaluation, Spread, Step, alone

SIZES = (
    Size(300_000, {"width": 128, "heads": 4, "hidden": 512, "depth": 4, "dropout": 0.1}, 16, 1e-3, 60),
    Size(1_500_000, {"width": 256, "heads": 4, "hidden": 1024, "depth": 6, "dropout": 0.1}, 32, 1e-3, 40),
    Size(10_000_000, {"width": 384, "heads": 6, "hidden": 1536, "depth": 6, "dropout": 0.1}, 64, 1e-3, 20),
    Size(100_000_000, {"width": 512, "heads": 8, "hidden": 2048, "depth": 8, "dropout": 0.1}, 128, 7e-4, 8),
    Size(float("inf"), {"width": 768, "heads": 12, "hidden": 3072, "depth": 12, "dropout": 0.1}, 256, 4e-4, 2),
)
SHOWN = 3  # texts with gaps shown at every evaluation


@dataclass(frozen=True, kw_only=True)
class MaskedRecipe(TextRecipe):
    """A training run of a BERT on masked language modelling."""

    task: Fixed[Literal["masked-lm"]] = "masked-lm"
    """What is learnt."""
    data: Fingerprinted[PairedConfig]
    """Texts and pairs of them, where documents end, and how they are batched."""
    model: Fixed[BERTConfig] = field(default_factory=BERTConfig)
    """Its size; what nobody names follows from the amount of text."""
    objective: MaskingConfig = field(default_factory=MaskingConfig)
    """Which tokens are masked, how, and whether the next sentence is guessed."""


class MaskedLM(Pretraining):
    """The task of masked language modelling."""

    Recipe = MaskedRecipe
    usage: ClassVar[str] = 'regard fill {folder} "TEXT WITH A [MASK]"'
    title: ClassVar[str] = "A masked language model"
    code: ClassVar[str] = 'fill("A text with a [MASK]")'
    sentence: ClassVar[str] = "plain text: training a BERT that fills gaps in it"
    sizes = SIZES
    needs: ClassVar[Sequence[str]] = ("begin", "separator", "mask")

    def make_training_rows(self) -> MaskedRows:
        """Return the rows of pieces of documents with masked tokens."""
        return self._rows(self.prepared.train, self.recipe.training.seed, fixed=self.fixed)

    @classmethod
    def special(cls, recipe: MaskedRecipe) -> Sequence[str]:
        """Return the mask and the separator between two texts."""
        return SPECIAL

    @classmethod
    def required_sizes(cls, recipe: MaskedRecipe) -> dict[str, Any]:
        """Return the context, and the segments and heads for two texts and the next sentence prediction."""
        next_sentence = recipe.objective.next_sentence
        segments = 2 if next_sentence or recipe.data.pairs else 0
        return {
            "context": recipe.data.context,
            "segments": segments,
            "pooler": next_sentence,
            "next_sentence": next_sentence,
            "span_boundary": recipe.objective.span_boundary,
        }

    @classmethod
    def fill_sizes(cls, recipe: MaskedRecipe, prepared: Prepared) -> Any:
        """Return the recipe with the vocabulary size; a model without the heads to train is refused."""
        model = recipe.model
        if not model.masked:
            raise ValueError("the model has no head that guesses masked tokens: start from one that has, or from none")
        if recipe.objective.next_sentence and recipe.data.pairs:
            raise ValueError(
                "objective.next_sentence and data.pairs are two uses of a second text: leave one of them out"
            )
        if recipe.objective.next_sentence and not (model.next_sentence and model.segments > 1):
            raise ValueError(
                "objective.next_sentence needs a model with next_sentence, pooler and two segments: set these, or "
                "objective.next_sentence=false"
            )
        if recipe.objective.span_boundary and not model.span_boundary:
            raise ValueError(
                "objective.span_boundary needs a model with its head: set model.span_boundary, or leave it out"
            )
        return super().fill_sizes(recipe, prepared)

    @classmethod
    def use(cls, shape: BERTConfig) -> tuple[str, str]:
        """Return the usage; a model without the masked language modelling head computes text embeddings."""
        return (cls.usage, cls.code) if shape.masked else ('regard embed {folder} "TEXT"', 'look("A text")')

    def step(self, batch: MaskedBatch, part: str) -> Step:
        """Return the cross-entropy of masked tokens, by both heads, and of next sentence prediction if trained."""
        batch = batch.to(device_of(self.model))
        features = self.model(batch.tokens, layout=batch.row, segments=batch.kinds(self.model))
        masked_features = self.model.transform(features.index_select(0, batch.places))
        loss, masked_count = sum_cross_entropy(self.model, masked_features, batch.labels), count(batch.labels)
        if self.recipe.objective.span_boundary:
            boundaries = find_boundaries(batch.places, masked=batch.labels != IGNORE, tokens=len(batch.tokens))
            span_features = self.model.predict_spans(features, boundaries)
            loss = loss + sum_cross_entropy(self.model, span_features, batch.labels)
        if batch.following is not None:
            following_logits = self.model.following(self.model.pool_features(features, batch.row)).float()[
                : len(batch.following)
            ]
            labelled = batch.following != IGNORE
            following_loss = F.cross_entropy(following_logits, batch.following, ignore_index=IGNORE, reduction="sum")
            loss = loss + following_loss * (
                masked_count / labelled.sum().clamp(min=1)
            )  # both losses are means with the same weight
        return Step(loss=loss, weight=masked_count, counts={"tokens": batch.row.filled})

    def evaluate(self, spread: Spread = alone) -> Evaluation:
        """Evaluate on masked tokens of the held-out texts, the same every time, with samples."""
        rows = self._rows(self.prepared.valid, 0)
        guesses = guess_masked_tokens(self.model, rows, self.prepared.tokenizer, spread=spread)
        return Evaluation(guesses.metrics, self._sample_guesses(rows, guesses))

    def look_text(self, text: str) -> str:
        """Return a text with a gap in the middle."""
        return leave_gap(text, "[MASK]")

    def filler(self) -> Filler:
        """Return a filler with the current model."""
        return Filler(self.model, self.prepared.tokenizer)

    def _rows(self, corpus: Corpus, seed: int, *, fixed: bool = False) -> MaskedRows:
        data, how = self.recipe.data, self.recipe.objective
        tokenizer, pairs = self.prepared.tokenizer, bool(data.pairs)
        return MaskedRows(corpus, tokenizer, data.context, data.batch_size, seed, how=how, pairs=pairs, fixed=fixed)

    def _sample_guesses(self, rows: MaskedRows, guesses: Guesses) -> list[dict[str, Any]]:
        """Return samples of masked tokens with the right token and the prediction."""
        tokenizer, batch = self.prepared.tokenizer, rows.batch(0)
        samples = list[dict[str, Any]]()
        for position, label, predicted in list(
            zip(batch.places.tolist(), batch.labels.tolist(), guesses.first, strict=False)
        ):
            if label == IGNORE or len(samples) == SHOWN:
                continue
            first, last = max(0, position - 8), position + 8
            samples.append(
                {
                    "text": tokenizer.decode(batch.tokens[first:position].tolist())
                    + " [MASK] "
                    + tokenizer.decode(batch.tokens[position + 1 : last].tolist()),
                    "right": tokenizer.pieces([label])[0],
                    "guess": tokenizer.pieces([predicted])[0],
                }
            )
        return samples
