"""What every test starts from: one thread, fixed seeds, checked tensor shapes, a cache of its own."""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # read once, when torch loads
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import functools
import gc
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
import typer.testing
from filelock import FileLock
from jaxtyping import config

from tests import checking, packages

checking.install()  # JAXTYPING_DISABLE=1 turns it off

torch.set_num_threads(1)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a suite started in the background would hear no Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)

if hypothesis := packages.import_optional("hypothesis"):
    hypothesis.settings.register_profile(
        "regard",
        derandomize=True,
        database=None,
        deadline=None,
        max_examples=20,
        suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture, hypothesis.HealthCheck.too_slow],
    )
    hypothesis.settings.load_profile("regard")


os.fsync = lambda descriptor: None  # nobody pulls the plug meanwhile; test_checkpoint sees that it is called

for kind in (torch.cuda, torch.xpu, torch.mtia):
    if not kind.is_available():
        kind.manual_seed_all = lambda seed: None  # torch keeps it for later otherwise, with the whole stack that set it


if hasattr(typer.testing, "_get_command"):  # which makes all commands anew for every call, in the versions known
    typer.testing._get_command = functools.cache(typer.testing._get_command)


SELDOM = 20_000  # things made between two searches for garbage; Python's own 700 takes longer than what it finds


MANY = 500  # tests among which some surely make an optimizer


def pytest_report_header() -> list[str]:
    """Say what this run does not check."""
    return [] if checking.BEARTYPE else ["types and tensor shapes are not checked: beartype is not installed"]


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module:
    """Modules whose packages may be missing are skipped with the reason."""
    return packages.Module.from_parent(parent, path=module_path)


def pytest_collection() -> None:
    """What is imported and collected stays: there is nothing to look for until tests run."""
    gc.disable()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """Two workers read the tests from opposite ends: in a fresh clone each compiles what the other finds compiled."""
    report = yield
    if isinstance(collector, pytest.Directory) and os.environ.get("PYTEST_XDIST_WORKER") == "gw1":
        report.result.reverse()
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest test comes first, so that no worker waits for another; those that need CUDA get the mark for it."""
    for item in items:
        if any("CUDA" in mark.kwargs.get("reason", "") for mark in item.iter_markers("skipif")):
            item.add_marker("cuda")
    items.sort(key=lambda item: (item.path.name != "test_scenario.py", item.path))


def pytest_collection_finish(session: pytest.Session) -> None:
    """What lives until the end, such as modules and tests, is never searched for garbage, and the rest seldom."""
    if len(session.items) > MANY:
        import_module("torch._dynamo")  # what the first optimizer would import: very many things that stay
    gc.freeze()
    gc.set_threshold(SELDOM, 10, 10)
    gc.enable()


def pytest_unconfigure() -> None:
    """At the end everything goes."""
    gc.unfreeze()


@pytest.fixture(autouse=True)
def seeds() -> None:
    """Every test starts from the same random state, whatever ran before it."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@contextmanager
def unchecked() -> Iterator[None]:
    """Without the check of tensor shapes, which takes a third of the time of a training."""
    config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        config.update("jaxtyping_disable", False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Checks begin anew with every test; there are none in one that is marked as unchecked, nor in its fixtures."""
    checking.TEST.number += 1
    with unchecked() if item.get_closest_marker("unchecked") else nullcontext():
        return (yield)


@pytest.fixture(autouse=True, scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache folder of this session's own, never the user's; child processes inherit it."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(folder))
        yield folder


@dataclass(frozen=True)
class Corpus:
    """Two line-aligned text files and what is in them."""

    source: Path
    target: Path
    pairs: list[tuple[str, str]]


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    """A tiny French-English corpus with a grammar: 180 pairs in `train.fr` and `train.en`, in a fixed mixed order."""
    pairs = sentences()
    source, target = tmp_path / "train.fr", tmp_path / "train.en"
    source.write_text("".join(f"{french}\n" for french, _ in pairs), encoding="utf-8")
    target.write_text("".join(f"{english}\n" for _, english in pairs), encoding="utf-8")
    return Corpus(source, target, pairs)


def sentences() -> list[tuple[str, str]]:
    """Every sentence of a small grammar; adjectives change sides, so the alignment is not the diagonal."""
    nouns = [("chat", "cat"), ("chien", "dog"), ("garçon", "boy"), ("veau", "calf"), ("roi", "king"), ("loup", "wolf")]
    adjectives = [("", ""), ("noir", "black"), ("blanc", "white"), ("fatigué", "tired"), ("français", "French")]
    verbs = [("dort", "sleeps"), ("mange", "eats"), ("court vite", "runs fast")]
    endings = [(".", "."), (" !", "!")]
    pairs = [
        (
            f"Le {noun[0]} {adjective[0]} {verb[0]}".replace("  ", " ") + end[0],
            f"The {adjective[1]} {noun[1]} {verb[1]}".replace("  ", " ") + end[1],
        )
        for noun, adjective, verb, end in product(nouns, adjectives, verbs, endings)
    ]
    random.Random(0).shuffle(pairs)
    return pairs


SMALL = {
    "task": "translation",
    "data": {"batch_tokens": 512, "max_length": 64},
    "tokenizer": {"vocab": 320},
    "model": {"width": 64, "heads": 4, "hidden": 128, "encoder": 1, "decoder": 1, "norm": "pre", "dropout": 0.0},
    "optim": {"learning_rate": 0.01, "warmup": 20},
    "training": {"steps": 150, "eval_every": 75, "save_every": 75, "log_every": 30, "tensorboard": False},
    "decoding": {"beams": 2},
}
"""A recipe that learns the little grammar in seconds; `data.train` is still to be named."""


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """The run folder of a model that has learnt the little grammar; nobody writes into it, and all workers share it."""
    place = tmp_path_factory.getbasetemp()
    place = (place.parent if "PYTEST_XDIST_WORKER" in os.environ else place) / "trained"
    with FileLock(f"{place}.lock"):
        return place / "run" if place.exists() else _train(place)


def _train(place: Path) -> Path:
    from regard import recipe

    place.mkdir()
    for side, texts in zip(("fr", "en"), zip(*sentences(), strict=True), strict=True):
        (place / f"train.{side}").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    files = {"source": str(place / "train.fr"), "target": str(place / "train.en")}
    settings = {**SMALL, "data": {**SMALL["data"], "train": files}}
    with unchecked():
        return recipe.train(settings, out=place / "run", quiet=True).folder


@pytest.fixture
def few_aligned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fifth of the sentences aligned by hand: what is measured on them is measured in a fifth of the time."""
    from regard.metrics import alignment

    golds = alignment.read()[:20]
    monkeypatch.setattr(alignment, "read", lambda: list(golds))
