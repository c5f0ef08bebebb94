"""Causal language modelling: a GPT predicts every next token of documents in packed rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from regard.attention.hardware import device_of
from regard.config.ranges import Share
from regard.config.resuming import Fixed, Free
from regard.data.tokenizers import Tokenizer
from regard.metrics.likelihood import count
from regard.models.gpt import GPTConfig
from regard.tasks.pretraining.learning import LIKELY, Pretraining, Size, TextRecipe, piece_tokens, sum_cross_entropy
from regard.tasks.pretraining.rows import CausalBatch, Rows
from regard.tasks.pretraining.writer import Writer, measure_surprisal
from regard.tasks.writing import WritingConfig
from regard.training.task import Evaluation, Spread, Step, alone

SIZES = (
    Size(60_000, {"width": 128, "heads": 4, "hidden": 512, "depth": 4, "dropout": 0.3}, 8, 2e-3, 30),
    Size(800_000, {"width": 256, "heads": 4, "hidden": 1024, "depth": 4, "dropout": 0.3}, 32, 1e-3, 20),
    Size(8_000_000, {"width": 384, "heads": 6, "hidden": 1536, "depth": 6, "dropout": 0.2}, 64, 1e-3, 12),
    Size(80_000_000, {"width": 512, "heads": 8, "hidden": 2048, "depth": 8, "dropout": 0.1}, 64, 1e-3, 4),
    Size(float("inf"), {"width": 768, "heads": 12, "hidden": 3072, "depth": 12, "dropout": 0.0}, 128, 6e-4, 1),
)


@dataclass(frozen=True, kw_only=True)
class NextToken:
    """The loss."""

    label_smoothing: Share = 0.0
    """Label smoothing: share of probability spread over all tokens instead of the right one."""


@dataclass(frozen=True, kw_only=True)
class CausalRecipe(TextRecipe):
    """A training run of a GPT on next-token prediction."""

    task: Fixed[Literal["causal-lm"]] = "causal-lm"
    """What is learnt."""
    model: Fixed[GPTConfig] = field(default_factory=GPTConfig)
    """Its size; what nobody names follows from the amount of text."""
    objective: NextToken = field(default_factory=NextToken)
    """The loss."""
    opened: Fixed[bool] = True
    """Whether a token stands before every text, from which its first token is predicted."""
    writing: Free[WritingConfig] = field(default_factory=WritingConfig)
    """Text generated at every evaluation, and the defaults of `regard generate`."""


class CausalLM(Pretraining):
    """The task of next-token prediction."""

    Recipe = CausalRecipe
    usage: ClassVar[str] = "regard generate {folder}"
    title: ClassVar[str] = "A language model"
    code: ClassVar[str] = 'write("A beginning")'
    sentence: ClassVar[str] = "plain text: training a GPT that continues it"
    sizes = SIZES
    sure: ClassVar[int] = LIKELY

    def __init__(self, recipe: CausalRecipe, prepared: Any, model: Any, *, fixed: bool = False) -> None:
        super().__init__(recipe, prepared, model, fixed=fixed)
        self.piece_tokens = piece_tokens(recipe.model, recipe.data.context)
        self.writer().begin(recipe.writing.prompt)  # an invalid prompt is reported before training

    def make_training_rows(self) -> Rows:
        """Return the rows of windows over the text."""
        data, seed = self.recipe.data, self.recipe.training.seed
        return Rows(self.prepared.train, data.context, data.batch_size, seed, fixed=self.fixed)

    def step(self, batch: CausalBatch, part: str) -> Step:
        """Return the cross-entropy of the next tokens, summed."""
        batch = batch.to(device_of(self.model))
        features = self.model(batch.tokens, layout=batch.row)
        loss = sum_cross_entropy(self.model, features, batch.labels, smoothing=self.recipe.objective.label_smoothing)
        token_count = count(batch.labels)
        return Step(loss=loss, weight=token_count, counts={"tokens": token_count})

    def evaluate(self, spread: Spread = alone) -> Evaluation:
        """Evaluate on the whole held-out text in windows without overlap, and generate sample texts."""
        data = self.recipe.data
        text_surprisal, _ = measure_surprisal(self.model, self.prepared.valid, data.context, spread=spread)
        metrics = {"loss": text_surprisal.loss, "bits_per_byte": text_surprisal.bits_per_byte}
        if self.recipe.tokenizer.kind == "words":
            metrics["perplexity"] = text_surprisal.perplexity
        prompt_field = {"prompt": prompt} if (prompt := self.recipe.writing.prompt) else {}
        return Evaluation(metrics, [{**prompt_field, "text": sample.text} for sample in self.writer().write()])

    look_options: ClassVar[Mapping[str, Any]] = {"length": 1}

    def writer(self) -> Writer:
        """Return a writer with the current model."""
        return Writer(self.model, self.prepared.tokenizer, self.recipe.writing, opened=self.recipe.opened)

    @classmethod
    def settings_from_tokenizer(cls, tokenizer: Tokenizer) -> dict[str, Any]:
        """Return `opened`, which is True if the tokenizer adds a token before a text."""
        return {"opened": tokenizer.opens}
