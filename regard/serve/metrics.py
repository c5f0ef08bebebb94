"""Counters and gauges for Prometheus; labels are routes, statuses and models, never what is sent."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
GAUGES = {
    "regard_open_calls": "Calls that wait or are being answered.",
    "regard_open_explanations": "Explanations that wait or are being made.",
    "regard_explain_bytes": "Bytes of attention weights that are kept for clients.",
    "regard_draining": "1 while the server is about to stop.",
}
disable_created_metrics()  # times at which counters began, which nobody asks for


class Metrics:
    """What is counted over all requests of a server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "regard_requests", "Requests by route and status.", ["route", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "regard_request_seconds",
            "Seconds until the last byte of an answer, by route.",
            ["route"],
            buckets=BUCKETS,
            registry=self.registry,
        )
        self._gauges = {name: Gauge(name, help, registry=self.registry) for name, help in GAUGES.items()}
        self._rows = Gauge(
            "regard_rows", "Requests that the engine of a model holds.", ["model"], registry=self.registry
        )

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count a request that has ended."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def write(self, gauges: Mapping[str, float], rows: Mapping[str, int]) -> bytes:
        """Return everything in the text format of Prometheus."""
        for name, value in gauges.items():
            self._gauges[name].set(value)
        for model, count in rows.items():
            self._rows.labels(model).set(count)
        return generate_latest(self.registry)
