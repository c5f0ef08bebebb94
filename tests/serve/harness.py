"""What tests of the server share: small real models that fail when they are told to, and servers of this process."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import torch

from regard import models
from regard.models.vit import ViTConfig
from regard.serve.access import Keys
from regard.serve.catalogue import Catalogue, ServedModel
from regard.serve.limits import Limits
from regard.serve.run_view import RunView
from regard.serve.server import Address, Server, make_server
from regard.serve.worker import Worker
from regard.tasks.images.classifier import ImageClassifier
from regard.tasks.trained import DirectAnswers, NoOptions


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
        self.release = threading.Event()

    def answer(self, inputs: Sequence[str], **options: Any) -> list[Count]:
        """Count the letters of each text."""
        self.batches.append(list(inputs))
        if "slow" in inputs:
            assert self.release.wait(60)
        if "poison" in inputs:
            raise RuntimeError("weights at /home/somebody/model.bin, 0x7f31a2b3c4d5")
        if len(inputs) > self.most:
            raise torch.OutOfMemoryError("out of memory")
        if "bad" in inputs:
            raise ValueError("/home/somebody/text.txt: this word is not liked: leave it out")
        return [Count(text, len(text)) for text in inputs]


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


@dataclass
class Running:
    """A server that runs in a thread of this process, on a port of its own."""

    url: str
    server: Server
    lines: list[str]
    """What it logged."""

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def client(self, **headers: str) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=600, headers=headers, trust_env=False)

    def gauge(self, name: str) -> float:
        """Return a gauge of the metrics, without asking the server over HTTP."""
        worker = self.server.state.worker
        return worker.open_calls if name == "open" else worker.count_rows().get(name, 0)

    def until(self, condition: Callable[[], Any]) -> None:
        """Wait until something is so; one who waits in vain fails."""
        end = time.monotonic() + 600
        while not condition():
            assert time.monotonic() < end, "waited in vain"
            time.sleep(0.005)


def catalogue_of(models: dict[str, Any]) -> Catalogue:
    """The models by their keys, each under the first word of its key."""
    return Catalogue([ServedModel(key.split()[0], key, trained) for key, trained in models.items()])


@contextmanager
def serving(
    models: dict[str, Any] | Catalogue,
    *,
    keys: Sequence[str] = (),
    jobs_folder: Path | None = None,
    copies: Sequence[Catalogue] = (),
    watched_devices: Sequence[str] = (),
    run: RunView | None = None,
    port: int = 0,
    **limits: Any,
) -> Iterator[Running]:
    """A server, on a free port unless one is named; it is ready, and stopped at the end."""
    lines: list[str] = []
    catalogue = models if isinstance(models, Catalogue) else catalogue_of(models)
    server = make_server(
        catalogue,
        Limits(**limits),
        Address(port=port),
        keys=Keys(keys),
        jobs_folder=jobs_folder,
        copies=copies,
        watched_devices=watched_devices,
        log=lines.append,
    )
    server.state.run = run
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    end = time.monotonic() + 600
    while not server.state.is_warm:
        assert thread.is_alive(), lines
        assert time.monotonic() < end, lines
        time.sleep(0.005)
    try:
        yield Running(server.url, server, lines)
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()
        assert not server.state.worker.alive


def make_eye() -> ImageClassifier:
    """A classifier of pictures that has learnt nothing."""
    torch.manual_seed(0)
    model = models.build(ViTConfig(size=16, patch=4, width=16, heads=2, hidden=16, depth=1, classes=2))
    return ImageClassifier(model.eval(), ["red", "blue"], {"mean": [0.5] * 3, "std": [0.5] * 3}, "eye")
