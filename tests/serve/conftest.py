"""What tests of the server share: two of the models in the box, and small real ones that fail when they are told to."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import torch

import regard
from regard.serve.limits import Limits
from regard.serve.worker import Worker
from regard.tasks.trained import DirectAnswers, NoOptions


@pytest.fixture(scope="session")
def box() -> dict[str, Any]:
    """The translator and the writer of stories that come with Regard."""
    return {name: regard.load(name, device="cpu") for name in ("en-fr", "stories")}


@dataclass(frozen=True)
class Count:
    """How many letters a text has."""

    text: str
    letters: int

    def __str__(self) -> str:
        return str(self.letters)

    def plain(self) -> dict[str, Any]:
        return {"letters": self.letters}


class Counter(DirectAnswers):
    """Counts letters; some words make it fail, as an input may make a model fail."""

    task, verb, kind, Options = "counting letters", "measure", "a counter of letters", NoOptions

    def __init__(self) -> None:
        self.name, self.model = "counter", torch.nn.Identity()
        self.batches: list[list[str]] = []
        self.most = 1 << 30

    def answer(self, inputs: Sequence[str], **options: Any) -> list[Count]:
        """Count the letters of each text."""
        self.batches.append(list(inputs))
        if "slow" in inputs:
            time.sleep(0.3)
        if "poison" in inputs:
            raise RuntimeError("weights at /home/somebody/model.bin, 0x7f31a2b3c4d5")
        if len(inputs) > self.most:
            raise torch.OutOfMemoryError("out of memory")
        if "bad" in inputs:
            raise ValueError("/home/somebody/text.txt: this word is not liked: leave it out")
        return [Count(text, len(text)) for text in inputs]


@pytest.fixture
def counter() -> Counter:
    """A model that answers at once."""
    return Counter()


@contextmanager
def working(models: dict[str, Any], **limits: Any) -> Iterator[Worker]:
    """A worker for some models, which is stopped at the end."""
    worker = Worker(models, Limits(**limits))
    worker.start()
    try:
        yield worker
    finally:
        worker.stop()
        assert not worker.alive
