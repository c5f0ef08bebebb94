"""Many requests of all kinds to one server, some of whose clients go away: nothing may grow with their number (S16).

python -m tests.serve.soak 20000
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.serve.process import PATIENCE, ServerProcess, run_server, wait_until

CLIENTS = 8
MEASUREMENTS = 40  # measurements of the server while it is asked
SETTLED = 0.4  # the share of requests after which caches are filled and memory may no longer grow
MAX_GROWTH = 512  # bytes of memory a request, beyond which there is a leak
MAX_SLACK = 24 << 20  # bytes by which memory may differ however few requests there were
WORDS = ("dog", "station", "morning", "river", "house", "old", "tired", "walks", "the", "a", "is", "where")
SAMPLES_OF_ROUTE = 26  # in /metrics: a histogram, and the statuses that a route may have
EXPLAIN_BYTES = 1 << 20  # of kept attention weights: full after some thirty explanations, and long before SETTLED
OPEN_FILES = 4  # descriptors more than before: connections that are being closed


@dataclass
class Report:
    """What came of the requests, and how the server was while they came."""

    statuses: Counter[str] = field(default_factory=Counter)
    memory: list[tuple[int, int]] = field(default_factory=list)
    """Requests so far, and bytes of memory."""
    descriptors: list[int] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
    """Samples of /metrics."""
    routes: int = 0
    seconds: float = 0.0

    def slope(self) -> float:
        """Return the bytes by which memory grew with each request after the first ones, by least squares."""
        settled = self.memory[int(SETTLED * len(self.memory)) :]
        mean_count = sum(count for count, _ in settled) / len(settled)
        mean_bytes = sum(size for _, size in settled) / len(settled)
        spread = sum((count - mean_count) ** 2 for count, _ in settled)
        return sum((count - mean_count) * (size - mean_bytes) for count, size in settled) / max(spread, 1.0)

    def faults(self, requests: int) -> list[str]:
        """Return what is wrong, one line each."""
        wrong = []
        if sum(self.statuses.values()) != requests:
            wrong.append(f"{requests} requests were sent and {sum(self.statuses.values())} were answered or left")
        if bad := [status for status in self.statuses if status.startswith("5") or status == "broken"]:
            wrong.append(f"unexpected outcomes: {', '.join(bad)}")
        grown = (1 - SETTLED) * requests * self.slope()
        if self.slope() > MAX_GROWTH and grown > MAX_SLACK:
            wrong.append(f"memory grows by {self.slope():,.0f} bytes a request")
        if self.descriptors[-1] > self.descriptors[0] + OPEN_FILES:
            wrong.append(f"{self.descriptors[0]} descriptors were open before and {self.descriptors[-1]} afterwards")
        if self.samples[-1] > self.routes * SAMPLES_OF_ROUTE:
            wrong.append(f"/metrics has {self.samples[-1]} samples of {self.routes} routes")
        return wrong

    def lines(self) -> Iterator[str]:
        """Yield the report as text."""
        total = sum(self.statuses.values())
        yield f"{total:,} requests in {self.seconds:,.0f} s, {total / self.seconds:.1f} a second"
        yield "outcomes: " + ", ".join(f"{name} {count:,}" for name, count in sorted(self.statuses.items()))
        sizes = [size / 2**20 for _, size in self.memory]
        yield f"memory: {sizes[0]:.1f} MiB at first, {sizes[-1]:.1f} MiB at last, at most {max(sizes):.1f} MiB"
        yield f"slope of memory after the first {SETTLED:.0%}: {self.slope():,.0f} bytes a request"
        before, after = self.descriptors[0], self.descriptors[-1]
        yield f"descriptors: {before} before, {after} after, at most {max(self.descriptors)}"
        yield f"samples of /metrics: {self.samples[0]} at first, {self.samples[-1]} at last, of {self.routes} routes"


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return 1024 * int(line.split()[1])


def open_descriptors(pid: int) -> int:
    """Return the number of open descriptors of a process."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def sentence(chance: random.Random) -> str:
    """Return a sentence of two to eight words."""
    return " ".join(chance.choices(WORDS, k=chance.randint(2, 8))).capitalize() + "."


def translation(chance: random.Random) -> tuple[str, str, Any]:
    return "POST", "/translate", {"q": sentence(chance), "source": chance.choice(["en", "auto"]), "target": "fr"}


def completion(chance: random.Random) -> tuple[str, str, Any]:
    asked = {"model": "stories", "prompt": sentence(chance), "max_tokens": chance.randint(1, 8)}
    return "POST", "/v1/completions", {**asked, "stream": chance.random() < 0.4}


def vectors(chance: random.Random) -> tuple[str, str, Any]:
    return "POST", "/v1/embeddings", {"model": "encoder", "input": [sentence(chance)]}


