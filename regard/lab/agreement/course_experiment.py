"""The agreement of the courses, learnt by an RNN, a GRU, an LSTM and self-attention of about as many weights.

Each network is trained from every seed with up to two relative clauses between subject and participle, and tested with
up to four, and on the sentences of the courses themselves.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from regard import recipe
from regard.lab.agreement import relative_clauses
from regard.lab.agreement.judging import count_mistakes
from regard.lab.agreement.relative_clauses import CLAUSES_TESTED, COURSE_SENTENCES
from regard.lab.agreement.sentences import RIGHT, WRONG
from regard.tasks.text_labels.tagger import Tagger

NETWORKS: dict[str, dict[str, Any]] = {
    "RNN": {"name": "rnn-encoder", "cell": "rnn", "bidirectional": False, "width": 128, "embedding": 48, "depth": 1},
    "GRU": {"name": "rnn-encoder", "cell": "gru", "bidirectional": False, "width": 68, "embedding": 48, "depth": 1},
    "LSTM": {"name": "rnn-encoder", "cell": "lstm", "bidirectional": False, "width": 56, "embedding": 48, "depth": 1},
    "self-attention": {
        "name": "transformer-encoder",
        "causal": True,
        "width": 40,
        "embedding": 40,
        "heads": 4,
        "hidden": 64,
        "depth": 2,
    },
}
SEEDS = (0, 1)
RESULTS = "course_results.json"
SECONDS = 60  # of processor time that a training takes, roughly


@dataclass(frozen=True)
class Sizes:
    """The numbers of training, validation and test sentences, and of training steps."""

    train: int = 20_000
    valid: int = 1_000
    test: int = 500
    steps: int = 1_500


@dataclass(frozen=True)
class Point:
    """The mistakes of every seed at one number of clauses, with or without an attractor before the verb."""

    clauses: int
    attractor: bool
    count: int
    mistakes: list[int]

    @property
    def errors(self) -> list[float]:
        """Return the error rate of each seed in per cent; chance is 50."""
        return [100 * mistakes / self.count for mistakes in self.mistakes]

    @property
    def error(self) -> float:
        """Return the mean error rate over the seeds."""
        return sum(self.errors) / len(self.errors)


@dataclass(frozen=True)
class NetworkResult:
    """The results of one kind of network, trained with several seeds."""

    network: str
    parameters: int
    points: list[Point]
    accepted: list[int]
    """For each sentence of the courses, the seeds that take the right participle for right."""
    rejected: list[int]
    """The seeds that take the wrong one for wrong."""


def read_results() -> list[NetworkResult]:
    """Read the results that come with the package, trained on one core."""
    text = (resources.files("regard") / "lab" / "agreement" / RESULTS).read_text(encoding="utf-8")
    return [
        NetworkResult(**{**record, "points": [Point(**point) for point in record["points"]]})
        for record in json.loads(text)
    ]


def count_trainings(seeds: Sequence[int] = SEEDS) -> int:
    """Return the number of networks to train for the results."""
    return len(NETWORKS) * len(seeds)


def repeat_experiment(
    *, sizes: Sizes | None = None, report: Callable[[str], None], seeds: Sequence[int] = SEEDS
) -> Iterator[NetworkResult]:
    """Train and test every network again, reporting progress by `report`; yield the result of each kind."""
    sizes = sizes or Sizes()
    total, number = count_trainings(seeds), 0
    with TemporaryDirectory(prefix="agreement-") as folder:
        for network, model in NETWORKS.items():
            taggers = []
            for seed in seeds:
                number += 1
                report(f"training {number} of {total}: {network}, seed {seed}")
                out = Path(folder) / f"{network}-{seed}"
                files = write_sentences(out.with_suffix(".data"), sizes, seed=seed)
                settings = training_settings(model, files, steps=sizes.steps, seed=seed)
                best = recipe.train(settings, out=out, quiet=True).best
                taggers.append(recipe.load(best, device="cpu", task=Tagger.task))
            yield judge_network(taggers, network, count=sizes.test)


def write_sentences(folder: Path, sizes: Sizes, *, seed: int) -> dict[str, str]:
    """Write training and validation sentences to files, and return their paths."""
    folder.mkdir(parents=True)
    files = {}
    for part, (name, count) in enumerate({"train": sizes.train, "valid": sizes.valid}.items()):
        examples = relative_clauses.sentences(2 * seed + part, count)
        path = folder / f"{name}.txt.gz"
        path.write_bytes(gzip.compress("".join(f"{example.with_tags}\n" for example in examples).encode()))
        files[name] = str(path)
    return files


def training_settings(model: dict[str, Any], files: dict[str, str], *, steps: int, seed: int) -> dict[str, Any]:
    """Return the settings of one training, as in the agreement recipes."""
    return {
        "task": Tagger.task,
        "data": {"train": {"path": files["train"]}, "valid": {"path": files["valid"]}, "batch_tokens": 2048},
        "tokenizer": {"kind": "words", "lowercase": True},
        "model": {**model, "dropout": 0.0},
        "optim": {"learning_rate": 0.003, "warmup": min(50, steps), "schedule": "cosine"},
        "training": {
            "steps": steps,
            "eval_every": max(1, steps // 5),
            "save_every": max(1, steps // 5),
            "seed": seed,
            "device": "cpu",
            "threads": 1,
            "tensorboard": False,
        },
    }


def judge_network(taggers: Sequence[Tagger], network: str, *, count: int) -> NetworkResult:
    """Return the mistakes of the networks of all seeds, and their answers on the sentences of the courses."""
    points = []
    for clauses in CLAUSES_TESTED:
        for attractor in (False, True) if clauses else (False,):
            how = partial(relative_clauses.sentence, 0, clauses=clauses, attractor=attractor, testing=True)
            test_sentences = [how(number) for number in range(count)]
            mistakes = [count_mistakes(tagger, test_sentences) for tagger in taggers]
            points.append(Point(clauses, attractor, count, mistakes))
    parameters = sum(weight.numel() for weight in taggers[0].model.parameters())
    accepted = [_count_tags(taggers, f"{course.beginning} {course.right}", RIGHT) for course in COURSE_SENTENCES]
    rejected = [_count_tags(taggers, f"{course.beginning} {course.wrong}", WRONG) for course in COURSE_SENTENCES]
    return NetworkResult(network, parameters, points, accepted, rejected)


def _count_tags(taggers: Sequence[Tagger], text: str, tag: str) -> int:
    """Return the number of taggers that give this tag to the last word of a text."""
    return sum(tagger.tag([text])[0].tags[-1] == tag for tagger in taggers)
