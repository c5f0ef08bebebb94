"""Learning vectors from pairs: a text should lie nearer to its partner than to the partners of the others in its row.

The loss is InfoNCE with in-batch negatives in both directions (van den Oord et al. 2018; Radford et al. 2021, CLIP).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard import config
from regard.attention.hardware import device_of
from regard.attention.masks import Row
from regard.checkpoint import Checkpoint
from regard.config.ranges import Positive, Whole
from regard.config.resuming import Fingerprinted, Fixed, Free
from regard.data.glimpse import TABLES
from regard.data.packing import number, shuffled
from regard.data.readers import JSON_SUFFIXES, suffix
from regard.data.tokenizers import Tokenizer, units
from regard.data.tokenizers.units import Kind, UnitsConfig
from regard.models.bert import BERTConfig
from regard.models.gpt import GPTConfig
from regard.tasks.card import card
from regard.tasks.embedding.embedder import Embedder, tokenizer_of
from regard.tasks.embedding.pairs import MatchingData, Pairs, Sides, parted
from regard.tasks.embedding.pooling import EmbeddingConfig, pooled
from regard.tasks.embedding.scoring import measured
from regard.training.loop import TrainingConfig
from regard.training.optim import OptimConfig
from regard.training.pace import between, pace
from regard.training.task import SURE, Claim, Evaluation, Given, Goal, Spread, Step, alone, data_section, every_weight
from regard.training.tuning import TuningConfig

SPECIAL = ("<mask>", "<sep>")  # what a new tokenizer must have
SIZES = (
    (20_000, {"width": 128, "heads": 4, "hidden": 512, "depth": 2}),
    (200_000, {"width": 256, "heads": 4, "hidden": 1024, "depth": 4}),
    (math.inf, {"width": 384, "heads": 6, "hidden": 1536, "depth": 6}),
)
CONTEXT = 128  # tokens of a text that a new model reads
ROUND = 256  # what the size of a row is rounded up to
SURELY = 5.0  # deviations from the mean size of a row that a fixed one has room for


@dataclass(frozen=True, kw_only=True)
class PiecesConfig(UnitsConfig):
    """What a token is: by default a piece of a word."""

    kind: Kind = "bpe"
    """A piece of a word (bpe, unigram), a character, or a word (whatever is between spaces)."""


@dataclass(frozen=True, kw_only=True)
class MatchingObjective:
    """What is minimised, and what is shown."""

    temperature: Positive = 0.05
    """What cosines are divided by before the softmax; lower ones look at the nearest wrong texts only."""
    samples: Free[Whole] = 5
    """Held-out pairs shown at every evaluation."""


@dataclass(frozen=True, kw_only=True)
class MatchingRecipe:
    """One run that learns vectors of texts from pairs."""

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


@dataclass(frozen=True)
class Prepared:
    """Pairs, the tokenizer that reads them, and what a model to start from says."""

    sides: Sides
    tokenizer: Tokenizer
    embedding: Mapping[str, Any] | None
    """How that model pools."""
    counted: int
    """Tokens that it has vectors for."""
    fresh: bool

    @property
    def summary(self) -> Sequence[str]:
        """In lines for a person."""
        return self.sides.summary

    @property
    def report(self) -> dict[str, Any]:
        """Counts and fingerprints."""
        return {**self.sides.report, "vocab": self.tokenizer.vocab}


@dataclass(frozen=True)
class MatchBatch:
    """One packed row: the first texts of some pairs, then their second texts, and which are partners of none."""

    examples: list[int]
    tokens: Int[Tensor, "token"]
    row: Row
    apart: Bool[Tensor, "pair pair"]
    """True where the second text of one pair may be told from the first of another."""

    def to(self, device: torch.device | str) -> MatchBatch:
        """The same on a device; the numbers of the pairs stay."""
        tokens, apart = (each.to(device, non_blocking=True) for each in (self.tokens, self.apart))
        return MatchBatch(self.examples, tokens, self.row.to(device), apart)


class Matching:
    """The task of learning vectors from pairs."""

    Recipe = MatchingRecipe
    takes: ClassVar[str] = "pairs"
    usage: ClassVar[str] = 'regard embed {folder} "..."'
    shared: ClassVar[bool] = True
    goal: Goal = ("mrr", "max")

    def __init__(self, recipe: MatchingRecipe, prepared: Prepared, model: Any, *, fixed: bool = False) -> None:
        self.recipe, self.prepared, self.model, self.fixed = recipe, prepared, model, fixed
        train = prepared.sides.train
        self.size = min(recipe.data.batch, len(train))
        self.rows = len(train) // self.size
        read = self.embedder()
        self.tokens = [read.encode([pair[side] for pair in train.texts], recipe.embedding) for side in (0, 1)]
        self.alike = train.alike
        lengths = np.array([[len(ids) for ids in side] for side in self.tokens], np.int64)
        self.longest = int(lengths.max())
        spread = SURELY * math.sqrt(self.size * float(lengths.var(axis=1).sum()))
        self.room = math.ceil((self.size * float(lengths.mean(axis=1).sum()) + spread) / ROUND) * ROUND
        self.features = self.room * recipe.model.width
        self.notes = [f"an epoch has {self.rows:,} rows of {self.size:,} pairs"]

    @classmethod
    def recognise(cls, given: Given) -> Claim | None:
        """Pairs, where somebody asks for this task; else they are translated."""
        if "task" not in given.settings or given.to is not None:
            return None
        tables = [suffix(name) in (*JSON_SUFFIXES, *TABLES) for name in given.files]
        beside = given.aligned or (len(given.files) == 2 and not any(tables))
        sides = [given.files, given.valid] if beside else []
        if any(len(files) not in (0, 2) for files in sides):
            raise ValueError(f"{' and '.join(given.valid)}: two files, one a side, as those to train on")
        if beside:
            told = [[dict(zip(("source", "target"), files, strict=True))] if files else [] for files in sides]
        else:
            told = [[{"path": name} for name in files] for files in (given.files, given.valid)]
        return Claim(data_section(*told), "pairs: training vectors in which partners lie near one another", SURE)

    @staticmethod
    def prepare(recipe: MatchingRecipe, known: Checkpoint | None = None) -> Prepared:
        """Read the pairs; a model to start from gives its tokens and its way of pooling."""
        sides = parted(recipe.data)
        if known is not None:
            model, own = known.config["model"], tokenizer_of(known)
            if model.get("name") != GPTConfig.name and (own.begin is None or own.separator is None):
                lacking = "begin" if own.begin is None else "separator"
                raise ValueError(
                    f"{known.directory} has a tokenizer without a {lacking} token, which matching needs: "
                    "leave out --from, or give another model"
                )
            return Prepared(sides, own, known.config.get("embedding"), int(model.get("vocab", 0)), fresh=False)
        how = recipe.tokenizer
        texts = [how.normal(text) for pair in sides.train.texts for text in pair]
        own = units.train(texts, how, characters=sum(map(len, texts)), special=SPECIAL)
        return Prepared(sides, own, None, 0, fresh=True)

    @staticmethod
    def suited(recipe: MatchingRecipe, prepared: Prepared) -> dict[str, Any]:
        """A size and a length that so many pairs ask for; a model that knows something learns more slowly."""
        amount = len(prepared.sides.train)
        sizes = next(sizes for most, sizes in SIZES if amount <= most)
        rows = max(1, amount // min(recipe.data.batch, amount))
        steps = between(200, (10 if prepared.fresh else 3) * rows, 100_000)
        context = {"context": recipe.embedding.longest or CONTEXT}
        return {
            "model": {**sizes, **context, **({"segments": 0} if isinstance(recipe.model, BERTConfig) else {})},
            "optim": {
                "name": "adamw",
                "rate": 5e-4 if prepared.fresh else 2e-5,
                "weight_decay": 0.01,
                "schedule": "linear",
            },
            "training": pace(recipe.training, rows=rows, steps=steps),
        }

    @staticmethod
    def sized(recipe: MatchingRecipe, prepared: Prepared) -> MatchingRecipe:
        """The recipe with the number of tokens, without heads, and with the pooling of a model to start from."""
        shape: Any = replace(recipe.model, vocab=max(prepared.tokenizer.vocab, prepared.counted))
        if isinstance(shape, BERTConfig):
            shape = replace(shape, masked=False, pooler=False, next_sentence=False)
        how = recipe.embedding
        if prepared.embedding is not None and how == EmbeddingConfig():
            how = config.build(EmbeddingConfig, prepared.embedding, where="embedding")
        if how.longest is not None and how.longest > shape.context:
            raise ValueError(f"embedding.longest is {how.longest}, the model holds {shape.context}: lower it")
        own = config.build(PiecesConfig, config.plain(prepared.tokenizer.how), where="tokenizer")
        return replace(recipe, model=shape, embedding=how, tokenizer=own)

    def embedder(self) -> Embedder:
        """The model as it is now, ready to use."""
        return Embedder(self.model, self.prepared.tokenizer, self.recipe.embedding)

    def parts(self) -> dict[str, list[nn.Parameter]]:
        """One set of weights, one optimizer."""
        return every_weight(self.model)

    def batch(self, row: int) -> MatchBatch:
        """The pairs of a row; in an epoch each comes at most once, and those left over are others every time."""
        epoch, place = divmod(row, self.rows)
        turns = np.arange(place * self.size, (place + 1) * self.size)
        chosen = shuffled(turns, len(self.alike), number(self.recipe.training.seed, epoch))
        read = [self.tokens[side][n] for side in (0, 1) for n in chosen]
        flat, shape = [id for ids in read for id in ids], dict[str, int]()
        if self.fixed:
            room = max(self.room, math.ceil(len(flat) / ROUND) * ROUND)  # the rare fuller one has a shape of its own
            shape = {"size": room, "segments": len(read) + math.ceil(room / self.longest), "most": len(read)}
            flat += [self.prepared.tokenizer.filler] * (room - len(flat))
        layout = Row.of([len(ids) for ids in read], longest=self.longest, **shape)
        return MatchBatch(chosen.tolist(), torch.tensor(flat), layout, torch.from_numpy(apart(self.alike[chosen])))

    def origins(self, batch: MatchBatch) -> list[str]:
        """Where the pairs of a row come from."""
        return [self.prepared.sides.train.place(n) for n in batch.examples]

    def step(self, batch: MatchBatch, part: str) -> Step:
        """The surprise at every partner, in both directions, summed over the pairs."""
        batch = batch.to(device_of(self.model))
        features = self.model(batch.tokens, layout=batch.row)
        vectors = F.normalize(pooled(features, batch.row, self.recipe.embedding.pool).float(), dim=-1)
        first, second = vectors[: 2 * self.size].chunk(2)
        loss = contrast(first, second, batch.apart, self.recipe.objective.temperature)
        return Step(loss=loss, weight=len(batch.examples), counts={"tokens": batch.row.filled})

    def evaluate(self, spread: Spread = alone) -> Evaluation:
        """How well the partners of held-out texts are found among one another."""
        training = self.model.training
        self.model.eval()
        found = measured(self.embedder().units, self.prepared.sides.valid, spread)
        self.model.train(training)
        return Evaluation(found.metrics, found.samples(self.recipe.objective.samples))

    def contents(self) -> dict[str, Any]:
        """What a checkpoint directory holds beside weights and metrics."""
        recipe, plain = self.recipe, config.plain(self.recipe)
        kept = {name: plain[name] for name in ("task", "model", "tokenizer", "embedding")}
        file = {name: plain["data"]["train"][0][name] for name in ("columns", "fields")}
        learnt = f"trained with Regard on {len(self.prepared.sides.train):,} pairs"
        text = card(
            "Vectors of texts",
            f"{recipe.model.phrase}, {recipe.model.vocab:,} tokens, {learnt}.",
            command=self.usage.format(folder="DIRECTORY"),
            code='embed(["a text"])',
            files=[name for corpus in recipe.data.train for name in corpus.files],
        )
        return {
            "config.yaml": {"format": 1, **kept, "data": {"file": file}},
            "tokenizer.json": self.prepared.tokenizer.json(),
            "README.md": text,
        }


def apart(alike: np.ndarray) -> np.ndarray:
    """True where two pairs share no text, so that the second of one is a wrong partner of the first of the other."""
    first, second = alike[:, 0], alike[:, 1]
    same = (
        (first[:, None] == first)
        | (second[:, None] == second)
        | (first[:, None] == second)
        | (second[:, None] == first)
    )
    return ~same


def contrast(
    first: Float[Tensor, "pair width"],
    second: Float[Tensor, "pair width"],
    apart: Bool[Tensor, "pair pair"],
    temperature: float,
) -> Float[Tensor, ""]:
    """InfoNCE in both directions, half each: cross-entropy of the partner among it and all texts of pairs apart."""
    logits = first @ second.T / temperature
    own = torch.eye(len(first), dtype=torch.bool, device=first.device)
    logits = logits.masked_fill(~(apart | own), torch.finfo(logits.dtype).min)
    truth = torch.arange(len(first), device=first.device)
    both = (F.cross_entropy(each, truth, reduction="sum") for each in (logits, logits.T))
    return 0.5 * sum(both, logits.new_zeros(()))


__all__ = ["Matching", "Pairs", "apart", "contrast"]
