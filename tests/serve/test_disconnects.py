"""A client that goes away in any phase of its request frees what it held (S2)."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from regard.decoding.engine import Engine
from tests.serve.harness import serving
from tests.serve.process import PATIENCE, ServerProcess, wait_until

pytestmark = pytest.mark.unchecked
LONG = {"model": "stories", "prompt": "Once upon a time", "max_tokens": 1000, "temperature": 0.7}
OPEN, GONE = "regard_open_calls", 'regard_requests_total{route="/v1/completions",status="499"}'


@contextlib.contextmanager
def asking(port: int, payload: dict[str, Any], *, share: float = 1.0) -> Iterator[socket.socket]:
    """A connection over which a request was sent, or only the first share of its body."""
    body = json.dumps(payload).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body)
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        connection.sendall(head + body[: int(share * len(body))])
        yield connection


def count(server: ServerProcess, sample: str) -> float:
    """Return a sample of /metrics; 0 if there is none yet."""
    return server.read_metrics().get(sample, 0)


def test_while_its_body_is_sent(served):
    before = count(served, GONE)
    with asking(served.port, LONG, share=0.5):
        assert count(served, OPEN) == 0
    wait_until(lambda: count(served, GONE) == before + 1)
    assert served.is_idle()


def test_while_its_request_waits_and_while_it_is_decoded(served):
    """The process runs two requests of a model at a time: of three, one waits."""
    before = count(served, GONE)
    with asking(served.port, LONG), asking(served.port, LONG):
        wait_until(lambda: count(served, OPEN) == 2)
        with asking(served.port, LONG):
            wait_until(lambda: count(served, OPEN) == 3)
            wait_until(lambda: count(served, 'regard_rows{model="stories"}') == 2)
        wait_until(lambda: count(served, GONE) == before + 1)
        wait_until(lambda: count(served, OPEN) == 2)
    wait_until(lambda: count(served, GONE) == before + 3)
    wait_until(served.is_idle)


def test_while_its_answer_is_streamed(served):
    with asking(served.port, {**LONG, "stream": True}) as connection:
        assert connection.recv(64).startswith(b"HTTP/1.1 200")
        wait_until(lambda: count(served, 'regard_rows{model="stories"}') == 1)
    wait_until(served.is_idle)


def test_while_its_source_is_read(box, monkeypatch):
    """It is not decoded at all: the row is free before the first step."""
    began, go_on = threading.Event(), threading.Event()
    stack, steps = Engine.stack, []

    def read_slowly(engine: Engine, requests: Any, *sizes: Any, **named: Any) -> Any:
        began.set()
        assert go_on.wait(PATIENCE)
        return stack(engine, requests, *sizes, **named)

    with serving({"stories": box["stories"]}) as shop:
        monkeypatch.setattr(Engine, "stack", read_slowly)
        began.clear()
        with asking(shop.port, LONG):
            assert began.wait(PATIENCE)
        [worker] = shop.server.state.worker.workers
        shop.until(lambda: any(call.is_cancelled for call in worker._queues["stories"].running.values()))
        step = Engine.step
        monkeypatch.setattr(Engine, "step", lambda engine: (steps.append(engine), step(engine)))
        go_on.set()
        shop.until(lambda: not shop.gauge("stories") and not shop.gauge("open"))
    assert not steps
