"""The base of pretraining tasks: the part common to next tokens, masked tokens and corrupted spans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import ceil
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard import config
from regard.attention.hardware import device_of
from regard.checkpoint import Checkpoint
from regard.config.resuming import Fingerprinted, Fixed
from regard.config.words import quantity
from regard.data.examples import sample_evenly
from regard.data.normalise import read_text_settings
from regard.data.sniff import is_folder, sniff_text_file
from regard.data.tokenizers import Tokenizer
from regard.data.tokenizers.units import Kind, UnitsConfig
from regard.metrics.likelihood import linear_cross_entropy
from regard.tasks.model_card import model_card
from regard.tasks.pretraining.corpus import Prepared, prepare
from regard.tasks.pretraining.documents import DocumentsConfig
from regard.tasks.trained import describe_model, load_model
from regard.training.loop import TrainingConfig
from regard.training.optim import OptimConfig
from regard.training.pace import default_run_length, round_between
from regard.training.task import (  # fmt: skip
    LIKELY,
    POSSIBLE,
    SURE,
    Claim,
    Given,
    Goal,
    Spread,
    Task,
    TraceInput,
    alone,
    data_section,
)
from regard.training.tuning import TuningConfig

LOGITS = 1 << 28  # logits computed at once
LOGITS_ON_CPU = 1 << 24  # larger chunks gain nothing on a CPU
ACTIVATIONS = 1 << 26  # activations that a CPU stores of a row for the backward pass
STEP_NUMBERS = 200_000_000  # numbers stored in a step on a CPU: four times the model, and activations
TRACED_TOKENS = 24  # tokens of a piece of held-out text in which the model is looked into
PER_FEATURE = 24  # numbers that a block stores for the backward pass, per feature of a token
Own = TypeVar("Own", bound="Reader")


@dataclass(frozen=True, kw_only=True)
class PiecesConfig(UnitsConfig):
    """The tokens of a text: subwords by default."""

    kind: Kind = "bpe"
    """A piece of a word (bpe, unigram), a character, or a word (whatever is between spaces)."""


@dataclass(frozen=True, kw_only=True)
class TextRecipe:
    """A training run on plain text, without its model and objective."""

    data: Fingerprinted[DocumentsConfig]
    """Texts, where documents end, and how they are batched."""
    tokenizer: Fixed[PiecesConfig] = field(default_factory=PiecesConfig)
    """What a token is."""
    optim: OptimConfig = field(default_factory=OptimConfig)
    """The optimizer and its learning rate."""
    tuning: Fixed[TuningConfig] = field(default_factory=TuningConfig)
    """What of a model to start from learns."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """How long, how often, where."""


@dataclass(frozen=True)
class Size:
    """Suitable sizes of the model, the batch and the training for an amount of text."""

    most: int | float
    """Tokens of text up to which this is meant."""
    model: Mapping[str, Any]
    windows: int
    rate: float
    epochs: int | float


class Pretraining(Task):
    """Base of the tasks that train on plain text."""

    Recipe: ClassVar[type]
    usage: ClassVar[str]
    title: ClassVar[str]
    code: ClassVar[str]
    sentence: ClassVar[str]
    """What files are taken for and what would be trained on them."""
    sizes: ClassVar[Sequence[Size]]
    sure: ClassVar[int] = POSSIBLE
    """How sure it is of plain text that nobody said more of."""
    needs: ClassVar[Sequence[str]] = ("end",)
    """Tokens that the tokenizer of a model to start from must have, by their roles."""
    shared: ClassVar[bool] = True
    goal: Goal = ("loss", "min")

    def __init__(self, recipe: Any, prepared: Prepared, model: Any, *, fixed: bool = False) -> None:
        self.recipe, self.prepared, self.model, self.fixed = recipe, prepared, model, fixed
        data = recipe.data
        self.features = data.context * data.batch_size * recipe.model.width
        self.source = self.make_training_rows()
        self.rows = self.source.rows
        windows = quantity(data.batch_size, "window")
        self.notes = [f"an epoch has {quantity(self.rows, 'row')} of {windows} of {data.context:,} tokens"]

    def make_training_rows(self) -> Any:
        """Return the training rows."""
        raise NotImplementedError

    @classmethod
    def recognise(cls, inputs: Given) -> Claim | None:
        """Claim running text, in files or folders; of two files other tasks may claim more."""
        text_settings = [_text_settings(name, explicit=inputs.is_declared) for name in inputs.files]
        if inputs.to is not None or None in text_settings:
            return None
        folders = any(map(is_folder, inputs.files))
        confidence = SURE if "task" in inputs.settings else cls.sure
        confidence = (
            min(confidence, POSSIBLE)
            if len(text_settings) == 2 and not folders and not inputs.is_declared
            else confidence
        )
        return Claim(data_section(text_settings, [{"path": name} for name in inputs.valid]), cls.sentence, confidence)

    @classmethod
    def prepare(cls, recipe: Any, parent: Checkpoint | None = None) -> Prepared:
        """Read and tokenise the texts, with the tokenizer of the parent model, if any."""
        tokenizer = tokenizer_of(parent)
        if parent is not None and tokenizer is not None:
            for role in cls.needs:
                if getattr(tokenizer, role) is None:
                    raise ValueError(
                        f"{parent.directory} has a tokenizer without a {role} token, which {cls.task_name()} needs: "
                        "leave out --from, or give another model"
                    )
        prepared = prepare(recipe.data, recipe.tokenizer, tokenizer, special=cls.special(recipe))
        return prepared if parent is None else replace(prepared, counted=int(parent.config["model"].get("vocab", 0)))

    @classmethod
    def special(cls, recipe: Any) -> Sequence[str]:
        """Return the special tokens that a new tokenizer needs besides the usual ones."""
        return ()

    @classmethod
    def default_settings(cls, recipe: Any, prepared: Prepared) -> dict[str, Any]:
        """Choose sizes, learning rate and training length for this amount of text."""
        amount = len(prepared.train.tokens)
        size = next(size for size in cls.sizes if amount <= size.most)
        context = recipe.data.context
        rows = max(1, ceil(amount / (size.windows * context)))
        steps = round_between(200, size.epochs * rows, 500_000)
        return {
            "model": {**size.model, **cls.required_sizes(recipe)},
            "data": {"batch_size": size.windows},
            "optim": {
                "name": "adamw",
                "learning_rate": size.rate,
                "betas": [0.9, 0.99],
                "eps": 1e-8,
                "weight_decay": 0.1,
                "schedule": "cosine",
            },
            "training": default_run_length(recipe.training, rows=rows, steps=steps),
        }

    @classmethod
    def required_sizes(cls, recipe: Any) -> dict[str, Any]:
        """Return the sizes that the model needs for such data."""
        return {"context": recipe.data.context}

    @staticmethod
    def limit_lengths(model: Mapping[str, Any]) -> dict[str, Any]:
        """Return a window length within the parent model's context, if that is below the default."""
        context = model.get("context", DocumentsConfig.context)
        return {"data": {"context": context}} if context < DocumentsConfig.context else {}

    @classmethod
    def fill_sizes(cls, recipe: Any, prepared: Prepared) -> Any:
        """Return the recipe with the vocabulary size of the text."""
        tokenizer_config, window, model_context = prepared.tokenizer.how, recipe.data.context, recipe.model.context
        if window > model_context:
            raise ValueError(
                f"data.context is {window:,}, the model holds {model_context:,} tokens: "
                f"set data.context={model_context}"
            )
        vocab = max(prepared.tokenizer.vocab, prepared.counted)
        return replace(recipe, model=replace(recipe.model, vocab=vocab), tokenizer=tokenizer_config)

    def batch(self, row: int) -> Any:
        """Return the texts of a row."""
        return self.source.batch(row)

    def split(self, batch: Any) -> list[Any]:
        """Split a row that does not fit into memory."""
        return batch.halves()

    def trace_inputs(self, count: int) -> list[TraceInput]:
        """Return pieces of the held-out text, from the beginnings of documents where there are enough."""
        corpus, tokenizer = self.prepared.valid, self.prepared.tokenizer
        length = min(TRACED_TOKENS, self.recipe.data.context // 2)
        documents = corpus.starts[:-1].tolist()
        starts = documents if len(documents) >= count else range(0, len(corpus.tokens), length)
        pieces = [corpus.tokens[first : first + length].tolist() for first in sample_evenly(starts, count)]
        texts = [self.look_text(tokenizer.decode([id for id in ids if id != tokenizer.end])) for ids in pieces]
        return [TraceInput(text, text, self.look_options) for text in texts if text.strip()]

    look_options: ClassVar[Mapping[str, Any]] = {}
    """Options of `look` with which held-out text is traced."""

    def look_text(self, text: str) -> str:
        """Return a piece of held-out text as `look` of the trained model reads it."""
        return text

    def contents(self) -> dict[str, Any]:
        """Return the files of a checkpoint besides weights and metrics."""
        recipe = self.recipe
        settings = {**config.plain(recipe), "document": recipe.data.end}
        learnt = f"trained with Regard on {self.prepared.train.characters:,} characters"
        return self.files(
            {name: value for name, value in settings.items() if name not in ("data", "optim", "training", "objective")},
            self.prepared.tokenizer,
            f"{recipe.model.phrase}, {recipe.model.vocab:,} tokens ({recipe.tokenizer.kind}), {learnt}.",
            recipe.data.training_paths,
        )

    @classmethod
    def checkpoint_files(cls, shape: Any, tokenizer: Tokenizer, notes: Sequence[str] = ()) -> dict[str, Any]:
        """Return the files of an imported model's checkpoint besides its weights."""
        facts = " ".join([f"{shape.phrase}, {shape.vocab:,} tokens.", *notes])
        tokenizer_settings = config.plain(tokenizer.how)
        settings = {"task": cls.task_name(), "model": config.plain(shape), "tokenizer": tokenizer_settings}
        return cls.files({**settings, **cls.settings_from_tokenizer(tokenizer)}, tokenizer, facts, use=cls.use(shape))

    @classmethod
    def use(cls, shape: Any) -> tuple[str, str]:
        """Return the command and the Python code to use a model of this shape, which may lack a head."""
        return cls.usage, cls.code

    @classmethod
    def settings_from_tokenizer(cls, tokenizer: Tokenizer) -> dict[str, Any]:
        """Return further settings of an imported model, as far as its tokenizer implies them."""
        return {}

    @classmethod
    def task_name(cls) -> str:
        """Return the name of the task in recipes."""
        return str({setting.name: setting.default for setting in fields(cls.Recipe)}["task"])

    @classmethod
    def files(
        cls,
        settings: Mapping[str, Any],
        tokenizer: Tokenizer,
        facts: str,
        trained_on: Sequence[str] = (),
        *,
        use: tuple[str, str] | None = None,
    ) -> dict[str, Any]:
        """Return the files of a checkpoint besides its weights."""
        usage, code = use or (cls.usage, cls.code)
        command = usage.format(folder="DIRECTORY")
        return {
            "config.yaml": {"format": 1, **settings},
            "tokenizer.json": tokenizer.json(),
            "README.md": model_card(cls.title, facts, command=command, code=code, files=trained_on),
        }


class Reader:
    """Base of trained text models for inference, with their tokenizer."""

    document: str = "file"
    """Where documents end in the files that it is evaluated on, as in those that it was trained on."""
    model: Any
    tokenizer: Tokenizer
    name: str
    __repr__ = describe_model

    def __init__(self, model: Any, tokenizer: Tokenizer, name: str = "reader") -> None:
        self.model, self.tokenizer, self.name = model, tokenizer, name

    @classmethod
    def load(cls: type[Own], checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> Own:
        """Load the model of a checkpoint directory."""
        tokenizer = tokenizer_of(checkpoint)
        assert tokenizer is not None
        reader = cls(load_model(checkpoint, device), tokenizer, name=checkpoint.directory.name)
        reader.document = str(checkpoint.config.get("document", "file"))
        return reader

    @property
    def device(self) -> torch.device:
        """Return the device of the model."""
        return device_of(self.model)


def tokenizer_of(checkpoint: Checkpoint | None) -> Tokenizer | None:
    """Return the tokenizer of a checkpoint, which a run keeps; None without a checkpoint."""
    if checkpoint is None:
        return None
    settings = read_text_settings(checkpoint.config.get("tokenizer")).items()
    names = PiecesConfig.__dataclass_fields__
    how = config.build(PiecesConfig, {name: value for name, value in settings if name in names}, where="tokenizer")
    return Tokenizer.parse(checkpoint.text("tokenizer.json"), how)


def sum_cross_entropy(
    model: Any, features: Float[Tensor, "token width"], labels: Int[Tensor, "token"], *, smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """Return the cross-entropy of these labels, summed; logits are computed in chunks."""
    chunk = max(256, (LOGITS_ON_CPU if features.device.type == "cpu" else LOGITS) // model.config.vocab)
    return linear_cross_entropy(features, model.prediction, labels, smoothing=smoothing, bias=model.bias, chunk=chunk)


def piece_tokens(shape: Any, context: int) -> int:
    """Return for how many tokens at a time a CPU computes gradients: fewer for large models.

    Weights are stored four times, with their gradients and two averages; logits three times in the backward pass.
    """
    numbers_per_token = PER_FEATURE * shape.width * shape.depth
    free_numbers = STEP_NUMBERS - 4 * shape.parameters
    return max(context, min(ACTIVATIONS // numbers_per_token, free_numbers // (numbers_per_token + 3 * shape.vocab)))


def evaluate_batches(
    model: Any, count: int, batch: Callable[[int], Any], read: Callable[[Any], tuple[Any, ...]], spread: Spread = alone
) -> list[tuple[Any, ...]]:
    """Apply `read` to each batch, without dropout and gradients, shared among all processes."""
    training, device = model.training, device_of(model)
    model.eval()
    with torch.no_grad():
        batch_scores = spread(lambda number: read(batch(number).to(device)), range(count))
    model.train(training)
    return [tuple(scores) for scores in batch_scores]  # other processes return lists


def _text_settings(name: str, *, explicit: bool) -> dict[str, Any] | None:
    """Return the settings to read a file or folder as text, or None."""
    return {"path": name} if is_folder(name) else sniff_text_file(name, declared=explicit)


__all__ = [
    "LIKELY",
    "PiecesConfig",
    "Pretraining",
    "Size",
    "TextRecipe",
    "evaluate_batches",
    "piece_tokens",
    "sum_cross_entropy",
    "tokenizer_of",
]


def leave_gap(text: str, mark: str) -> str:
    """Return a text with a mark in place of its middle word."""
    words = text.split()
    middle = len(words) // 2
    return " ".join([*words[:middle], mark, *words[middle + 1 :]])
