"""Training of text embeddings on pairs: a text should be nearer to its partner than to others in its batch.

The loss is InfoNCE with in-batch negatives in both directions (van den Oord et al. 2018; Radford et al. 2021, CLIP). A
BERT may be trained on masked language modelling at the same time, so that it fills gaps as well as embeds texts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from regard import config
from regard.attention.hardware import device_of
from regard.attention.masks import Row
from regard.checkpoint import Checkpoint
from regard.config.ranges import Amount, Positive, Whole
from regard.config.resuming import Fingerprinted, Fixed, Free
from regard.config.words import quantity
from regard.data.examples import Splits, sample_readable
from regard.data.mlm_masking import TokenMasking
from regard.data.packing import number, permute
from regard.data.tables import is_table
from regard.data.tokenizers import Tokenizer, units
from regard.data.tokenizers.units import Kind, UnitsConfig
from regard.metrics.likelihood import IGNORE, linear_cross_entropy
from regard.models.bert import BERTConfig
from regard.models.gpt import GPTConfig
from regard.tasks.embedding.embedder import Embedder, tokenizer_of
from regard.tasks.embedding.pairs import MatchingData, Pairs, split_pairs
from regard.tasks.embedding.pooling import EmbeddingConfig, pool_tokens
from regard.tasks.embedding.scoring import rank_partners
from regard.tasks.model_card import model_card
from regard.tasks.runner import evaluation_runner
from regard.training import transfer
from regard.training.loop import TrainingConfig
from regard.training.optim import OptimConfig
from regard.training.pace import default_run_length, round_between
from regard.training.task import (
    SURE,
    Claim,
    Evaluation,
    Given,
    Goal,
    Spread,
    Step,
    Task,
    TraceInput,
    alone,
    data_section,
)
from regard.training.tuning import TuningConfig

SPECIAL = ("<mask>", "<sep>")  # special tokens of a new tokenizer
SIZES = (
    (20_000, {"width": 128, "heads": 4, "hidden": 512, "depth": 2}),
    (200_000, {"width": 256, "heads": 4, "hidden": 1024, "depth": 4}),
    (math.inf, {"width": 384, "heads": 6, "hidden": 1536, "depth": 6}),
)
TOGETHER = 1 << 14  # texts tokenised at a time
CONTEXT = 128  # default context of a new model
ROUND = 256  # multiple to which the size of a row is rounded up
SURELY = 5.0  # standard deviations above the mean that rows of fixed size have room for
HIDDEN = 0.15  # share of the tokens that are masked
LOGITS = 1 << 28  # most elements of the logits held at a time


@dataclass(frozen=True, kw_only=True)
class PiecesConfig(UnitsConfig):
    """Settings of the tokenizer; by default tokens are subwords."""

    kind: Kind = "bpe"
    """A piece of a word (bpe, unigram), a character, or a word (whatever is between spaces)."""


@dataclass(frozen=True, kw_only=True)
class MatchingObjective:
    """Settings of the loss and of the logged samples."""

    temperature: Positive = 0.05
    """What cosines are divided by before the softmax; lower ones look at the nearest wrong texts only."""
    masked: Amount = 0.0
    """Weight of an additional loss on masked tokens of the same texts; above 0 a BERT keeps its masked head, with the
    weights of the model it starts from, and still fills gaps."""
    samples: Free[Whole] = 5
    """Held-out pairs shown at every evaluation."""


@dataclass(frozen=True, kw_only=True)
class MatchingRecipe:
    """A training run of text embeddings on pairs."""

    task: Fixed[Literal["matching"]] = "matching"
    """What is learnt."""
    data: Fingerprinted[MatchingData]
    """Pairs of texts."""
    tokenizer: Fixed[PiecesConfig] = field(default_factory=PiecesConfig)
    """What a token is, where no model to start from says it."""
    model: Fixed[BERTConfig | GPTConfig] = field(default_factory=BERTConfig)
    """The body, chosen by its name; sizes that nobody names follow from the number of pairs."""
    embedding: Fixed[EmbeddingConfig] = field(default_factory=EmbeddingConfig)
    """How a text becomes one vector; as in the model to start from, where it says so."""
    objective: MatchingObjective = field(default_factory=MatchingObjective)
    """The loss, and what is shown."""
    optim: OptimConfig = field(default_factory=OptimConfig)
    """The optimizer and its learning rate."""
    tuning: Fixed[TuningConfig] = field(default_factory=TuningConfig)
    """Which weights of a model to start from are trained, and how."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """How long, how often, where."""


@dataclass(frozen=True, kw_only=True)
class Prepared(Splits[Pairs, Pairs]):
    """Pairs, their tokenizer, and the settings of a parent model."""

    tokenizer: Tokenizer
    embedding: Mapping[str, Any] | None = None
    """The parent's embedding settings."""
    counted: int = 0
    """Size of the parent's vocabulary."""

    @classmethod
    def of(cls, splits: Splits[Pairs, Pairs], tokenizer: Tokenizer, **parent_settings: Any) -> Prepared:
        """Return the pairs with their tokenizer and the settings of a parent model."""
        report = {**splits.report, "vocab": tokenizer.vocab}
        return cls(
            **{**vars(splits), "report": report, "fresh": not parent_settings}, tokenizer=tokenizer, **parent_settings
        )


