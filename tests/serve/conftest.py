"""Fixtures of the server's tests; what they need is imported late, for where the packages of a server are missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

import regard

if TYPE_CHECKING:
    from tests.serve.harness import Counter, Running
    from tests.serve.process import ServerProcess


@pytest.fixture(scope="session")
def box() -> dict[str, Any]:
    """The models that come with Regard."""
    models = {name: regard.load(name, device="cpu") for name in ("en-fr", "stories", "encoder")}
    return models | {"encoder fill": regard.load("encoder", device="cpu", task="masked-lm")}


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """`regard serve` with the models that come with Regard, and jobs, as a process of its own."""
    from tests.serve.process import run_server

    folder = tmp_path_factory.mktemp("served")
    words = ["--jobs", str(folder / "jobs"), "-s", "running=2", "-s", "deadline=600"]
    with pytest.MonkeyPatch.context() as patch, run_server(folder / "log", *words) as server:
        patch.setenv("NO_PROXY", "127.0.0.1")  # which clients of others heed
        yield server


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A process with a small translator that wants one of two keys, and takes few requests in a minute."""
    from tests.serve.process import KEYS, SMALL, run_server

    folder = tmp_path_factory.mktemp("guarded")
    (folder / "keys.txt").write_text("\n".join(KEYS))
    words = [str(SMALL), "--key-file", str(folder / "keys.txt"), "-s", "per_minute=30"]
    with pytest.MonkeyPatch.context() as patch, run_server(folder / "log", *words) as server:
        patch.setenv("NO_PROXY", "127.0.0.1")
        yield server


@pytest.fixture
def counter() -> Counter:
    """A model that answers at once."""
    from tests.serve.harness import Counter

    return Counter()


@pytest.fixture(scope="module")
def shop(box: dict[str, Any]) -> Iterator[Running]:
    """A server with models that come with Regard; other modules set the clock, by which its loop would stand still."""
    from tests.serve.harness import serving

    with serving(box) as running:
        yield running


@pytest.fixture
def desk(counter: Counter) -> Iterator[Running]:
    """A server with a model that answers at once, and a picture classifier whose weights are random."""
    from tests.serve.harness import make_eye, serving

    models = {"counter": counter, "eye": make_eye()}
    with serving(models, body_bytes=4096, receive_seconds=1.5) as running:
        yield running
