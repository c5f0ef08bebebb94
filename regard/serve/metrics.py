"""Counters and gauges in the text format of Prometheus; labels are routes, statuses and models, never what is sent."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping

BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
HELP = {
    "regard_requests_total": ("counter", "Requests by route and status."),
    "regard_request_seconds": ("histogram", "Seconds until the last byte of an answer, by route."),
    "regard_open_calls": ("gauge", "Calls that wait or are being answered."),
    "regard_open_explanations": ("gauge", "Explanations that wait or are being made."),
    "regard_explain_bytes": ("gauge", "Bytes of attention weights that are kept for clients."),
    "regard_rows": ("gauge", "Requests that the engine of a model holds."),
    "regard_draining": ("gauge", "1 while the server is about to stop."),
}


class Metrics:
    """What is counted over all requests."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: dict[str, list[int]] = {}
        self._sums: Counter[str] = Counter()

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count a request that has ended."""
        with self._lock:
            self._requests[route, status] += 1
            self._sums[route] += seconds  # type: ignore[assignment]
            counts = self._seconds.setdefault(route, [0] * (len(BUCKETS) + 1))
            counts[next((place for place, bound in enumerate(BUCKETS) if seconds <= bound), len(BUCKETS))] += 1

    def total(self) -> int:
        """Return how many requests have ended."""
        return sum(self._requests.values())

    def write(self, gauges: Mapping[str, float], rows: Mapping[str, int]) -> str:
        """Return everything as text."""
        with self._lock:
            requests = dict(self._requests)
            seconds = {route: list(counts) for route, counts in self._seconds.items()}
            sums = dict(self._sums)
        samples: dict[str, list[str]] = {name: [] for name in HELP}
        for (route, status), count in sorted(requests.items()):
            samples["regard_requests_total"].append(f'{{route="{route}",status="{status}"}} {count}')
        for name, value in gauges.items():
            samples[name].append(f" {value:g}")
        for model, count in rows.items():
            samples["regard_rows"].append(f'{{model="{_escape(model)}"}} {count}')
        lines = []
        for name, (kind, help) in HELP.items():
            lines += [f"# HELP {name} {help}", f"# TYPE {name} {kind}"]
            lines += [f"{name}{sample}" for sample in samples[name]]
            if kind == "histogram":
                lines += [
                    line for route in seconds for line in _write_histogram(name, route, seconds[route], sums[route])
                ]
        return "\n".join(lines) + "\n"


def _write_histogram(name: str, route: str, counts: list[int], total: float) -> list[str]:
    lines, below = [], 0
    for bound, count in zip((*map(str, BUCKETS), "+Inf"), counts, strict=True):
        below += count
        lines.append(f'{name}_bucket{{route="{route}",le="{bound}"}} {below}')
    return [*lines, f'{name}_sum{{route="{route}"}} {total:.6f}', f'{name}_count{{route="{route}"}} {below}']


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
