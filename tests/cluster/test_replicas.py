"""`regard serve --ray`: of two replicas under load one is killed; clients that disconnect free what they held."""

import http.client
import json
import re
import signal
import socket
import threading
import time

import pytest

from tests.cluster.processes import PATIENCE, SMALL, named, running, wait_for

pytest.importorskip("ray", reason="ray is not installed (pip install -e '.[ray]')")
pytestmark = [pytest.mark.cluster, pytest.mark.unchecked]
REPLICA = "ServeReplica"
CLIENTS = 8
SHORT = {"inputs": ["Le roi dort."], "options": {"beams": 1}}
LONG = {"inputs": ["Le roi dort. " * 40], "options": {"beams": 8, "split": False}}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ask(port: int, path: str, body: dict | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        if body is None:
            connection.request("GET", path)
        else:
            connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


class Load(threading.Thread):
    """A client that sends one request after the other."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.port, self.failures, self.answered, self.is_over = port, [], 0, False

    def run(self) -> None:
        while not self.is_over:
            try:
                status, body = ask(self.port, "/v1/translate", SHORT)
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(repr(error).encode())
                continue
            if status == 200:
                self.answered += 1
            else:
                self.failures.append(body)


def test_a_replica_that_is_killed_costs_what_it_held_and_is_replaced(tmp_path):
    log, port = tmp_path / "log", free_port()
    with running(
        log, "serve", str(SMALL), "--ray", "--replicas", "2", "--port", str(port), "--device", "cpu"
    ) as process:
        wait_for(lambda: "ready: " in log.read_text(), process, log)
        clients = [Load(port) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        least = wait_for(lambda: min(count_answers(port)) if min(count_answers(port)) > 20 else 0, process, log)
        victim, survivor = named(process, REPLICA)
        victim.kill()
        begun = time.monotonic()
        wait_for(lambda: {*named(process, REPLICA)} - {victim, survivor}, process, log)
        answered = [client.answered for client in clients]
        wait_for(lambda: any(0 < count < least for count in count_answers(port)), process, log)  # it began at 0
        print(f"two replicas again after {time.monotonic() - begun:.1f} s")
        wait_for(
            lambda: all(client.answered > before for client, before in zip(clients, answered, strict=True)),
            process,
            log,
        )
        for client in clients:
            client.is_over = True
        for client in clients:
            client.join(PATIENCE)
        failures = [failure for client in clients for failure in client.failures]
        assert len(failures) <= CLIENTS, failures  # each client had at most one request there
        assert not [body for body in failures if b"Traceback" in body or b"/" in body]
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0, log.read_text()


def count_answers(port: int) -> list[int]:
    """How many translations the replicas have counted that answer a few looks; which one does is left to Ray."""
    counts = []
    for _ in range(8):
        status, text = ask(port, "/metrics")
        found = re.search(rb'regard_requests_total\{route="/v1/translate",status="200"\} (\d+)', text)
        counts.append(int(found[1]) if status == 200 and found else 0)
    return counts


def test_a_client_that_disconnects_frees_its_rows(tmp_path):
    log, port = tmp_path / "log", free_port()
    with running(log, "serve", str(SMALL), "--ray", "--port", str(port), "--device", "cpu") as process:
        wait_for(lambda: "ready: " in log.read_text(), process, log)
        wait_for(lambda: is_freed_when_gone(port), process, log)
        assert ask(port, "/readyz")[0] == 200


def is_freed_when_gone(port: int) -> bool:
    """Send a long request, look that it is held, disconnect, and wait until nothing is; False if it was too quick."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("POST", "/v1/translate", json.dumps(LONG), {"content-type": "application/json"})
    seen = False
    for _ in range(100):
        seen = seen or b"regard_open_calls 1" in ask(port, "/metrics")[1]
        if seen:
            break
    connection.close()
    end = time.monotonic() + PATIENCE
    while b"regard_open_calls 0" not in ask(port, "/metrics")[1]:
        assert time.monotonic() < end
    return seen
