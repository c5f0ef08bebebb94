"""More than a server can take: ten times the load, and a machine without memory left (S1, S9)."""

from __future__ import annotations

import resource
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.serve.process import SMALL, ServerProcess, run_server, wait_until

pytestmark = [pytest.mark.unchecked, pytest.mark.faults]
RUNNING, QUEUE, TIMES = 2, 4, 10
SLACK = 3  # how much slower than one after the other a busy machine may be
ROUTE = "/v1/translate"
SLOW = {"inputs": ["Le roi dort. " * 40], "options": {"beams": 8, "split": False}}
SPARE = 48 << 20  # bytes that a server may still take, beyond those it has


def test_ten_times_the_load_is_answered_or_refused_at_once(tmp_path):
    """S1: nothing is lost, what is accepted is answered within a bounded time, refusals do not wait for it."""
    sent = TIMES * (RUNNING + QUEUE)
    start, order, lock = threading.Barrier(sent + 1), [], threading.Lock()
    seconds: list[float] = []
    words = [str(SMALL), "-s", f"running={RUNNING}", "-s", f"queue={QUEUE}", "-s", "deadline=600"]
    with run_server(tmp_path / "log", *words) as server:

        def ask(_: int) -> httpx.Response:
            with server.client() as client:
                start.wait()
                began = time.monotonic()
                answer = client.post(ROUTE, json=SLOW)
            with lock:
                order.append(answer.status_code)
                if answer.status_code == 200:
                    seconds.append(time.monotonic() - began)
            return answer

        with server.client() as client:
            client.post(ROUTE, json=SLOW)
            began = time.monotonic()
            client.post(ROUTE, json=SLOW)
            alone = time.monotonic() - began
        before = server.read_metrics()[f'regard_requests_total{{route="{ROUTE}",status="200"}}']
        with ThreadPoolExecutor(sent) as pool:
            calls = [pool.submit(ask, number) for number in range(sent)]
            start.wait()
            answers = [call.result() for call in calls]
        counts = Counter(answer.status_code for answer in answers)
        assert set(counts) == {200, 429}
        assert counts[200] + counts[429] == sent
        assert counts[200] >= RUNNING + QUEUE
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in answers if answer.status_code == 429)
        assert 429 in order[: RUNNING + QUEUE], "whoever is refused does not wait for others to be answered"
        samples = server.read_metrics()
        for status, count in counts.items():
            earlier = before if status == 200 else 0
            assert samples[f'regard_requests_total{{route="{ROUTE}",status="{status}"}}'] == earlier + count
        print(f"{alone:.2f} s alone, at most {max(seconds):.2f} s of {len(seconds)} accepted of {sent}")
        assert max(seconds) < SLACK * (RUNNING + QUEUE) * alone, "whoever is accepted waits for those before it only"
        assert server.is_idle()
        with server.client() as client:
            assert client.post(ROUTE, json=SLOW).status_code == 200


def virtual_bytes(server: ServerProcess) -> int:
    """Return the address space of the server."""
    return resource.getpagesize() * int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[0])


def test_without_memory_it_refuses_and_lives(tmp_path):
    """S9: the kernel gives it no more; with memory again it answers as before."""
    text = "The old man walks slowly along the river. " * 14
    large = {"inputs": [text] * 32, "options": {"to": "fr", "beams": 8, "split": False}}
    small = {"inputs": ["Good morning."], "options": {"to": "fr"}}
    with run_server(tmp_path / "log", "en-fr", "-s", "deadline=600") as server, server.client() as client:
        before = client.post(ROUTE, json=small).json()
        limits = resource.prlimit(server.process.pid, resource.RLIMIT_AS)
        resource.prlimit(server.process.pid, resource.RLIMIT_AS, (virtual_bytes(server) + SPARE, limits[1]))
        refused = client.post(ROUTE, json=large)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "out_of_memory")
        wait_until(server.is_idle)
        resource.prlimit(server.process.pid, resource.RLIMIT_AS, limits)
        assert client.post(ROUTE, json=small).json() == before
        assert client.get("/readyz").status_code == 200
