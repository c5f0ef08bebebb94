"""Parts of the serving benchmark: what is asked, servers on a core of their own, and clients on another."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np
import psutil

from benchmarks.translate import EVERYDAY, sentences

ROOT = Path(__file__).parent.parent
SENTENCES = 128  # different ones of a run
LONG_TOKENS = 60
SHORT_WORDS = range(5, 9)
PATIENCE = 180.0  # seconds until a server must be ready
WARM_SHARE = 0.2  # of a timed run, before anything counts
CPU_PAUSE = 0.2  # seconds between two looks at the processor time of a server
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


# What is asked.


def mix_sentences(parliament: Path | None) -> list[str]:
    """Return English sentences, everyday ones and those of the parliament by turns; without a file everyday ones."""
    everyday = sentences(SENTENCES, EVERYDAY)
    if parliament is None:
        return everyday
    content = gzip.decompress(parliament.read_bytes()) if parliament.suffix == ".gz" else parliament.read_bytes()
    lines = [line.split("\t")[0] for line in content.decode("utf-8").splitlines() if line.strip()]
    speeches = random.Random(0).sample(lines, SENTENCES // 2)
    return [text for pair in zip(everyday, speeches, strict=False) for text in pair]


def mix_lengths(count_tokens: Any) -> list[tuple[str, str]]:
    """Return ten texts with their kinds: nine short ones and a sentence of about sixty tokens."""
    short = [text for text in sentences(2000) if len(text.split()) in SHORT_WORDS]
    clauses = [text.rstrip(".!?") for text in short if text.endswith(".")]
    long = clauses[0]
    for clause in clauses[1:]:
        if count_tokens(long) >= LONG_TOKENS:
            break
        long = f"{long}, and {clause[0].lower()}{clause[1:]}"
    mixed = [("short", text) for text in short[:9]] + [("long", f"{long}.")]
    random.Random(0).shuffle(mixed)
    return mixed


# Servers.


class CpuMeter(threading.Thread):
    """Notes the processor time of a server again and again, with the time of day."""

    def __init__(self, server: RunningServer) -> None:
        super().__init__(daemon=True)
        self.server, self.samples = server, [(time.time(), server.cpu_seconds())]
        self._is_over = threading.Event()

    def __enter__(self) -> CpuMeter:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        self.join()

    def run(self) -> None:
        """Take samples until the context ends."""
        while not self._is_over.wait(CPU_PAUSE):
            self.samples.append((time.time(), self.server.cpu_seconds()))

    def between(self, begin: float, end: float) -> float:
        """Return the seconds of processor time that the server took between two times of day."""
        times, seconds = zip(*self.samples, strict=True)
        return float(np.interp(end, times, seconds) - np.interp(begin, times, seconds))


@dataclass
class RunningServer:
    """A server under test, in a process of its own on the first core."""

    url: str
    process: psutil.Process
    seconds_to_ready: float

    def cpu_seconds(self) -> float:
        """Return the processor time of the server and its children so far."""
        total = 0.0
        for process in (self.process, *self.process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system
        return total


def split_cores() -> tuple[int, int]:
    """Return the core of the servers and that of the clients."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise ValueError("one core for the servers and one for the clients are needed: this process may use only one")
    return cores[0], cores[-1]


@contextlib.contextmanager
def run_server(command: Sequence[str], core: int | None, *, python: str = sys.executable) -> Iterator[RunningServer]:
    """Start a server on a free port, wait until it is ready, and end it with its children.

    It has a core of its own and one thread, or without a `core` all of them, as if a user had started it.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url, began = f"http://127.0.0.1:{port}", time.perf_counter()
    pinned = [] if core is None else ["taskset", "-c", str(core)]
    words = [*pinned, python, *command, "--port", str(port)]
    others = {name: value for name, value in os.environ.items() if name not in ONE_THREAD}
    environment = others | ({} if core is None else ONE_THREAD)
    with subprocess.Popen(
        words, env=environment, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as child:
        process = psutil.Process(child.pid)
        try:
            while not _is_ready(url):
                if child.poll() is not None or time.perf_counter() > began + PATIENCE:
                    raise RuntimeError(f"{' '.join(command)} did not start")
                time.sleep(0.02)
            yield RunningServer(url, process, time.perf_counter() - began)
        finally:
            family = [*process.children(recursive=True), process] if child.poll() is None else []
            for member in reversed(family):
                with contextlib.suppress(psutil.NoSuchProcess):
                    member.kill()
            child.wait()


def _is_ready(url: str) -> bool:
    try:
        with urlopen(f"{url}/readyz", timeout=5) as response:
            return bool(response.status == 200)
    except (URLError, OSError):
        return False


def time_directly(texts: Sequence[str], beams: int, core: int, folder: Path) -> list[float]:
    """Return the milliseconds of each text through `translate`, in a process of its own on the servers' core."""
    path = folder / "texts.json"
    path.write_text(json.dumps(list(texts)), encoding="utf-8")
    command = ["-m", "benchmarks.serve_peers", "direct", "--texts", str(path), "--beams", str(beams)]
    pinned = ["taskset", "-c", str(core), sys.executable, *command]
    done = subprocess.run(pinned, env=os.environ | ONE_THREAD, cwd=ROOT, capture_output=True, text=True, check=True)
    times: list[float] = json.loads(done.stdout.splitlines()[-1])
    return times


