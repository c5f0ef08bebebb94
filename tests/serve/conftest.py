"""Fixtures of the server's tests; what they need is imported late, for where the packages of a server are missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

import regard

if TYPE_CHECKING:
    from tests.serve.harness import Counter, Running


@pytest.fixture(scope="session")
def box() -> dict[str, Any]:
    """The models that come with Regard."""
    models = {name: regard.load(name, device="cpu") for name in ("en-fr", "stories", "encoder")}
    return models | {"encoder fill": regard.load("encoder", device="cpu", task="masked-lm")}


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
