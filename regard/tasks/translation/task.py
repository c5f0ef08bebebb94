"""The translation task: packed sentence pairs, label-smoothed cross-entropy, BLEU on held-out pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from regard import config
from regard.attention.hardware import device_of
from regard.checkpoint import Checkpoint
from regard.config.ranges import Amount, Count, Share, Small, Whole
from regard.config.resuming import Fingerprinted, Fixed, Free
from regard.data.examples import sample_evenly, sample_readable
from regard.data.tokenizers import Tokenizer, TokenizerConfig
from regard.metrics.likelihood import count, linear_cross_entropy, rdrop
from regard.metrics.overlap import bleu
from regard.models.parts.encoder_decoder import EncoderDecoder
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.models.transformer import TransformerConfig
from regard.tasks.model_card import model_card
from regard.tasks.translation.check import check
from regard.tasks.translation.directions import recorded_direction
from regard.tasks.translation.error_rate import judge
from regard.tasks.translation.findings import Report
from regard.tasks.translation.options import DecodingConfig
from regard.tasks.translation.pairs import PairBatch, PairsConfig, Prepared, Text, prepare
from regard.tasks.translation.recognition import recognise
from regard.tasks.translation.translator import Translator, read_tokenizers
from regard.training.loop import TrainingConfig
from regard.training.optim import OptimConfig
from regard.training.pace import default_run_length, power_of_two_below, round_between
from regard.training.task import Evaluation, Goal, Spread, Step, Task, TraceInput, alone

BLOCK = 128  # held-out sentences that one process translates at a time
RECURRENT: tuple[tuple[int, dict[str, Any]], ...] = (
    (5_000, {"width": 128, "embedding": 128}),
    (500_000, {"width": 256, "embedding": 256}),
)
SIZES: tuple[tuple[int, dict[str, Any]], ...] = (
    (5_000, {"width": 128, "heads": 4, "hidden": 256, "encoder": 2, "decoder": 1, "dropout": 0.3}),
    (50_000, {"width": 128, "heads": 4, "hidden": 512, "encoder": 3, "decoder": 2, "dropout": 0.2}),
    (500_000, {"width": 256, "heads": 4, "hidden": 1024, "encoder": 4, "decoder": 2, "dropout": 0.1}),
)
COMMAND, CODE = 'regard translate DIRECTORY "text"', 'translate(["text"])'
WHOLE = {"cpu": 1 << 24, "cuda": 1 << 27}  # logits computed at once


@dataclass(frozen=True, kw_only=True)
class ObjectiveConfig:
    """The loss, and how checkpoints are scored."""

    label_smoothing: Share = 0.1
    """Label smoothing: share of probability spread over all tokens instead of the right one."""
    rdrop: Amount = 0.0
    """Strength with which two passes with different dropout are made to agree (R-Drop); 0: one pass, twice as fast."""
    beams: Small = 1
    """Beams of the translations that are scored; greedy ones are quick and rank checkpoints as well."""
    metric: Literal["bleu", "errors"] = "bleu"
    """What the best checkpoint is chosen by: BLEU, or of short answers how many in 100 are none of the right ones."""
    eval_examples: Count = 500
    """Held-out pairs translated at an evaluation, spread evenly over all of them; the loss is taken over all."""
    samples: Free[Whole] = 5
    """Held-out sentences whose translations are shown at every evaluation."""


@dataclass(frozen=True, kw_only=True)
class TranslationRecipe:
    """A training run of a translator."""

    task: Fixed[Literal["translation"]] = "translation"
    """What is learnt."""
    data: Fingerprinted[PairsConfig]
    """Sentence pairs and how they are batched."""
    tokenizer: Fixed[TokenizerConfig] = field(default_factory=TokenizerConfig)
    """How text becomes tokens."""
    model: Fixed[TransformerConfig | Seq2SeqConfig] = field(default_factory=TransformerConfig)
    """The network, chosen by its name; sizes that nobody names follow from the amount of data."""
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    """The loss, and how checkpoints are scored."""
    optim: OptimConfig = field(default_factory=OptimConfig)
    """The optimizer and its learning rate."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """How long, how often, where."""
    decoding: DecodingConfig = field(default_factory=DecodingConfig)
    """Beam search or sampling."""

    def __post_init__(self) -> None:
        if self.data.max_length > self.model.context:
            raise ValueError(
                f"data.max_length is {self.data.max_length} tokens, more than model.context, {self.model.context}: "
                "lower the one or raise the other"
            )


class Translation(Task):
    """The task of training a translator."""

    Recipe = TranslationRecipe
    usage: ClassVar[str] = 'regard translate {folder} "..."'
    shared: ClassVar[bool] = True
    brief: ClassVar[dict[str, Any]] = {"objective": {"eval_examples": 1, "samples": 1}}
    recognise = staticmethod(recognise)

    def __init__(
        self, recipe: TranslationRecipe, prepared: Prepared, model: EncoderDecoder | Seq2Seq, *, fixed: bool = False
    ):
        self.recipe = recipe
        tokens = recipe.data.batch_tokens
        self.prepared = replace(prepared, train=prepared.train.repack(tokens), valid=prepared.valid.repack(tokens))
        self.model = model
        self.fixed = fixed
        self.rows = self.prepared.train.rows
        self.goal: Goal = ("errors", "min") if recipe.objective.metric == "errors" else ("bleu", "max")
        self.features = recipe.data.batch_tokens * recipe.model.width
        self.notes: list[str] = []

    @staticmethod
    def prepare(recipe: TranslationRecipe, parent: Checkpoint | None = None) -> Prepared:
        """Read, check, tokenise and index the pairs, with the tokenizers of a model to start from."""
        tokenizers = None if parent is None else read_tokenizers(parent)
        return prepare(recipe.data, recipe.tokenizer, seed=recipe.training.seed, tokenizers=tokenizers)

    @staticmethod
    def check(recipe: TranslationRecipe, *, tokens: bool = False) -> Report:
        """Check the data without training."""
        return check(recipe.data, recipe.tokenizer if tokens else None)

    @staticmethod
    def default_settings(recipe: TranslationRecipe, prepared: Prepared) -> dict[str, Any]:
        """Choose model size, batch size and training length for a dataset of this size."""
        pairs = len(prepared.train)
        model = transformer_sizes(pairs) if recipe.model.name == "transformer" else recurrent_sizes(pairs)
        amount = max(map(sum, zip(*(tally.tokens for tally in prepared.train.tallies), strict=True)))
        largest = round_between(2048, power_of_two_below(amount / 5000), 8192)  # beyond that, an epoch is long anyway
        tokens = max(recipe.data.max_length, round_between(512, power_of_two_below(amount / 50), largest))
        rows = ceil(amount / tokens)
        steps = round_between(1000, 150 * rows, round_between(10_000, 10 * rows, 200_000))
        return {
            "model": model,
            "data": {"batch_tokens": tokens},
            "training": default_run_length(recipe.training, rows=rows, steps=steps, looks=10),
        }

    @staticmethod
    def fill_sizes(recipe: TranslationRecipe, prepared: Prepared) -> TranslationRecipe:
        """Return the recipe with the vocabulary sizes and languages of the data.

        Sentences to translate will be no longer than those in training.
        """
        source, target = prepared.source_tokenizer, prepared.target_tokenizer
        other = None if target is source else target.vocab
        model = replace(recipe.model, vocab=source.vocab, target_vocab=other)
        longest = min(recipe.decoding.longest, recipe.data.max_length)
        data = prepared.data or recipe.data
        return replace(recipe, data=data, model=model, decoding=replace(recipe.decoding, longest=longest))

    def batch(self, row: int) -> PairBatch:
        """Return the pairs of one row."""
        return self.prepared.train.batch(row, fixed=self.fixed)

    def split(self, batch: PairBatch) -> list[PairBatch]:
        """Split a row that does not fit into memory."""
        return self.prepared.train.halves(batch, fixed=self.fixed)

    def origins(self, batch: PairBatch) -> list[str]:
        """Return the places of a row's pairs, the longest first."""
        lengths = batch.source_row.lengths + batch.target_row.lengths
        order = lengths[: len(batch.examples)].cpu().argsort(descending=True, stable=True)
        return self.prepared.train.places(batch.examples[order])

    def step(self, batch: PairBatch, part: str) -> Step:
        """Return the label-smoothed cross-entropy, summed over target tokens."""
        batch = batch.to(self._device)
        loss = self._agreement_loss(batch) if self.recipe.objective.rdrop else self._loss(batch, self._smoothing)
        written, row = count(batch.labels), batch.source_row
        return Step(loss=loss, weight=written, counts={"tokens": written + row.filled})

    def _loss(self, batch: PairBatch, smoothing: float) -> Tensor:
        features, weight, bias = self._features(batch), self.model.prediction, self.model.bias
        return linear_cross_entropy(features, weight, batch.labels, bias=bias, smoothing=smoothing, chunk=self._chunk)

    def _agreement_loss(self, batch: PairBatch) -> Tensor:
        """Return the R-Drop loss of two passes with independent dropout."""
        passes = self._features(batch), self._features(batch)
        return rdrop(
            passes,
            self.model.prediction,
            batch.labels,
            bias=self.model.bias,
            smoothing=self._smoothing,
            strength=self.recipe.objective.rdrop,
            chunk=self._chunk,
        )

    def _features(self, batch: PairBatch) -> Tensor:
        return self.model(batch.source, batch.target, layouts=(batch.source_row, batch.target_row))

    @property
    def _smoothing(self) -> float:
        return self.recipe.objective.label_smoothing

    @property
    def _chunk(self) -> int:
        """Return the number of tokens whose logits are computed at once."""
        return max(1, WHOLE.get(self._device.type, WHOLE["cpu"]) // len(self.model.prediction))

    @cached_property
    def texts(self) -> list[Text]:
        """Return the held-out pairs as they were written."""
        return self.prepared.valid.texts()

    @property
    def _device(self) -> torch.device:
        return device_of(self.model)

    @torch.no_grad()
    def evaluate(self, spread: Spread = alone) -> Evaluation:
        """Evaluate the loss per token on all held-out pairs and the scores on some, with sample translations."""
        training = self.model.training
        self.model.eval()
        losses = spread(self._surprise, range(self.prepared.valid.rows))
        texts = sample_evenly(self.texts, self.recipe.objective.eval_examples)
        answers = self.translate(texts, beams=self.recipe.objective.beams, spread=spread)
        score = bleu(answers, [text.reference for text in texts])
        self.model.train(training)
        samples = [
            {"source": text.source, "reference": text.reference, "answer": answer}
            for text, answer in sample_evenly(list(zip(texts, answers, strict=True)), self.recipe.objective.samples)
        ]
        written = sum(count for _, count in losses)
        metrics = {"loss": sum(loss for loss, _ in losses) / max(written, 1), "bleu": score.value}
        if self.recipe.objective.metric == "errors":
            judged_pairs = [(f"{text.tag} {text.source}", text.reference) for text in texts]
            metrics["errors"] = judge("held out", answers, judged_pairs).errors.answer_rate
        return Evaluation(metrics=metrics, samples=samples)

    def _surprise(self, row: int) -> tuple[float, int]:
        """Return the summed loss of a row of held-out pairs, and its number of tokens."""
        batch = self.prepared.valid.batch(row).to(self._device)
        return float(self._loss(batch, 0.0)), int(count(batch.labels))

    def translate(self, texts: Sequence[Text], *, beams: int, spread: Spread = alone) -> list[str]:
        """Translate held-out texts, each into its language; processes share the work in blocks."""
        translator = self.translator()

        def translate_block(numbers: tuple[str | None, list[int]]) -> list[str]:
            tag, chosen = numbers
            sources = [texts[i].source for i in chosen]
            answers = translator.answers(sources, to=tag, beams=beams, split=False, copy="none")  # its own words count
            return [answer.text for answer in answers]

        blocks = []
        for tag in sorted({text.tag for text in texts}, key=str):
            chosen = [number for number, text in enumerate(texts) if text.tag == tag]
            blocks += [(tag, chosen[first : first + BLOCK]) for first in range(0, len(chosen), BLOCK)]
        answers: list[str] = [""] * len(texts)
        for (_, chosen), translations in zip(blocks, spread(translate_block, blocks), strict=True):
            for number, answer in zip(chosen, translations, strict=True):
                answers[number] = answer
        return answers

    def translator(self) -> Translator:
        """Return a translator with the current model."""
        tokenizers = self.prepared.source_tokenizer, self.prepared.target_tokenizer
        return Translator(self.model, tokenizers, self.recipe.decoding)

    def trace_inputs(self, count: int) -> list[TraceInput]:
        """Return held-out sentences, each with its target language."""
        chosen = [self.texts[number] for number in sample_readable([text.source for text in self.texts], count)]
        return [
            TraceInput(text.source, text.source, {"to": text.tag} if text.tag else {}, text.reference)
            for text in chosen
        ]

    def contents(self) -> dict[str, Any]:
        """Return the files of a checkpoint besides weights and metrics."""
        recipe = config.plain(self.recipe)
        settings = {name: recipe[name] for name in ("task", "model", "tokenizer", "decoding")}
        source, target = self.prepared.source_tokenizer, self.prepared.target_tokenizer
        settings["tokenizer"]["normalise"] = source.how.normalise  # an adapted model keeps its own normalisation
        direction = recorded_direction(self.recipe.data.train[0])
        languages = {} if direction is None else {"languages": list(direction)}
        files: dict[str, Any] = {"config.yaml": {"format": 1, **settings, **languages}, "tokenizer.json": source.json()}
        if target is not source:
            files["tokenizer.target.json"] = target.json()
        files["README.md"] = _card(self.recipe, self.prepared)
        return files

    @staticmethod
    def checkpoint_files(shape: Any, tokenizer: Tokenizer, notes: Sequence[str] = ()) -> dict[str, Any]:
        """Return the files of an imported translator's checkpoint besides its weights."""
        facts = " ".join([f"{shape.phrase}, {shape.vocab:,} tokens.", *notes])
        settings = {
            "task": "translation",
            "model": config.plain(shape),
            "tokenizer": {"normalise": tokenizer.how.normalise, "joint": False},
            "decoding": config.plain(DecodingConfig()),
        }
        readme = model_card("A translation model", facts, command=COMMAND, code=CODE)
        return {"config.yaml": {"format": 1, **settings}, "tokenizer.json": tokenizer.json(), "README.md": readme}


def recurrent_sizes(pairs: int) -> dict[str, Any]:
    """Return the sizes of a recurrent translator for this number of pairs."""
    return next((sizes for most, sizes in RECURRENT if pairs <= most), {"width": 512, "embedding": 512})


def transformer_sizes(pairs: int) -> dict[str, Any]:
    """Return the sizes of a Transformer for this number of pairs."""
    for most, sizes in SIZES:
        if pairs <= most:
            return {"norm": "pre", **sizes}
    return {"norm": "pre"}


def _card(recipe: TranslationRecipe, prepared: Prepared) -> str:
    languages = ", ".join(prepared.source_tokenizer.tags) or "one direction"
    pairs = f"trained with Regard on {len(prepared.train)} pairs ({languages})"
    return model_card(
        "A translation model",
        f"{recipe.model.phrase}, {recipe.model.vocab} tokens, {pairs}.",
        command=COMMAND,
        code=CODE,
        files=[name for corpus in recipe.data.train for name in corpus.files],
    )