# Clients.


@dataclass(frozen=True)
class Request:
    """A request of the plan that clients follow."""

    path: str
    body: Mapping[str, Any]
    name: str = "sentence"


def translation_request(text: str, beams: int, *, is_peer: bool, name: str = "sentence") -> Request:
    """Return the request for a translation to French."""
    if is_peer:
        return Request("/translate", {"q": text, "source": "en", "target": "fr", "beams": beams}, name)
    options = {"to": "fr", "beams": beams}
    return Request("/v1/translate", {"model": "en-fr", "inputs": [text], "options": options}, name)


def run_clients(
    server: RunningServer,
    requests: Sequence[Request],
    *,
    clients: int,
    core: int,
    folder: Path,
    seconds: float | None = None,
    probe: str | None = None,
) -> dict[str, Any]:
    """Send requests with so many clients, for so many seconds or each once, and return what was measured."""
    plan, out = folder / "plan.json", folder / "records.json"
    fields = [{"path": request.path, "body": request.body, "name": request.name} for request in requests]
    plan.write_text(json.dumps({"requests": fields, "once": seconds is None, "probe": probe, "out": str(out)}))
    users = clients + (probe is not None)
    command = ["taskset", "-c", str(core), sys.executable, "-m", "locust", "-f", str(ROOT / "benchmarks/serve_load.py")]
    command += ["--headless", "--host", server.url, "--users", str(users), "--spawn-rate", str(users), "--only-summary"]
    command += ["--stop-timeout", "0", "--run-time", f"{seconds or PATIENCE:.0f}s", "--exit-code-on-error", "0"]
    environment = os.environ | {"REGARD_LOAD": str(plan)}
    with CpuMeter(server) as meter:
        subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, check=True)
    return summarise(json.loads(out.read_text(encoding="utf-8")), meter, is_timed=seconds is not None)


def summarise(records: Sequence[Sequence[Any]], meter: CpuMeter, *, is_timed: bool) -> dict[str, Any]:
    """Return sentences a second, times in milliseconds by kind, and processor time; a timed run warms up first."""
    failed = [error for name, _, _, error in records if error is not None]
    answered = [(name, start, ms) for name, start, ms, error in records if error is None]
    sentences_answered = [(name, start, ms) for name, start, ms in answered if name != "probe"]
    begin = min(start for _, start, _ in sentences_answered)
    end = max(start + ms / 1000 for _, start, ms in sentences_answered)
    counted_from = begin + WARM_SHARE * (end - begin) if is_timed else begin
    counted = [(name, ms) for name, start, ms in sentences_answered if start + ms / 1000 >= counted_from]
    times = {kind: sorted(ms for name, ms in counted if name == kind) for kind in {name for name, _ in counted}}
    every = sorted(ms for _, ms in counted)
    probes = sorted(ms for name, start, ms in answered if name == "probe" and counted_from <= start <= end)
    result: dict[str, Any] = {
        "sentences": len(sentences_answered),
        "failed": len(failed),
        "errors": sorted(set(failed))[:3],
        "per_second": len(counted) / (end - counted_from),
        "cpu_ms": 1000 * meter.between(counted_from, end) / len(counted),
        "median_ms": statistics.median(every),
        "mean_ms": statistics.fmean(every),
        "p99_ms": percentile(every, 0.99),
    }
    if len(times) > 1:
        result["median_ms_by_kind"] = {kind: statistics.median(values) for kind, values in times.items()}
    if probes:
        result["probe"] = {"count": len(probes), "p99_ms": percentile(probes, 0.99), "max_ms": probes[-1]}
    return result


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the value that this share of ordered values does not exceed."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def time_stream(server: RunningServer, request: Request) -> dict[str, float]:
    """Return the milliseconds until the first text of a stream, and until its end."""
    connection = HTTPConnection(server.url.removeprefix("http://"), timeout=60)
    first, pieces, began = None, 0, time.perf_counter()
    connection.request("POST", request.path, json.dumps(request.body), {"content-type": "application/json"})
    response = connection.getresponse()
    if response.status != 200:
        raise RuntimeError(f"{request.path}: {response.status} {response.read()[:200].decode()}")
    while line := response.readline():
        if line.startswith(b"data: {") and _holds_text(json.loads(line[6:])):
            pieces += 1
            first = first or time.perf_counter()
    end = time.perf_counter()
    connection.close()
    return {"first_ms": 1000 * ((first or end) - began), "whole_ms": 1000 * (end - began), "pieces": pieces}


def _holds_text(event: Mapping[str, Any]) -> bool:
    return any(choice.get("text") or choice.get("delta", {}).get("content") for choice in event.get("choices", ()))
