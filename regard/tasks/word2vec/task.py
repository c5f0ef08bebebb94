"""Learning word vectors: blocks of text in order, shared by threads that change the same weights without locks.

A step is a block of about 10,000 words. What is drawn in it and the rate it is learnt with follow from the seed and the
number of the block, so one thread repeats itself exactly, also across a stop.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Literal

import numpy as np
import torch

from regard import checkpoint, config
from regard.config.ranges import Count, Positive, Seed, Small
from regard.config.resuming import Fingerprinted, Fixed, Free
from regard.models.word2vec import Word2Vec, Word2VecConfig, kernel
from regard.tasks.word2vec import word_benchmarks
from regard.tasks.word2vec.corpus import Words, WordsConfig, prepare
from regard.tasks.word2vec.vectors import WordVectors
from regard.training import run as runs
from regard.training.device import hash64
from regard.training.guard import Faults
from regard.training.history import recorded
from regard.training.log import Log
from regard.training.loop import Result
from regard.training.resume import NUMBERS, TENSORS, Best
from regard.training.run import Run
from regard.training.stopping import Signals

RATES = {"skipgram": 0.025, "cbow": 0.075}
FILES = ("train", "similarity", "analogies")  # settings that name some; a checkpoint keeps how words are told
SHOWN = 8  # words whose neighbours are shown after every epoch
FAMILIAR = slice(100, 1000)  # by frequency: most words before mean little


@dataclass(frozen=True, kw_only=True)
class LearningConfig:
    """How long, how fast, by how many."""

    epochs: Count = 5
    """Walks over the whole text."""
    rate: Positive | None = None
    """Learning rate at the start; null takes 0.025 for skip-gram and 0.075 for CBOW."""
    last: Positive = 1e-4
    """Learning rate at the end; it falls in a straight line."""
    workers: Small | None = None
    """Threads; null takes as many as there are processors. Only one repeats itself exactly."""
    seed: Seed = 0
    """Where the first vectors and all draws start."""
    log: Free[Count] = 100
    """Steps, blocks of about 10,000 words, between lines of training loss."""
    tensorboard: Free[bool] = False
    """Write curves for TensorBoard into the run folder."""


@dataclass(frozen=True, kw_only=True)
class EmbeddingRecipe:
    """One run that learns word vectors."""

    task: Fixed[Literal["word2vec"]] = "word2vec"
    """What is learnt."""
    data: Fingerprinted[WordsConfig]
    """Where text comes from and what its words are."""
    model: Fixed[Word2VecConfig] = field(default_factory=Word2VecConfig)
    """How words are predicted."""
    training: LearningConfig = field(default_factory=LearningConfig)
    """How long, how fast, by how many."""


@dataclass(frozen=True)
class _Tests:
    """The tests that a recipe names, read before anything is learnt."""

    pairs: list[word_benchmarks.Judged] | None
    questions: dict[str, list[word_benchmarks.Question]] | None

    @classmethod
    def read(cls, data: WordsConfig) -> _Tests:
        return cls(
            None if data.similarity is None else word_benchmarks.similarity(data.similarity),
            None if data.analogies is None else word_benchmarks.analogies(data.analogies),
        )

    def scores(self, vectors: WordVectors) -> dict[str, float]:
        """What they say of vectors."""
        scores = {}
        if self.pairs is not None:
            scores["similarity"] = vectors.agreement(self.pairs).rho
        if self.questions is not None:
            sections = vectors.analogies(self.questions)
            scores["analogies"] = sum(one.right for one in sections) / max(1, sum(one.known for one in sections))
        return scores


class SkipGram:
    """The task of learning word vectors, which has a loop of its own."""

    Recipe = EmbeddingRecipe
    usage = "regard similar {folder} WORD"

    @staticmethod
    def train(
        recipe: EmbeddingRecipe, *, out: str | Path, command: str, resume: bool, overwrite: bool, quiet: bool
    ) -> tuple[Run, Result]:
        """Learn in a run folder: begun there, or gone on with."""
        kernel()  # before anything is read or written
        tests = _Tests.read(recipe.data)
        words = prepare(recipe.data)
        known: dict[str, Any] = {"settings": recipe, "data": words.report, "command": command}
        run = runs.start(out, **known, resume=resume, overwrite=overwrite)
        tensorboard = recipe.training.tensorboard
        with run.log(quiet=quiet, tensorboard=tensorboard) as log, recorded(run.folder) as end, Signals() as signals:
            result = _Loop(recipe, words, tests, run, log, signals).run_through()
            state = "failed" if result.failed else "interrupted" if result.reason == "interrupted" else "finished"
            end |= {"state": state, "reason": result.reason}
        return run, result


class _Loop:
    """What a training holds between two epochs, and the things it does."""

    def __init__(
        self, recipe: EmbeddingRecipe, words: Words, tests: _Tests, run: Run, log: Log, signals: Signals
    ) -> None:
        self.recipe, self.words, self.tests, self.run, self.log, self.signals = recipe, words, tests, run, log, signals
        self.model = Word2Vec(recipe.model, words.counts, seed=recipe.training.seed)
        self.vectors = WordVectors(words.words, self.model.vectors, words.counts.tolist())
        self.workers = recipe.training.workers or os.cpu_count() or 1
        self.steps = recipe.training.epochs * words.blocks
        self.rate = recipe.training.rate or RATES[recipe.model.architecture]
        self.step, self.seconds = 0, 0.0
        self.metrics: dict[str, float] = {}
        for note in (*words.summary, *run.notes):
            log.note(note)
        if run.latest is not None:
            self._restore(run.latest)
        log.note(
            f"{recipe.model.architecture} with {recipe.model.output} output, {recipe.model.width} wide, "
            f"{words.blocks:,} steps an epoch, {self.workers} worker{'s' * (self.workers > 1)}"
        )

    def run_through(self) -> Result:
        """All epochs, each scored and saved at its end."""
        reason = "steps"
        while self.step < self.steps and reason == "steps":
            if self.signals.asked:  # while the epoch was scored and saved
                reason = "interrupted"
                break
            end = (self.step // self.words.blocks + 1) * self.words.blocks
            began = time.monotonic()
            self._walk(end)
            self.seconds += time.monotonic() - began
            if not (np.isfinite(self.model.vectors).all() and np.isfinite(self.model.output).all()):
                reason = "diverged: the vectors are no longer finite, lower training.rate"
            elif self.step < end:
                reason = "interrupted"
                self._save(self.run.directory(self.step), training=True)
            else:
                self._evaluate()
        self.log.note(f"stopped at step {self.step} ({reason}) after {self.seconds:.0f} s of learning")
        best = Best(self.step, {**self.metrics}) if reason == "steps" else None
        read = float(self.words.counts.sum()) * self.step / self.words.blocks
        return Result(self.step, reason, self.seconds, best, Faults(), {"words": read})

    def _walk(self, end: int) -> None:
        """Learn the blocks up to a step, each by the thread that is free first; stop early when asked to."""
        window, whole = _Window(time.monotonic()), _Window(time.monotonic())
        for block in self._learnt(end):
            self.step += 1
            window.add(*block)
            whole.add(*block)
            self.log.advance(self.step, self.step / self.steps)
            if self.step % self.recipe.training.log == 0 or self.step == end:
                self.log.step(self.step, {**window.values(), "rate": self._rate(self.step)})
                window = _Window(time.monotonic())
        self.metrics = {"loss": whole.values()["loss"]}

    def _learnt(self, end: int) -> Iterator[tuple[float, int, int]]:
        """Loss, predictions heard and words of each block as it is done; every block begun is finished."""
        numbers, lock, stop = iter(range(self.step, end)), threading.Lock(), threading.Event()
        done: SimpleQueue[tuple[float, int, int] | None] = SimpleQueue()

        def work() -> None:
            try:
                while not (stop.is_set() or self.signals.asked):
                    with lock:
                        number = next(numbers, None)
                    if number is None:
                        break
                    done.put(self._block(number))
            except BaseException:
                stop.set()  # what ends one thread ends the others
                raise
            finally:
                done.put(None)

        with ThreadPoolExecutor(self.workers) as pool:
            try:
                working = [pool.submit(work) for _ in range(self.workers)]
                for _ in working:
                    yield from iter(done.get, None)
                for worker in working:
                    worker.result()
            finally:
                stop.set()  # a second signal waits for no epoch

    def _block(self, number: int) -> tuple[float, int, int]:
        tokens = self.words.block(number % self.words.blocks)
        seed = hash64(self.recipe.training.seed, number)
        loss, heard = self.model.learn(tokens, rate=self._rate(number), seed=seed)
        return loss, heard, len(tokens)

    def _rate(self, step: int) -> float:
        """From the first rate to the last in a straight line."""
        return self.rate + (self.recipe.training.last - self.rate) * step / self.steps

    def _evaluate(self) -> None:
        """Score the vectors, show some neighbours, and save: the newest vectors are the best, for the rate falls."""
        vectors = WordVectors(self.vectors.words, self.model.vectors, self.vectors.counts)  # lengths have changed
        self.metrics |= self.tests.scores(vectors)
        samples = _neighbours(vectors)
        self.run.show(self.step, samples)
        self._save(self.run.best, training=False)
        self._save(self.run.directory(self.step), training=True)
        self.log.evaluation(self.step, self.metrics, samples, kind="evaluation", best=True, seconds=self.seconds)

    def _save(self, directory: Path, *, training: bool) -> None:
        """A checkpoint: to use, or also to go on from."""
        recipe = config.plain(self.recipe)
        kept = {name: value for name, value in recipe["data"].items() if name not in FILES}
        files = self.vectors.contents({"model": recipe["model"], "words": kept})
        files |= {**self.vectors.weights(), "metrics.json": self.metrics}
        if training:
            files[TENSORS] = {"output": torch.from_numpy(self.model.output)}
            files[NUMBERS] = {"progress": {"step": self.step, "seconds": self.seconds}}
        checkpoint.write(directory, files, facts=self.run.facts(self.step))
        if training:
            self.run.prune(())
            self.log.saved(self.step, directory)

    def _restore(self, latest: checkpoint.Checkpoint) -> None:
        """Be again as when the checkpoint was saved."""
        found = {"vectors": latest.tensors()["vectors"], "output": latest.tensors(TENSORS)["output"]}
        for name, tensor in found.items():
            mine = getattr(self.model, name)
            if (shape := tuple(tensor.shape)) != mine.shape:
                raise checkpoint.CheckpointError(f"{latest.directory}: {name} is {shape}, not {mine.shape}")
            mine[:] = tensor.numpy()
        progress = latest.json(NUMBERS)["progress"]
        self.step, self.seconds, self.metrics = int(progress["step"]), float(progress["seconds"]), latest.metrics


@dataclass
class _Window:
    """What is measured between two reports."""

    began: float
    loss: float = 0.0
    heard: int = 0
    words: int = 0

    def add(self, loss: float, heard: int, words: int) -> None:
        self.loss, self.heard, self.words = self.loss + loss, self.heard + heard, self.words + words

    def values(self) -> dict[str, float]:
        seconds = max(time.monotonic() - self.began, 1e-9)
        loss = self.loss / self.heard if self.heard else float("nan")
        return {"loss": loss, "words_per_second": self.words / seconds}


def _neighbours(vectors: WordVectors) -> list[dict[str, str]]:
    """Neighbours of some well-known words, to look at."""
    familiar: Sequence[str] = vectors.words[FAMILIAR] or vectors.words
    chosen = familiar[:: max(1, len(familiar) // SHOWN)][:SHOWN]
    return [{"word": word, "near": ", ".join(near for near, _ in vectors.similar(word, count=6))} for word in chosen]
