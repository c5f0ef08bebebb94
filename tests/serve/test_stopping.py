"""How a server ends: by a signal under load, by two signals, by a kill with jobs under way (S15, S19)."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

import regard
from tests.serve.process import PATIENCE, SMALL, ServerProcess, run_server, wait_until

pytestmark = pytest.mark.unchecked
TEXT = "Le roi dort. "
SLOW = {"inputs": [TEXT * 40], "options": {"beams": 8, "split": False}}
ROWS = 'regard_rows{model="format-1"}'


class Load:
    """Clients that ask one request after the other until the server is gone."""

    def __init__(self, server: ServerProcess, clients: int) -> None:
        self.server, self.statuses = server, [[] for _ in range(clients)]
        self.broken: list[BaseException] = []
        self.threads = [threading.Thread(target=self._ask, args=(statuses,)) for statuses in self.statuses]

    def _ask(self, statuses: list[int]) -> None:
        while True:
            try:
                answer = httpx.post(
                    f"{self.server.url}/v1/translate", json={"inputs": [TEXT] * 2}, timeout=PATIENCE, trust_env=False
                )
            except httpx.ConnectError:
                return  # it accepts no more
            except httpx.HTTPError as error:
                self.broken.append(error)
                return
            statuses.append(answer.status_code)

    def __enter__(self) -> Load:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for thread in self.threads:
            thread.join(PATIENCE)
        assert not any(thread.is_alive() for thread in self.threads)


def leaves_no_orphan(server: ServerProcess) -> bool:
    """True if no process of the server's group is left."""
    try:
        os.killpg(server.process.pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_signal_under_load_finishes_what_runs(tmp_path):
    """S15: readiness goes first, every accepted request is answered, exit status 0, no process is left."""
    with run_server(tmp_path / "log", str(SMALL), "-s", "drain_seconds=4", "-s", "deadline=600") as server:
        slow: list[httpx.Response] = []
        ask = threading.Thread(
            target=lambda: slow.append(
                httpx.post(f"{server.url}/v1/translate", json=SLOW, timeout=PATIENCE, trust_env=False)
            )
        )
        with Load(server, 4) as load, server.client() as client:
            wait_until(lambda: all(load.statuses))
            ask.start()
            wait_until(lambda: server.read_metrics().get(ROWS, 0) >= 1 or slow)
            server.process.send_signal(signal.SIGTERM)
            wait_until(lambda: "stopping" in server.log.read_text())
            assert client.get("/readyz").status_code == 503
        ask.join(PATIENCE)
        assert server.process.wait(PATIENCE) == 0
        assert [answer.status_code for answer in slow] == [200]
        assert {status for statuses in load.statuses for status in statuses} == {200}
        assert not [
            error for error in load.broken if not isinstance(error, httpx.ReadError | httpx.RemoteProtocolError)
        ]
        assert leaves_no_orphan(server)


def test_a_second_signal_ends_it_at_once(tmp_path):
    """S15."""
    with run_server(tmp_path / "log", str(SMALL), "-s", "drain_seconds=600", "-s", "deadline=600") as server:
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "stopping" in server.log.read_text())
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(PATIENCE) == 1
        assert "stopped at once" in server.log.read_text()
        assert leaves_no_orphan(server)


def answers_of(folder: Path) -> list[dict[str, Any]]:
    """The whole lines of the answers of the only job in a folder."""
    [file] = folder.glob("*/answers.jsonl")
    return [json.loads(line) for line in file.read_bytes().split(b"\n")[:-1]]


def finish_after_kills(folder: Path, log: Path, inputs: list[str], kills: list[float]) -> list[dict[str, Any]]:
    """Kill the server at these shares of a job, start it again each time, and return the answers in the end."""
    words = [str(SMALL), "--jobs", str(folder), "-s", "deadline=600"]
    before: list[dict[str, Any]] = []
    for number, share in enumerate([*kills, 1.0]):
        with run_server(log, *words) as server, server.client() as client:
            if not number:
                client.post("/v1/jobs", json={"verb": "translate", "inputs": inputs}).raise_for_status()
            assert answers_of(folder)[: len(before)] == before, "what was finished is kept"
            wait_until(lambda share=share: len(answers_of(folder)) >= share * len(inputs))
            if share < 1:
                os.killpg(server.process.pid, signal.SIGKILL)
                server.process.wait(PATIENCE)
        before = answers_of(folder)
    return before


def check_job(tmp_path: Path, count: int, kills: list[float]) -> None:
    """Each input is answered exactly once, in its place, whatever was killed in between."""
    inputs = [f"Le roi {'dort ' * (number % 5)}{number}." for number in range(count)]
    answers = finish_after_kills(tmp_path / "jobs", tmp_path / "log", inputs, kills)
    alone = [answer.text for answer in regard.load(SMALL, device="cpu").answer(inputs)]
    assert [answer["translation"] for answer in answers] == alone


def test_a_job_is_finished_exactly_once_after_a_kill(tmp_path):
    """S19."""
    check_job(tmp_path, 48, [0.3])


@pytest.mark.faults
def test_a_job_is_finished_exactly_once_after_many_kills(tmp_path):
    seed = time.time_ns() % 2**32
    print(f"seed {seed}")
    chance = random.Random(seed)
    check_job(tmp_path, 400, sorted(chance.random() for _ in range(12)))
