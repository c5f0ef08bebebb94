"""The text-to-text task: a T5 learns to answer texts with texts (Raffel et al. 2020).

A prefix such as `sst2 sentence:` names the task of a text; each training file may have its own, so that one model
learns several tasks. Answers are scored by exact match and by overlap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

from regard.checkpoint import Checkpoint
from regard.config.ranges import Range, Share, Some
from regard.config.resuming import Fingerprinted, Fixed
from regard.models.t5 import T5Config
from regard.tasks.model_card import model_card
from regard.tasks.translation.options import DecodingConfig
from regard.tasks.translation.pairs import PairsConfig, Prepared, prepare
from regard.tasks.translation.recognition import recognise
from regard.tasks.translation.respondent import WRITING, Respondent
from regard.tasks.translation.task import ObjectiveConfig, Translation, TranslationRecipe
from regard.tasks.translation.translator import read_tokenizers
from regard.training.task import Claim, Given
from regard.training.tuning import TuningConfig

SIZES: tuple[tuple[float, dict[str, Any]], ...] = (
    (5_000, {"width": 128, "heads": 4, "depth": 32, "hidden": 256, "encoder": 2, "decoder": 2}),
    (50_000, {"width": 256, "heads": 4, "depth": 64, "hidden": 512, "encoder": 3, "decoder": 3}),
    (float("inf"), {}),
)
RATE, TUNED = 1e-3, 3e-4  # from scratch, and for a pretrained model
TUNING = 10  # epochs for a pretrained model


@dataclass(frozen=True, kw_only=True)
class TextsConfig(PairsConfig):
    """The texts and answers to train on, and how they are batched."""

    max_length: Annotated[int, Range(4, 2**20)] = 512
    """Most tokens of a text, its end included."""
    overlong: Literal["drop", "cut"] = "cut"
    """What happens to longer training pairs; of longer texts to be answered only the beginning is read."""
    validation_share: Some = 0.1
    """Share of the pairs held out when there is no validation corpus, at least one."""
    apart: Literal["both", "source"] = "source"
    """What of a held-out pair no training pair has: its source alone, since answers are few, or its target as well."""


@dataclass(frozen=True, kw_only=True)
class AnswerObjective(ObjectiveConfig):
    """The loss, and how checkpoints are scored."""

    label_smoothing: Share = 0.0
    """Label smoothing: share of probability spread over all tokens instead of the right one."""
    metric: Literal["bleu", "errors"] = "errors"
    """What the best checkpoint is chosen by: BLEU, or of short answers how many in 100 are none of the right ones."""


@dataclass(frozen=True, kw_only=True)
class TextToTextRecipe(TranslationRecipe):
    """A training run of a text-to-text T5."""

    task: Fixed[Literal["text-to-text"]] = "text-to-text"  # type: ignore[assignment]
    """What is learnt."""
    data: Fingerprinted[TextsConfig]
    """Texts with their answers, and how they are batched."""
    model: Fixed[T5Config] = field(default_factory=T5Config)  # type: ignore[assignment]
    """Its size; what nobody names follows from the amount of data."""
    objective: AnswerObjective = field(default_factory=AnswerObjective)
    """The loss, and how checkpoints are scored."""
    tuning: Fixed[TuningConfig] = field(default_factory=TuningConfig)
    """What of a model to start from learns."""
    decoding: DecodingConfig = field(default_factory=lambda: DecodingConfig(**WRITING))
    """Beam search or sampling."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.tokenizer.joint:
            raise ValueError("a T5 has one tokenizer for what it reads and writes: leave out tokenizer.joint")


