"""Learning word vectors: blocks of text in order, shared by threads that change the same weights without locks.

A row is a block of about 10,000 words. What is drawn in it and the rate it is learnt with follow from the seed and the
number of the block, so one thread repeats itself exactly, also across a stop.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import nn

from regard import config
from regard.checkpoint import Checkpoint
from regard.config.ranges import Positive
from regard.config.resuming import Fingerprinted, Fixed
from regard.data.sniff import sniff_text_file
from regard.models.word2vec import Word2Vec, Word2VecConfig, kernel
from regard.shipped import display_name
from regard.tasks.word2vec import word_benchmarks
from regard.tasks.word2vec.corpus import Words, WordsConfig, prepare
from regard.tasks.word2vec.vectors import WordVectors
from regard.training.device import hash64
from regard.training.loop import TrainingConfig
from regard.training.task import POSSIBLE, Claim, Evaluation, Given, Goal, Spread, Step, Task, alone, data_section

RATES = {"skipgram": 0.025, "cbow": 0.075}
FILES = ("train", "similarity", "analogies")  # settings that name some; a checkpoint keeps how words are told
SHOWN = 8  # words whose neighbours are shown after every epoch
FAMILIAR = slice(100, 1000)  # by frequency: most words before mean little
TOGETHER = 32  # blocks of a step: threads wait for one another only at its end


@dataclass(frozen=True, kw_only=True)
class RateConfig:
    """The learning rate."""

    learning_rate: Positive | None = None
    """Learning rate at the start; null takes 0.025 for skip-gram and 0.075 for CBOW."""
    final_learning_rate: Positive = 1e-4
    """Learning rate at the end; it falls linearly."""


@dataclass(frozen=True, kw_only=True)
class EmbeddingRecipe:
    """One run that learns word vectors."""

    task: Fixed[Literal["word2vec"]] = "word2vec"
    """What is learnt."""
    data: Fingerprinted[WordsConfig]
    """Text and what counts as a word."""
    model: Fixed[Word2VecConfig] = field(default_factory=Word2VecConfig)
    """How words are predicted."""
    optim: RateConfig = field(default_factory=RateConfig)
    """The learning rate."""
    training: TrainingConfig = field(default_factory=TrainingConfig)
    """How long, how often; a row is a block of about 10,000 words, and threads share the rows of a step."""


@dataclass(frozen=True)
class _Tests:
    """The benchmarks that a recipe names, read before training."""

    pairs: list[word_benchmarks.Judged] | None
    questions: dict[str, list[word_benchmarks.Question]] | None

    @classmethod
    def read(cls, data: WordsConfig) -> _Tests:
        return cls(
            None if data.similarity is None else word_benchmarks.read_similarity(data.similarity),
            None if data.analogies is None else word_benchmarks.read_analogies(data.analogies),
        )

    def scores(self, vectors: WordVectors) -> dict[str, float]:
        """Return the scores of word vectors on the benchmarks."""
        scores = {}
        if self.pairs is not None:
            scores["similarity"] = vectors.agreement(self.pairs).rho
        if self.questions is not None:
            sections = vectors.analogies(self.questions)
            scores["analogies"] = sum(section.right for section in sections) / max(
                1, sum(section.known_count for section in sections)
            )
        return scores


class SkipGram(Task):
    """The task of training word vectors (skip-gram or CBOW); its inner loop updates them without an optimizer."""

    Recipe = EmbeddingRecipe
    usage: ClassVar[str] = "regard words similar {folder} WORD"
    updates_itself: ClassVar[bool] = True
    shared: ClassVar[bool] = False  # threads share what processes cannot
    goal: Goal | None = None  # the rate falls: the newest vectors are the best

    def __init__(self, recipe: EmbeddingRecipe, words: Words, model: Word2Vec, *, fixed: bool = False) -> None:
        self.recipe, self.words, self.model = recipe, words, model
        self.tests = _Tests.read(recipe.data)
        model.count(words.counts)
        self.rows, self.features = words.blocks, 0
        self.workers = recipe.training.threads or os.cpu_count() or 1
        self.rate = recipe.optim.learning_rate or RATES[recipe.model.architecture]
        self.notes = [
            f"{recipe.model.architecture} with {recipe.model.output} output, {recipe.model.width} wide, "
            f"{words.blocks:,} rows an epoch, {self.workers} thread{'s' * (self.workers > 1)}"
        ]

    @staticmethod
    def recognise(inputs: Given) -> Claim | None:
        """Claim plain text files, as a possible task only."""
        text_settings = [sniff_text_file(name, declared=inputs.is_declared) for name in inputs.files]
        if inputs.to is not None or None in text_settings:
            return None
        if inputs.valid and "task" not in inputs.settings:
            return None
        if inputs.valid:
            raise ValueError("word vectors are tested by data.similarity and data.analogies: leave --valid out")
        return Claim(data_section(text_settings), "plain text: training vectors of its words", POSSIBLE)

    @staticmethod
    def prepare(recipe: EmbeddingRecipe, parent: Checkpoint | None = None) -> Words:
        """Count the words of the text, after checking that the benchmark files can be read."""
        kernel()  # before anything is read
        _Tests.read(recipe.data)
        return prepare(recipe.data)

    @staticmethod
    def default_settings(recipe: EmbeddingRecipe, words: Words) -> dict[str, Any]:
        """Train for five epochs, and evaluate and save after each."""
        together = max(1, min(TOGETHER, words.blocks // 8))
        epoch = -(-words.blocks // together)
        often = {"eval_every": epoch, "save_every": epoch, "log_every": max(1, epoch // 10)}
        return {"training": {"epochs": 5, "accumulate": together, **often}}

    @staticmethod
    def fill_sizes(recipe: EmbeddingRecipe, words: Words) -> EmbeddingRecipe:
        """Return the recipe with the vocabulary size."""
        return replace(recipe, model=replace(recipe.model, vocab=len(words.words)))

    @staticmethod
    def adopt(model: Word2Vec, parent: Checkpoint, words: Words) -> list[str]:
        """Initialise the vectors of words that the parent model knows with its vectors."""
        parent_vectors = WordVectors.load(parent)
        if parent_vectors.vectors.shape[1] != model.config.width:
            width = parent_vectors.vectors.shape[1]
            raise ValueError(f"{parent.directory}: its vectors have {width} features, set model.width={width}")
        places = [
            (here, there) for here, word in enumerate(words.words) if (there := parent_vectors.find(word)) is not None
        ]
        mine, theirs = (torch.tensor(column, dtype=torch.long) for column in zip(*places, strict=True))
        model.get_buffer("vectors")[mine] = torch.from_numpy(parent_vectors.vectors)[theirs]
        summary = f"vectors of {len(places):,} of {len(words.words):,} words taken over"
        return [f"starting from {display_name(parent.directory)}: {summary}"]

    def parts(self) -> dict[str, list[nn.Parameter]]:
        """Return no parameters, since no optimizer is used."""
        return {}

    def batch(self, row: int) -> np.ndarray:
        """Return the words of a block."""
        return self.words.block(row % self.rows)

    def step(self, batch: Any, part: str) -> Step:
        """Not used: `learn` updates the vectors."""
        raise NotImplementedError

    def learn(self, rows: Sequence[int], *, total: int) -> Step:
        """Train on these blocks, distributed over the threads; the learning rate decays linearly from row to row."""

        def block(row: int) -> tuple[float, int, int]:
            tokens = self.batch(row)
            rate = self.rate + (self.recipe.optim.final_learning_rate - self.rate) * row / total
            lost, heard = self.model.learn(tokens, rate=rate, seed=hash64(self.recipe.training.seed, row))
            return lost, heard, int((tokens >= 0).sum())  # line ends are no words

        if self.workers == 1:
            block_results = [block(row) for row in rows]
        else:
            with ThreadPoolExecutor(self.workers) as pool:
                block_results = list(pool.map(block, rows))
        lost, heard, read = (sum(column) for column in zip(*block_results, strict=True))
        self.model.get_buffer("heard").add_(torch.tensor([lost, heard]))
        return Step(loss=torch.tensor(lost), weight=heard, counts={"words": read})

    def evaluate(self, spread: Spread = alone) -> Evaluation:
        """Return the loss since the last evaluation, the benchmark scores, and neighbours of some frequent words."""
        vectors = self.vectors
        lost, heard = self.model.get_buffer("heard").tolist()
        self.model.get_buffer("heard").zero_()
        metrics = {"loss": lost / heard if heard else float("nan"), **self.tests.scores(vectors)}
        return Evaluation(metrics, _neighbours(vectors))

    @property
    def vectors(self) -> WordVectors:
        """Return the current vectors."""
        return WordVectors(self.words.words, self.model.get_buffer("vectors").numpy(), self.words.counts.tolist())

    def contents(self) -> dict[str, Any]:
        """Return the checkpoint files other than vectors and metrics."""
        recipe = config.plain(self.recipe)
        word_settings = {name: value for name, value in recipe["data"].items() if name not in FILES}
        return self.vectors.contents({"model": recipe["model"], "words": word_settings})


def _neighbours(vectors: WordVectors) -> list[dict[str, str]]:
    """Return the nearest neighbours of some frequent words."""
    familiar: Sequence[str] = vectors.words[FAMILIAR] or vectors.words
    chosen = familiar[:: max(1, len(familiar) // SHOWN)][:SHOWN]
    return [{"word": word, "near": ", ".join(near for near, _ in vectors.similar(word, count=6))} for word in chosen]
