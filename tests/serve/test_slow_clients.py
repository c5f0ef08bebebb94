"""Slow senders and deaf readers beside a client like any other, whose answers they must not hold up (S3)."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.serve.process import SMALL, ServerProcess, run_server

pytestmark = [pytest.mark.unchecked, pytest.mark.faults]
SLOW, ROUNDS, REQUESTS = 20, 6, 60
RATIO, SLACK = 2.0, 0.02  # how much longer the slowest hundredth may take, and seconds that any machine may


@contextlib.contextmanager
def slow_clients(server: ServerProcess) -> Iterator[None]:
    """Clients that send a letter now and then, and others that ask for much and read nothing."""
    over = threading.Event()
    head = b"POST /v1/translate HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n"
    with contextlib.ExitStack() as stack:

        def connect() -> socket.socket:
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(1)
            connection.connect(("127.0.0.1", server.port))
            return connection

        drippers, deaf = [connect() for _ in range(SLOW)], [connect() for _ in range(SLOW)]
        for connection in deaf:
            with contextlib.suppress(OSError):  # it is full
                connection.sendall(b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n" * 100)

        def drip() -> None:
            for place in range(len(head)):
                for connection in drippers:
                    with contextlib.suppress(OSError):  # it was let go
                        connection.sendall(head[place : place + 1])
                if over.wait(0.05):
                    return

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def measure_seconds(client: httpx.Client) -> list[float]:
    """Return how long each of some requests took."""
    seconds = []
    for number in range(REQUESTS):
        began = time.perf_counter()
        assert client.post("/v1/translate", json={"inputs": f"Le roi dort {number}."}).status_code == 200
        seconds.append(time.perf_counter() - began)
    return seconds


def slowest_hundredth(seconds: list[float]) -> float:
    return sorted(seconds)[int(0.99 * len(seconds))]


def test_the_slowest_hundredth_of_a_normal_client_at_most_doubles(tmp_path):
    """In turn with and without slow clients, so that whatever else the machine does falls on both."""
    alone: list[float] = []
    beside: list[float] = []
    words = [str(SMALL), "-s", "receive_seconds=60", "-s", "send_seconds=60"]
    with run_server(tmp_path / "log", *words) as server, server.client() as client:
        measure_seconds(client)
        for _ in range(ROUNDS):
            alone += measure_seconds(client)
            with slow_clients(server):
                beside += measure_seconds(client)
    print(f"p99 alone {slowest_hundredth(alone):.4f} s, beside slow clients {slowest_hundredth(beside):.4f} s")
    assert slowest_hundredth(beside) <= RATIO * slowest_hundredth(alone) + SLACK