@dataclass(frozen=True)
class Hidden:
    """A row with some tokens masked."""

    tokens: Int[Tensor, "token"]
    places: Int[Tensor, "hidden"]
    labels: Int[Tensor, "hidden"]
    """The original tokens; -100 at padding of a row of fixed shape."""


@dataclass(frozen=True)
class MatchBatch:
    """A packed row: the first texts of some pairs, then their second texts, with a hash of each text."""

    examples: Int[Tensor, "pair"]
    """Numbers of the pairs, used in error messages."""
    tokens: Int[Tensor, "token"]
    row: Row
    alike: Int[Tensor, "pair 2"]
    """Hashes of the texts, equal for equal texts."""
    hidden: Hidden | None = None

    def to(self, device: torch.device | str) -> MatchBatch:
        """Return the same batch on a device; the numbers of the pairs stay on the CPU."""
        tokens, alike = (tensor.to(device, non_blocking=True) for tensor in (self.tokens, self.alike))
        hidden = self.hidden
        if hidden is not None:
            parts = (hidden.tokens, hidden.places, hidden.labels)
            hidden = Hidden(*(tensor.to(device, non_blocking=True) for tensor in parts))
        return MatchBatch(self.examples, tokens, self.row.to(device), alike, hidden)


class Matching(Task):
    """The task of training embeddings on pairs of texts."""

    Recipe = MatchingRecipe
    usage: ClassVar[str] = 'regard embed {folder} "..."'
    shared: ClassVar[bool] = True
    goal: Goal = ("mrr", "max")

    def __init__(self, recipe: MatchingRecipe, prepared: Prepared, model: Any, *, fixed: bool = False) -> None:
        self.recipe, self.prepared, self.model, self.fixed = recipe, prepared, model, fixed
        train = prepared.train
        self.size = min(recipe.data.batch_size, len(train))
        self.rows = len(train) // self.size
        self.tokens, lengths = self._tokenise_sides()
        self.starts = np.cumsum(lengths.ravel()) - lengths.ravel()
        self.lengths, self.alike = lengths.ravel(), train.alike
        self.longest = int(lengths.max())
        spread = SURELY * math.sqrt(self.size * float(lengths.var(axis=1).sum()))
        self.room = math.ceil((self.size * float(lengths.mean(axis=1).sum()) + spread) / ROUND) * ROUND
        self.masking = TokenMasking(prepared.tokenizer, HIDDEN, "tokens") if recipe.objective.masked else None
        self.features = self.room * recipe.model.width
        self.notes = [f"an epoch has {quantity(self.rows, 'row')} of {self.size:,} pairs"]

    @classmethod
    def recognise(cls, inputs: Given) -> Claim | None:
        """Claim pairs if this task is named; otherwise pairs are for translation."""
        if "task" not in inputs.settings or inputs.to is not None:
            return None
        tables = list(map(is_table, inputs.files))
        beside = inputs.aligned or (len(inputs.files) == 2 and not any(tables))
        sides = [inputs.files, inputs.valid] if beside else []
        if any(len(files) not in (0, 2) for files in sides):
            raise ValueError(f"{' and '.join(inputs.valid)}: two files, one a side, as those to train on")
        if beside:
            sections = [[dict(zip(("source", "target"), files, strict=True))] if files else [] for files in sides]
        else:
            sections = [[{"path": name} for name in files] for files in (inputs.files, inputs.valid)]
        return Claim(data_section(*sections), "pairs: training vectors in which partners lie near one another", SURE)

    @staticmethod
    def prepare(recipe: MatchingRecipe, parent: Checkpoint | None = None) -> Prepared:
        """Read the pairs; a parent model determines the tokenizer and the pooling."""
        splits = split_pairs(recipe.data)
        if parent is not None:
            model, tokenizer = parent.config["model"], tokenizer_of(parent)
            if model.get("name") != GPTConfig.name and (tokenizer.begin is None or tokenizer.separator is None):
                lacking = "begin" if tokenizer.begin is None else "separator"
                raise ValueError(
                    f"{parent.directory} has a tokenizer without a {lacking} token, which matching needs: "
                    "leave out --from, or give another model"
                )
            if recipe.objective.masked and tokenizer.mask is None:
                raise ValueError(f"{parent.directory} has a tokenizer without a mask token: set objective.masked=0")
            counted = int(model.get("vocab", 0))
            return Prepared.of(splits, tokenizer, embedding=parent.config.get("embedding"), counted=counted)
        how = recipe.tokenizer
        texts = [how.normal(text) for pair in splits.train.texts for text in pair]
        tokenizer = units.train(texts, how, characters=sum(map(len, texts)), special=SPECIAL)
        return Prepared.of(splits, tokenizer)

    @staticmethod
    def default_settings(recipe: MatchingRecipe, prepared: Prepared) -> dict[str, Any]:
        """Choose model size, learning rate and training length; fine-tuning has a lower rate and fewer steps."""
        amount = len(prepared.train)
        sizes = next(sizes for most, sizes in SIZES if amount <= most)
        rows = max(1, amount // min(recipe.data.batch_size, amount))
        steps = round_between(200, (10 if prepared.fresh else 3) * rows, 100_000)
        context = {"context": recipe.embedding.max_length or CONTEXT}
        return {
            "model": {**sizes, **context, **({"segments": 0} if isinstance(recipe.model, BERTConfig) else {})},
            "optim": {
                "name": "adamw",
                "learning_rate": 5e-4 if prepared.fresh else 2e-5,
                "weight_decay": 0.01,
                "schedule": "linear",
            },
            "training": default_run_length(recipe.training, rows=rows, steps=steps),
        }

    @staticmethod
    def fill_sizes(recipe: MatchingRecipe, prepared: Prepared) -> MatchingRecipe:
        """Return the recipe with the size of the vocabulary, the required heads, and the parent's pooling."""
        shape: Any = replace(recipe.model, vocab=max(prepared.tokenizer.vocab, prepared.counted))
        masked = recipe.objective.masked > 0
        if isinstance(shape, BERTConfig):
            shape = replace(shape, masked=masked, pooler=False, next_sentence=False, span_boundary=False)
        elif masked:
            raise ValueError(f"objective.masked needs a BERT, the model is a {shape.name}: set objective.masked=0")
        embedding_config = recipe.embedding
        if prepared.embedding is not None and embedding_config == EmbeddingConfig():
            embedding_config = config.build(EmbeddingConfig, prepared.embedding, where="embedding")
        if embedding_config.max_length is not None and embedding_config.max_length > shape.context:
            raise ValueError(
                f"embedding.max_length is {embedding_config.max_length}, the model holds {shape.context}: lower it"
            )
        tokenizer_config = config.build(PiecesConfig, config.plain(prepared.tokenizer.how), where="tokenizer")
        return replace(recipe, model=shape, embedding=embedding_config, tokenizer=tokenizer_config)

    @staticmethod
    def adopt(model: Any, parent: Checkpoint, data: Prepared) -> list[str]:
        """Load all weights of a matching model with the same heads; otherwise the backbone, and any masked head."""
        before = transfer.parent_model_config(parent)
        same_heads = before.predicts_masked == model.config.predicts_masked
        return transfer.load_weights(model, parent, same_task=parent.config.get("task") == "matching" and same_heads)

    def embedder(self) -> Embedder:
        """Return the model with its current weights as an embedder."""
        return Embedder(self.model, self.prepared.tokenizer, self.recipe.embedding)

    def batch(self, row: int) -> MatchBatch:
        """Return the pairs of a row; an epoch has each at most once, and the few left out differ between epochs."""
        epoch, place = divmod(row, self.rows)
        turns = np.arange(place * self.size, (place + 1) * self.size)
        examples = permute(turns, len(self.alike), number(self.recipe.training.seed, epoch))
        texts = np.concatenate([examples, examples + len(self.alike)])
        lengths = self.lengths[texts]
        places = np.arange(int(lengths.sum())) + np.repeat(self.starts[texts] - np.cumsum(lengths) + lengths, lengths)
        flat, shape = self.tokens[places].astype(np.int64), dict[str, int]()
        room = len(flat)
        if self.fixed:
            room = max(self.room, math.ceil(room / ROUND) * ROUND)  # rare larger rows have another shape
            shape = {"size": room, "segments": len(texts) + math.ceil(room / self.longest), "most": len(texts)}
        hidden = None if self.masking is None else self._hide_tokens(self.masking, flat, row, room)
        layout = Row.of(torch.from_numpy(lengths), longest=self.longest, **shape)
        alike = torch.from_numpy(self.alike[examples].view(np.int64))
        return MatchBatch(torch.from_numpy(examples), self._pad_tokens(flat, room), layout, alike, hidden)

    def _hide_tokens(self, masking: TokenMasking, flat: Int[np.ndarray, "token"], row: int, room: int) -> Hidden:
        """Mask random tokens of a row, seeded by its number; masked positions are padded to a fixed number."""
        random = np.random.default_rng(number(self.recipe.training.seed, row, 2))
        places, replacements = masking.sample(flat, random)
        labels, masked = flat[places], flat.copy()
        masked[places] = replacements
        rest = (0, masking.hidden_count(room) - len(places) if self.fixed else 0)
        padded = np.pad(places, rest), np.pad(labels, rest, constant_values=IGNORE)
        return Hidden(self._pad_tokens(masked, room), *map(torch.from_numpy, padded))

    def _pad_tokens(self, tokens: Int[np.ndarray, "token"], room: int) -> Int[Tensor, "room"]:
        filler = self.prepared.tokenizer.filler
        return torch.from_numpy(np.pad(tokens, (0, room - len(tokens)), constant_values=filler))

    def _tokenise_sides(self) -> tuple[Int[np.ndarray, "token"], Int[np.ndarray, "2 pair"]]:
        """Return the tokens of all first texts, then of all second texts, concatenated, and the length of each text."""
        embedder, pairs = self.embedder(), self.prepared.train.texts
        flat, lengths = list[np.ndarray](), list[int]()
        for side in (0, 1):
            for start in range(0, len(pairs), TOGETHER):
                block = embedder.encode([pair[side] for pair in pairs[start : start + TOGETHER]], self.recipe.embedding)
                flat.append(np.array([token for ids in block for token in ids], np.int32))
                lengths += [len(ids) for ids in block]
        return np.concatenate(flat), np.array(lengths, np.int64).reshape(2, -1)

    def origins(self, batch: MatchBatch) -> list[str]:
        """Return the sources of the pairs of a row."""
        return [self.prepared.train.place(n) for n in batch.examples.tolist()]

    def step(self, batch: MatchBatch, part: str) -> Step:
        """Return the InfoNCE loss, plus the weighted loss of masked tokens, summed over the pairs."""
        batch = batch.to(device_of(self.model))
        how, pairs = self.recipe.objective, len(batch.examples)
        features = self.model(batch.tokens, layout=batch.row)
        vectors = F.normalize(pool_tokens(features, batch.row, self.recipe.embedding.pool).float(), dim=-1)
        first, second = vectors[: 2 * self.size].chunk(2)
        loss = info_nce(first, second, negatives_mask(batch.alike), how.temperature)
        if batch.hidden is not None:
            masked_count = (batch.hidden.labels != IGNORE).sum().clamp(min=1)
            loss = loss + how.masked * pairs / masked_count * self._masked_loss(batch.hidden, batch.row)
        return Step(loss=loss, weight=pairs, counts={"tokens": batch.row.filled})

    def _masked_loss(self, hidden: Hidden, row: Row) -> Float[Tensor, ""]:
        """Return the summed cross-entropy of masked tokens."""
        features = self.model(hidden.tokens, layout=row).index_select(0, hidden.places)
        chunk = max(256, LOGITS // self.model.config.vocab)
        matrix, bias = self.model.prediction, self.model.bias
        return linear_cross_entropy(self.model.transform(features), matrix, hidden.labels, bias=bias, chunk=chunk)

    def evaluate(self, spread: Spread = alone) -> Evaluation:
        """Measure the retrieval of partners among validation texts."""
        with evaluation_runner(self.model):
            ranking = rank_partners(self.embedder().units, self.prepared.valid, spread)
        return Evaluation(ranking.metrics, ranking.samples(self.recipe.objective.samples))

    def trace_inputs(self, count: int) -> list[TraceInput]:
        """Return first texts of validation pairs."""
        texts = [first for first, _ in self.prepared.valid.texts]
        return [TraceInput(texts[n], texts[n]) for n in sample_readable(texts, count)]

    def contents(self) -> dict[str, Any]:
        """Return the checkpoint files other than weights and metrics."""
        recipe, plain = self.recipe, config.plain(self.recipe)
        settings = {name: plain[name] for name in ("task", "model", "tokenizer", "embedding")}
        file = {name: plain["data"]["train"][0][name] for name in ("columns", "fields")}
        learnt = f"trained with Regard on {len(self.prepared.train):,} pairs"
        text = model_card(
            "Vectors of texts",
            f"{recipe.model.phrase}, {recipe.model.vocab:,} tokens, {learnt}.",
            command=self.usage.format(folder="DIRECTORY"),
            code='embed(["a text"])',
            files=[name for corpus in recipe.data.train for name in corpus.files],
        )
        return {
            "config.yaml": {"format": 1, **settings, "data": {"file": file}},
            "tokenizer.json": self.prepared.tokenizer.json(),
            "README.md": text,
        }


def negatives_mask(alike: Int[Tensor, "pair 2"]) -> Bool[Tensor, "pair pair"]:
    """True for pairs (i, j) without a common text, so that the second text of j is a negative for the first of i."""
    first, second = alike.unbind(1)
    same = (first[:, None] == first) | (second[:, None] == second)
    return ~(same | (first[:, None] == second) | (second[:, None] == first))


def info_nce(
    first: Float[Tensor, "pair width"],
    second: Float[Tensor, "pair width"],
    negatives: Bool[Tensor, "pair pair"],
    temperature: float,
) -> Float[Tensor, ""]:
    """Return the mean InfoNCE loss of both directions: cross-entropy of the partner against it and all negatives."""
    logits = first @ second.T / temperature
    diagonal = torch.eye(len(first), dtype=torch.bool, device=first.device)
    logits = logits.masked_fill(~(negatives | diagonal), torch.finfo(logits.dtype).min)
    truth = torch.arange(len(first), device=first.device)
    both = (F.cross_entropy(direction, truth, reduction="sum") for direction in (logits, logits.T))
    return 0.5 * sum(both, logits.new_zeros(()))


__all__ = ["Matching", "Pairs", "info_nce", "negatives_mask"]