class TextToText(Translation):
    """The task of training a text-to-text model."""

    Recipe = TextToTextRecipe  # type: ignore[assignment]
    usage: ClassVar[str] = 'regard predict {folder} "..."'
    title: ClassVar[str] = "A text-to-text model"
    code: ClassVar[str] = 'reply("a text")'
    checkpoint_files = None  # type: ignore[assignment]  # an imported T5 restores spans before it learns tasks

    @staticmethod
    def recognise(inputs: Given) -> Claim | None:
        """Claim pairs if this task is requested; else they are translated."""
        claim = recognise(replace(inputs, kind="pairs")) if "task" in inputs.settings and inputs.to is None else None
        return None if claim is None else replace(claim, sentence="pairs: training a T5 that answers the first")

    @staticmethod
    def prepare(recipe: Any, parent: Checkpoint | None = None) -> Prepared:
        """Read, check, tokenise and index the texts, with the tokenizer of the parent model, if any."""
        tokenizers = None if parent is None else (read_tokenizers(parent)[0],) * 2
        prepared = prepare(
            recipe.data, recipe.tokenizer, seed=recipe.training.seed, tokenizers=tokenizers, opening="pad"
        )
        return prepared if parent is None else replace(prepared, rows=parent.config["model"]["vocab"])

    @staticmethod
    def default_settings(recipe: Any, prepared: Prepared) -> dict[str, Any]:
        """Choose sizes for a dataset of this size; a pretrained model needs fewer epochs, at a lower learning rate."""
        found = Translation.default_settings(recipe, prepared)
        tuned, epoch = prepared.rows > 0, prepared.train.repack(found["data"]["batch_tokens"]).rows
        steps = max(100, TUNING * epoch) if tuned else found["training"].get("steps")
        planned = {"steps": steps} if tuned and "steps" in found["training"] else {}
        return {
            **found,
            "model": next(sizes for most, sizes in SIZES if len(prepared.train) <= most),
            "optim": {"learning_rate": TUNED if tuned else RATE, "schedule": "linear"},
            "training": {**found["training"], **planned},
        }

    @staticmethod
    def limit_lengths(model: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings that the parent model decides before texts are read: a length within its context."""
        context = model.get("context", T5Config.context)
        return {"data": {"max_length": context}} if context < TextsConfig.max_length else {}

    @staticmethod
    def fill_sizes(recipe: Any, prepared: Prepared) -> Any:
        """Return the recipe with the vocabulary size of the data or of the parent model."""
        model = replace(recipe.model, vocab=max(prepared.source_tokenizer.vocab, prepared.rows))
        longest = min(recipe.decoding.longest, recipe.data.max_length)
        data = prepared.data or recipe.data
        return replace(recipe, data=data, model=model, decoding=replace(recipe.decoding, longest=longest))

    def translator(self) -> Respondent:
        """Return an inference model with the current weights; held-out texts have their prefixes already."""
        tokenizers = self.prepared.source_tokenizer, self.prepared.target_tokenizer
        return Respondent(self.model, tokenizers, self.recipe.decoding)

    @property
    def prefixes(self) -> list[str]:
        """Return the prefixes of the training files."""
        return list(dict.fromkeys(corpus.prefix.strip() for corpus in self.recipe.data.train))

    def contents(self) -> dict[str, Any]:
        """Return the files of a checkpoint besides weights and metrics."""
        files = super().contents()
        prefix_settings = {"prefixes": self.prefixes} if any(self.prefixes) else {}
        recipe = self.recipe
        prefix_note = (
            f" It is asked by {' or '.join(f'`{prefix}`' for prefix in self.prefixes if prefix)}."
            if prefix_settings
            else ""
        )
        facts = f"{recipe.model.phrase}, {recipe.model.vocab:,} tokens, trained with Regard on "
        readme = model_card(
            self.title,
            f"{facts}{len(self.prepared.train):,} texts and their answers.{prefix_note}",
            command=self.usage.format(folder="DIRECTORY"),
            code=self.code,
            files=[name for corpus in recipe.data.train for name in corpus.files],
        )
        return {**files, "config.yaml": {**files["config.yaml"], **prefix_settings}, "README.md": readme}