def verb(chance: random.Random) -> tuple[str, str, Any]:
    options = {"to": "fr", "beams": chance.randint(1, 2)}
    return "POST", "/v1/translate", {"inputs": sentence(chance), "options": options}


def nearest(chance: random.Random) -> tuple[str, str, Any]:
    return "POST", "/v1/search", {"inputs": sentence(chance), "texts": [sentence(chance) for _ in range(3)]}


def explanation(chance: random.Random) -> tuple[str, str, Any]:
    return "POST", "/v1/explain", {"model": "en-fr", "inputs": sentence(chance), "options": {"to": "fr"}}


def nonsense(chance: random.Random) -> tuple[str, str, Any]:
    """Return a request that must be refused: its name is new, or it breaks a limit."""
    name = f"{chance.random()}"
    return chance.choice(
        [
            ("GET", f"/{name}", None),
            ("GET", f"/v1/models/{name}", None),
            ("POST", "/v1/completions", {"model": name, "prompt": "x"}),
            ("POST", "/v1/embeddings", {"input": "x" * 20_001}),
            ("POST", "/translate", {"q": "x", "source": "en", "target": "xx"}),
            (f"X{chance.randint(0, 10**6)}", "/livez", None),
        ]
    )


def small(chance: random.Random) -> tuple[str, str, Any]:
    path = chance.choice(["/", "/livez", "/readyz", "/languages", "/v1/models", "/metrics", "/docs", "/openapi.json"])
    return "GET", path, None


KINDS: list[tuple[Callable[[random.Random], tuple[str, str, Any]], float]] = [
    (translation, 0.15),
    (completion, 0.15),
    (vectors, 0.2),
    (verb, 0.15),
    (nearest, 0.05),
    (explanation, 0.05),
    (nonsense, 0.15),
    (small, 0.1),
]
LEAVING = 0.05  # share of the clients that go away without their answer


def ask(server: ServerProcess, chance: random.Random, connection: http.client.HTTPConnection) -> str:
    """Send a request of a random kind; return what came of it."""
    [(make, _)] = chance.choices(KINDS, weights=[weight for _, weight in KINDS])
    method, path, payload = make(chance)
    body = None if payload is None else json.dumps(payload).encode()
    headers = {} if body is None else {"content-type": "application/json"}
    if chance.random() < LEAVING:
        leaver = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        leaver.request(method, path, body, headers)
        time.sleep(chance.random() * 0.05)
        leaver.close()
        return "left"
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    answer.read()
    return str(answer.status)


def soak(server: ServerProcess, requests: int, seed: int) -> Report:
    """Send the requests from several clients, and measure the server meanwhile."""
    report, lock, numbers = Report(), threading.Lock(), itertools.count()
    pid, every = server.process.pid, max(1, requests // MEASUREMENTS)

    def measure(count: int) -> None:
        report.memory.append((count, resident_bytes(pid)))
        report.samples.append(len(server.read_metrics()))

    def run_client(client: int) -> None:
        chance = random.Random(seed * CLIENTS + client)
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        while (number := next(numbers)) < requests:
            try:
                outcome = ask(server, chance, connection)
            except (http.client.HTTPException, OSError) as error:
                print(f"a request failed: {type(error).__name__}", file=sys.stderr)
                outcome = "broken"
                connection.close()
            with lock:
                report.statuses[outcome] += 1
                if number % every == 0:
                    measure(number)
        connection.close()

    with server.client() as client:
        report.routes = len(client.get("/openapi.json").json()["paths"])
    report.descriptors.append(open_descriptors(pid))
    began = time.monotonic()
    threads = [threading.Thread(target=run_client, args=(client,)) for client in range(CLIENTS)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        report.descriptors.append(open_descriptors(pid))
        time.sleep(1)
    report.seconds = time.monotonic() - began
    wait_until(server.is_idle)
    for _ in range(100):  # connections are closed a little later
        if open_descriptors(pid) > report.descriptors[0] + OPEN_FILES:
            time.sleep(0.1)
    measure(requests)
    report.descriptors.append(open_descriptors(pid))
    return report


def main() -> int:
    """Run the soak; return 1 if anything grew or failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("requests", type=int, help="how many requests are sent")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    words = ["-s", "deadline=300", "-s", "queue=1000", "-s", f"explain_bytes={EXPLAIN_BYTES}"]
    with tempfile.TemporaryDirectory() as folder, run_server(Path(folder) / "log", *words) as server:
        report = soak(server, chosen.requests, chosen.seed)
    print("\n".join(report.lines()))
    faults = report.faults(chosen.requests)
    print("\n".join(faults) or "nothing grew, nothing failed")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
