"""`regard serve` as a process of its own, as users start it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parent.parent.parent
SMALL = ROOT / "tests" / "checkpoints" / "format-1"
KEYS = ("a-key-that-nobody-guesses", "another-key-of-somebody")
PATIENCE = 600  # seconds that a busy machine may take for anything


@dataclass
class ServerProcess:
    """A server in a process group of its own."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path

    @property
    def port(self) -> int:
        """The port at which it listens."""
        return int(self.url.rpartition(":")[2])

    def client(self, **headers: str) -> httpx.Client:
        """Return an HTTP client of the server."""
        return httpx.Client(base_url=self.url, timeout=PATIENCE, headers=headers, trust_env=False)

    def read_metrics(self) -> dict[str, float]:
        """Return every sample of /metrics by its name with its labels."""
        text = httpx.get(f"{self.url}/metrics", timeout=PATIENCE, trust_env=False).text
        samples = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in samples}

    def is_idle(self) -> bool:
        """True if /metrics shows neither open calls nor rows."""
        samples = self.read_metrics()
        rows = sum(value for name, value in samples.items() if name.startswith("regard_rows"))
        return not rows and not samples["regard_open_calls"]


def wait_until(condition: Callable[[], Any]) -> None:
    """Wait until a condition holds; fail if that takes longer than any busy machine needs."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


@contextmanager
def run_server(log: Path, *words: str, port: int = 0) -> Iterator[ServerProcess]:
    """Run a server that is ready, on a free port by default; its output goes to a file, and nothing of it is left."""
    arguments = [sys.executable, "-m", "regard", "serve", *words, "--port", str(port), "--device", "cpu"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with log.open("wb") as file:
        process = subprocess.Popen(
            arguments, env=environment, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        address = re.compile(r"ready: (\S+)")
        wait_until(lambda: address.search(log.read_text()) or process.poll() is not None)
        ready = address.search(log.read_text())
        assert ready is not None, log.read_text()
        yield ServerProcess(process, ready[1], log)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE)
